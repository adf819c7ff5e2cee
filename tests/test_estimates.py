"""What a fit will take, said before: against what it took."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from attomaton.corpus.reading import Reading
from attomaton.errors import DataError, UsageError
from attomaton.jobs import estimate as estimates
from attomaton.jobs.estimate import Estimate, estimate_fit, takes_long
from attomaton.jobs.fit import fit_run


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A Zipf text of many slices: 100,000 words in lines of 20."""
    path = tmp_path_factory.mktemp("text") / "zipf.txt"
    p = 1 / np.arange(1, 3001)
    ids = np.random.default_rng(0).choice(3000, size=100_000, p=p / p.sum())
    path.write_text("\n".join(" ".join(f"w{i}" for i in row) for row in ids.reshape(-1, 20)))
    return path


@pytest.fixture(autouse=True)
def short_slices(monkeypatch):
    monkeypatch.setattr(estimates, "SLICE", 1 << 15)


@pytest.fixture(scope="module")
def fitted(text):
    return fit_run(text, text.parent / "model", reading=Reading(context=8))


def test_counts_are_close_to_what_is_there(text, fitted):
    said = estimate_fit(text, Reading(context=8))
    assert said.tokens == pytest.approx(fitted["tokens"], rel=0.01)
    assert said.samples == pytest.approx(fitted["samples"], rel=0.1)
    assert said.incidences == pytest.approx(8 * fitted["samples"], rel=0.1)


def test_the_model_is_about_as_large_as_was_said(text, fitted):
    size = sum(f.stat().st_size for f in (text.parent / "model").rglob("*") if f.is_file())
    said = estimate_fit(text, Reading(context=8)).model
    assert said / 3 < size < 3 * said


def test_memory_grows_with_workers_up_to_what_is_allowed(text, monkeypatch):
    monkeypatch.setattr(estimates, "PART", 1000)
    one, two, bound = (
        estimate_fit(text, Reading(context=8), engine="processes", workers=n, memory=m).memory
        for n, m in ((1, None), (2, None), (2, 1))
    )
    assert one < two
    assert bound < two


def test_a_last_token_that_is_divided_takes_less_memory_and_more_disk(text, monkeypatch):
    monkeypatch.setattr(estimates, "PART", 1000)
    whole, shards = (estimate_fit(text, Reading(context=8), shard_size=n) for n in (None, 2000))
    saved = whole.memory - shards.memory
    heaviest = saved / estimates.BYTES + 2000
    assert heaviest > 4000  # incidences of the most frequent last token
    assert shards.disk - whole.disk == pytest.approx(estimates.DIVIDED * heaviest)
    assert (whole.seconds > 0, whole.samples) == (True, shards.samples)


def test_time_is_that_of_the_slices_many_times_over_and_a_little_more(text, monkeypatch):
    ticks = itertools.count(0.0)
    clock = SimpleNamespace(perf_counter=lambda: next(ticks))  # a second for everything
    monkeypatch.setattr(estimates, "time", clock)
    looked = 4 * estimates.SLICE  # and up to a line more each
    more = text.stat().st_size / looked
    # Reading a slice takes a second, cutting its windows twice another two; solving all of them takes one.
    by_hand = (4 * 3 + (4 * more) ** 0.06) * more
    assert estimate_fit(text, Reading(context=8)).seconds == pytest.approx(by_hand, rel=0.01)


def test_reading_options_are_heeded(text):
    lines = estimate_fit(text, Reading(context=8, split="lines"))
    chars = estimate_fit(text, Reading(context=8, tokenizer="chars"))
    assert lines.tokens == pytest.approx(100_000, rel=0.01)
    assert chars.tokens == pytest.approx(text.stat().st_size, rel=0.01)


def test_an_estimate_is_said_in_one_sentence():
    said = Estimate(104_000_000, 20_000_000, 10**9, 1300.0, 8.4e9, 3.4e9, 3.1e9, 2)
    assert said.text() == (
        "about 104 M tokens, 20 M samples: 22 min with 2 workers, 8.4 GB of memory, 3.4 GB of disk on the way, "
        "a model of 3.1 GB"
    )


def test_the_command_says_it_and_writes_nothing(text, tmp_path, call):
    out = tmp_path / "model"
    code, said, _ = call("fit", text, "--context", 8, "-o", out, "--estimate")
    assert code == 0
    assert said.startswith("about 10")
    assert not out.exists()


def test_only_texts_have_one(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"tokens": ["a"], "next": "a"}\n')
    with pytest.raises(UsageError, match="plain text"):
        estimate_fit(tmp_path / "a.jsonl")
    (tmp_path / "a.txt").write_text("a b c")
    with pytest.raises(DataError, match="none of the 4 places"):
        estimate_fit(tmp_path / "a.txt", Reading(context=8))
    assert not takes_long(tmp_path / "a.jsonl")
    assert not takes_long(tmp_path / "nowhere.txt")


DISTINCT = " ".join(f"w{i}" for i in range(30_000))


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (DISTINCT + " a b a b a b a", []),  # the places looked at hold no label a second time
        (DISTINCT + " a b a b a b a", ["--split", "lines"]),  # one long line
        (" \n" * 100_000 + "a b a b a b a", []),  # blank but for its end
        ("x" * 300_000 + " a b a b a", ["--split", "paragraphs"]),
    ],
)
def test_an_estimate_that_cannot_be_made_keeps_nobody_from_fitting(
    call, tmp_path, monkeypatch, content, options
):
    monkeypatch.setattr(estimates, "LARGE", 1000)
    monkeypatch.setattr(estimates, "FARTHEST", 1)
    (tmp_path / "a.txt").write_text(content)
    arguments = ["fit", tmp_path / "a.txt", "--context", 2, "-o", tmp_path / "model", *options]
    code, _, err = call(*arguments)
    assert (code, err.startswith("no estimate: ")) == (0, True), err
    code, _, err = call(*arguments, "--estimate")
    assert (code, "cannot be said before" in err) == (3, True)


def test_an_estimate_is_no_fit_of_one_long_line(tmp_path, monkeypatch):
    """A place that takes far more than a slice is left out, not read to its end."""
    (tmp_path / "a.txt").write_text("a b " * 100_000)
    read = []
    real = estimates.add_text
    monkeypatch.setattr(estimates, "add_text", lambda *a: read.append(a[5]) or real(*a))
    with pytest.raises(DataError):
        estimate_fit(tmp_path / "a.txt", Reading(context=2, split="lines"))
    assert read == []
