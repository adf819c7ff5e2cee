"""Groups never seen together are not compared by any number of samples; one linking pair mends it.

Two groups of tokens follow one last token that never comes next itself. Without a context that holds tokens of both,
every pair across them is marked as never compared, and their odds do not come nearer the truth however many samples
there are (the control). With one pair of tokens, one of each group, that is seen together in a tenth of the
contexts, all pairs are tied and χ² falls like 1/n.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Float
from attomaton.claims.choice_draws import Bags, Rows, bags_of, chi_squared, drawn_rows
from attomaton.claims.picture import line
from attomaton.corpus.samples import Samples, SetAside
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.mechanics.theory.evidence import seen_together
from attomaton.mechanics.theory.finite import finite_component
from attomaton.mechanics.theory.graph import build_graph
from attomaton.numerics import named_rng, ragged_indices, row_pointer
from attomaton.results import Evidence, Panel, Verdict

K = 8  # tokens, half of them in each group
ROWS = (2000, 8000, 32_000)
LINKED = 10  # one in so many contexts holds the linking pair
SPREAD = 0.7
APART = 1.5  # nats between the groups in the mean, which only a link can tell
FALLS = 10.0  # the error, at least, from the fewest to the most rows


class Seen(NamedTuple):
    """The error at one number of rows; pairs across groups marked as never compared, and those tied, of all."""

    error: float
    apart: float
    tied: float


def _setting(linked: bool) -> tuple[Bags, Float[np.ndarray, " tokens"]]:
    theta = named_rng("disconnected truth", 0).normal(size=K) * SPREAD
    half = K // 2
    theta[half:] += APART
    pairs = [x for g in (0, half) for x in combinations(range(g, g + half), 2)]
    sets = np.array([np.bincount(x, minlength=K) for x in pairs])
    if linked:
        link = np.bincount([0, half], minlength=K)
        sets = np.concatenate([np.tile(sets, (LINKED - 1, 1)), np.tile(link, (len(sets), 1))])
    return bags_of(sets, theta), theta


def _samples(bags: Bags, rows: Rows, draws: int) -> Samples:
    """One last token for each data set, in every context of its own, after the tokens."""
    of, token = np.nonzero(bags.held)
    size = np.bincount(of)
    order = np.lexsort((rows.label, rows.draw))
    draw, kind, label, weight = (x[order] for x in rows)
    many = size[kind]
    at = ragged_indices(row_pointer(size)[:-1][kind], many)
    start = row_pointer(many + 1)
    tokens = np.empty(start[-1], np.int64)
    last = start[1:] - 1
    inside = np.ones(len(tokens), bool)
    inside[last] = False
    tokens[inside], tokens[last] = token[at], K + draw
    return Samples(
        Vocabulary(range(K + draws)), K + draw, label, weight, start, tokens,
        np.ones(len(tokens), np.int64), weight.astype(np.int64), np.arange(len(draw)), SetAside(),
    )  # fmt: skip


def _measure(n: int, draws: int, linked: bool) -> Seen:
    bags, theta = _setting(linked)
    rows = drawn_rows(named_rng(f"disconnected {n} {linked}", 0), bags, draws, n)
    samples = _samples(bags, rows, draws)
    graph = build_graph(samples)
    at = (graph.pair_token < K) & (graph.pair_last >= K)
    group, part = (
        x[at].reshape(draws, K) for x in (seen_together(graph, samples), graph.component)
    )
    score = finite_component(graph, samples).log_pi[at].reshape(draws, K)
    # Of all pairs across the groups, the shares that are not seen together, and that are tied.
    (a, b), (p, q) = ((x[:, : K // 2, None], x[:, None, K // 2 :]) for x in (group, part))
    apart, tied = (a >= 0) & (b >= 0) & (a != b), p == q
    return Seen(float(chi_squared(score, theta).mean()), float(apart.mean()), float(tied.mean()))


def check(draws: int = 40) -> Evidence:
    """The error over the number of rows, with and without a linking pair, and how pairs across groups are marked."""
    linked, apart = ([_measure(n, draws, which) for n in ROWS] for which in (True, False))
    fall, stay = (x[0].error / x[-1].error for x in (linked, apart))
    marked = all(x.apart == 1 and x.tied == 0 for x in apart)
    mended = all(x.apart == 0 and x.tied == 1 for x in linked)
    return Evidence(
        formula="χ²(2,000)/χ²(32,000) → 16 with a linking pair, → 1 without",
        verdict=Verdict.of(marked and mended and fall >= FALLS),
        control=Verdict.of(stay >= FALLS),
        prediction={"fall of the error": ROWS[-1] / ROWS[0]},
        tolerance=f"with a linking pair χ² falls by {FALLS:g} or more; every pair across the groups is marked as never "
        "compared without it, and tied with it",
        reason="an error like 1/n falls by 16; the mean over data sets scatters by some tenths of it",
        measured={"χ² with a linking pair": [x.error for x in linked], "fall": fall,
                  "pairs across never compared, without a link": min(x.apart for x in apart),
                  "pairs across tied, with a link": min(x.tied for x in linked)},
        control_measured={"χ² without a linking pair": [x.error for x in apart], "fall": stay},
        panels=(Panel(
            "Error of the odds", "rows", "χ²",
            [line(ROWS, [x.error for x in linked], "one linking pair", "points"),
             line(ROWS, [x.error for x in apart], "control: never together", "points"),
             line(ROWS, [linked[0].error * ROWS[0] / n for n in ROWS], "1/n", "theory")],
            xscale="log", yscale="log", xticks=list(ROWS),
        ),),
        settings={"draws": draws, "tokens": K, "rows": list(ROWS), "one link in": LINKED},
    )  # fmt: skip
