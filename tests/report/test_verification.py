import csv
import io
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
from tests import chromium

from attomaton.disk.formats import plain, to_json
from attomaton.disk.records import as_record
from attomaton.report.figures.verification import panel_svg, panel_table, themed, words
from attomaton.report.html.markup import document, table_box
from attomaton.report.text.verification import headline, leaves, said, slugs
from attomaton.report.verification import Header, report_figures, report_markdown, report_page
from attomaton.report.words import number
from attomaton.results import Assumption, Checked, Panel, Verdict

VOID = {"meta", "br", "hr", "img", "link", "input"}
NASTY = """<script>alert("x")</script> & 'quotes' | `code` *star* $5"""
HEADER = Header(
    command="attomaton verify --json",
    quick=True,
    date="2031-02-03",
    device="cpu",
    data="a<b>.txt",
    versions={"attomaton": "0.0", "python": "3.11"},
)
COLOURS = 7


def panel(**fields):
    return as_record(Panel, plain(fields), "panel")


def curves(count=3, points=120, **more):
    x = np.geomspace(1, 1e4, points)
    lines = [{"x": x, "y": (i + 1) / x, "label": f"run {i}"} for i in range(count)]
    theory = {"x": x, "y": 2 / x, "label": r"$1/\tau$", "style": "theory", "ink": "#000000"}
    return panel(
        title=r"loss, $L(W_{\mathrm{svm}})$ <above> & below", xlabel=r"step $\tau$", ylabel="gap",
        xscale="log", yscale="log", lines=[*lines, theory], marks=[{"x": 50.0, "label": "$t_0$"}],
        **more,
    )  # fmt: skip


def heat(rows=4, columns=30):
    values = np.arange(rows * columns).reshape(rows, columns) / 7
    return panel(title="a map", xlabel="step", ylabel="token", colour="attention", heat=values)


def made(
    claim, verdict=Verdict.HOLDS, control=Verdict.FAILS, *, seconds=1.25, error=None, **fields
):
    given = {"statement": f"What {claim} states.", "tolerance": "within 1e-3", "measured": {"gap": 0.123456789},
             "control_measured": {"gap, shuffled": 2.5}, **fields}  # fmt: skip
    command = f"attomaton verify --only '{claim}'"
    return Checked(
        claim=claim, verdict=verdict, control=control, seconds=seconds, command=command, error=error, **given
    )  # fmt: skip


