"""Figures as files that carry their title and numbers; a page as one file that needs nothing else."""

import re
import struct
import time
import zlib

import pytest
from tests.chromium import PATIENCE, eventually


@pytest.fixture
def saved(tab, tmp_path):
    """Do something that saves a file, and wait for it."""
    tab.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))

    def save(name, *clicks):
        tab.wait("!document.querySelector('.q-menu')")
        for click in clicks:
            tab.click_text(click, "button, .q-item")
        end = time.monotonic() + PATIENCE
        while not (tmp_path / name).exists() or not (tmp_path / name).stat().st_size:
            assert time.monotonic() < end, list(tmp_path.iterdir())
            time.sleep(0.05)
        return tmp_path / name

    return save


def look(tab):
    tab.see("/data?on=example")
    tab.wait("document.querySelectorAll('canvas').length >= 3")


def chunks(picture):
    """The chunks of a PNG, each checked against its sum."""
    at = 8
    while at < len(picture):
        (size,) = struct.unpack(">I", picture[at : at + 4])
        kind, body = picture[at + 4 : at + 8], picture[at + 8 : at + 8 + size]
        (total,) = struct.unpack(">I", picture[at + 8 + size : at + 12 + size])
        assert total == zlib.crc32(kind + body)
        yield kind, body
        at += 12 + size


def test_a_chart_is_saved_with_its_title_and_its_numbers(tab, saved):
    look(tab)
    header = "from,to,holds its label,set aside"
    tab.value("document.querySelector('[aria-label=\"Lengths of contexts\"]').scrollIntoView()")
    svg = saved("lengths.svg", "Save this chart", "SVG").read_text()
    assert "<title>Lengths of contexts</title>" in svg
    assert f"<metadata>{header}" in svg
    assert ">Lengths of contexts<" in svg.split("</metadata>")[1]  # drawn, too
    assert "set aside" in svg.split("</metadata>")[1]  # the legend
    assert "tokens in a context" in svg
    found = dict(chunks(saved("lengths.png", "Save this chart", "PNG").read_bytes()))
    assert b"IEND" in found
    assert found[b"iTXt"].startswith(b"Data\0\0\0\0\0" + header.encode())
    pdf = saved("lengths.pdf", "Save this chart", "PDF").read_bytes()
    assert pdf.startswith(b"%PDF-1.7")
    assert header.encode() in pdf
    start = int(re.search(rb"startxref\n(\d+)", pdf)[1])
    assert pdf[start:].startswith(b"xref")
    for number, place in enumerate(re.findall(rb"(\d{10}) 00000 n", pdf), 1):
        assert pdf[int(place) :].startswith(f"{number} 0 obj".encode())


def test_a_page_is_saved_as_one_file_without_scripts_or_secrets(tab, lab, saved):
    look(tab)
    name = "Data-Café-counter-example.html"
    path = saved(name, "Copy as command or Python", "Save this view as one HTML file")
    page = path.read_text()
    assert "<script" not in page
    for secret in (lab.step[1:], lab.token, lab.cookie.split("=")[1], lab.origin, "/_nicegui"):
        assert secret not in page
    assert "Numbers of “Lengths of contexts”" in page
    assert "from,to,holds its label,set aside" in page
    assert page.count("data:image/png") >= 3
    before = len(tab.requests)
    tab.open(path, 1400)
    tab.wait(
        "document.images.length >= 3 && [...document.images].every(i => i.complete && i.naturalWidth > 0)"
    )
    tab.says("What the file holds")
    assert all(x.startswith(("file:", "data:")) for x in tab.requests[before:])
    assert tab.value("document.documentElement.scrollWidth") <= 1400


def test_what_is_hidden_on_a_page_is_not_in_its_file(tab, saved):
    tab.see("/graph?on=example&last=guest")
    tab.wait("document.querySelectorAll('.pg .node').length > 0")
    seen = tab.value(
        "[...document.querySelectorAll('main section.card')].filter(e => e.offsetParent).length"
    )
    name = "Priority-graph-Café-counter-example.html"
    path = saved(name, "Copy as command or Python", "Save this view as one HTML file")
    tab.open(path, 1400)
    eventually(seen, tab.value, "document.querySelectorAll('section.card').length")
    assert tab.value("document.querySelector('.pg .node').getBoundingClientRect().width") > 10
    tab.says("Last token: guest")
