"""The data a claim of Mechanics is put to: drawn at random, or a user's own; and what its theorems assume of them.

With orthonormal embeddings nothing couples samples of different last tokens, so a user's data set is looked at one last
token at a time: each is a problem of its own, trained on its own scale, and a corpus of any size can be looked at in
part.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attomaton.base.shapes import Int
from attomaton.corpus.samples import Samples
from attomaton.errors import counted
from attomaton.mechanics.data import Embeddings, check_embeddings
from attomaton.mechanics.synthetic import draw_samples, unit_embeddings
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.numerics import named_rng
from attomaton.results import Assumption, Evidence, Verdict

REALIZABLE = "Assumption 2: every label occurs in its context"
CASES = 8  # last tokens of a user's data that are looked at, heaviest first
CELLS = 4_000  # rows times tokens of a sample, in one of them


@dataclass(frozen=True, eq=False)
class Case:
    """One data set put to a claim; without embeddings they are the standard basis."""

    samples: Samples
    embeddings: Embeddings | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what is trained: W, or the scores of the pairs."""
        E = self.embeddings
        return (len(self.samples.pair_index()[0]),) if E is None else (E.E.shape[1],) * 2

    @cached_property
    def limit(self) -> Limit:
        """Where training ends, by theory."""
        return solve_limit(self.samples, self.embeddings)


@dataclass(frozen=True, eq=False)
class Given:
    """A user's data: their realizable samples, and what was found of the first assumption."""

    samples: Samples
    realizable: Assumption

    @cached_property
    def cases(self) -> list[Case]:
        """The heaviest last tokens that have something to learn, each with its samples, none of them too large."""
        return self.heaviest(np.unique(self.samples.last), CASES)

    def heaviest(self, among: Int[np.ndarray, " lasts"], most: int) -> list[Case]:
        """So many of these last tokens, the heaviest that are not too large (if all are, the smallest)."""
        s = self.samples
        lasts, first = np.unique(s.last, return_index=True)
        parts = np.split(np.arange(len(s)), first[1:])
        weight = np.add.reduceat(s.weight, first)
        widest = np.maximum.reduceat(s.size, first)
        cells = widest * np.diff(first, append=len(s))
        able = np.flatnonzero((widest > 1) & np.isin(lasts, among))
        fit = able[cells[able] <= CELLS]
        if not len(fit):
            fit = able[np.argsort(cells[able])[:1]]
        chosen = fit[np.argsort(-weight[fit], kind="stable")][:most]
        return [Case(s.take(parts[i])) for i in sorted(chosen)]

    @property
    def looked_at(self) -> Assumption:
        """Which part of the data the cases are."""
        all_lasts = len(np.unique(self.samples.last))
        share = sum(c.samples.total_weight for c in self.cases) / self.samples.total_weight
        found = (
            f"{len(self.cases)} of {counted(all_lasts, 'last token')}, {share:.1%} of the weight: "
            f"{', '.join(repr(c.samples.vocabulary[c.samples.last[0]]) for c in self.cases)}"
            f" (at most {CASES}, heaviest first, of at most {CELLS:,} cells each; scores of pairs, never a dense W)"
        )
        return Assumption("orthonormal embeddings: last tokens train apart", True, found)


def drawn_case(
    name: str, i: int, tokens: int, d: int, n: int, T: int, spread: float = 0.0, **how: Any
) -> Case:
    """Random data set number i of a claim (drawn as `how` says), its embeddings random and 1 ± `spread` long."""
    rng = named_rng(name, i)
    samples = draw_samples(rng, tokens, n, T, **how)
    E = unit_embeddings(rng, tokens, d)
    if spread:
        E = E * rng.uniform(1 - spread, 1 + spread, (tokens, 1))
    return Case(samples, check_embeddings(E))


def cyclic_cases(name: str, problems: int, tokens: int, d: int, n: int, T: int) -> list[Case]:
    """Random data sets of a claim that have cycles; in every second one contexts may repeat tokens."""
    return [
        drawn_case(name, i, tokens, d, n, T, kind="cyclic", repeats=i % 2 == 0)
        for i in range(problems)
    ]


