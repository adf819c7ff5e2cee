"""Models on disk: whole, by last token, in parts, and after the process that wrote them was killed."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.killed import killed_after

from attomaton.corpus.example import example_samples
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading
from attomaton.corpus.windows import samples_from_sequences
from attomaton.disk.formats import plain
from attomaton.disk.storage import seal
from attomaton.engine.choose import open_engine
from attomaton.errors import DataError, StorageError, UsageError
from attomaton.folders.model import ModelFolder, open_model, save_model
from attomaton.jobs import fit as fits
from attomaton.jobs.fit import fit_run
from attomaton.mechanics.synthetic import draw_samples
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.limit import merge_summaries, solve_limit
from attomaton.mechanics.theory.svm import certify
from attomaton.numerics import named_rng
from attomaton.report.text.terminal import fit_text


def write_text(path: Path, tokens: int = 6000, words: int = 150, seed: int = 0) -> Path:
    """Random text with Zipf's law and some structure: a word likes to come back."""
    rng = named_rng("text", seed)
    p = 1 / (np.arange(words) + 2.0)
    ids = rng.choice(words, tokens, p=p / p.sum())
    back = rng.integers(1, 8, tokens)
    for i in np.flatnonzero(rng.random(tokens) < 0.4):
        ids[i] = ids[max(0, i - back[i])]
    path.write_text(" ".join(f"w{i}" for i in ids), encoding="utf-8")
    return path


@pytest.fixture
def small_parts(monkeypatch):
    """Parts so small that a small text has many of them."""
    monkeypatch.setattr(fits, "PART", 2000)


