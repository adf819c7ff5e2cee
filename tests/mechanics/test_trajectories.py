"""Trajectories of the automaton, and what theory says of their collapse."""

from math import gamma

import numpy as np
import pytest

from attomaton import Automaton, draw_samples, example_samples, samples_from_sequences, solve_limit
from attomaton.errors import DataError, UsageError
from attomaton.mechanics.theory.collapse import collapse_times, fading
from attomaton.mechanics.theory.trajectories import draw_trajectories
from attomaton.numerics import named_rng


def urn(r, more=()):
    """An automaton of two tokens, `b` with odds `r` against `a` after either."""
    rows = [["a", "b"], ["a", "b"], ["b", "a"], ["b", "a"], *(x for x, _ in more)]
    labels = ["a", "b", "a", "b", *(y for _, y in more)]
    return Automaton(
        solve_limit(samples_from_sequences(rows, labels, [1, r, 1, r, *(1 for _ in more)]))
    )


def drawn(seed):
    """An automaton of random data, and a prompt of all of its tokens."""
    samples = draw_samples(named_rng("trajectories, test", seed), 5, 60, 4, repeats=True)
    return Automaton(solve_limit(samples)), [0, 1, 2, 3, 4, 0, 2]


@pytest.mark.parametrize("seed", range(4))
def test_one_trajectory_is_the_continuation_drawn_token_by_token(seed):
    automaton, prompt = drawn(seed)
    run = draw_trajectories(automaton, prompt, trajectories=1, steps=60, seed=seed)
    assert list(run.first) == automaton.sample(prompt, named_rng("trajectories", seed), 60)
    counts = [(prompt + list(run.first)).count(x) for x in run.choices.words]
    assert run.counts[-1, 0].tolist() == counts


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("window", [1, 3, 20])
def test_a_window_is_the_context_of_its_last_tokens(seed, window):
    """A second implementation: the context as a list, asked anew before every draw."""
    automaton, prompt = drawn(seed)
    run = draw_trajectories(automaton, prompt, trajectories=1, steps=40, window=window, seed=seed)
    rng, context, told = named_rng("trajectories", seed), prompt[-window:], []
    for _ in range(40):
        p = automaton.predict_proba(context)
        if not p:
            break
        # Numbers of words go by the prompt, whatever order the context has them in.
        words = [x for x in run.choices.words if x in p]
        edges = np.cumsum([p[x] for x in words])
        told.append(words[int((edges / edges[-1]).searchsorted(rng.random(), side="right"))])
        context = [*context, told[-1]][-window:]
    assert list(run.first) == told
    assert run.counts[-1, 0].tolist() == [context.count(x) for x in run.choices.words]


def test_trajectories_of_one_run_have_the_probabilities_of_the_automaton():
    run = draw_trajectories(urn(0.25), ["a", "b", "b"], trajectories=40_000, steps=2)
    one, two = run.counts[1, :, 0] - 1, run.counts[2, :, 0] - 1
    # After one draw 1/(1 + 2/4) of them hold one more a; after two, both with 2/3 · 2/(2 + 2/4).
    assert one.mean() == pytest.approx(2 / 3, abs=0.01)
    assert (two == 2).mean() == pytest.approx(2 / 3 * 0.8, abs=0.01)


def test_a_trajectory_ends_where_nothing_was_learned():
    automaton = Automaton(solve_limit(example_samples()))
    run = draw_trajectories(automaton, ["dishes", "phone"], trajectories=50, steps=2000)
    at = np.flatnonzero(run.ended >= 0)
    assert len(at) > 40
    assert (run.counts[-1, at].sum(-1) == run.ended[at] + 2).all()
    assert run.first[-1] == "dishes"
    assert "phone" in run.first[:-1] or len(run.first) == 1
    with pytest.raises(DataError, match="Nothing was learned"):
        draw_trajectories(automaton, ["phone", "dishes"])


def test_unknown_tokens_are_left_out_and_sizes_are_checked():
    run = draw_trajectories(urn(0.5), ["nobody", "a", "b"], trajectories=3, steps=5)
    assert run.choices.words == ("a", "b")
    for wrong in (
        {"threshold": 0.5},
        {"steps": 0},
        {"trajectories": 0},
        {"window": 0},
        {"trajectories": 10**9},
    ):
        with pytest.raises(UsageError):
            draw_trajectories(urn(0.5), ["a", "b"], **wrong)


def test_slopes_by_hand():
    """After a: a, b, c with odds 4 : 1 : 0 (c is outranked); after b: a never."""
    rows = [(["b", "c", "a"], "a")] * 4 + [(["b", "c", "a"], "b")] + [(["a", "b"], "b")]
    rows += [(["a", "c"], "a"), (["a", "c"], "c")]
    automaton = Automaton(solve_limit(samples_from_sequences(*zip(*rows, strict=True))))
    choices = automaton.choices(["c", "b", "a"])
    assert choices.words == ("c", "b", "a")
    slope = fading(choices, 2)
    assert slope[0] == pytest.approx(-1)
    assert np.isnan(slope[1]), "b does not lead back to a"
    assert np.isnan(fading(urn(2.0).choices(["a", "b"]), 0)[1]), "b overtakes a"
    assert fading(urn(1.0).choices(["a", "b"]), 0)[1] == pytest.approx(0)


def test_the_mean_share_has_the_constant_of_the_urn():
    """E m_b ~ b₀ Γ(a₀ − r)/Γ(a₀) · n^r, plus ½ as counts are whole: here a₀ = 3, b₀ = 2."""
    many, r = 2000, 0.5
    prompt = ["a"] * 3 + ["b"] * 2
    run = draw_trajectories(urn(r), prompt, trajectories=many, steps=2000)
    expected = 2 * gamma(3 - r) / gamma(3) * run.length[-1] ** r
    assert run.counts[-1, :, 1].mean() == pytest.approx(expected, rel=0.04)


@pytest.mark.parametrize("r", [0.25, 0.5])
def test_collapse_comes_when_the_urn_says(r):
    prompt = ["a"] * 5 + ["b"] * 10  # so many that whole counts do not show
    run = draw_trajectories(urn(r), prompt, trajectories=1000, steps=4000, threshold=0.9)
    law = collapse_times(run.choices, run.threshold)
    at = np.where(run.collapsed < 0, 1 << 40, run.collapsed)
    for share in (0.2, 0.4, 0.6):
        assert np.log(np.quantile(at, share) / np.quantile(law, share)) == pytest.approx(0, abs=0.1)


def test_no_urn_no_time():
    assert collapse_times(urn(1.0).choices(["a", "b"]), 0.95) is None, "a draw without end"
    unlike = urn(0.5, [(["a", "b"], "a")])
    assert collapse_times(unlike.choices(["a", "b"]), 0.95) is None, "odds differ by the last token"
