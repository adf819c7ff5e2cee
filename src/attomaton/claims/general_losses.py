r"""Theorem 3: the regularisation path of losses $\ell(u)$ of the attention u on the label ends where T2's does.

$W_R = \arg\min_{\|W\| \le R} L$ tends in direction to W_svm, its part in S_fin into the minimisers over S_fin of
$L_\infty(W) = \lim_R L(W + R\,W_{svm})$. Two conditions go with it that the theorem does not name:

- $L_\infty$ has a minimiser. Where $\ell$ is bounded it may pay to give up the rarer of two tied labels; then ties
  are broken, and the direction is another one.
- $\ell'$ does not vanish where u ends. $\ell = (1-u)^2$ has slope 0 at u = 1: samples whose label ends up alone lose
  $e^{-2m}$ at margin m, those that keep a tie lose $e^{-m}$. The first need half the margin, and the path tends to the
  shortest W with margins of 1 over what tied samples outrank and ½ over the rest: without ties ½ W_svm.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Float
from attomaton.claims.cases import (
    Case,
    Given,
    assumptions,
    cyclic_cases,
    judged,
    not_applicable,
    refuted,
    sizes,
)
from attomaton.claims.controls import shuffled_limits
from attomaton.claims.measure import in_space
from attomaton.claims.picture import line
from attomaton.corpus.samples import Samples
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import counted
from attomaton.mechanics.data import Embeddings
from attomaton.mechanics.experiment.minima import Minimum, lowest_minima
from attomaton.mechanics.theory.finite import FiniteSubspace, cyclic_samples
from attomaton.mechanics.theory.limit import Limit
from attomaton.mechanics.theory.svm import solve_whitened
from attomaton.numerics import cosine
from attomaton.results import Assumption, Evidence, Line, Panel

K, D, N, T = 6, 8, 8, 4
LOSS = {
    "logistic-score": lambda u: np.log1p(np.exp(-u)),
    "squared-score": lambda u: np.square(1 - u),
}
ORDER = {"logistic-score": 1, "squared-score": 2}  # ℓ(u) − ℓ(1) ~ (1 − u)^order near u = 1
LAMBDAS = (1e-6, 1e-8, 1e-10, 1e-12)
STILL = 1e-3  # of its norm, by which a finite minimiser may still move while the price falls
ALIGNED = 0.985
NEAR = 1e-6  # of L_∞ above its minimum
FAR = 200.0  # multiple of W_svm that stands for infinity: e^−200 is nothing beside a loss
CLOSER = 1e-6  # of a cosine: rounding where both ends are on the direction
CASES, MOST = 4, 60  # of a user's last tokens, and tokens seen with each


class Path(NamedTuple):
    """One data set's path under one loss: its part inside S_fin, the rest, and where the rest is to go."""

    minima: list[Minimum]
    inside: list[Float[np.ndarray, "*shape"]]
    outside: list[Float[np.ndarray, "*shape"]]
    predicted: Float[np.ndarray, "*shape"]

    @property
    def cosines(self) -> list[float]:
        """With what is predicted, at every radius."""
        return [cosine(x, self.predicted) for x in self.outside]


def _tables(cases: Sequence[Case]) -> list[Embeddings] | None:
    return [c.embeddings for c in cases if c.embeddings is not None] or None


def finite_values(
    cases: Sequence[Case], loss: str, among: Sequence[Samples] = ()
) -> list[float | None]:
    """The minimum of L_∞ over S_fin of each data set; None where it has none: W grows as its price falls."""
    kept = [cyclic_samples(c.limit.graph, c.samples) for c in cases]
    some = [i for i, s in enumerate(kept) if len(s)]
    alone = float(LOSS[loss](1.0))  # of a sample whose label has no tie
    found: list[float | None] = [alone] * len(cases)
    ends = lowest_minima(
        [kept[i] for i in some], (1e-6, 1e-9), _tables([cases[i] for i in some]), loss=loss, starts=1,
        among=among,
    ) if some else []  # fmt: skip
    for i, (early, late) in zip(some, ends, strict=True):
        share = kept[i].total_weight / cases[i].samples.total_weight
        stays = late.radius - early.radius <= STILL * max(1.0, late.radius)
        found[i] = share * late.loss + (1 - share) * alone if stays else None
    return found