@pytest.fixture(scope="module")
def records():
    """Every way a claim can end, and every kind of value it can hold."""
    return [
        made("T1", title="It holds", formula="a < b,  L(W(τ)) → L*", reason="because",
             assumptions=(Assumption("labels occur", True, "8 of 8"),),
             prediction={"cosine": 1.0, "floor": [0.25, 0.5]},
             measured={"cosine": [0.9912345, 0.99996, 0.98, 0.97], "bounds hold": True},
             control_measured={"cosine": [-0.5, -0.25, 0.125, 0.0]},
             panels=(curves(), curves(1), heat(), curves(COLOURS, legend="outside")),
             settings={"seed": 20240101, "eta": 0.1 + 0.2, "shapes": ((2, 100), (3, 50))}),
        made("S 1/2", Verdict.FAILS, title=NASTY, statement=NASTY, formula=NASTY, reason=NASTY,
             assumptions=(Assumption(NASTY, False, NASTY),), measured={NASTY: NASTY},
             settings={NASTY: NASTY}),
        made("S2", Verdict.NOT_APPLICABLE, Verdict.NOT_APPLICABLE, measured={}, control_measured={},
             reason="weak correlation: 0.8", assumptions=(Assumption("weak correlation", False, "0.8, limit 0.25"),)),
        made("S3", Verdict.INCONCLUSIVE, seconds=1234.5,
             measured={"huge": 1.2345678e300, "large": 10**400, "nothing": math.nan,
                       "endless": -math.inf, "list": [math.nan, 1.0, 2.0, math.inf, 4.0], "none": None,
                       "empty": [], "flags": [True, False, True, True],
                       "rows": [{"n": 1, "gap": 0.5}, {"n": 2, "gap": 0.25}],
                       "nested": {"deep": {"er": np.arange(12.0).reshape(3, 4).tolist()}}},
             panels=(panel(title="broken $ formula $", lines=[{"x": [1, 2], "y": [1]}]),
                     panel(title="holes", lines=[{"x": [1, 2, 2, None], "y": [1, None, math.inf, 3]}]),
                     panel(title="nothing"))),
        made("a claim of many words " * 8, control=Verdict.HOLDS, statement="Long. " * 300,
             measured={"x" * 300: 1.0, "path " * 60: [0.1] * 2000}),
        made("S4", seconds=0.01, error='Traceback:\n  <File "x.py">\nValueError: & no', measured={}),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def page(records):
    return report_page(records, HEADER)


class Reader(HTMLParser):
    """Checks nesting; keeps tags, ids, references, words, and the tables as rows of cells."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.references, self.words = [], [], [], [], []
        self.tables, self.rules = [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "br" and "table" in self.open:
            self.tables[-1][-1][-1] += "\n"
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "src", "aria-labelledby"):
                self.references.append(value)
            if not (value or "").startswith("data:"):
                self.references += re.findall(r"url\(\s*['\"]?([^)'\"]*)", value or "")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        (self.rules if self.open and self.open[-1] in ("style", "script") else self.words).append(
            data
        )
        if "td" in self.open or ("th" in self.open and "table" in self.open):
            self.tables[-1][-1][-1] += data

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def reader(page):
    return Reader(page)


def test_the_page_is_well_nested_and_says_what_it_is(page, reader):
    tags = [tag for tag, _ in reader.tags]
    assert page.startswith("<!doctype html>")
    assert ("html", {"lang": "en"}) in reader.tags
    assert tags.count("h1") == tags.count("main") == 1
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert all(b - a <= 1 for a, b in pairwise(levels))  # no level is skipped
    assert any(a.get("class") == "skip" for _, a in reader.tags)


def test_ids_are_unique_and_every_link_leads_somewhere(reader):
    assert len(reader.ids) == len(set(reader.ids))
    local = {r.lstrip("#") for r in reader.references if not r.startswith("data:")}
    assert local <= set(reader.ids)
    assert {"t1", "s-1-2", "s2", "s3", "s4"} <= local  # each claim is led to


def test_nothing_is_fetched(page, reader):
    assert not [r for r in reader.references if re.match(r"(?i)\s*(https?:|//|file:|ftp:)", r)]
    assert not re.search(r"@import|https?:", "".join(reader.rules))
    assert "default-src 'none'" in page
    assert not re.search(r"<(link|iframe|object|embed)\b", page)
    assert not [a for _, attrs in reader.tags for a in attrs if a.startswith("on")]


def test_everything_is_escaped(page, reader):
    assert page.count("<script") == 1  # ours
    assert 'alert("x")' not in "".join(reader.rules)
    # Title, statement, formula, reason, assumption (twice), measured and setting (name and value), overview.
    assert reader.text.count(NASTY) >= 11
    assert "<b>" not in page


def test_every_claim_stands_in_the_overview_and_has_a_section(records, reader):
    rows = reader.tables[0]
    assert rows[0] == ["claim", "verdict", "measured", "control", "seconds"]
    assert [row[0].split("\n")[0].strip() for row in rows[1:]] == [r.claim.strip() for r in records]
    assert [row[1] for row in rows[1:]] == [
        "✓ holds", "✗ fails", "○ not applicable", "? inconclusive", "✓ holds", "! error",
    ]  # fmt: skip
    assert [row[3].split("\n")[0] for row in rows[1:]] == [
        "✓ fails, as it must", "✓ fails, as it must", "○ not run", "✓ fails, as it must",
        "✗ holds, but must fail", "○ not run",
    ]  # fmt: skip
    assert [row[4] for row in rows[1:]] == ["1.2", "1.2", "1.2", "1,234", "1.2", "0.0"]
    groups = [a["data-group"] for _, a in reader.tags if "data-group" in a]
    assert groups == ["stands", "falls", "silent", "falls", "falls", "falls"]
    for record in records:
        assert record.command in reader.text
        assert " ".join(record.statement.split()) in reader.text


def test_numbers_on_the_page_are_those_of_the_records(records, reader):
    cells = {row[0]: row[1:] for table in reader.tables for row in table}
    rows = reader.tables[0]
    assert cells["cosine"] == ["−0.5 to 0.125, median −0.125 (4 values)",
                               "0.97 to 1.000, median 0.9856 (4 values)"]  # fmt: skip
    assert ["cosine", "1", "0.97 to 1.000, median 0.9856 (4 values)"] in [
        row for table in reader.tables for row in table
    ]
    for record in records:
        for name, value in leaves(record.measured):
            if record.claim not in ("T1",):
                assert cells[name] == [said(value)]
    assert cells["huge"] == ["1.235e300"]
    assert cells["nothing"] == ["NaN"]
    assert cells["endless"] == ["−∞"]
    assert cells["list"] == ["1 to ∞, median 3 (5 values, 1 NaN)"]
    assert cells["nested · deep · er"] == ["0 to 11, median 5.5 (3 × 4 values)"]
    assert cells["rows · gap"] == ["0.5, 0.25"]
    assert cells["flags"] == ["yes: 3 of 4"]
    # Settings are never rounded.
    assert f"seed = 20240101; eta = {0.1 + 0.2!r}; shapes = (2, 100), (3, 50)" in reader.text
    assert rows[3][2] == "weak correlation: 0.8"  # why it was not tested
    assert rows[6][2] == "ValueError: & no"
    assert cells["weak correlation"] == ["✗ broken", "0.8, limit 0.25"]
    assert cells["versions · python"] == ["3.11"]


def test_values_stand_there_at_full_precision(records, page, reader):
    code = [w for w in reader.words if w.lstrip().startswith("{")]
    assert json.loads(code[0])["measured"] == plain(records[0].measured)
    assert json.loads(code[2])["measured"]["endless"] == "-inf"


def downloads(reader, kind):
    links = {a["download"]: a["href"] for tag, a in reader.tags if "download" in a}
    return {
        name: unquote(href.split(",", 1)[1])
        for name, href in links.items()
        if href.startswith(f"data:{kind};")
    }


def test_every_picture_has_its_table_and_its_two_downloads(records, reader):
    svg, table = downloads(reader, "image/svg+xml"), downloads(reader, "text/csv")
    assert set(svg) == {"t1-1.svg", "t1-2.svg", "t1-3.svg", "t1-4.svg", "s3-2.svg"}
    assert set(table) == {name.replace("svg", "csv") for name in svg} | {"s3-1.csv", "s3-3.csv"}
    assert svg == report_figures(records)
    for text in svg.values():
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    first = list(csv.reader(io.StringIO(table["t1-1.csv"])))
    assert first[0] == ["step τ", "run 0", "run 1", "run 2", "1/τ (theory)", "vertical line"]
    assert len(first) == 1 + 120 + 1  # the mark falls between two points
    lines = records[0].panels[0].lines
    known = [row for row in first[1:] if row[1]]
    assert [float(row[2]) for row in known] == list(lines[1].y)
    assert [row[0] for row in first if row[-1] == "t_0"] == ["50.0"]
    assert reader.text.count("50 of 121 rows; the CSV has all.") == 3


def test_a_panel_that_cannot_be_drawn_does_not_take_the_page_with_it(reader):
    assert (
        "broken formula : no picture (ValueError: x and y must have same first dimension"
        in reader.text
    )
    assert "nothing: no picture (UsageError: a panel needs lines, or a heat map.)" in reader.text


def test_thinned_tables_keep_both_ends(records, reader):
    table = next(t for t in reader.tables if t[0][0] == "step τ")
    x = records[0].panels[0].lines[0].x
    assert (float(table[1][0]), float(table[-1][0])) == (x[0], x[-1])
    widest = next(t for t in reader.tables if t[0][0].startswith("token"))
    assert len(widest[0]) == 16
    assert (widest[0][1], widest[0][-1]) == ("1", "29")


def test_a_heat_map_and_a_cloud_as_tables():
    header, rows = panel_table(heat(2, 3))
    assert header == ["token \\ step", "0", "1", "2"]
    assert rows == [["0", 0.0, 1 / 7, 2 / 7], ["1", 3 / 7, 4 / 7, 5 / 7]]
    header, rows = panel_table(
        panel(ylabel="y", lines=[{"x": [1, 1], "y": [2, 3], "error": [0, 1]}])
    )
    assert header == ["line", "x", "y", "error"]
    assert rows == [["y", 1.0, 2.0, 0.0], ["y", 1.0, 3.0, 1.0]]


def test_lines_of_one_bundle_share_a_name():
    lines = [
        {"x": [1], "y": [i], "colour": 0, **({} if i else {"label": "each"})} for i in range(3)
    ]
    assert panel_table(panel(lines=lines))[0] == ["x", "each, 1", "each, 2", "each, 3"]


def test_pictures_follow_the_page_into_the_dark():
    svg = panel_svg(curves())
    inks = {colour.lower() for colour in re.findall(r"#[0-9A-Fa-f]{6}\b", themed(svg))}
    assert inks == {"#0072b2", "#d55e00", "#009e73"}  # curves alone keep a colour of their own
    assert {"var(--ink)", "var(--paper)", "var(--soft)", "var(--grid)"} <= set(
        re.findall(r"var\([^)]*\)", themed(svg))
    )
    assert "var(" not in svg  # a file knows no page


def test_pictures_are_the_same_twice_and_small():
    svg = panel_svg(curves())
    assert svg == panel_svg(curves())
    assert len(svg) < 20_000


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([{}, {}], "2 of 2 claims hold, every control fails."),
        ([{}], "1 of 1 claim holds, its control fails."),
        ([{}, {"verdict": "fails"}], "1 of 2 claims hold, every control fails. B fails."),
        ([{}, {"control": "holds"}],
         "2 of 2 claims hold. The control of B holds, so its agreement proves nothing."),
        ([{}, {"control": "inconclusive"}],
         "2 of 2 claims hold. The control of B does not fail, so its agreement proves nothing."),
        ([{}, {}, {"verdict": "not applicable", "control": "not applicable"}],
         "2 of 2 claims that apply hold, every control fails. C is not applicable."),
        ([{}, {"verdict": "not applicable"}, {"error": "x"}],
         "1 of 2 claims that apply hold, every control that ran fails. B is not applicable. C ended in an error."),
        ([{"verdict": "not applicable"}] * 6, "6 are not applicable."),
        ([{"error": "x"}], "0 of 1 claim holds. A ended in an error."),
        ([], "No claim was checked."),
    ],
)  # fmt: skip
def test_the_sentence_on_top(changes, expected):
    base = {
        "verdict": "holds",
        "control": "fails",
        "tolerance": "",
        "measured": {},
        "control_measured": {},
    }
    told = [{"claim": "ABCDEF"[i], **base, **change} for i, change in enumerate(changes)]
    records = [as_record(Checked, x, "record") for x in told]
    assert headline(records) == expected
    page = Reader(report_page(records, Header()))
    assert expected in page.text
    judged = [change for change in changes if change.get("verdict") != "not applicable"]
    kind = ("bad" if any(judged) else "good") if judged else "open"
    mark = next(a["class"] for _, a in page.tags if "sentence" in a.get("class", ""))
    assert mark == f"sentence {kind}"


@pytest.mark.parametrize(
    ("x", "expected"),
    [(0, "0"), (1.0, "1"), (0.99996, "1.000"), (0.5, "0.5"), (-1234.5678, "−1,235"), (1234567, "1,234,567"),
     (123456.7, "123,500"), (1.5e-12, "1.5e−12"), (3e8, "3e8"), (True, "yes"),
     pytest.param(10**400, "about 10^400", id="huge"), (9999.96, "10,000"), (math.inf, "∞")],
)  # fmt: skip
def test_numbers_to_four_digits(x, expected):
    assert number(x) == expected


def test_names_for_links_never_meet():
    found = slugs([made(c) for c in ("S 1", "S-1", "S-1-2", "∑", "", "S 1", "Claims")])
    assert found == ["s-1", "s-1-2", "s-1-2-2", "claim", "claim-2", "s-1-3", "claims-2"]


def test_labels_lose_their_tex():
    assert (
        words(r"$\eta_Y$ and $\Gamma$ of $W_{\mathrm{svm}}$ for $5") == "η_Y and Γ of W_svm for $5"
    )


def test_records_read_from_json_make_the_same_page(records):
    kept = [
        replace(r, measured={k: v for k, v in r.measured.items() if k != "nothing"})
        for r in records
    ]
    read = [as_record(Checked, json.loads(to_json(r)), "record") for r in kept]
    assert report_markdown(read, HEADER) == report_markdown(kept, HEADER)
    assert report_page(read[:1], HEADER) == report_page(kept[:1], HEADER)


def cells(line):
    return re.split(r"(?<!\\) \| ", line[2:-2])


def test_markdown_tables_have_one_shape_and_nothing_leaks(records):
    text = report_markdown(records, HEADER)
    lines = text.splitlines()
    tables = [[]]
    for line in lines:
        if line.startswith("|"):
            tables[-1].append(line)
        elif tables[-1]:
            tables.append([])
    tables = [t for t in tables if t]
    for table in tables:
        assert re.fullmatch(r"\|( --- \|)+", table[1])
        width = table[1].count("---")
        assert {len(cells(line)) for line in [table[0], *table[2:]]} == {width}
    assert len(tables[0]) == 2 + len(records)
    targets = set(re.findall(r'<a id="([^"]*)">', text))
    assert {m[1] for line in tables[0][2:] if (m := re.search(r"\]\(#([^)]*)\)", line))} == targets
    outside = "\n".join(part for i, part in enumerate(text.split("\n```")) if i % 2 == 0)
    assert "<script" not in outside
    assert "&lt;script&gt;" in outside
    assert "![" not in text
    for value in (
        "0.97 to 1.000, median 0.9856 (4 values)",
        "20240101",
        repr(0.1 + 0.2),
        "✗ broken",
    ):
        assert value in text


def test_markdown_links_the_pictures_that_exist(records):
    figures = report_figures(records)
    text = report_markdown(records, HEADER, figures, folder="pictures")
    assert re.findall(r"!\[.*\]\(pictures/(.*)\)", text) == list(figures)


def test_a_page_of_many_claims_is_small(records):
    panels = (curves(), curves(COLOURS))
    many = [replace(records[0], claim=f"T{i}", panels=panels) for i in range(25)]
    drawn = [panel_svg(p) for p in panels]
    figures = {f"t{i}-{j + 1}.svg": drawn[j] for i in range(25) for j in range(2)}
    assert len(report_page(many, HEADER, figures).encode()) < 4_000_000


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not chromium.program():
        pytest.skip("no Chromium here; install chromium to test the page in a browser")
    browser = chromium.Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def file(page, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "verification.html"
    path.write_text(page, encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [380, 1400])
@pytest.mark.parametrize("dark", [False, True])
def test_in_a_browser_the_page_fits_and_asks_for_nothing(browser, file, tmp_path, width, dark):
    browser.open(file, width, dark)
    browser.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert browser.value("innerWidth") == width
    assert browser.value("document.documentElement.scrollWidth") <= width
    background = browser.value("getComputedStyle(document.body).backgroundColor")
    ink = browser.value("getComputedStyle(document.querySelector('.drawn text')).fill")
    light, deep = (
        ("rgb(20, 24, 29)", "rgb(230, 237, 243)"),
        ("rgb(255, 255, 255)", "rgb(27, 31, 36)"),
    )
    assert (background, ink) == (light if dark else deep)
    browser.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000
    outside = {one for one in browser.requests if not one.startswith("data:image/png;")}
    assert outside == {file.as_uri()}
    assert browser.errors == []  # no blocked script or style, nothing thrown


def test_in_a_browser_the_buttons_filter_and_open(browser, file):
    browser.open(file, 1400)
    shown = "[...document.querySelectorAll('.claim')].filter((x) => x.offsetHeight).length"
    rows = "[...document.querySelectorAll('.claims tbody tr')].filter((x) => x.offsetHeight).length"
    for name, count in (("stands", 1), ("falls", 4), ("silent", 1), ("all", 6)):
        browser.value(f"document.querySelector('[data-show={name}]').click()")
        assert (browser.value(shown), browser.value(rows)) == (count, count)
    browser.value("document.querySelector('[data-open]').click()")
    assert browser.value("[...document.querySelectorAll('details')].every((x) => x.open)")


def test_in_a_browser_the_page_is_whole_without_its_script(browser, file, tmp_path):
    still = tmp_path / "still.html"
    still.write_text(re.sub(r"(?s)<script>.*?</script>", "", file.read_text(encoding="utf-8")))
    browser.open(still, 1400)
    assert browser.value("document.querySelector('.buttons').offsetHeight") == 0
    assert browser.value(
        "[...document.querySelectorAll('.claim')].every((x) => x.offsetHeight > 0)"
    )


def test_in_a_browser_long_words_stay_in_their_cells(browser, tmp_path):
    rows = [["w" * 120, "x", "beside"], ["y", "w" * 500, "beside"]]
    table = table_box(["first", "second", "third"], rows, "long words")
    (tmp_path / "long.html").write_text(document("long words", [table]), encoding="utf-8")
    browser.open(tmp_path / "long.html", 1400)
    cells = "[...document.querySelectorAll('tbody th, td')]"
    assert browser.value(f"{cells}.filter((x) => x.scrollWidth > x.clientWidth).length") == 0
    assert browser.value(f"Math.max(...{cells}.map((x) => x.clientWidth))") <= 34 * 16 + 1


def test_in_a_browser_print_leaves_no_table_cut(browser, file):
    browser.open(file, 700, media="print")
    boxes = "[...document.querySelectorAll('.scroll')].filter((x) => x.offsetHeight)"
    assert browser.value(f"{boxes}.every((x) => getComputedStyle(x).overflowX === 'visible')")
    assert browser.value("[...document.querySelectorAll('details')].every((x) => !x.offsetHeight)")
    assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_in_a_browser_a_download_is_the_file(browser, file, records, tmp_path):
    options = {"behavior": "allow", "downloadPath": str(tmp_path), "eventsEnabled": True}
    browser.send("Browser.setDownloadBehavior", **options)
    browser.open(file, 1400)
    for name in ("t1-1.svg", "t1-1.csv"):
        browser.value(f"document.querySelector('[download=\"{name}\"]').click()")
        begun = browser.event("Browser.downloadWillBegin")
        assert begun["suggestedFilename"] == name
        while (now := browser.event("Browser.downloadProgress"))["state"] != "completed":
            assert now["guid"] == begun["guid"]
    assert (tmp_path / "t1-1.svg").read_text() == report_figures(records)["t1-1.svg"]
    assert (tmp_path / "t1-1.csv").read_text().startswith("step τ,run 0,")
