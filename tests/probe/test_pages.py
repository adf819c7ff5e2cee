"""What probe and snap leave to look at: folders that are read back, pages with all of it."""

import json
import re
import shutil

import numpy as np
import pytest

from attomaton.disk.formats import write_arrays
from attomaton.disk.storage import seal
from attomaton.errors import DataError
from attomaton.folders.model import open_model
from attomaton.folders.probe import ATTENTION, read_probe, read_texts
from attomaton.jobs import probed as job
from attomaton.jobs.probe import Asked
from attomaton.jobs.probed import probe_run


@pytest.fixture(scope="module")
def folder(models, corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "probed"
    found, _ = probe_run(models / "1", corpus, out, asked=Asked(pairs=120, contexts=20))
    return out, found


def test_a_folder_is_read_back_as_it_was_found(folder, corpus):
    out, found = folder
    assert read_probe(out) == found
    assert open_model(out / "model").graph.edge_from.size > 0
    texts, attention = read_texts(out)
    assert attention.shape == (12, 1, 1, 6)
    assert attention.sum(axis=-1) == pytest.approx(1, abs=1e-5)
    answered = [i for i, x in enumerate(texts) if x.verdict == "determined"]
    for i in answered:
        assert sum(texts[i].shares) == pytest.approx(1)
    # The head of this model attends to what the automaton retrieves.
    on = [attention[i, 0, 0][np.array(texts[i].shares) > 0].sum() for i in answered]
    assert np.mean(on) > 0.9


def test_the_page_of_a_probe_tells_orders_heads_and_what_it_got_wrong(folder):
    out, found = folder
    page = (out / "index.html").read_text(encoding="utf-8")
    assert f"{found.behaviour[0].agreement.value:.3f}" in page
    assert "entropy / log keys" in page
    for wrong in found.behaviour[0].wrong[:3]:
        assert " ".join(wrong.tokens) in page


@pytest.mark.parametrize(
    ("run", "work", "model"), [("probe_run", "probed", "1"), ("snap_run", "snap_models", ["1"])]
)
def test_a_place_is_taken_before_the_work_begins(run, work, model, tmp_path, monkeypatch):
    seen = []

    def working(*_):
        seen.extend(x.name for x in tmp_path.iterdir())
        raise DataError("no model at all")

    monkeypatch.setattr(job, work, working)
    with pytest.raises(DataError, match="no model at all"):
        getattr(job, run)(model, "corpus.txt", tmp_path / "P")
    assert [name.startswith(".P.") for name in seen] == [True]
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_fit_together_is_refused(folder, tmp_path):
    shutil.copytree(folder[0], tmp_path / "probed")
    write_arrays(
        tmp_path / "probed" / ATTENTION, {"attention": np.zeros((12, 1, 1, 5), np.float32)}
    )
    with pytest.raises(DataError, match="was changed since it was written"):
        read_texts(tmp_path / "probed")
    seal(tmp_path / "probed", ATTENTION)
    with pytest.raises(DataError, match="do not fit together"):
        read_texts(tmp_path / "probed")


def test_the_page_of_a_snap_has_a_slider_over_every_checkpoint(learned, corpus, call, tmp_path):
    out, html = tmp_path / "snapped", tmp_path / "snap.html"
    asked = ["snap", *learned[:3], "--text", corpus, "--pairs", 60, "--contexts", 10]
    code, _, err = call(*asked, "-o", out, "--html", html)
    assert code == 0, err
    found = read_probe(out)
    page = html.read_text(encoding="utf-8")
    assert 'max="2"' in page
    assert page.count('class="mark"') == len(found.marks) == 3
    for mark in found.marks:
        assert all(f">{x:.2f}</td>" in page for row in mark.entropy for x in row)
    assert re.search(r"script-src 'sha256-[^']+'", page)
    assert call("runs", "show", out)[0] == 0
    code, _, err = call(*asked, "-o", learned[0])
    assert code == 2  # files of others are there
    assert (learned[0] / "config.json").exists()


def test_attention_alone_leaves_a_folder_without_texts(tmp_path, call):
    even = np.tri(4) / np.arange(1, 5)[:, None]
    np.savez(
        tmp_path / "a.npz",
        attention=np.broadcast_to(even, (3, 2, 2, 4, 4)),
        tokens=np.zeros((3, 4), int),
    )
    assert call("probe", tmp_path / "a.npz", "-o", tmp_path / "out")[0] == 0
    assert len(read_probe(tmp_path / "out").heads) == 4
    assert read_texts(tmp_path / "out")[0] == ()


def test_every_planted_duplicate_is_flagged(learned, corpus, tmp_path, call):
    first, second = sorted(learned)[:2]
    shutil.copytree(first, tmp_path / "step-1")
    shutil.copytree(second, tmp_path / "step-2")
    places = [tmp_path / "step-1", tmp_path / "step-2"]
    for i in range(20):
        places.append(tmp_path / f"step-{i + 3}")
        shutil.copytree(places[i % 2], places[-1])
    asked = ["snap", *places, "--text", corpus, "--pairs", 20, "--contexts", 4, "--json"]
    code, out, err = call(*asked)
    assert code == 0, err
    told = json.loads(out)
    assert told["duplicates"] == 20
    assert [x["same_as"] for x in told["marks"]] == [None, None, *["step-1", "step-2"] * 10]