def same_limit(a, b):
    for name in (
        "pair_last",
        "pair_token",
        "edge_from",
        "edge_to",
        "edge_weight",
        "component",
        "level",
    ):
        np.testing.assert_array_equal(getattr(a.graph, name), getattr(b.graph, name))
    for name in ("last", "label", "weight", "start", "token", "count", "rows", "source"):
        np.testing.assert_array_equal(getattr(a.samples, name), getattr(b.samples, name))
    np.testing.assert_allclose(a.svm.score, b.svm.score, atol=1e-11)
    np.testing.assert_allclose(a.finite.log_pi, b.finite.log_pi, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_a_saved_limit_opens_as_it_was(tmp_path, seed):
    samples = draw_samples(named_rng("models", seed), 12, 60, 6, repeats=True)
    limit = solve_limit(samples)
    save_model(limit, tmp_path / "m", {})
    found = open_model(tmp_path / "m")
    same_limit(found, limit)
    assert found.summary() == limit.summary()
    # The multipliers travel on edges: the certificate computed from them is the one that was saved.
    again = certify(
        found.graph, found.samples, found.svm.coefficient, found.svm.score, found.svm.multiplier
    )
    assert again == limit.svm.certificate


def test_embeddings_travel_too(tmp_path):
    samples = draw_samples(named_rng("models", 7), 5, 12, 4)
    from attomaton.mechanics.data import check_embeddings

    E = check_embeddings(named_rng("models", 8).normal(size=(5, 6)))
    limit = solve_limit(samples, E)
    save_model(limit, tmp_path / "m", {}, dense=True)
    found = open_model(tmp_path / "m")
    np.testing.assert_array_equal(found.svm.coefficient, limit.svm.coefficient)
    np.testing.assert_array_equal(found.finite.score, limit.finite.score)
    context = [0, 1, 2]
    assert Automaton(found).predict_proba(context) == Automaton(limit).predict_proba(context)


def test_parts_give_what_all_at_once_gives(tmp_path, small_parts):
    text = write_text(tmp_path / "text.txt")
    summary = fit_run(text, tmp_path / "m", reading=Reading(context=8))
    assert summary["parts"] > 5
    limit = solve_limit(read_windows(text, Reading(context=8)).samples())
    same_limit(open_model(tmp_path / "m"), limit)
    whole = plain(limit.summary())
    for name in ("svm_norm", "finite_norm", "loss_floor"):
        assert summary[name] == pytest.approx(whole.pop(name), rel=1e-10)
    whole.pop("certificates")
    assert {k: summary[k] for k in whole} == whole


def test_summaries_of_parts_add_up():
    parts = [solve_limit(draw_samples(named_rng("parts", i), 9, 30, 5)) for i in range(3)]
    merged = merge_summaries([(p.samples.total_weight, p.summary()) for p in parts])
    assert merged.pairs == sum(len(p.graph.pair_last) for p in parts)
    assert merged.levels == max(p.graph.level.max() + 1 for p in parts)
    mean = sum(p.finite.loss_floor * p.samples.total_weight for p in parts) / 90
    assert merged.loss_floor == pytest.approx(mean, rel=1e-12)


def test_a_model_opened_by_last_token_answers_as_the_whole(tmp_path, small_parts):
    text = write_text(tmp_path / "text.txt")
    fit_run(text, tmp_path / "m", reading=Reading(context=8))
    whole = open_model(tmp_path / "m")
    words = text.read_text(encoding="utf-8").split()
    for at in range(100, 2000, 300):
        context = words[at : at + 8]
        part = open_model(tmp_path / "m", lasts=context[-1:])
        assert len(part.graph.pair_last) < len(whole.graph.pair_last)
        assert (
            Automaton(part).explain(context).record() == Automaton(whole).explain(context).record()
        )
    assert len(open_model(tmp_path / "m", lasts=["nobody"]).graph.pair_last) == 0


@pytest.mark.parametrize("command", ["predict", "explain"])
def test_an_unknown_last_token_gets_no_answer(tmp_path, call, command):
    save_model(solve_limit(example_samples()), tmp_path / "m", {})
    code, out, _ = call(command, tmp_path / "m", "no", "such", "no", "--json")
    assert code == 6
    record = json.loads(out)
    assert record["prediction"] is None
    assert [x["token"] for x in record["unknown"]] == ["no", "such"]
    assert call(command, tmp_path / "m", "no", "such", "no")[0] == 6


@pytest.mark.parametrize("name", ["pairs", "edges", "samples"])
def test_a_broken_part_is_named(tmp_path, name):
    save_model(solve_limit(example_samples()), tmp_path / "m", {})
    file = tmp_path / "m" / name / "000.parquet"
    file.write_bytes(file.read_bytes()[:-40])
    seal(tmp_path / "m")
    with pytest.raises(DataError, match=f"{name}.000.parquet"):
        open_model(tmp_path / "m")


@pytest.mark.parametrize(
    ("version", "said"), [(2, "older .* make it again"), (4, "newer .* update attomaton")]
)
def test_a_model_of_another_format_says_so(tmp_path, version, said):
    save_model(solve_limit(example_samples()), tmp_path / "m", {})
    (tmp_path / "m" / "attomaton.json").write_text(
        f'{{"schema_version": {version}, "kind": "model"}}'
    )
    with pytest.raises(DataError, match=f"format version {version} is {said}"):
        open_model(tmp_path / "m")


def test_a_full_disk_leaves_no_half_model_and_loses_no_part(tmp_path, small_parts, monkeypatch):
    text = write_text(tmp_path / "text.txt")
    from attomaton.folders import model as models

    write, calls = models.write_columns, []

    def fails(path, *columns):
        calls.append(path)
        if len(calls) == 10:
            raise OSError(28, "No space left on device")
        write(path, *columns)

    monkeypatch.setattr(models, "write_columns", fails)
    with pytest.raises(StorageError, match=r"No space left on device\)\.\n.*run the same"):
        fit_run(text, tmp_path / "m", reading=Reading(context=8))
    assert not (tmp_path / "m").exists()
    summary = fit_run(text, tmp_path / "m", reading=Reading(context=8))
    assert summary["resumed_parts"] == 3
    assert not (tmp_path / ".m.partial").exists()


def test_other_data_do_not_resume(tmp_path, small_parts, monkeypatch):
    text = write_text(tmp_path / "text.txt")
    head = fits.write_head
    monkeypatch.setattr(fits, "write_head", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        fit_run(text, tmp_path / "m", reading=Reading(context=8))
    monkeypatch.setattr(fits, "write_head", head)
    write_text(tmp_path / "text.txt", seed=1)
    with pytest.raises(UsageError, match="begun with other settings"):
        fit_run(text, tmp_path / "m", reading=Reading(context=8))
    assert (
        fit_run(text, tmp_path / "m", reading=Reading(context=8), force=True)["resumed_parts"] == 0
    )


def test_two_processes_cannot_write_one_model(tmp_path):
    from attomaton.disk.storage import work_folder

    here = tmp_path / "m"
    with (
        work_folder(here, "train", {}),
        pytest.raises(UsageError, match="another process"),
        work_folder(here, "train", {}),
    ):
        pass


@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_every_engine_writes_the_same_model(tmp_path, small_parts, engine):
    if engine == "ray":
        pytest.importorskip("ray", reason="Ray is not installed; attomaton[ray]")
    text = write_text(tmp_path / "text.txt")
    here = fit_run(text, tmp_path / "here", reading=Reading(context=8))
    with open_engine(engine, 2) as where:
        there = fit_run(text, tmp_path / "there", reading=Reading(context=8), engine=where)
    assert there["engine"] == engine
    for name in ("certificates", "loss_floor", "svm_norm", "finite_norm", "pairs", "edges"):
        assert there[name] == here[name], name
    files = sorted(p.relative_to(tmp_path / "here") for p in (tmp_path / "here").rglob("*.*"))
    assert len(files) > 20
    files.remove(Path("log.jsonl"))  # says when
    for file in files:
        assert (tmp_path / "here" / file).read_bytes() == (
            tmp_path / "there" / file
        ).read_bytes(), file


# Killed for good, and run again

DRIVER = """
import sys
from attomaton.jobs import fit
from attomaton.mechanics.experiment import course
fit.PART = 2000
course.KEEP_EVERY = 0.0
from attomaton.cli.main import main
sys.argv = ["attomaton", *sys.argv[1:]]
main()
"""


def command(*arguments, before: str = "") -> list[str]:
    return [sys.executable, "-c", before + DRIVER, *map(str, arguments), "--json"]


def run_to_the_end(arguments: list) -> dict:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_training_goes_on_after_a_kill(tmp_path):
    text = write_text(tmp_path / "text.txt", tokens=2000, words=40)
    options = ["--context", 6, "--steps", 2_000, "--optimizer", "gd", "--lr", 0.1,
               "--init", "uniform", "--seeds", 2]  # fmt: skip
    quiet = run_to_the_end(["train", text, *options, "-o", tmp_path / "quiet"])
    out = tmp_path / "run"
    kept = tmp_path / ".run.partial" / "checkpoint.safetensors"
    killing = killed_after(1, "attomaton.jobs.train", "_Kept", "save")
    line = command("train", text, *options, "-o", out, before=killing)
    killed = subprocess.run(line, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert kept.exists()
    assert not out.exists()
    again = run_to_the_end(["train", text, *options, "-o", out])
    assert 0 < again["resumed_at_step"] < 2_000
    assert again["final"] == quiet["final"]
    for name in ("state.safetensors", "metrics.parquet"):
        assert (out / name).read_bytes() == (tmp_path / "quiet" / name).read_bytes()
    assert not kept.exists()
    shutil.rmtree(out)


def test_models_without_a_bound_on_their_odds_stay_readable(tmp_path):
    """`luce_error` came later than the format: where it is missing, nothing is said about it."""
    limit = solve_limit(samples_from_sequences([[0, 1], [0, 1]], [0, 1], [3.0, 1.0]))
    save_model(limit, tmp_path / "m", {})
    assert open_model(tmp_path / "m").finite.error == limit.finite.error < 1e-12
    path = tmp_path / "m" / "model.json"
    record = json.loads(path.read_text())
    assert record["summary"]["certificates"].pop("luce_error") == limit.finite.error
    path.write_text(json.dumps(record))
    seal(tmp_path / "m")
    assert "luce_error" not in plain(open_model(tmp_path / "m").summary())["certificates"]
    assert "log-odds" not in fit_text(plain(ModelFolder(tmp_path / "m").record.summary))
