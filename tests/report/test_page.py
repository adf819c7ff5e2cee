import re
from html.parser import HTMLParser

import pytest

from attomaton.errors import UsageError
from attomaton.report.html.page import page

VOID = {"meta", "br", "hr", "img", "link", "input"}
SVG = """<?xml version="1.0"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
 width="300pt" height="100pt" viewBox="0 0 300 100">
<metadata>https://example.org</metadata>
<style>*{stroke-linejoin: round} .a, .b{fill: red}</style>
<defs><clipPath id="clip"><rect width="9" height="9"/></clipPath><path id="mark" d="M0 0"/></defs>
<g id="axes_1" clip-path="url(#clip)" onload="alert(1)"><use xlink:href="#mark"/></g>
<a href="https://example.org"><text style="fill:url('#clip')">a &lt; b</text></a>
<image xlink:href="https://example.org/x.png"/><rect style="fill:url(https://example.org/y)"/>
<script>alert(2)</script>
</svg>"""


class Reader(HTMLParser):
    """Checks nesting, and keeps ids, tags and references."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.references, self.words = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "aria-labelledby"):
                self.references.append(value.lstrip("#"))
            self.references += re.findall(r"url\(#([^)]*)\)", value or "")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture
def full():
    return page(
        "A <b>title</b> & more",
        [
            {"heading": "One", "text": "First.\n\nSecond <script>alert(1)</script>.", "svg": SVG},
            {"heading": "Two", "svg": SVG, "caption": "a < b"},
            {
                "table": {"header": ["<i>", "n"], "rows": [["x & y", 1234567], ["z", 0.123456789]]},
                "caption": "numbers",
            },
            {"code": "cat <in >out && true"},
        ],
        footer=["attomaton 0", "attomaton report <file>"],
    )


def test_page_is_well_nested_and_complete(full):
    reader = Reader(full)
    assert reader.open == []
    tags = [tag for tag, _ in reader.tags]
    for tag in ("main", "h1", "h2", "figure", "figcaption", "table", "caption", "pre", "footer"):
        assert tag in tags
    assert tags.count("h1") == 1
    assert ("html", {"lang": "en"}) in reader.tags
    assert full.startswith("<!doctype html>")


def test_everything_is_escaped(full):
    assert "<script" not in full
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in full
    for text in ("<h1>A &lt;b&gt;title&lt;/b&gt; &amp; more</h1>", "a &lt; b</figcaption>",
                 "&lt;i&gt;</th>", "x &amp; y</th>", "cat &lt;in &gt;out &amp;&amp; true",
                 "attomaton report &lt;file&gt;"):  # fmt: skip
        assert text in full


def test_nothing_is_fetched_and_nothing_runs(full):
    assert not re.search(r"https?://|@import|\bon\w+=", full)
    assert "default-src 'none'" in full
    assert all(not r.startswith("http") for r in Reader(full).references)


def test_ids_are_unique_and_references_meet_them(full):
    reader = Reader(full)
    assert len(reader.ids) == len(set(reader.ids))
    assert {"s1-clip", "s2-clip", "s1-axes_1", "s2-axes_1"} <= set(reader.ids)
    assert {"s1-mark", "s2-mark", "s1-clip", "s2-clip"} <= set(reader.references)
    assert set(reader.references) <= set(reader.ids)


def test_a_figures_style_stays_in_the_figure(full):
    assert "#s1-figure * {stroke-linejoin" in full
    assert "#s2-figure .a, #s2-figure .b {fill" in full


def test_tables_say_what_heads_what(full):
    reader = Reader(full)
    scopes = [a.get("scope") for tag, a in reader.tags if tag == "th"]
    assert scopes == ["col", "col", "row", "row"]
    assert '<td class="number">1,234,567</td>' in full
    assert '<td class="number">0.123457</td>' in full


def test_scrolling_boxes_can_be_reached_and_are_named(full):
    boxes = [a for _, a in Reader(full).tags if "scroll" in (a.get("class") or "").split()]
    assert len(boxes) == 4
    assert all(a["tabindex"] == "0" and a["role"] == "region" and a["aria-label"] for a in boxes)


def test_light_dark_and_print(full):
    for rule in ("prefers-color-scheme: dark", "@media print", "color-scheme: light dark"):
        assert rule in full


def test_a_page_of_nothing():
    assert Reader(page("empty", [])).open == []


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"title": "x"}, "section 1: unknown key 'title'"),
        ({"svg": "<svg"}, "not an SVG document"),
        ({"svg": "<p/>"}, "it is <p>"),
        (
            {"heading": "T", "table": {"header": ["a", "b"], "rows": [[1, 2], [3]]}},
            "row 2: 1 cells under 2",
        ),
    ],
)
def test_faults_are_named(section, message):
    with pytest.raises(UsageError, match=message):
        page("x", [section])
