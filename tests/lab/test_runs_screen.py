"""Runs and items: the table, names and tags, deletion, curves of several runs."""

import numpy as np
import pytest

from attomaton.errors import UsageError
from attomaton.jobs.fit import fit_run
from attomaton.jobs.train import train_run
from attomaton.lab.labels import Label, Labels
from attomaton.lab.runs.curves import picture, smoothed
from attomaton.lab.runs.rows import delete, rows, told_in_full
from attomaton.lab.shared import Lab
from attomaton.lab.shelf import Shelf, folder_id
from attomaton.lab.training.runs import read_run

ROWS = b'{"tokens": ["a", "b", "z"], "next": "a"}\n{"tokens": ["b", "c", "z"], "next": "b"}\n'


@pytest.fixture
def room(tmp_path):
    lab = Lab(tmp_path / "w")
    model = tmp_path / "w" / "models" / "example"
    fit_run(lab.shelf.find("example").path, model)
    for name, optimizer in (("one", "gd"), ("two", "adam")):
        train_run(model, tmp_path / "w" / "runs" / name, steps=20, optimizer=optimizer)
    return lab


def test_every_item_has_a_row_with_settings_and_results(room):
    found = {row.name: row for row in rows(room)}
    assert set(found) == {"Café counter (example)", "one", "two"}
    assert (found["two"].kind, found["two"].state) == ("run of train", "finished")
    assert "optimizer adam" in found["two"].settings
    assert found["two"].results.startswith("loss_gap ")
    settings, figures = told_in_full(room.shelf.find(found["one"].id))
    assert settings["steps"] == 20
    assert figures["final.loss"] == pytest.approx(
        read_run(room.shelf.find(found["one"].id)).records["loss"][0, -1]
    )


def test_names_and_tags_stay_and_change_no_folder(room):
    id = folder_id(room.shelf.workspace / "runs" / "one")
    room.shelf.labels.rename(id, "  my  run ")
    room.shelf.labels.tag(id, "good, slow,good,")
    assert Labels(room.shelf.workspace).of(id) == Label("my run", ("good", "slow"))
    assert room.shelf.find(id).title == "my run"
    assert room.shelf.find(id).path.name == "one"
    room.shelf.labels.rename(id, "")
    assert room.shelf.find(id).title == "one"
    for wrong in (lambda: room.shelf.labels.rename(id, "x" * 100),
                  lambda: room.shelf.labels.tag(id, ",".join(map(str, range(50))))):  # fmt: skip
        with pytest.raises(UsageError, match="are the most"):
            wrong()
    (room.shelf.workspace / "labels.json").write_text("{broken")
    assert room.shelf.find(id).title == "one"


def test_what_lies_in_the_workspace_is_deleted_and_nothing_else(room, tmp_path):
    shelf = room.shelf
    run = shelf.find(folder_id(shelf.workspace / "runs" / "one"))
    (run.path / "mine.txt").write_text("a note")
    with pytest.raises(UsageError, match="did not write"):
        delete(room, run)
    (run.path / "mine.txt").unlink()
    delete(room, run)
    assert not run.path.exists()
    item = shelf.add("mine.jsonl", ROWS, {})
    fit_run(item.path, shelf.model_folder(item))
    delete(room, item)
    assert not item.path.exists()
    assert not shelf.model_folder(item).exists()
    for other in (shelf.find("example"), shelf.open(_elsewhere(tmp_path))):
        with pytest.raises(UsageError, match="by hand"):
            delete(room, other)
        assert other.path.exists()
    room.allow_run = False
    with pytest.raises(UsageError, match="read only"):
        delete(room, shelf.find(folder_id(shelf.workspace / "runs" / "two")))


def _elsewhere(tmp_path):
    path = tmp_path / "other.jsonl"
    path.write_bytes(ROWS)
    return path


def test_smoothing_keeps_gaps_and_constants():
    x = np.array([3.0, np.nan, 3.0, 3.0])
    np.testing.assert_allclose(smoothed(x, 0.9), x, rtol=1e-12)
    assert smoothed(np.array([0.0, 1.0, 0.0, 1.0]), 0.9)[-1] == pytest.approx(0.5, abs=0.06)


def test_curves_of_several_runs_are_drawn_with_what_was_measured(room):
    runs = [
        read_run(room.shelf.find(folder_id(room.shelf.workspace / "runs" / n)))
        for n in ("one", "two")
    ]
    drawn = picture(runs, "loss", 0.5, True).options()["series"]
    assert [s.get("name") for s in drawn] == [None, "one", None, "two"]
    assert [y for _, y in drawn[0]["data"]] == runs[0].records["loss"][0].tolist()
    assert len(picture(runs, "loss_gap", 0.0, False).options()["series"]) == 2


def test_rows_are_chosen_named_tagged_and_deleted_in_the_page(lab, tab):
    workspace = lab.folder / "workspace"
    fit_run(Shelf(lab.folder).find("example").path, workspace / "models" / "example")
    for name in ("first", "second"):
        train_run(workspace / "models" / "example", workspace / "runs" / name, steps=20)
    row = "[...document.querySelectorAll('.items-table tbody tr')].find(r => r.innerText.includes('{}'))"
    tab.see("/runs?on=example")
    tab.wait(f"!!{row.format('second')}")
    for name in ("first", "second"):
        tab.value(f"{row.format(name)}.querySelector('.q-checkbox').click()")
        tab.wait(f"{row.format(name)}.classList.contains('selected')")
    card = 'section[aria-label="Curves of the chosen runs"] div[role=img]'
    chart = f"getElement(+document.querySelector('{card}').id.slice(1))"
    tab.wait(f"{chart}?.chart?.getOption()?.series?.length === 2")
    tab.value(f"{row.format('first')}.querySelector('.q-checkbox').click()")
    tab.wait("!!document.querySelector('section[aria-label=\"second in full\"]')")
    tab.type(".items-name input", "the best one")
    tab.type(".items-tags input", "kept")
    tab.click_text("Save", ".items-edit .q-btn")
    tab.wait(f"!!{row.format('the best one')}")
    tab.wait("document.querySelector('.items-table .tag')?.innerText === 'kept'")
    tab.wait("!!document.querySelector('section[aria-label=\"the best one in full\"]')")
    tab.click_text("Delete …", ".items-edit .q-btn")
    tab.click_text("Delete for good", ".items-edit .q-btn")
    tab.wait(f"!{row.format('the best one')}")
    assert (workspace / "runs" / "first").exists()
    assert not (workspace / "runs" / "second").exists()
    assert not tab.errors


def test_a_row_that_was_deleted_elsewhere_leaves_the_table_when_it_is_chosen(lab, tab):
    shelf = Shelf(lab.folder / "workspace")
    kept, gone = (
        shelf.add(f"{name}.jsonl", ROWS * n, {}) for n, name in enumerate(("kept", "gone"), 1)
    )
    row = "[...document.querySelectorAll('.items-table tbody tr')].find(r => r.innerText.includes('{}'))"
    tab.see("/runs?on=example")
    tab.wait(f"!!{row.format('kept.jsonl')} && !!{row.format('gone.jsonl')}")
    delete(Lab(shelf.workspace), gone)
    tab.value(f"{row.format('gone.jsonl')}.querySelector('.q-checkbox').click()")
    tab.wait(f"!{row.format('gone.jsonl')}")
    tab.value(f"{row.format('kept.jsonl')}.querySelector('.q-checkbox').click()")
    tab.wait(
        f"location.search.endsWith('chosen={kept.id}') && !!document.querySelector('.items-edit')"
    )
    assert "Traceback" not in lab.log.read_text()
