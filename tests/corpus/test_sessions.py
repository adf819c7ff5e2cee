"""Drawn sessions: the rules they follow, what a fit finds in them, and what their page shows."""

import io
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading
from attomaton.corpus.sessions import draw_sessions, write_sessions
from attomaton.errors import UsageError
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.numerics import named_rng

FILE = re.compile(
    r"^`([a-z.]+)`:\n\n```\w+\n(.*?)```", re.MULTILINE | re.DOTALL
)  # shown on the page
TOLD = r": (events are in the order of column|taken as if you had said) "
PAGE = Path(__file__).parents[2] / "docs" / "event_logs.md"


@pytest.fixture(scope="module")
def log():
    return draw_sessions(named_rng("synth", 0))


def of_user(log, u):
    return [log.names[x] for x in log.item[log.user == u]]


def test_a_log_as_asked_for(log):
    assert (len(log.item), np.bincount(log.user).tolist()) == (10_000, [50] * 200)
    assert log.names == [f"song{i}" for i in range(1, 17)] + [f"film{i}" for i in range(1, 9)]
    assert (np.diff(log.minute) >= 0).all()
    for u in range(3):
        assert (np.diff(log.minute[log.user == u]) > 0).all()
    assert np.log(log.appeal[:16]).tolist() == pytest.approx(np.linspace(1, -1, 16).tolist())


def test_the_seed_decides(log):
    assert (draw_sessions(named_rng("synth", 0)).item == log.item).all()
    assert (draw_sessions(named_rng("synth", 1)).item != log.item).any()


def test_nobody_returns_to_a_film(log):
    for u in range(200):
        films = [x for x in of_user(log, u) if x.startswith("film")]
        assert len(films) == len(set(films))


def repeats(log):
    """The share of events that repeat something, and how far back it was."""
    back = []
    for u in range(log.user.max() + 1):
        items = log.item[log.user == u].tolist()
        back += [items[:t][::-1].index(items[t]) + 1 for t in range(50) if items[t] in items[:t]]
    return len(back) / len(log.item), np.mean(np.array(back) == 1)


def test_recency_brings_back_what_was_just_there(log):
    recent = draw_sessions(named_rng("synth", 0), recency=2.0)
    even = draw_sessions(named_rng("synth", 0), recency=0.0)
    new = draw_sessions(named_rng("synth", 0), again=0.1)
    assert repeats(recent)[1] > repeats(even)[1] + 0.1
    assert repeats(log)[0] > repeats(new)[0] + 0.05


@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "log.parquet", "log.jsonl"])
def test_every_kind_of_file_holds_the_same_windows(log, tmp_path, name):
    context = 7 if name.endswith("jsonl") else None
    found = read_windows(
        write_sessions(log, tmp_path / name, context), Reading(context=None if context else 7)
    )
    v, rows = found.vocabulary, []
    for left, length, label in zip(found.left, found.length, found.label, strict=True):
        rows.append((tuple(v[x] for x in found.ids[left : left + length]), v[label]))
    expected = []
    for u in range(200):
        items = of_user(log, u)
        expected += [(tuple(items[max(0, t - 7) : t]), items[t]) for t in range(1, 50)]
    assert sorted(rows) == sorted(expected)
    assert (found.documents, found.too_short) == ((0, 0) if context else (200, 0))


def found(path, **rules):
    """What a fit says about 1,000 users: correlation with appeal and frequency, slope, the last item's excess."""
    log = draw_sessions(named_rng("synth", 0), users=1000, **rules)
    limit = solve_limit(read_windows(write_sessions(log, path), Reading(context=20)).samples())
    graph, v = limit.graph, limit.graph.vocabulary
    name = {x: i for i, x in enumerate(log.names)}
    last = np.array([name[v[q]] for q in graph.pair_last])
    item = np.array([name[v[x]] for x in graph.pair_token])
    tied = graph.component_size[graph.component] > 1
    assert not tied[item >= 16].any()  # no film shares a component
    score = limit.finite.coefficient
    mean = np.array([score[tied & (item == x) & (last != x)].mean() for x in range(16)])
    own = tied & (item == last)
    appeal, frequency = np.log(log.appeal[:16]), np.log(np.bincount(log.item)[:16])
    return {
        "appeal": np.corrcoef(mean, appeal)[0, 1],
        "frequency": np.corrcoef(mean, frequency)[0, 1],
        "slope": np.polyfit(appeal, mean, 1)[0],
        "own": (score[own] - mean[item[own]]).mean(),
    }


def test_a_fit_finds_the_appeal_and_not_the_frequency(tmp_path):
    """The figures of the page, which gives two digits."""
    path = tmp_path / "log.parquet"
    told = {"appeal": 0.92, "frequency": 0.57, "slope": 0.56, "own": 0.17}
    assert found(path) == pytest.approx(told, abs=0.005)
    assert found(path, recency=0.0)["own"] == pytest.approx(-0.06, abs=0.005)
    assert found(path, again=0.9)["slope"] == pytest.approx(0.90, abs=0.005)


@pytest.mark.parametrize(
    ("size", "name", "context"),
    [((0, 50, 24), "a.csv", None), ((2, 1, 24), "a.csv", None), ((2, 5, 2), "a.csv", None),
     ((2, 5, 6), "a.txt", None), ((2, 5, 6), "a.csv", 3), ((2, 5, 6), "a.jsonl", None),
     ((2, 5, 6), "a.jsonl", 0), ((2, 5, 6), "no/a.csv", None)],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(tmp_path, size, name, context):
    with pytest.raises(UsageError):
        write_sessions(draw_sessions(named_rng("synth", 0), *size), tmp_path / name, context)
    assert list(tmp_path.iterdir()) == []


def shown():
    """The page's commands and what it shows of their output."""
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        for part in block.split("$ ")[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def pattern(output):
    """Seconds and residuals vary from machine to machine; a line `…` stands for any lines."""
    text = re.escape(output)
    text = re.sub(r"\d\\\.\de[\\+-]+\d\d", r"\\S+", text)
    text = re.sub(r"\\\(\d+\\\.\d\\ s\\\)", r"\\(\\S+ s\\)", text)
    return re.sub(r"^…\\\n", "(?:.*\n)*", text, flags=re.MULTILINE)


def test_the_page_shows_what_its_commands_print(call, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    commands = list(shown())
    assert len(commands) >= 11
    for name, content in FILE.findall(PAGE.read_text(encoding="utf-8")):
        Path(name).write_text(content, encoding="utf-8")
    for command, output in commands:
        program, *arguments = shlex.split(command)
        assert program == "attomaton"
        if "<" in arguments:
            *arguments, _, file = arguments
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(file).read_bytes())))
        code, out, err = call(*arguments)
        assert code == 0, err
        assert all(re.search(TOLD, line) for line in err.splitlines())
        assert re.fullmatch(pattern(output), out), f"{command}\n{out}"