def direction(case: Case, order: int) -> Float[np.ndarray, "*shape"]:
    """The shortest W that is 0 on ties, ≥ 1 over what samples with a tie outrank and ≥ 1/order over the rest."""
    s, graph = case.samples, case.limit.graph
    of = s.sample_of
    winner, loser = graph.pairs(s.last, s.label)[of], graph.pairs(s.last[of], s.token)
    tied = graph.component[winner] == graph.component[loser]
    alone = np.add.reduceat(tied, s.start[:-1], dtype=int)[of] == 1
    margin: dict[tuple[int, int], float] = {}
    for i, j, quick in np.column_stack([winner, loser, alone])[~tied].tolist():
        edge = (i, j)
        margin[edge] = max(margin.get(edge, 0.0), 1 / order if quick else 1.0)
    space = FiniteSubspace(graph, case.embeddings)
    rows = []
    for edge, least in margin.items():
        row = np.zeros(len(graph.pair_last))
        row[list(edge)] = 1.0, -1.0
        row = row if case.embeddings is None else case.limit.dense(row)
        rows.append((row - space.part(row)) / least)
    flat = np.array(rows).reshape(len(rows), -1)
    return (solve_whitened(flat) @ flat).reshape(rows[0].shape)


def _paths(cases: Sequence[Case], loss: str, among: Sequence[Samples]) -> list[Path]:
    found = lowest_minima(
        [c.samples for c in cases], LAMBDAS, _tables(cases), loss=loss, among=among
    )
    paths = []
    for case, minima in zip(cases, found, strict=True):
        space = FiniteSubspace(case.limit.graph, case.embeddings)
        inside = [space.part(x.params) for x in minima]
        outside = [x.params - y for x, y in zip(minima, inside, strict=True)]
        paths.append(Path(minima, inside, outside, direction(case, ORDER[loss])))
    return paths


def _limit_loss(case: Case, inside: np.ndarray, loss: str) -> float:
    """L_∞ of a member of S_fin."""
    from attomaton.mechanics.experiment.model import attention_of

    s = case.samples
    attention = attention_of(
        s, inside + FAR * in_space(case.limit, case.limit.svm), case.embeddings
    )
    own = s.token == s.label[s.sample_of]
    return float(s.weight @ LOSS[loss](attention[own]) / s.total_weight)


def _uneven(E: Embeddings) -> Case:
    """One label wins three times of four: under the logistic loss it pays to give up the other."""
    samples = samples_from_sequences(
        [[0, 1, 2]] * 4, [0, 0, 0, 1], vocabulary=Vocabulary(range(len(E.E)))
    )
    return Case(samples, E)


def _small(given: Given) -> list[Case]:
    """The heaviest last tokens with few enough tokens for a matrix of curvature at every step."""
    seen = given.samples.pair_index()[0] // len(given.samples.vocabulary)
    lasts, tokens = np.unique(seen, return_counts=True)
    return given.heaviest(lasts[tokens <= MOST], CASES)


