"""The screen of trained transformers: what the folders of probe and snap hold, looked into."""

import json

import pytest

from attomaton.corpus.readers import read_windows
from attomaton.disk.provenance import provenance
from attomaton.disk.storage import new_folder
from attomaton.folders.probe import read_probe, read_texts
from attomaton.jobs.probe import Asked
from attomaton.jobs.probed import own_text, probe_run
from attomaton.lab.probe.charts import agreement, entropy_course, head_map, heads_as, measures_of
from attomaton.lab.shelf import folder_id
from attomaton.probe.records import Share
from attomaton.probe.snapping import Mark, Snap, courses
from attomaton.trained.fresh import fresh_weights
from attomaton.trained.write import gpt2_form, write_gpt2

ROWS = [(["a", "b", "c"], "a"), (["c", "b", "c"], "b"), (["b", "a", "c"], "a"), (["a", "c"], "a")]


@pytest.fixture(scope="module")
def folders(lab):
    """A probe of a model with random weights, and a course of three checkpoints, in the workspace of the lab."""
    place = lab.folder / "workspace"
    place.mkdir(exist_ok=True)
    data = lab.folder / "rows.jsonl"
    data.write_text("".join(json.dumps({"tokens": x, "next": y}) + "\n" for x, y in ROWS))
    words = [str(x) for x in read_windows(data).vocabulary.labels]
    form = gpt2_form(len(words), 8, 2, 2, 8, hidden=8)
    write_gpt2(lab.folder / "model", form, fresh_weights(form, 0), words)
    probe_run(lab.folder / "model", data, place / "probed", asked=Asked(pairs=5, contexts=4))
    half = Share(0.5, 0.4, 0.6, 10, 3)
    marks = tuple(
        Mark(
            f"step-{s}", s, f"{s}", None, half, None, half, ((0.9 - s / 1000, 0.8),), ((0.1, 0.2),)
        )
        for s in (10, 200, 500)
    )
    found = Snap("rows.jsonl", "gpt2", 1, 2, 4, 3, 10, marks, courses(marks), 0)
    with new_folder(place / "snapped", "snap") as work:
        provenance(work, {"text": "rows.jsonl"}, found)
    return place


def test_a_probe_shows_its_heads_and_one_of_them_on_a_text(tab, folders):
    out = folders / "probed"
    found, (texts, attention) = read_probe(out), read_texts(out)
    tab.see(f"/probe?on={folder_id(out)}&head=1.0&text=1")
    tab.wait("document.querySelectorAll('.text').length === 2")
    shown = tab.value("document.querySelector('main .text').innerText")
    assert all(token in shown for token in texts[1].tokens)
    for x in attention[1, 1, 0]:
        assert x < 0.01 or f"{x:.2f}".removeprefix("0") in shown
    page = tab.text("main")
    assert "Head 1.0 attends to" in page
    assert f"{found.heads[2].entropy.value:.6g}" in page
    # A row of the table chooses its head.
    tab.click(".choosable tbody tr:nth-child(2)")
    tab.wait("document.querySelector('main').innerText.includes('Head 0.1 attends to')")
    assert "head=0.1" in tab.value("location.search")


def test_own_words_go_through_the_model_that_was_probed(tab, folders):
    out = folders / "probed"
    text, attention = own_text(out, ["b", "c"])
    assert attention.shape == (2, 2, 2)
    assert attention.sum(axis=-1) == pytest.approx(1, abs=1e-5)
    assert text.shares == (1.0, 0.0)
    tab.see(f"/probe?on={folder_id(out)}")
    tab.wait("document.querySelectorAll('.text').length === 2")
    tab.type(".setting-own input", "b zebra c")
    tab.press("Enter")
    tab.wait("document.querySelector('main [role=alert]')?.innerText.includes('zebra')")


def test_the_slider_goes_through_training(tab, folders):
    out = folders / "snapped"
    tab.see(f"/probe?on={folder_id(out)}&mark=0")
    tab.wait("document.querySelector('main .when')?.innerText.startsWith('step 10 ')")
    tab.value("document.querySelector('main .q-slider [tabindex]').focus()")
    for kind in ("keyDown", "keyUp"):
        tab.send("Input.dispatchKeyEvent", type=kind, key="ArrowRight", windowsVirtualKeyCode=39)
    tab.wait("document.querySelector('main .when').innerText.startsWith('step 200 ')")
    tab.wait("location.search.includes('mark=1')")
    assert "0.890" not in tab.text("main")


def test_without_a_probe_the_page_says_how_to_make_one(tab, folders):
    tab.see("/probe?on=example")
    tab.says("snapped", "main")
    tab.says("probed", "main")


def test_charts_hold_the_numbers_of_the_record(folders):
    found, snap = read_probe(folders / "probed"), read_probe(folders / "snapped")
    picture = head_map(heads_as(found, "entropy"), "entropy", (1, 1))
    assert [row[:2] for row in picture.rows] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert [row[2] for row in picture.rows] == [x.entropy.value for x in found.heads]
    assert picture.series[0].data[-1].framed
    assert {"entropy", "largest", "retrieved"} <= set(measures_of(found))
    bars = agreement(found)
    assert bars.rows[0][2] == found.behaviour[0].agreement.value
    course = entropy_course(snap, 200)
    assert course.series[0].data[1] == [200, snap.marks[1].entropy[0][0]]
