"""Training in NumPy, class by class, against the compiled program; and exponentials out of range."""

import numpy as np
import pytest

from attomaton.base import programs
from attomaton.scan_snap.data import sequence_classes
from attomaton.scan_snap.experiment import blocks, train
from attomaton.scan_snap.experiment.train import train_sampled
from attomaton.scan_snap.families import random_overlap, single_common, syn_medium

FAMILIES = {
    "syn-medium-3": syn_medium(3),
    "laws of their own": random_overlap(np.random.default_rng(1), 6, 3, 0.5, queries=3),
    # Queries not in the order of the classes, a class without distinct tokens, another without common ones, and common
    # tokens that only some classes have.
    "uneven": sequence_classes(
        [
            [0.5, 0.25, 0.25, 0, 0, 0, 0, 0, 0, 0, 0],
            [0, 0, 0.4, 0, 0.3, 0.3, 0, 0, 0, 0, 0],
            [0, 0, 0, 1.0, 0, 0, 0, 0, 0, 0, 0],
            [0, 0.5, 0.5, 0, 0, 0, 0, 0, 0, 0, 0],
        ],
        [7, 6, 7, 6],
        [8, 9, 10, 0],
    ),
    "one common": single_common(),
}


def both(monkeypatch, classes, **asked):
    """The same trainings in NumPy and compiled."""
    for turns in (10**9, 0):
        monkeypatch.setattr(train, "TURNS", turns)
        yield train_sampled(classes, **asked)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    ("optimizer", "normalise"),
    [("momentum", "l2"), ("momentum", "none"), ("adam", "l2"), ("sgd", "l2")],
)
def test_numpy_and_compiled_agree(name, optimizer, normalise, monkeypatch):
    classes = FAMILIES[name]
    prior = np.linspace(-1, 1, len(classes.context_tokens))
    here, compiled = both(
        monkeypatch, classes, eta_y=[1.0, 5.0], eta_z=[1.0, 0.5], seeds=2, steps=12, every=5, T=20, batch=24,
        optimizer=optimizer, normalise=normalise, precision="float64", start="uniform", bias=prior,
    )  # fmt: skip
    # Sums are taken in another order: a few units of the last place, and Adam divides by small gradients.
    np.testing.assert_allclose(here.z, compiled.z, atol=1e-9)
    for record, values in compiled.records.items():
        np.testing.assert_allclose(here.records[record], values, rtol=1e-7, atol=1e-9)
    assert here.status == compiled.status


def test_single_precision_agrees_to_its_digits(monkeypatch):
    here, compiled = both(
        monkeypatch, syn_medium(3), eta_y=[1.0, 10.0], eta_z=[1.0, 3.0], steps=60, every=20,
        optimizer="momentum", start="uniform",
    )  # fmt: skip
    np.testing.assert_allclose(here.z, compiled.z, atol=1e-4)
    np.testing.assert_allclose(here.entropy, compiled.entropy, atol=1e-4)


def test_a_context_far_below_its_class_attends_as_if_alone():
    # Token 0 has almost all of the class's weight; a context without it shares attention among the others.
    z = np.array([[[200.0, 1.0, 0.0]], [[0.0, 1.0, 0.0]]], np.float32)
    counts = np.array([[0.0, 2.0, 1.0], [1.0, 2.0, 1.0]], np.float32)
    f = blocks._features(z, np.array([0, 0]), counts, np.ones((1, 3), np.float32), "l2")
    alone = np.array([0.0, 2 * np.e, 1.0]) / np.hypot(2 * np.e, 1)
    np.testing.assert_allclose(f[0], [alone, [1, 0, 0]], rtol=1e-6)
    np.testing.assert_allclose(f[1, 0], alone, rtol=1e-6)


def test_large_logits_keep_their_softmax():
    logits = np.array([[[500.0, 499.0, 0.0]], [[-300.0, -301.0, -300.0]]], np.float32)
    found = np.empty_like(logits)
    with np.errstate(over="ignore"):  # as training has it
        blocks._softmax(logits, found)
    e = np.exp(logits.astype(float) - logits.max(axis=-1, keepdims=True))
    np.testing.assert_allclose(found, e / e.sum(axis=-1, keepdims=True), rtol=1e-6, atol=1e-38)


@pytest.mark.parametrize(
    ("named", "products", "by_numpy"),
    [("", 1e3, True), ("cuda", 1e3, False), ("", train.BRIEF * 2, False)],
)
def test_another_device_is_started_for_long_work_or_when_it_is_named(
    named, products, by_numpy, monkeypatch
):
    class Compiled(Exception):
        pass

    def compiled(course):
        raise Compiled

    monkeypatch.setenv("JAX_PLATFORMS", named)
    monkeypatch.setattr(programs, "on_processors", lambda: False)
    monkeypatch.setattr(train, "on_processors", lambda: False)
    monkeypatch.setattr(train, "_work", lambda course: products)
    monkeypatch.setattr(train, "_compiled", compiled)
    if by_numpy:
        assert train_sampled(single_common(), eta_y=1.0, eta_z=1.0, steps=2).status == ("finished",)
    else:
        with pytest.raises(Compiled):
            train_sampled(single_common(), eta_y=1.0, eta_z=1.0, steps=2)
