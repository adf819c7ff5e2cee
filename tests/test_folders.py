"""Folders of ours on the disk: listed, looked into, compared, deleted."""

import json
import os
import re
import shlex
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import attomaton
from attomaton.disk.formats import write_arrays, write_columns, write_json
from attomaton.disk.holdings import is_known
from attomaton.disk.kinds import KINDS, Kind
from attomaton.disk.ledger import asked_as
from attomaton.disk.provenance import environment, provenance
from attomaton.disk.storage import KIND_FILE, new_folder, seal, work_folder
from attomaton.errors import UsageError
from attomaton.folders import sweep as sweeps_folder
from attomaton.folders.differ.models import model_difference
from attomaton.folders.look import STATES, UNNAMED, look, scan
from attomaton.folders.model import open_model
from attomaton.jobs import fit as fits
from attomaton.jobs import sweep as sweeps
from attomaton.jobs import train as runs
from attomaton.jobs import verify
from attomaton.mechanics.experiment.train import metric_columns

CHAIN = ['{"tokens": ["a", "b", "c"], "next": "a"}', '{"tokens": ["b", "c"], "next": "b"}']


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working folder with the chain a > b > c in a file."""
    monkeypatch.chdir(tmp_path)
    Path("chain.jsonl").write_text("\n".join(CHAIN) + "\n")
    return tmp_path


def training_run(path, losses=(3.0, 2.0, 1.0), status="finished", **settings):
    """A run as `train` leaves it, without training: one seed, a record every ten steps."""
    records = {"steps": 10 * np.arange(len(losses)), "loss": np.array([losses])}
    config = {"data": "chain.jsonl", "optimizer": "gd", "steps": 20, **settings}
    summary = {"steps": 20, "status": [status], "final": [{"seed": 0, "loss": losses[-1]}],
               "seconds": {"compile": 1.5, "run": 0.5}, "run": str(path)}  # fmt: skip
    with new_folder(path, "train") as folder:
        provenance(folder, config, summary)
        write_columns(folder / "metrics.parquet", metric_columns(records, 1))
        write_arrays(folder / "state.safetensors", {"W": np.full((2, 2), losses[-1])})
        write_json(folder / "status.json", {"status": [status]})


def unfinished(path, config=None):
    """A work folder that a process left."""
    config = config or {"preset": "scan-snap-fig7", "seeds": None, "quick": True}
    typed = ["attomaton", "reproduce", "scan-snap-fig7", "-o", str(path)]
    with pytest.raises(KeyboardInterrupt), asked_as(typed), work_folder(path, "reproduce", config):
        raise KeyboardInterrupt
    return Path(path).with_name(f".{Path(path).name}.partial")


def listed(call, *arguments):
    """The records of `runs ls`, by name."""
    code, out, err = call("runs", "ls", *arguments, "--json")
    assert code == 0, err
    return {f["name"]: f for f in json.loads(out)["folders"]}


def stop(*_, **__):
    raise KeyboardInterrupt


# Lists


def test_an_empty_place_says_so_and_a_place_that_is_not_there_is_an_error(here, call):
    assert call("runs", "ls") == (0, "runs: no folder of attomaton here.\n", "")
    assert call("runs", "ls", "nowhere")[0] == 3


def test_a_list_tells_every_folder_once_and_the_newest_first(here, call):
    call("fit", "chain.jsonl", "-o", "runs/model")
    training_run("runs/deep/run")
    training_run("runs/off", status="diverged at step 7")
    unfinished("runs/later")
    for age, name in enumerate([".later.partial", "off", "deep/run"]):
        for path in (here / "runs" / name).iterdir():
            os.utime(path, (2e9 - age, 2e9 - age))
    code, out, _ = call("runs", "ls")
    assert code == 0
    names = [line.split()[0] for line in out.splitlines()[2:] if not line.startswith("  ")]
    assert names == [".later.partial", "off", "deep/run", "model"]
    found = listed(call)
    assert {n: (f["kind"], f["state"]) for n, f in found.items()} == {
        "model": ("model", "finished"),
        "run": ("run", "finished"),
        "off": ("run", "diverged"),
        ".later.partial": ("run", "interrupted"),
    }
    assert found["model"]["command"] == "attomaton fit chain.jsonl -o runs/model"
    sizes = [p.stat().st_size for p in Path("runs/model").rglob("*") if p.is_file()]
    assert found["model"]["bytes"] == sum(sizes)
    assert set(listed(call, "--kind", "model")) == {"model"}
    assert set(listed(call, "--state", "interrupted")) == {".later.partial"}
    assert call("runs", "ls", "--kind", "modle")[0] == call("runs", "ls", "--state", "no")[0] == 2


def test_a_folder_that_cannot_be_read_gets_a_row_and_the_others_stay(here, call):
    training_run("runs/good")
    broken = {
        "summary.json": b"{",
        KIND_FILE: b"[]",
        "config.toml": b"=",
        "status.json": b"3",
        "env.json": b'"1.0"',
    }
    for i, (name, content) in enumerate(broken.items()):
        training_run(f"runs/bad{i}")
        Path(f"runs/bad{i}/{name}").write_bytes(content)
        seal(Path(f"runs/bad{i}"))
    (unfinished("runs/w") / "config.json").write_text("[")
    found = listed(call)
    assert {n for n, f in found.items() if f["state"] == "unreadable"} == {
        *(f"bad{i}" for i in range(len(broken))),
        ".w.partial",
    }
    assert all(f["note"] for f in found.values() if f["state"] == "unreadable")
    assert found["good"]["state"] == "finished"


def test_names_and_words_that_would_move_the_cursor_stay_on_their_line(here, call):
    training_run("runs/a\nb\x1b[2J")
    Path("runs/a\nb\x1b[2J/command.txt").write_text("attomaton train\x1b[2J\nx")
    seal(Path("runs/a\nb\x1b[2J"))
    out = call("runs", "ls")[1]
    assert len(out.splitlines()) == 3
    assert "\x1b" not in out


def test_another_format_version_is_told_apart(here, call):
    call("fit", "chain.jsonl", "-o", "m")
    assert look(Path("m")).state == "finished"
    Path("m", KIND_FILE).write_text('{"schema_version": 99, "kind": "model"}')
    assert look(Path("m")).state == "other-version"
    assert "99" in look(Path("m")).note
    Path("m", KIND_FILE).write_text('{"schema_version": 1, "kind": "nebula"}')
    assert (look(Path("m")).kind, look(Path("m")).state) == ("nebula", "other-version")


def test_a_new_kind_is_one_record(here, call, monkeypatch):
    kind = Kind("notebook", 1, ("note", "draw"), {"pages": r"\d+\.txt", "cover.parquet": ""})

    def written(path, maker="note", page="first"):
        with asked_as(["attomaton", maker, "-o", path]), new_folder(path, maker) as work:
            provenance(work, {"ink": "blue"}, {"words": 7})
            write_columns(work / "cover.parquet", {"red": [1, 2]})
            (work / "pages").mkdir()
            (work / "pages" / "1.txt").write_text(page)

    with pytest.raises(LookupError, match="made by 'note'"):
        written("runs/before")  # the control: nobody knows of such folders
    monkeypatch.setitem(KINDS, "notebook", kind)
    for name, maker in (("n", "note"), ("same", "note"), ("d", "draw")):
        written(f"runs/{name}", maker)
    with suppress(KeyboardInterrupt), work_folder("runs/w", "note", {"ink": "red"}) as work:
        (work / "pages").mkdir()
        raise KeyboardInterrupt
    found = listed(call, "--kind", "notebook")
    assert {n: (f["kind"], f["maker"], f["state"]) for n, f in found.items()} == {
        "n": ("notebook", "note", "finished"),
        "same": ("notebook", "note", "finished"),
        "d": ("notebook", "draw", "finished"),
        ".w.partial": ("notebook", "note", "interrupted"),
    }
    assert found["n"]["command"] == "attomaton note -o runs/n"
    assert "notebook of note, finished" in call("runs", "show", "runs/n")[1]
    told = json.loads(call("runs", "show", "runs/n", "--json")[1])
    assert (told["settings"], told["figures"]) == ({"ink": "blue"}, {"words": 7})
    assert "no difference" in call("runs", "diff", "runs/n", "runs/same")[1]
    assert "notebook of draw" in call("runs", "diff", "runs/n", "runs/d")[2]
    verdicts = [f["verdict"] for f in json.loads(call("runs", "check", "--json")[1])["folders"]]
    assert sorted(verdicts) == ["not finished", "sound", "sound", "sound"]
    Path("runs/n/pages/1.txt").write_text("other")
    assert "pages/1.txt was changed" in call("runs", "check")[1]
    Path("runs/d/pages/mine.txt").write_text("precious")
    code, _, err = call("runs", "rm", "runs/d", "--yes")
    assert (code, "pages/mine.txt" in err) == (2, True)
    assert call("runs", "rm", "runs/n", "runs/same", "runs/w", "--yes")[0] == 0
    assert [p.name for p in Path("runs").iterdir()] == ["d"]


def test_the_maker_is_written_into_every_folder_while_it_is_made_and_when_it_is_finished(
    here, call
):
    call("fit", "chain.jsonl", "-o", "runs/m")
    call("train", "chain.jsonl", "-o", "runs/t", "--steps", "2")
    call("dynamics", "syn-small", "--level", "reduced", "--until", "5", "-o", "runs/d")
    call(
        "sweep",
        "syn-small",
        "eta_z=1",
        "ratio=1",
        "until=5.0",
        "--level",
        "reduced",
        "-o",
        "runs/s",
    )
    call("verify", "--only", "luce", "-o", "runs/v")
    call("reproduce", "scan-snap-fig3", "-o", "runs/p")
    makers = {
        "m": "fit",
        "t": "train",
        "d": "dynamics",
        "s": "sweep",
        "v": "verify",
        "p": "reproduce",
    }
    for name, maker in makers.items():
        assert json.loads(Path("runs", name, KIND_FILE).read_text())["maker"] == maker
    assert {n: f["maker"] for n, f in listed(call).items()} == makers
    config = json.loads((unfinished("runs/w") / "config.json").read_text())
    assert config["maker"] == "reproduce"


def test_folders_that_do_not_say_their_maker_are_read_and_it_is_said(here, call):
    training_run("runs/old")
    Path("runs/old", KIND_FILE).write_text('{"schema_version": 2, "kind": "run"}')
    call("fit", "chain.jsonl", "-o", "runs/m")
    Path("runs/m", KIND_FILE).write_text('{"schema_version": 3, "kind": "model"}')
    config = {"preset": "scan-snap-fig7", "seeds": None, "quick": True}
    work = unfinished("runs/w", config)
    write_json(work / "config.json", config)
    (work / "checkpoints").mkdir()
    write_arrays(work / "checkpoints" / "a.safetensors", {"step": np.array([3])})
    found = listed(call)
    assert (found["old"]["maker"], found["old"]["state"]) == (None, "finished")
    assert found["old"]["note"] == found[".w.partial"]["note"] == UNNAMED
    assert (found["m"]["maker"], found["m"]["note"]) == ("fit", "")  # nobody else makes models
    assert (found[".w.partial"]["kind"], found[".w.partial"]["go_on"]) == ("unknown", None)
    assert "run, finished" in call("runs", "show", "runs/old")[1]
    # The command that began it goes on with it, and writes down that it did.
    with suppress(KeyboardInterrupt), work_folder("runs/w", "reproduce", config):
        assert (work / "checkpoints" / "a.safetensors").is_file()
        raise KeyboardInterrupt
    assert listed(call)[".w.partial"]["maker"] == "reproduce"
    with (
        pytest.raises(UsageError, match="maker: reproduce, now train"),
        work_folder("runs/w", "train", config),
    ):
        pass


def test_work_is_running_while_its_lock_is_held_and_interrupted_after(here):
    config = {"preset": "scan-snap-fig7", "seeds": None, "quick": True}
    typed = ["attomaton", "reproduce", "scan-snap-fig7", "--quick", "-o", "w"]
    with (
        suppress(KeyboardInterrupt),
        asked_as(typed),
        work_folder("w", "reproduce", config) as work,
    ):
        assert look(work).state == "running"
        assert look(work).go_on is None
        raise KeyboardInterrupt
    assert look(work).state == "interrupted"
    assert look(work).go_on == "attomaton reproduce scan-snap-fig7 --quick -o w"


def test_a_search_is_four_folders_deep_and_follows_no_link(here):
    training_run("a/1/2/3/near")
    training_run("a/1/2/3/4/far")
    training_run("elsewhere/run")
    Path("a/link").symlink_to(here / "elsewhere")
    training_run("a/.git/hidden")
    assert [f.path.name for f in scan([Path("a")])] == ["near"]
    assert {f.path.name for f in scan([Path("a/1")])} == {"far", "near"}
    assert [f.path.name for f in scan([Path("elsewhere"), here / "elsewhere/run"])] == ["run"]


# What goes on with interrupted work


def test_a_fit_that_was_broken_off_tells_its_parts_and_the_command_that_goes_on(
    here, call, monkeypatch
):
    Path("text.txt").write_text("a b c a c b b a c c a b " * 20)
    solve = fits.solve_part
    monkeypatch.setattr(fits, "PART", 1)
    monkeypatch.setattr(fits, "solve_part", lambda task: stop() if task[1] == 2 else solve(task))
    assert call("fit", "text.txt", "--context", "3", "-o", "runs/m")[0] == 130
    found = listed(call)[".m.partial"]
    assert (found["kind"], found["state"]) == ("model", "interrupted")
    assert found["done"] == {"done": 2, "of": 3, "what": "parts"}
    monkeypatch.setattr(fits, "solve_part", solve)
    words = shlex.split(found["go_on"])
    code, out, err = call(*words[1:], "--json")
    assert code == 0, err
    assert json.loads(out)["resumed_parts"] == 2
    assert listed(call)["m"]["state"] == "finished"


def test_a_training_that_was_broken_off_tells_its_step_and_goes_on_from_there(
    here, call, monkeypatch
):
    found = []

    def train(*_, checkpoint, **__):
        found.append(checkpoint.load())
        checkpoint.save({"step": np.array([40])})
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "train_beside_theory", train)
    words = ("chain.jsonl", "-o", "runs/r", "--steps", "90", "--optimizer", "adam", "--lr", "0.1")
    assert call("train", *words)[0] == 130
    told = listed(call)[".r.partial"]
    assert told["done"] == {"done": 40, "of": 90, "what": "steps"}
    call(*shlex.split(told["go_on"])[1:])
    assert found[0] is None
    assert found[1]["step"] == [40]  # the same settings: what was kept was not thrown away


def test_a_sweep_that_was_broken_off_tells_its_cells_and_goes_on(here, call, monkeypatch):
    level, done = sweeps.run_level, []

    def run(*arguments, **options):
        if done:
            raise KeyboardInterrupt
        done.append(1)
        return level(*arguments, **options)

    monkeypatch.setattr(sweeps_folder, "PIECE", 2)
    monkeypatch.setattr(sweeps, "run_level", run)
    grid = ("syn-small", "eta_z=1,2,3", "ratio=1", "until=100.0", "--level", "reduced")
    assert call("sweep", *grid, "-o", "runs/s")[0] == 130
    told = listed(call)["s"]
    assert (told["kind"], told["state"]) == ("sweep", "interrupted")
    assert told["done"] == {"done": 2, "of": 3, "what": "cells"}
    monkeypatch.setattr(sweeps, "run_level", level)
    code, out, err = call(*shlex.split(told["go_on"])[1:], "--json")
    assert code == 0, err
    assert json.loads(out)["skipped_pieces"] == 1
    assert listed(call)["s"]["state"] == "finished"


def test_a_verification_that_was_broken_off_tells_its_claims(here, call, monkeypatch):
    monkeypatch.setattr(verify, "_evidence", stop)
    assert call("verify", "--only", "luce,T2", "-o", "runs/v")[0] == 130
    told = listed(call)[".v.partial"]
    assert (told["kind"], told["done"]["done"], told["done"]["of"]) == ("verification", 0, 2)
    (here / "runs/.v.partial/claims/luce.json").write_text("{}")
    assert listed(call)[".v.partial"]["done"]["done"] == 1
    assert told["go_on"] == "attomaton verify --only luce,T2 -o runs/v"


# One folder


def test_show_tells_settings_versions_command_seconds_figures_and_files(here, call):
    training_run("runs/r", lr=0.125)
    code, out, _ = call("runs", "show", "runs/r", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["settings"]["lr"] == 0.125
    assert told["versions"] == environment()
    assert told["seconds"] == 2.0
    assert told["figures"]["final.loss"] == 1.0
    assert sum(f["bytes"] for f in told["files"]) == told["bytes"]
    text = call("runs", "show", "runs/r")[1]
    assert all(x in text for x in ("run of train, finished", "0.125", "metrics.parquet", "jax"))
    assert call("runs", "show", "runs")[0] == call("runs", "show", "nowhere")[0] == 3


def test_show_finds_unfinished_work_by_its_place_and_warns_where_versions_changed(here, call):
    config = {"preset": "scan-snap-fig7", "seeds": 2, "quick": None, "versions": environment()}
    unfinished("w", config)
    text = call("runs", "show", "w")[1]
    assert "go on     attomaton reproduce scan-snap-fig7 -o w" in text
    assert "started" in text
    assert "begin anew" not in text
    unfinished("w", config | {"versions": {**environment(), "numpy": "1.0"}})
    assert "it would begin anew: numpy 1.0 there" in call("runs", "show", "w")[1]


def test_show_reads_the_ledger_of_resumed_work(here, call):
    unfinished("w")
    work = unfinished("w")
    with (work / "log.jsonl").open("a") as log:
        log.write('{"time": "2026", "event": "done", "piece": "x"}\n{torn')
    told = json.loads(call("runs", "show", "w", "--json")[1])
    assert [line["event"] for line in told["log"]["processes"]] == ["started", "resumed"]
    assert told["log"]["pieces"] == {"done": 1}


# Two folders


def test_two_models_differ_by_the_edge_a_sample_adds_and_the_tie_it_makes(here, call):
    Path("tied.jsonl").write_text(
        "\n".join([*CHAIN, '{"tokens": ["a", "b", "c"], "next": "b"}']) + "\n"
    )
    call("fit", "chain.jsonl", "-o", "A")
    call("fit", "tied.jsonl", "-o", "B")
    code, out, _ = call("runs", "diff", "A", "B", "--json")
    told = json.loads(out)
    assert code == 0
    assert [s["name"] for s in told["settings"]] == ["data"]
    g = told["graphs"]
    assert g["edges"]["lost"]["count"] == 0
    assert g["edges"]["gained"]["examples"] == [
        {"last": "c", "winner": "b", "loser": "a", "weight": 1.0}
    ]
    assert g["components"]["split"]["count"] == 0
    assert g["components"]["merged"]["examples"] == [{"last": "c", "groups": [["a"], ["b"]]}]
    assert g["moved"]["edge_weights"] == 1  # b over c, seen once more
    back = json.loads(call("runs", "diff", "B", "A", "--json")[1])["graphs"]
    assert back["edges"]["lost"] == g["edges"]["gained"]
    assert back["components"]["split"]["count"] == 1
    text = call("runs", "diff", "A", "B")[1]
    assert "after c: b over a (weight 1)" in text
    assert "after c: a | b" in text


def test_a_model_does_not_differ_from_itself_whatever_the_order_of_its_words(here, call):
    Path("turned.jsonl").write_text("\n".join(CHAIN[::-1]) + "\n")
    call("fit", "chain.jsonl", "-o", "A")
    call("fit", "turned.jsonl", "-o", "B")
    assert Path("A/vocabulary.json").read_text() != Path("B/vocabulary.json").read_text()
    assert model_difference(Path("A"), Path("B")).same
    call("fit", "chain.jsonl", "-o", "C")
    code, out, _ = call("runs", "diff", "A", "C")
    assert code == 0
    assert "no difference" in out


def test_the_model_whose_vocabulary_is_damaged_is_named(here, call):
    for name in "AB":
        call("fit", "chain.jsonl", "-o", name)
    write_json(Path("B/vocabulary.json"), ["a", "a", "c"])
    seal(Path("B"))
    code, _, err = call("diff", "A", "B")
    assert code == 3
    assert "B/vocabulary.json: vocabulary: label 'a' occurs twice" in err


def test_graphs_are_compared_as_sets_of_labels_would_be(here, call):
    rng, graphs = np.random.default_rng(5), []
    for name in "AB":
        rows = [list(map(str, rng.integers(0, 6, 4))) for _ in range(25)]
        lines = [json.dumps({"tokens": r, "next": r[rng.integers(4)]}) for r in rows]
        Path(f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        call("fit", f"{name}.jsonl", "-o", name)
        graphs.append(open_model(name).graph)
    told = model_difference(Path("A"), Path("B"), most=100)

    def edges(g):
        word = [g.vocabulary[t] for t in g.pair_token]
        last = [g.vocabulary[t] for t in g.pair_last]
        ends = zip(g.edge_from, g.edge_to, strict=True)
        return {(last[p], word[p], word[q]) for p, q in ends}

    def ties(g, pairs):
        named = [
            (g.vocabulary[k], g.vocabulary[x])
            for k, x in zip(g.pair_last, g.pair_token, strict=True)
        ]
        groups = {}
        for pair, c in zip(named, g.component, strict=True):
            if pair in pairs:
                groups.setdefault(int(c), set()).add(pair)
        return list(groups.values()), set(named)

    one, two = map(edges, graphs)
    for change, wanted in (("gained", two - one), ("lost", one - two)):
        part = told.edges[change]
        assert {(e.last, e.winner, e.loser) for e in part.examples} == wanted
        assert part.count == len(wanted) > 0
    shared = ties(graphs[0], set())[1] & ties(graphs[1], set())[1]
    a, b = ties(graphs[0], shared)[0], ties(graphs[1], shared)[0]
    split = sum(sum(bool(x & y) for y in b) > 1 for x in a)
    merged = sum(sum(bool(x & y) for y in a) > 1 for x in b)
    assert [told.components[c].count for c in ("split", "merged")] == [split, merged]
    assert split + merged > 0


def test_two_trainings_differ_from_the_first_step_that_differs_by_one_bit(here, call):
    training_run("A", (3.0, 2.0, 1.0))
    training_run("same", (3.0, 2.0, 1.0))
    training_run("B", (3.0, np.nextafter(2.0, 3), 1.0), lr=0.5)
    told = json.loads(call("runs", "diff", "A", "same", "--json")[1])
    assert told["same"]
    assert told["training"]["same"]
    assert "bit for bit" in call("runs", "diff", "A", "same")[1]
    told = json.loads(call("runs", "diff", "A", "B", "--json")[1])
    assert not told["same"]
    assert told["settings"] == [{"name": "lr", "a": None, "b": 0.5}]
    assert told["training"]["first_difference"]["step"] == 10
    assert told["training"]["parameters_identical"]
    assert "differs first at step 10" in call("runs", "diff", "A", "B")[1]


def test_undefined_measurements_are_alike_and_shorter_runs_are_compared_as_far_as_they_go(
    here, call
):
    training_run("A", (np.nan, 2.0, 1.0))
    training_run("B", (np.nan, 2.0))
    told = json.loads(call("runs", "diff", "A", "B", "--json")[1])["training"]
    assert told["first_difference"] is None
    assert told["steps_alone"] == {"a": 1, "b": 0}
    assert not told["same"]


def test_two_sweeps_differ_by_cells(here, call):
    grid = ("syn-small", "eta_z=1", "--level", "reduced")
    for name, ratio, until in (("A", "1,2", 100.0), ("B", "2,3", 100.0), ("C", "1,2", 150.0)):
        call("sweep", *grid, f"ratio={ratio}", f"until={until}", "-o", name)
    told = json.loads(call("runs", "diff", "A", "B", "--json")[1])["cells"]
    assert (told["compared"], told["different"]) == (1, 0)
    assert [cell["ratio"] for cell in told["only_a"] + told["only_b"]] == [1, 3]
    assert json.loads(call("runs", "diff", "A", "C", "--json")[1])["cells"]["compared"] == 0
    assert "no difference" in call("runs", "diff", "A", "A")[1]
    piece = next(Path("B/pieces").glob("*.parquet"))
    piece.unlink()  # both cells of B are then unknown
    seal(Path("B"))
    told = json.loads(call("runs", "diff", "A", "B", "--json")[1])["cells"]
    assert (told["different"], told["examples"][0]["b"]) == (1, None)


def test_folders_of_different_kinds_or_unfinished_ones_are_not_compared(here, call):
    call("fit", "chain.jsonl", "-o", "m")
    training_run("r")
    unfinished("w")
    code, _, err = call("runs", "diff", "m", "r")
    assert code == 2
    assert "m is a model, r a run of train" in err
    code, _, err = call("runs", "diff", "r", "w")
    assert code == 2
    assert "finish it first: attomaton reproduce" in err


# Removal


def test_rm_deletes_what_it_says_and_frees_what_it_weighs(here, call):
    training_run("runs/r")
    training_run("runs/kept")
    unfinished("runs/r")
    size = look(Path("runs/r")).bytes
    code, out, err = call("runs", "rm", "runs/r", "--yes", "--json")
    assert code == 0
    assert json.loads(out)["freed_bytes"] == size
    assert ".r.partial is left" in err
    assert {p.name for p in Path("runs").iterdir()} == {"kept", ".r.partial"}


def test_rm_asks_a_person_and_refuses_where_there_is_none(here, call, monkeypatch):
    class Person:
        def __init__(self, answer):
            self.answer = answer

        def isatty(self):
            return self.answer is not None

        def readline(self):
            return self.answer

    training_run("r")
    for answer, wanted, there in (
        (None, 2, True),
        ("\n", 0, True),
        ("n\n", 0, True),
        ("y\n", 0, False),
    ):
        monkeypatch.setattr(sys, "stdin", Person(answer))
        assert call("runs", "rm", "r")[0] == wanted
        assert Path("r").exists() == there


def test_a_dry_run_deletes_nothing(here, call):
    training_run("r")
    before = sorted(here.rglob("*"))
    code, out, _ = call("runs", "rm", "r", "--dry-run")
    assert code == 0
    assert "nothing was deleted" in out
    assert sorted(here.rglob("*")) == before


def test_rm_refuses_what_is_not_ours_or_holds_foreign_files_and_then_deletes_nothing(here, call):
    training_run("good")
    training_run("noted")
    Path("noted/notes.txt").write_text("mine")
    Path("mine").mkdir()
    Path("mine/config.json").write_text("{}")
    Path(".mine.partial").mkdir()
    Path("link").symlink_to(here / "good")
    for refused, word in (
        ("noted", "notes.txt"),
        ("mine", "not a folder of attomaton"),
        (".mine.partial", "not a folder of attomaton"),
        ("link", "is a link"),
        ("chain.jsonl", "not a folder of attomaton"),
    ):
        code, _, err = call("runs", "rm", "good", refused, "--yes")
        assert code == 2
        assert word in err
    assert Path("good", KIND_FILE).exists()
    assert Path("noted/notes.txt").exists()
    Path("noted/notes.txt").unlink()
    assert call("runs", "rm", "good", "noted", "--yes")[0] == 0
    assert Path("link").is_symlink()
    assert not Path("good").exists()


def test_rm_does_not_follow_links_inside_a_folder(here, call):
    Path("precious").mkdir()
    Path("precious/file").write_text("mine")
    training_run("r")
    Path("r/figures").symlink_to(here / "precious")
    code, _, err = call("runs", "rm", "r", "--yes")
    assert code == 2
    assert "did not write (figures)" in err
    assert Path("precious/file").read_text() == "mine"
    assert Path("r/summary.json").is_file()


def test_work_in_use_is_not_deleted_and_interrupted_work_is(here, call):
    unfinished("runs/old")
    training_run("runs/done")
    config = {"preset": "scan-snap-fig7", "seeds": 1, "quick": None}
    with suppress(KeyboardInterrupt), work_folder("runs/now", "reproduce", config) as work:
        assert call("runs", "rm", "runs/now", "--yes")[0] == 2
        assert call("runs", "rm", "--interrupted", "--yes")[0] == 0
        assert work.is_dir()
        raise KeyboardInterrupt
    assert {p.name for p in Path("runs").iterdir()} == {"done", ".now.partial"}
    assert call("runs", "rm", "--interrupted", "--yes")[0] == 0
    assert {p.name for p in Path("runs").iterdir()} == {"done"}
    assert call("runs", "rm", "--interrupted")[:2] == (0, "no unfinished work there.\n")
    assert call("runs", "rm")[0] == 2


def test_what_a_killed_process_was_writing_is_left_over_and_what_is_being_written_is_not(
    here, call
):
    with suppress(KeyboardInterrupt), new_folder("runs/r", "train") as work:
        (work / "summary.json").write_text("{}")
        copy = work.with_name(work.name[:-8] + "killed_1")
        copy.mkdir()
        (copy / "summary.json").write_text("{}")
        states = {name: f["state"] for name, f in listed(call).items()}
        assert states == {work.name: "running", copy.name: "interrupted"}
        assert call("runs", "rm", work, "--yes")[0] == 2
        assert call("runs", "rm", "--interrupted", "--yes")[0] == 0
        assert work.is_dir()
        assert not copy.exists()
        raise KeyboardInterrupt


def test_a_folder_that_lost_its_name_in_the_last_act_says_so(here):
    training_run("r")
    Path("r").rename(".r.partial")
    assert look(Path(".r.partial")).note == "complete: rename it to r"
    training_run("r")
    assert look(Path(".r.partial")).note == "the earlier r"


def test_a_removal_that_was_broken_off_can_be_finished(here, call, monkeypatch):
    training_run("r")
    unfinished("w")
    Path("r/figures").mkdir()
    Path(".w.partial/corpus").mkdir()
    with monkeypatch.context() as broken:
        broken.setattr(os, "rmdir", stop)
        assert call("runs", "rm", "r", "--yes")[0] == call("runs", "rm", "w", "--yes")[0] == 130
    assert not Path("r").exists()
    left = listed(call, ".")
    assert {f["state"] for f in left.values()} == {"interrupted"}
    assert len(left) == 2
    assert call("runs", "show", next(iter(left)))[0] == 0
    assert call("runs", "rm", "--interrupted", ".", "--yes")[0] == 0
    assert {p.name for p in here.iterdir()} == {"chain.jsonl"}


def test_every_file_our_commands_write_into_a_folder_is_known_to_rm():
    source = Path(attomaton.__file__).parent
    written = {
        name
        for path in source.rglob("*.py")
        for name in re.findall(r'\bwork / "([^"]+)"', path.read_text(encoding="utf-8"))
    }
    assert len(written) > 20
    assert [name for name in written if not is_known(name)] == []


def test_states_are_those_the_help_names(call):
    text = call("runs", "ls", "--help")[1]
    assert all(state.split("-")[0] in text for state in STATES)
