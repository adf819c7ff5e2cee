"""Training of any form: what it learns, and that what is written is read back as it was."""

import numpy as np
import pytest

from attomaton.errors import UsageError
from attomaton.trained.folder import read_trained
from attomaton.trained.fresh import fresh_weights
from attomaton.trained.train import Schedule, train_form
from attomaton.trained.write import gpt2_form, write_gpt2, write_model


@pytest.fixture(scope="module")
def trained():
    """A model that learned to name the first token of two."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 5, (512, 2))
    form = gpt2_form(5, 8, 1, 2, 4, hidden=8, tied=False)
    schedule = Schedule(steps=120, batch=64, lr=2e-2, warmup=5)
    courses = list(train_form(form, np.concatenate([rows, rows[:, :1]], axis=1), schedule, marks=2))
    return form, courses


def test_the_loss_falls_far_below_chance(trained):
    _, courses = trained
    assert [x.step for x in courses] == [60, 120]
    assert courses[-1].loss[0] == pytest.approx(np.log(5), abs=0.02)
    assert courses[-1].loss[-10:].mean() < 0.4
    assert len(courses[0].loss) == 60


def test_what_is_written_is_read_back_to_the_last_bit(trained, tmp_path, witness):
    form, courses = trained
    write_gpt2(tmp_path / "model", form, courses[-1].weights, list("abcde"))
    model = read_trained(tmp_path / "model")
    assert model.form == form
    for mine, theirs in zip(courses[-1].weights.blocks, model.weights.blocks, strict=True):
        assert (mine is None and theirs is None) or (np.asarray(mine) == theirs).all()
    logits, _ = witness.forward(model.form, model.weights, [3, 1])
    assert logits[-1].argmax() == 3
    with pytest.raises(UsageError, match="is not empty"):
        write_model(tmp_path / "model", {}, {})


def test_too_few_contexts_are_refused():
    form = gpt2_form(5, 8, 1, 2, 4)
    with pytest.raises(UsageError, match="too few for batches of 64"):
        next(train_form(form, np.zeros((3, 3), int), Schedule()))


def test_fresh_weights_have_norms_of_one_and_no_shift():
    form = gpt2_form(5, 8, 2, 2, 4)
    one, again, other = (fresh_weights(form, seed) for seed in (0, 0, 1))
    assert (one.U == again.U).all()
    assert (one.U != other.U).any()
    assert (one.blocks.scale_1 == 1).all()
    assert (one.blocks.b_Q == 0).all()
    assert one.blocks.W_1.std() == pytest.approx(0.02, rel=0.1)