def check(problems: int = 3, given: Given | None = None) -> Evidence:
    """Theorem 3 for two losses on random data sets with ties, or on a user's."""
    many = 2 * problems + 2  # more than are asked for: not all have a finite minimiser
    every = cyclic_cases("general losses", many, K, D, N, T) if given is None else _small(given)
    hard = [c for c in every if c.limit.svm.norm > 0]
    among = [c.samples for c in hard]
    values = [finite_values(hard, loss, among) if hard else [] for loss in ORDER]
    settled = [i for i, each in enumerate(zip(*values, strict=True)) if None not in each]
    some = Assumption(
        "W_svm ≠ 0, and L_∞ has a minimiser over S_fin", bool(settled),
        f"under both losses in {len(settled)} of {counted(len(every), 'data set')}; the others are left out"
        + ("" if given is None else f" (looked at are the heaviest last tokens of at most {MOST} tokens)"),
    )  # fmt: skip
    about = (*assumptions(every), some) if given is None else (given.realizable, some)
    if not settled:
        return not_applicable(*about)
    chosen = settled if given is not None else settled[:problems]
    kept = [hard[i] for i in chosen]
    floor = {
        loss: [float(v[i] or 0) for i in chosen] for loss, v in zip(ORDER, values, strict=True)
    }
    paths = {loss: _paths(kept, loss, among) for loss in ORDER}
    own = [in_space(c.limit, c.limit.svm) for c in kept]
    wrong = [in_space(x, x.svm) for x in shuffled_limits(kept, "general losses control")]
    measured, control, red = {}, {}, list[bool]()
    for loss, found in paths.items():
        measured[f"{loss}: cosine with what is predicted"] = [p.cosines[-1] for p in found]
        measured[f"{loss}: L_∞(Π_fin W_R) above its minimum"] = [
            _limit_loss(c, p.inside[-1], loss) - least
            for c, p, least in zip(kept, found, floor[loss], strict=True)
        ]
        measured[f"{loss}: share of starts that ended higher"] = [
            sum(m.higher for m in p.minima) / sum(m.starts for m in p.minima) for p in found
        ]
        ends = [p.outside[-1] for p in found]
        shuffled = [cosine(x, W) for x, W in zip(ends, wrong, strict=True)]
        control[f"{loss}: cosine with W_svm of shuffled labels"] = shuffled
        red += [x < ALIGNED for x in shuffled]
        if ORDER[loss] > 1:
            control[f"{loss}: cosine with W_svm"] = [
                cosine(x, W) for x, W in zip(ends, own, strict=True)
            ]
            # Where both are one direction, as without ties, there is nothing to tell apart.
            red += [
                cosine(p.outside[-1], W) < p.cosines[-1]
                for p, W in zip(found, own, strict=True)
                if cosine(p.predicted, W) < ALIGNED
            ]
    ways = [p.cosines for found in paths.values() for p in found]
    coming = all(way[-1] >= way[0] - CLOSER for way in ways)
    gaps = [x for name, values in measured.items() if "L_∞" in name for x in values]
    holds = coming and min(way[-1] for way in ways) >= ALIGNED and max(map(abs, gaps)) <= NEAR
    if given is None:
        assert kept[0].embeddings is not None
        uneven = _uneven(kept[0].embeddings)
        (path,) = _paths([uneven], "logistic-score", among)
        off = cosine(path.minima[-1].params, in_space(uneven.limit, uneven.limit.svm))
        control["logistic-score: cosine with W_svm where L_∞ has no minimiser"] = [off]
        red.append(off < ALIGNED)
    return Evidence(
        formula="W_R/R → W_svm/‖W_svm‖ if ℓ'(1) < 0;  ℓ = (1 − u)²: margins 1 over what tied samples outrank, ½ else",
        assumptions=about,
        verdict=judged(holds, given, coming),
        control=refuted(red, given),
        prediction={
            "‖W_svm‖": [c.limit.svm.norm for c in kept],
            **{f"{loss}: min L_∞": value for loss, value in floor.items()},
        },
        tolerance=(
            f"at λ = {LAMBDAS[-1]:g}: cosine ≥ {ALIGNED} outside S_fin, not smaller than at {LAMBDAS[0]:g}; "
            f"L_∞ within {NEAR:g}"
        ),
        reason="the angle falls like 1/R, and R grows by log(1/λ) only; each W_λ is W_R at R = ‖W_λ‖",
        measured=measured,
        control_measured=control,
        panels=_panels(paths, [c.limit for c in kept]),
        settings={
            "problems": len(kept),
            "λ": list(LAMBDAS),
            "random starts": 3,
            **sizes(given, K=K, d=D, n=N, T=T),
        },
    )


def _panels(paths: dict[str, list[Path]], limits: Sequence[Limit]) -> tuple[Panel, ...]:
    panels = []
    for loss, title in (
        ("logistic-score", "ℓ(u) = log(1 + e^−u)"),
        ("squared-score", "ℓ(u) = (1 − u)²"),
    ):
        lines: list[Line] = []
        for i, (path, limit) in enumerate(zip(paths[loss], limits, strict=True)):
            R = [m.radius / limit.svm.norm for m in path.minima]
            ends = {"with what is predicted": path.predicted}
            if ORDER[loss] > 1:
                ends["control: with W_svm"] = in_space(limit, limit.svm)
            for number, (name, end) in enumerate(ends.items()):
                apart = np.arccos(np.minimum([cosine(y, end) for y in path.outside], 1.0))
                lines.append(line(R, apart, None if i else name, colour=number))
        panels.append(
            Panel(title, "R/‖W_svm‖", "angle (radians)", lines, xscale="log", yscale="log")
        )
    return tuple(panels)
