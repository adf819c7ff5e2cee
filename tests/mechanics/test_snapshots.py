"""Snapshots of a run: which steps and pairs are kept, what they hold, and that an interruption leaves no trace."""

import numpy as np
import pytest

from attomaton import example_samples, samples_from_sequences, train
from attomaton.errors import UsageError
from attomaton.mechanics.experiment.snapshots import FEWEST, SNAPSHOTS, snapshot_steps, watched

ROOM = 8_000_000


@pytest.mark.parametrize("steps", [1, 7, 200, 201, 4000, 10**6, 10**9])
def test_steps_are_few_distinct_and_end_at_the_last(steps):
    found = snapshot_steps(steps)
    assert (found[0], found[-1]) == (0, steps)
    assert (np.diff(found) > 0).all()
    assert min(steps + 1, SNAPSHOTS) - 3 <= len(found) <= SNAPSHOTS
    # Evenly on a log axis, once whole numbers allow it.
    late = found[found > steps / 10].astype(float)
    if steps > 1000:
        assert np.ptp(np.diff(np.log(late))) < 0.02


def by_hand(run, table):
    """Scores of the pairs that were kept, from the parameters a run ended with."""
    kept = run.snapshots
    if run.W is None:
        return run.scores[0]
    E = np.eye(run.W.shape[1]) if table is None else table
    return np.einsum("pa,ab,pb->p", E[kept.token], run.W[0], E[kept.last])


VECTORS = np.random.default_rng(0).normal(size=(12, 5))


@pytest.mark.parametrize(
    ("options", "table"),
    [({"optimizer": "gd", "seeds": 2, "init": "uniform"}, None), ({"optimizer": "adam"}, None),
     ({"optimizer": "muon"}, None), ({"optimizer": "mirror:3"}, None), ({"factorised": True}, None),
     ({"optimizer": "ngd"}, VECTORS), ({"factorised": 3}, VECTORS), ({"layout": "gather"}, None)],
    ids=str,
)  # fmt: skip
def test_the_last_snapshot_holds_the_scores_of_the_end_whatever_trains(options, table):
    run = train(example_samples(), embeddings=table, steps=30, snapshots=ROOM, **options)
    kept = run.snapshots
    assert kept.scores.dtype == np.float32
    assert kept.steps.tolist() == list(range(31))
    assert (kept.pairs, kept.last_tokens, len(kept.last)) == (13, 3, 13)
    np.testing.assert_allclose(kept.scores[-1], by_hand(run, table), rtol=2e-6, atol=2e-6)
    # Keeping them changes nothing of the run itself, and each is what a shorter run ends with.
    without = train(example_samples(), embeddings=table, steps=30, **options)
    both = (run.W, without.W) if run.W is not None else (run.scores, without.scores)
    np.testing.assert_array_equal(*both)
    assert without.snapshots is None
    half = train(example_samples(), embeddings=table, steps=15, snapshots=ROOM, **options)
    np.testing.assert_array_equal(half.snapshots.scores, kept.scores[:16])


class Memory:
    """A checkpoint in memory."""

    def __init__(self):
        self.saved = None

    def load(self):
        return self.saved

    def save(self, arrays):
        self.saved = {name: np.array(x) for name, x in arrays.items()}


@pytest.mark.parametrize("more", [{}, {"factorised": True}, {"embeddings": VECTORS}], ids=str)
def test_a_resumed_run_has_the_snapshots_of_an_unbroken_one(more):
    asked = {"steps": 700, "seeds": 2, "snapshots": ROOM, **more}
    if "factorised" not in more:
        asked["init"] = "uniform"
    memory = Memory()

    def stop(done, total, said):
        if done >= 300:
            raise KeyboardInterrupt

    broken = train(example_samples(), progress=stop, checkpoint=memory, **asked)
    assert broken.status == ["interrupted"] * 2
    assert broken.snapshots.steps[-1] < 700
    again = train(example_samples(), checkpoint=memory, **asked)
    calm = train(example_samples(), checkpoint=Memory(), **asked)
    np.testing.assert_array_equal(again.snapshots.scores, calm.snapshots.scores)
    np.testing.assert_array_equal(again.snapshots.steps, calm.snapshots.steps)
    n = len(broken.snapshots.steps)
    np.testing.assert_array_equal(calm.snapshots.scores[:n], broken.snapshots.scores)


def test_a_small_room_keeps_the_heaviest_last_tokens_then_fewer_snapshots_then_fewer_tokens():
    rng = np.random.default_rng(1)
    contexts = [[*rng.choice(40, 6, replace=False).tolist(), 40 + int(i > 250)] for i in range(300)]
    samples = samples_from_sequences(contexts, [c[0] for c in contexts])
    whole = watched(samples, 1000, ROOM)
    assert len(whole.pair) == whole.pairs
    assert whole.last_tokens == 2
    heavy, marks = samples.last[np.argmax(samples.weight)], len(whole.steps)
    size = int((whole.last == heavy).sum())
    one = watched(samples, 1000, 4 * size * marks)
    assert set(one.last.tolist()) == {heavy}
    assert len(one.steps) == marks
    fewer = watched(samples, 1000, 4 * size * 60)
    assert (len(fewer.pair), len(fewer.steps)) == (size, 60)
    least = watched(samples, 1000, 4 * 10 * FEWEST)
    assert (len(least.pair), len(least.steps)) == (10, FEWEST)
    # The ten tokens that came next most often.
    came = np.bincount(
        samples.label[samples.last == heavy], samples.weight[samples.last == heavy], 42
    )
    assert came[least.token].min() >= np.sort(came)[-10]
    for kept, room in ((one, 4 * size * marks), (fewer, 4 * size * 60), (least, 4 * 10 * FEWEST)):
        assert 4 * len(kept.pair) * len(kept.steps) <= room


def test_snapshots_are_of_one_data_set():
    with pytest.raises(UsageError, match="one data set"):
        train([example_samples()] * 2, steps=2, snapshots=ROOM)
