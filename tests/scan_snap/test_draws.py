"""Contexts drawn in NumPy: number for number those a compiled program draws, and the published cipher."""

from functools import partial

import jax
import numpy as np
import pytest

from attomaton.scan_snap.experiment import draws
from attomaton.scan_snap.experiment.draws import draw, draw_contexts, sampler_of, stream_key
from attomaton.scan_snap.families import random_overlap, syn_medium, syn_small

FAMILIES = {
    "one law of slots": syn_small(),
    "many classes": syn_medium(5),
    "laws of their own": random_overlap(np.random.default_rng(1), 4, 3, 0.5, queries=2),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("T", "batch"), [(128, 32), (2, 1), (300, 7)])
def test_numpy_draws_what_a_compiled_program_draws(name, T, batch, monkeypatch):
    classes, steps = FAMILIES[name], 5
    monkeypatch.setattr(draws, "BLOCK", 2)  # keys of several blocks
    of_class, counts = draw_contexts(classes, T=T, batch=batch, steps=steps, index=3, seed=5)
    program = jax.jit(jax.vmap(partial(draw, T, batch), in_axes=(None, None, 0)))
    sampler = jax.device_put(sampler_of(classes))
    n, slots = program(sampler, stream_key(np.uint32(5), 3), np.arange(steps))
    np.testing.assert_array_equal(of_class, n)
    np.testing.assert_array_equal(counts[..., classes.context_tokens], slots)
    assert (counts.sum(axis=-1) == T - 1).all()


def test_batches_that_are_kept_are_those_that_are_drawn(monkeypatch):
    asked = {"T": 64, "batch": 16, "steps": 4, "seed": 9}
    kept = draw_contexts(syn_small(), **asked)
    again = draw_contexts(syn_small(), **asked)
    monkeypatch.setattr(draws, "KEPT", 0)
    fresh = draw_contexts(syn_small(), **asked)
    for a, b, c in zip(kept, again, fresh, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


def test_the_cipher_against_its_published_answer():
    # The first known answer of Threefry-2x32 with 20 rounds, as published with it: key and counter 0.
    zero = draws._words(0)
    a, b = draws._threefry((zero, zero), zero)
    assert (int(a[0]), int(b[0])) == (0x6B200159, 0x99BA4EFE)