def assumptions(
    cases: Sequence[Case], given: Given | None = None, masked: bool = False
) -> tuple[Assumption, ...]:
    """Assumptions 1 and 2 of the paper, looked at on the data themselves.

    Where the loss is `masked`, the attention on the label by definition, no head is needed that reads it off.
    """
    if given is not None:
        return given.realizable, given.looked_at
    sets = [c.samples for c in cases]
    inside = sum(int((s.token == s.label[s.sample_of]).sum()) for s in sets)
    total = sum(len(s) for s in sets)
    found = f"{inside} of {total} distinct samples in {counted(len(sets), 'data set')}"
    labels = Assumption(REALIZABLE, inside == total, found)
    return labels, _masked(cases) if masked else _apart(cases)


def _masked(cases: Sequence[Case]) -> Assumption:
    few = sum(c.embeddings is not None and not c.embeddings.independent for c in cases)
    found = f"{few} of {counted(len(cases), 'data set')} with dependent ones"
    return Assumption("any embeddings: the loss is of the attention on the label", True, found)


def _apart(cases: Sequence[Case]) -> Assumption:
    """Assumption 1: independent embeddings, so that a head can read off each token's mass."""
    name = "Assumption 1: embeddings are independent"
    tables = [c.embeddings for c in cases if c.embeddings is not None]
    if not tables:
        return Assumption(name, True, "orthonormal: the standard basis")
    singular = [np.linalg.svd(E.E, compute_uv=False) for E in tables]
    ratio = min(float(s[-1] / s[0]) for s in singular)
    apart = all(E.independent for E in tables)
    return Assumption(name, apart, f"smallest singular value ≥ {ratio:.2g} of the largest")


def smoothness(case: Case) -> float:
    r"""The bound β of the log-loss's curvature, $\max \|e_i - e_j\|^2 \|e_k\|^2 / 4$ over tokens i, j seen after k.

    Along V the curvature of a sample is the variance of $u_x = e_x^\top V e_q$ under attention, at most a quarter
    of its range squared.
    """
    if case.embeddings is None:
        return 0.5
    E, beta = case.embeddings.E, 0.0
    last, token = np.divmod(case.samples.pair_index()[0], len(E))
    for k in np.unique(last):
        e = E[token[last == k]]
        beta = max(beta, float(np.square(e[:, None] - e).sum(-1).max() * (E[k] @ E[k]) / 4))
    return beta


def step_size(cases: Sequence[Case], lr: float) -> Assumption:
    """Whether plain descent is stable: η < 2/β with the loss's smoothness β."""
    beta = max(map(smoothness, cases))
    found = f"η = {lr:g}, and 2/β ≥ {2 / beta:.3g} (β ≤ max ‖e_i − e_j‖²‖e_k‖²/4 = {beta:.3g})"
    return Assumption("the step is small enough", lr < 2 / beta, found)


def structure(limits: Sequence[Limit]) -> Assumption:
    """What the priority graphs look like: cycles and outranked tokens, which decide what the limit consists of."""
    soft = sum(bool(x.graph.cyclic.any()) for x in limits)
    hard = sum(x.svm.norm > 0 for x in limits)
    found = f"of {counted(len(limits), 'data set')}, {soft} with tied, {hard} with outranked tokens"
    return Assumption("there is something to learn", soft + hard > 0, found)


def sizes(given: Given | None, **drawn: int) -> dict[str, int]:
    """The sizes of data that were drawn; a user's data have none to set."""
    return drawn if given is None else {}


def judged(holds: bool, given: Given | None = None, settling: bool = False) -> Verdict:
    """The verdict; on a user's data, training that is not there yet but on its way decides nothing."""
    if holds:
        return Verdict.HOLDS
    return Verdict.INCONCLUSIVE if given is not None and settling else Verdict.FAILS


def refuted(each: Iterable[bool], given: Given | None = None) -> Verdict:
    """The verdict of a control, from whether each data set contradicts it.

    All drawn ones must; of a user's one is enough, since shuffled labels may agree with the true ones by symmetry.
    """
    found = list(each)
    enough = any(found) if given is not None else bool(found) and all(found)
    return Verdict.FAILS if enough else Verdict.HOLDS


def not_applicable(*why: Assumption) -> Evidence:
    """The answer of a claim whose assumptions the data do not meet."""
    none = Verdict.NOT_APPLICABLE
    reason = "; ".join(f"{a.name}: {a.found}" for a in why if not a.holds)
    return Evidence(none, none, "", {}, {}, assumptions=why, reason=reason)
