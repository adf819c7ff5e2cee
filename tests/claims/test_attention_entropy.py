"""Figures 4, 5, 6, 11 and 12 of Scan and Snap, small; and the rules that judge them."""

import numpy as np
import pytest
from scipy.stats import binom

from attomaton.claims import attention_entropy as figures
from attomaton.engine.choose import open_engine
from attomaton.engine.tasks import Task
from attomaton.errors import DataError, UsageError


@pytest.mark.parametrize("figure", [figures.fig4, figures.fig5])
def test_which_tokens_attention_picks(figure):
    found = figure(seeds=2)
    assert (found["verdict"], found["control"]) == ("holds", "fails")
    for row in found["rows"]:
        np.testing.assert_allclose(np.sum(row["attention"], axis=-1), 1, rtol=1e-6)


def test_figure_6_has_64_cells_and_falls_with_eta_z():
    found = figures.fig6(seeds=4)
    assert (found["verdict"], found["control"]) == ("holds", "fails")
    assert len(found["cells"]) == 64
    assert set(found["cells"][0]) == {
        "queries", "eta_z", "ratio", "entropy_mean", "entropy_std", "seeds",
    }  # fmt: skip
    assert found["measured"]["pairs"] == 4 * (4 * 6 + 4 * 3)
    mean = {(c["queries"], c["eta_z"], c["ratio"]): c["entropy_mean"] for c in found["cells"]}
    assert all(mean[q, 3.0, r] < mean[q, 0.5, r] for q in figures.QUERIES for r in figures.RATIOS)
    assert all(0 < value < np.log(10) for value in mean.values())
    names = {f"{q} queries" for q in figures.QUERIES}
    assert set(found["seconds_detail"]) == names | {"control"}


class Memory:
    """A checkpoint that is broken off when it has kept some panels."""

    def __init__(self, most):
        self.kept, self.most = {}, most

    def load(self, name):
        return self.kept.get(name)

    def save(self, name, arrays):
        if len(self.kept) == self.most:
            raise KeyboardInterrupt
        self.kept[name] = arrays


@pytest.fixture(scope="module")
def fig11():
    """Figure 11 without a break, and its panels."""
    memory = Memory(most=9)
    return figures.fig11(seeds=8, checkpoint=memory), memory.kept


@pytest.fixture(scope="module")
def fig12():
    return figures.fig12(seeds=8), None


@pytest.mark.parametrize("figure", ["fig11", "fig12"])
def test_recall_of_distinct_tokens(figure, request):
    found, _ = request.getfixturevalue(figure)
    assert (found["verdict"], found["control"]) == ("holds", "fails")
    assert len(found["rows"]) == 2 * 4 * len(figures.THRESHOLDS)
    assert all(0 <= row["recall_mean"] <= 1 for row in found["rows"])


def test_panels_that_were_finished_are_kept_and_end_in_the_same_figure(fig11):
    (whole, _), told = fig11, []
    memory = Memory(most=1)
    with pytest.raises(KeyboardInterrupt):
        figures.fig11(seeds=8, checkpoint=memory)
    (kept,) = memory.kept
    memory.most = 9
    again = figures.fig11(8, memory, lambda *said: told.append(said))
    assert sorted(memory.kept) == ["control-queries-1", "queries-1", "queries-3"]
    assert kept in memory.kept
    assert [said[:2] for said in told] == [(1, 3), (2, 3), (3, 3)]
    assert {said[2] for said in told} == set(memory.kept)
    for name in ("rows", "measured", "control_measured", "verdict"):
        assert again[name] == whole[name]


@pytest.mark.parametrize(("cores", "tasks_of_12"), [(2, 6), (4, 6), (16, 9)])
def test_streams_trained_apart_and_in_any_order_make_the_same_figure(
    monkeypatch, cores, tasks_of_12
):
    monkeypatch.setattr(figures.os, "cpu_count", lambda: cores)

    def backwards(work, tasks):
        assert len(tasks) == tasks_of_12
        for i in reversed(range(len(tasks))):
            yield i, work(tasks[i])

    whole, apart = figures.fig12(seeds=3), figures.fig12(seeds=3, run=backwards)
    assert apart["rows"] == whole["rows"]
    assert apart["measured"] == whole["measured"]


@pytest.mark.parametrize("workers", [1, 2, 5, 16])
def test_the_figure_is_the_same_to_the_last_bit_for_any_number_of_processes(workers):
    with open_engine("processes", workers) as engine:

        def run(work, tasks):
            yield from engine.run(work, [Task(i, x) for i, x in enumerate(tasks)])
            assert len(engine.pids()) == min(workers, len(tasks))

        found = figures.fig11(seeds=2, run=run)
    here = figures.fig11(seeds=2)
    for name in ("rows", "measured", "control_measured", "verdict", "control"):
        assert found[name] == here[name]


@pytest.mark.parametrize(
    "run", [figures.in_threads, lambda work, tasks: enumerate(map(work, tasks))]
)
@pytest.mark.parametrize("seeds", [0, -1])
def test_a_figure_without_streams_is_refused(seeds, run):
    with pytest.raises(UsageError, match=f"seeds={seeds}: at least 1"):
        figures.fig12(seeds=seeds, run=run)


def test_a_damaged_panel_is_refused(fig11):
    memory = Memory(most=9)
    memory.kept = fig11[1] | {"queries-1": {**fig11[1]["queries-1"], "z": np.zeros((1, 2, 3, 4))}}
    with pytest.raises(DataError, match="does not fit"):
        figures.fig11(seeds=8, checkpoint=memory)


def table(values):
    """Pairs of the rule of figure 6 for one table of entropies, the same on three streams."""
    return figures._judged(figures._predicted_pairs(np.repeat(values[..., None], 3, axis=2)))


def test_the_rule_by_hand():
    rate, ratio = np.arange(4.0)[:, None], np.arange(4.0)[None]
    assert figures._order_verdict(table(2 - 0.1 * rate + 0.1 * ratio)) == "holds"
    assert figures._order_verdict(table(2 + 0.1 * rate + 0.1 * ratio)) == "fails"
    assert figures._order_verdict(table(2 - 0.1 * rate - 0.1 * ratio)) == "fails"
    assert figures._order_verdict(table(2 - 1e-5 * rate + 1e-5 * ratio)) == "fails"
    # Below a ratio of 2 nothing is predicted.
    assert figures._order_verdict(table(2 - 0.1 * rate + 0.1 * abs(ratio - 1))) == "holds"
    assert table(np.full((4, 4), 2.0))["undecided"] == 36


@pytest.mark.parametrize("pairs", [1, 5, 36, 144])
def test_more_pairs_obey_than_chance_would_give(pairs):
    def holds(obey):
        told = {"pairs": pairs, "obey": obey, "contradict": 0, "largest difference": 1.0}
        return figures._order_verdict(told) == "holds"

    by_chance = binom.sf(np.arange(pairs + 1) - 1, pairs, 1 / 40)
    assert [holds(k) for k in range(pairs + 1)] == (by_chance < 0.05).tolist()
    assert holds(pairs)
    assert not holds(0)
