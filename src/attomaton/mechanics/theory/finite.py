r"""The finite component: what training mixes softly, as Luce-choice maximum likelihood per component.

Keep, of each sample, the tokens in its label's component: the *cyclic* data. There every component is a
Luce model with a finite maximum-likelihood answer $\pi$,

$$p(y \mid X) = \frac{m_y \pi_y}{\sum_{x \in X} m_x \pi_x},$$

and $W_{fin}$ is the smallest $W$ with $(e_i - e_j)^\top W e_k = \log \pi_i/\pi_j$ inside components. It lives in
$S_{fin} = \mathrm{span}\{(e_i - e_j)e_k^\top : i \asymp j\}$, and the loss of the cyclic data at $\pi$, over all
samples, is the floor $L^*$ of the loss of training.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.face import Shown
from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.samples import Samples, merge_samples
from attomaton.errors import SolverError, UsageError, visible
from attomaton.mechanics.data import INDEPENDENT, Embeddings
from attomaton.mechanics.theory.graph import PriorityGraph, regrouped
from attomaton.mechanics.theory.laplacian import EPS, balance, newton_step, tree_bound
from attomaton.numerics import (
    inner,
    ragged_indices,
    row_pointer,
    stable_order,
    sum_by,
    unit_scale,
)

CONVERGED = 1e-12  # gradient of a component's mean loss at which Newton stops
CERTIFIED = 1e-9  # gradient above which an answer is an error
KNOWN = 1e-3  # nats by which log-odds may be off before an answer is an error
SURE = 1e-9  # nats at which the bound of a large component is good enough
SETTLED = 1e-12  # nats a careful step may still move where rounding is finer than that
CAREFUL = 512  # tokens in a component up to which steps can be taken carefully
PADDED = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
HURRIED = (
    20  # quick steps, and halvings of one, after which a small component is left to careful ones
)
LEAPS = 20  # first steps that may balance flows
FAR = 0.1  # nats of a step, or of doubt about it, that make them do so
STEPPED = 1 << 20  # entries of all matrices that take a careful step together
LONGEST_STEP = 5.0  # a full Newton step from zero can overshoot by far
MATCHED = 1e-7  # relative error of W_fin's scores above which embeddings are too close to dependent
BASIS_ENTRIES = 10**8  # numbers in a written-out basis of S_fin
DENSE = (
    64  # tokens in a component above which conjugate gradients beat a factorisation and its threads
)
# Numbers of a vector up to which BLAS libraries leave a product to one thread. More of them would change its last bits,
# and be in the way of other processes while they wait for their next product.
UNTHREADED = 4096

Sparse = Any  # a SciPy matrix; SciPy is imported where something is solved, so that a model opens at once


@dataclass(frozen=True, eq=False)
class Choices:
    """Luce choices among items: who won, against whom, with which multiplicities.

    Items are numbered so that each group (component) is a contiguous range; every choice stays inside
    one group and has at least two different items.
    """

    start: Int[np.ndarray, " choices_and_one"]
    item: Int[np.ndarray, " entries"]
    log_count: Float[np.ndarray, " entries"]
    winner: Int[np.ndarray, " choices"]
    weight: Float[np.ndarray, " choices"]
    group: Int[np.ndarray, " items"]

    @cached_property
    def choice_of(self) -> Int[np.ndarray, " entries"]:
        """The choice each entry belongs to."""
        return np.repeat(np.arange(len(self.winner)), np.diff(self.start))

    @cached_property
    def group_of_choice(self) -> Int[np.ndarray, " choices"]:
        """The group each choice is made in."""
        return self.group[self.winner]

    @cached_property
    def winner_at(self) -> Int[np.ndarray, " choices"]:
        """The entry of each choice that is its winner."""
        return np.flatnonzero(self.item == self.winner[self.choice_of])

    @cached_property
    def entry_weight(self) -> Float[np.ndarray, " entries"]:
        """The weight of the choice each entry belongs to."""
        return self.weight[self.choice_of]

    @cached_property
    def wins(self) -> Float[np.ndarray, " items"]:
        """Total weight of the choices each item won."""
        return sum_by(self.winner, self.weight, len(self.group))

    @cached_property
    def group_weight(self) -> Float[np.ndarray, " groups"]:
        """Total weight of the choices made in each group."""
        return sum_by(self.group_of_choice, self.weight, int(self.group.max(initial=-1)) + 1)

    def scaled(self) -> tuple["Choices", Float[np.ndarray, " groups"]]:
        """Each group in units of its own heaviest choice, and these units."""
        most = np.zeros(len(self.group_weight))
        np.maximum.at(most, self.group_of_choice, self.weight)
        scale = unit_scale(most)
        return replace(self, weight=self.weight * scale[self.group_of_choice]), scale

    def restrict(self, groups: Bool[np.ndarray, " groups"]) -> tuple["Choices", np.ndarray]:
        """The choices made in these groups, renumbered, and the items that remain."""
        items = np.flatnonzero(groups[self.group])
        return self._only(np.flatnonzero(groups[self.group_of_choice]), items), items

    def grouped(self) -> "Choices":
        """The same choices, those of one group together and in their order."""
        return self._only(stable_order(self.group_of_choice), np.arange(len(self.group)))

    def _only(
        self, rows: Int[np.ndarray, " rows"], items: Int[np.ndarray, " remaining"]
    ) -> "Choices":
        number = np.full(len(self.group), -1)
        number[items] = np.arange(len(items))
        size = np.diff(self.start)[rows]
        at = ragged_indices(self.start[rows], size)
        new_group = np.unique(self.group[items], return_inverse=True)[1]
        start = row_pointer(size)
        part = Choices(
            start, number[self.item[at]], self.log_count[at], number[self.winner[rows]],
            self.weight[rows], new_group,
        )  # fmt: skip
        # A winner stays where it was in its choice: nobody need look for it again.
        part.__dict__["winner_at"] = start[:-1] + (self.winner_at - self.start[:-1])[rows]
        return part


@dataclass(frozen=True, eq=False, repr=False)
class FiniteComponent(Shown):
    """W_fin and the loss floor, with what certifies them.

    `gradient` is the largest slope of a component's mean loss; `error` bounds how far any log-odds log π_i/π_j
    may be off, in nats (None in models written before it was kept). `log_pi` holds log π on every observed pair,
    centred inside each component (0 where a pair is tied with nothing); `coefficient` and `score` give W_fin as in
    `GraphSVM`.
    """

    log_pi: Float[np.ndarray, " pairs"]
    coefficient: Float[np.ndarray, " pairs"]
    score: Float[np.ndarray, " pairs"]
    loss_floor: float
    gradient: float
    cyclic_samples: int
    norm: float  # ‖W_fin‖_F
    error: float | None = None


def finite_component(
    graph: PriorityGraph, samples: Samples, embeddings: Embeddings | None = None
) -> FiniteComponent:
    """The soft part of the limit for all last tokens: Luce fits, W_fin and L*."""
    scale = unit_scale(samples.weight.max(keepdims=True))
    items, choices, kept = cyclic_choices(graph, samples, scale)
    found = certified_fit(graph, items, choices)
    log_pi = np.zeros(len(graph.pair_last))
    log_pi[items] = found.theta
    subspace = FiniteSubspace(graph, embeddings)
    coefficient = subspace.coefficients(log_pi)
    score = subspace.scores(coefficient)
    return FiniteComponent(
        log_pi,
        coefficient,
        score,
        found.loss / float((samples.weight * scale).sum()),
        found.gradient,
        kept,
        float(np.sqrt(max(0.0, inner(coefficient, score)))),
        found.error,
    )


class Found(NamedTuple):
    """A Luce fit: θ, its loss, the largest slope of a component's mean loss, a bound on the error of any log-odds."""

    theta: Float[np.ndarray, " items"]
    loss: float
    gradient: float
    error: float


def certified_fit(
    graph: PriorityGraph, items: Int[np.ndarray, " items"], choices: Choices
) -> Found:
    """The fit of choices among pairs; an error says which component's odds are not known, and what its weights are."""
    theta, error = luce_fit(choices)
    look = luce_loss(choices, theta)
    # The certificate is taken component by component, each on its own scale: the strictest reading.
    gradient = float(np.abs(look.gradient / choices.group_weight[choices.group]).max(initial=0.0))
    off = float(error.max(initial=0.0))
    if gradient <= CERTIFIED and off <= KNOWN:
        return Found(theta, float(look.loss.sum()), gradient, off)
    group = int(np.argmax(error)) if len(error) else 0
    inside = items[choices.group == group]
    weight = choices.weight[choices.group_of_choice == group]
    words = ", ".join(visible(repr(graph.vocabulary[x])) for x in graph.pair_token[inside[:3]])
    raise SolverError(
        f"Luce fit: after last token {visible(repr(graph.vocabulary[graph.pair_last[inside[0]]]))} the odds of "
        f"{len(inside):,} tied tokens ({words}{', …' if len(inside) > 3 else ''}) are known to {off:.1e} nats only, "
        f"{KNOWN:.0e} is needed (gradient {gradient:.1e}, at most {CERTIFIED:.0e}). The weights that tie them "
        f"differ by a factor of {weight.max() / weight.min():.1e}; drop the lightest samples."
    )


def cyclic_samples(graph: PriorityGraph, samples: Samples) -> Samples:
    """The cyclic data: of each sample the tokens tied with its label; nothing else left, no sample.

    The graph may be that of other samples: a token it does not hold is tied with nothing.
    """
    return merge_samples(tied_with_label(graph, samples))


def tied_with_label(graph: PriorityGraph, samples: Samples) -> Samples:
    """As `cyclic_samples`, nothing merged."""
    label = graph.pairs(samples.last, samples.label)
    alone = np.bincount(graph.component, minlength=1)[graph.component[label]] == 1
    some = np.flatnonzero((label >= 0) & ~alone)  # the others are not looked at: most, in a text
    size = samples.size[some]
    at = ragged_indices(samples.start[some], size)
    pair = graph.pairs(np.repeat(samples.last[some], size), samples.token[at])
    kept = graph.component[pair] == np.repeat(graph.component[label[some]], size)
    kept &= pair >= 0
    left = np.add.reduceat(kept, row_pointer(size)[:-1], dtype=np.int64) if len(some) else size
    kept &= np.repeat(left > 1, size)
    some, size, at = some[left > 1], left[left > 1], at[kept]
    return Samples(
        samples.vocabulary, samples.last[some], samples.label[some], samples.weight[some],
        row_pointer(size), samples.token[at], samples.count[at], samples.rows[some],
        samples.source[some], samples.set_aside, samples.tokens, samples.windows,
    )  # fmt: skip


def cyclic_choices(
    graph: PriorityGraph, samples: Samples, scale: Float[np.ndarray, " 1"]
) -> tuple[Int[np.ndarray, " items"], Choices, int]:
    """The cyclic data as choices among pairs that are tied, weights times `scale`, and how many samples they are."""
    cyclic = cyclic_samples(graph, samples)
    items, choices = as_choices(graph, cyclic, cyclic.weight * scale)
    return items, choices, int(cyclic.rows.sum())


def as_choices(
    graph: PriorityGraph, cyclic: Samples, weight: Float[np.ndarray, " samples"]
) -> tuple[Int[np.ndarray, " items"], Choices]:
    """Cyclic data as choices among the pairs that are tied, in the order of components, and those pairs."""
    items = np.flatnonzero(graph.cyclic)
    items = items[np.argsort(graph.component[items], kind="stable")]
    number = np.full(len(graph.pair_last), -1)
    number[items] = np.arange(len(items))
    choices = Choices(
        cyclic.start,
        number[graph.pairs(cyclic.last[cyclic.sample_of], cyclic.token)],
        np.log(cyclic.count),
        number[graph.pairs(cyclic.last, cyclic.label)],
        weight,
        np.unique(graph.component[items], return_inverse=True)[1],
    )
    return items, choices


class Look(NamedTuple):
    """The weighted −log-likelihood at one θ: per choice, its gradient, and the choice probabilities."""

    loss: Float[np.ndarray, " choices"]
    gradient: Float[np.ndarray, " items"]
    p: Float[np.ndarray, " entries"]


def luce_loss(choices: Choices, theta: Float[np.ndarray, " items"]) -> Look:
    """The weighted −log-likelihood of every choice at θ = log π, with its gradient."""
    head = choices.start[:-1]
    if not len(head):
        return Look(np.zeros(0), np.zeros(len(theta)), np.zeros(0))
    score = theta.take(choices.item) + choices.log_count  # quicker than by brackets
    top = np.maximum.reduceat(score, head)
    p = np.exp(score - top.take(choices.choice_of))
    won = p[choices.winner_at]
    p[choices.winner_at] = 0.0
    lost = np.add.reduceat(p, head)
    total = lost + won
    with np.errstate(divide="ignore", over="ignore"):
        surprise = np.log1p(lost / won)  # as exact for a choice nearly sure as for any other
        gone = np.flatnonzero(~(won > 0))  # a winner without a chance has no such ratio
        surprise[gone] = top[gone] + np.log(total[gone]) - score[choices.winner_at[gone]]
    share = 1.0 / total
    p *= share.take(choices.choice_of)
    # What a winner lacks is what the others hold: summed from them, it keeps its digits near certainty.
    flow = choices.entry_weight * p
    flow[choices.winner_at] = -choices.weight * (lost * share)
    p[choices.winner_at] = won * share
    return Look(choices.weight * surprise, sum_by(choices.item, flow, len(theta)), p)


class Fit(NamedTuple):
    """Maximum-likelihood θ, mean 0 in each group, and a bound on its error in each group."""

    theta: Float[np.ndarray, " items"]
    error: Float[np.ndarray, " groups"]


def luce_fit(choices: Choices) -> Fit:
    r"""Maximum-likelihood $\theta = \log\pi$ with a bound, in nats, on the error of any difference in a group.

    The bound. Write $|v|$ for the largest difference of two entries of $v$, $\delta$ for the Newton step at θ and
    $v$ for the way to the optimum. On it $p_i p_j$ changes by a factor within $e^{\pm 2|v|}$, so its mean Hessian
    $\bar H$ has conductances within these factors of $C$, those at θ, and $\bar H (v - \delta) = (H - \bar H)\delta$ is
    a flow of at most $(e^{2|v|} - 1)\,C_{ij}\,|\delta|$ on each edge. A flow of ε between i and j moves differences by
    at most ε times the effective resistance $R_{ij}$, and $\sum C_{ij} R_{ij} = s - 1$ over the edges of a graph of
    s nodes (Foster 1949):

    $$|v| \le |\delta| \, \big(1 + (s - 1)\, e^{2|v|} (e^{2|v|} - 1)\big).$$

    Along the way on which the gradient shrinks evenly $|v|$ grows continuously from 0, so it never reaches
    $2|\delta|$ if $(s - 1)\, e^{4|\delta|}(e^{4|\delta|} - 1) < 1$. For large groups $|\delta|$ comes from a flow along
    a tree, and energies instead of Foster's sum give the same 2 where $e^{4|\delta|} < 2$.
    """
    groups = len(choices.group_weight)
    choices = choices.scaled()[0].grouped()  # groups share nothing
    theta = luce_mle(choices)
    size = np.bincount(choices.group, minlength=groups)
    error = np.full(groups, np.inf)
    for group in np.flatnonzero(size > DENSE):
        part, items = choices.restrict(np.arange(groups) == group)
        error[group] = Flows.of(part, theta[items]).bound()
    careful = (size <= DENSE) | (~(error <= SURE) & (size <= CAREFUL))
    part, items = choices.restrict(careful)
    theta[items], error[careful] = _settle(part, theta[items])
    return Fit(theta, error + 4 * EPS * np.abs(theta).max(initial=0.0))


def relative_rounding(
    part: Choices, theta: Float[np.ndarray, " items"]
) -> Float[np.ndarray, " groups"]:
    """The relative rounding error of a choice probability, at most, in each group."""
    score = np.abs(theta[part.item]) + part.log_count
    largest = np.zeros(len(part.group_weight))
    np.maximum.at(largest, part.group[part.item], 4 * score)
    longest = np.zeros(len(part.group_weight))
    np.maximum.at(longest, part.group_of_choice, np.diff(part.start))
    return EPS * (16 + largest + longest)


class Flows(NamedTuple):
    """Of one large group: what enters and leaves each item, give or take a share of `noise`, and edges between them."""

    enters: Float[np.ndarray, " size"]
    leaves: Float[np.ndarray, " size"]
    noise: float
    one: Int[np.ndarray, " edges"]
    other: Int[np.ndarray, " edges"]
    conductance: Float[np.ndarray, " edges"]

    @classmethod
    def of(cls, part: Choices, theta: Float[np.ndarray, " size"]) -> "Flows":
        """Those of choices at θ, an edge from each loser to its winner."""
        p = luce_loss(part, theta).p
        won = p[part.winner_at]
        p[part.winner_at] = 0.0
        lost = np.add.reduceat(p, part.start[:-1])
        # Sorted by item, sums are added up pairwise: their rounding does not grow with their length.
        enters = pairwise_sums(part.item, part.entry_weight * p, len(theta))
        leaves = pairwise_sums(part.winner, part.weight * lost, len(theta))
        noise = float(relative_rounding(part, theta)[0]) + 64 * EPS
        losers = np.flatnonzero(p > 0)
        of = part.choice_of[losers]
        conductance = part.weight[of] * p[losers] * won[of]
        return cls(enters, leaves, noise, part.item[losers], part.winner[of], conductance)

    def bound(self) -> float:
        """A bound on the error of any difference; infinite where it is too large to hold."""
        moved = self.enters + self.leaves
        off = tree_bound(
            self.one, self.other, self.conductance, self.enters - self.leaves, self.noise * moved
        )
        return 2 * off if 4 * off < np.log(2) else np.inf


def pairwise_sums(
    index: Int[np.ndarray, " n"], value: Float[np.ndarray, " n"], size: int
) -> Float[np.ndarray, " size"]:
    """As `sum_by`, each sum added up in halves."""
    order = stable_order(index)
    head = np.flatnonzero(np.diff(index[order], prepend=-1))
    answer = np.zeros(size)
    answer[index[order[head]]] = np.add.reduceat(value[order], head)
    return answer


def _settle(choices: Choices, theta: Float[np.ndarray, " items"], most: int = 2000) -> Fit:
    r"""Careful Newton steps until rounding is all that is left, and the bound there.

    A step is shortened by $\ln(1 + d)/d$, where d is its largest difference inside one choice: third derivatives are at
    most d times second ones, so the loss falls for certain (Sun and Tran-Dinh 2019). Comparing losses would not
    do: they may differ in digits that float64 does not have. Groups that are far away begin again at even odds,
    where all flows are seen, and balance them for the first few steps.
    """
    error = np.full(len(choices.group_weight), np.inf)
    part, items, groups = choices, np.arange(len(theta)), np.arange(len(error))
    for n in range(most):
        if not len(items):
            break
        size = np.bincount(part.group)
        step, doubt, leap = _careful_step(part, theta[items], n < LEAPS)
        width = _group_max(part, step) + _group_max(part, -step)
        error[groups] = distance(width + doubt, size)
        moving = leap | (width > np.maximum(SETTLED, doubt))
        head = part.start[:-1]
        inside = np.maximum.reduceat(step[part.item], head) - np.minimum.reduceat(
            step[part.item], head
        )
        d = np.full(len(size), 1e-300)
        np.maximum.at(d, part.group_of_choice, inside)
        moved = theta[items] + np.where(leap, 1.0, np.log1p(d) / d)[part.group] * step
        if n == 0:
            moved[leap[part.group]] = 0.0
        moved -= (sum_by(part.group, moved, len(size)) / size)[part.group]
        theta[items] = np.where(moving[part.group], moved, theta[items])
        part, kept = part.restrict(moving)
        items, groups = items[kept], groups[moving]
    return Fit(theta, error)


def distance(
    step: Float[np.ndarray, " groups"], size: Int[np.ndarray, " groups"]
) -> Float[np.ndarray, " groups"]:
    """A bound on the distance to the optimum from one on the Newton step; infinite where the step is too long."""
    with np.errstate(over="ignore"):
        change = (size - 1) * np.exp(4 * step) * np.expm1(4 * step)
    return np.where(change < 1, 2 * step, np.inf)


def _careful_step(
    part: Choices, theta: Float[np.ndarray, " items"], leaping: bool = False
) -> tuple[Float[np.ndarray, " items"], Float[np.ndarray, " groups"], Bool[np.ndarray, " groups"]]:
    """The Newton step of every group from its flows and conductances, and what rounding may have done to it.

    With `leaping`, groups whose step is long balance their flows instead; the third array tells which did.
    """
    p = luce_loss(part, theta).p
    size = np.bincount(part.group)
    first = row_pointer(size)[:-1]
    padded = np.array(PADDED)[np.searchsorted(PADDED, size)]
    order = np.argsort(padded, kind="stable")
    base = np.empty(len(size), np.int64)
    base[order] = row_pointer(padded[order] ** 2)[:-1]
    total = int((padded**2).sum())

    def place(i: Int[np.ndarray, " n"], j: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        group = part.group[i]
        return base[group] + (i - first[group]) * padded[group] + j - first[group]

    losers = np.flatnonzero(part.item != part.winner[part.choice_of])
    at = place(part.item[losers], part.winner[part.choice_of[losers]])
    flow = sum_by(at, (part.entry_weight * p)[losers], total)
    noise = EPS * np.bincount(at, minlength=total)
    noise += np.repeat(relative_rounding(part, theta)[order], padded[order] ** 2)
    half = square_root(part, p)
    H = (half.T @ half).tocoo()
    between = H.row != H.col
    conductance = np.zeros(total)
    conductance[place(*(x[between].astype(np.int64) for x in (H.row, H.col)))] = H.data[between]
    step, doubt, leap = np.empty(len(theta)), np.empty(len(size)), np.zeros(len(size), bool)
    lo = 0
    for s in np.unique(padded):
        same = np.flatnonzero(padded == s)
        many = max(1, STEPPED // int(s) ** 2)
        for few in np.split(same, range(many, len(same), many)):
            hi = lo + len(few) * s * s
            C, A, rounding = (x[lo:hi].reshape(-1, s, s) for x in (conductance, flow, noise))
            real = np.arange(s) < size[few][:, None]
            answer = newton_step(C, A, rounding, real)
            leap[few] = far = leaping & ~(np.ptp(answer.step, axis=1) + answer.error < FAR)
            answer.step[far] = balance(A[far], real[far])
            step[(first[few][:, None] + np.arange(s))[real]] = answer.step[real]
            doubt[few] = answer.error
            lo = hi
    return step, doubt, leap


def luce_mle(choices: Choices, most: int = 200) -> Float[np.ndarray, " items"]:
    r"""Maximum-likelihood $\theta = \log\pi$, mean 0 in each group, all groups at once.

    Damped Newton on $\sum_n w_n(\log\sum_x m_x e^{\theta_x} - \theta_y)$ with Hessian
    $\sum_n w_n(\mathrm{diag}\,p_n - p_n p_n^\top)$. Groups never meet in a choice, so each has its own step length
    and leaves the computation when it is done. The answer is finite because each group is strongly
    connected (Ford 1957). A gradient of ε leaves an error of about ε times the ratio of the weights in θ: where it
    matters, `luce_fit` goes on from here.
    """
    theta = np.zeros(len(choices.group))
    part, items = choices, np.arange(len(theta))
    look = luce_loss(part, theta)
    for n in range(most):
        if not len(items):
            break
        theta[items], look, done = _newton_step(part, theta[items], look)
        if n >= HURRIED:
            done |= np.bincount(part.group) <= DENSE  # careful steps are the quicker way from here
        if done.any():
            part, kept = part.restrict(~done)
            items = items[kept]
            look = luce_loss(part, theta[items])
    return theta


def _newton_step(
    part: Choices, theta: Float[np.ndarray, " items"], look: Look
) -> tuple[Float[np.ndarray, " items"], Look, Bool[np.ndarray, " groups"]]:
    """One damped step for every group: the new θ, the loss there, and which groups have arrived."""
    groups = len(part.group_weight)
    scale = part.group_weight[part.group]
    arrived = _group_max(part, np.abs(look.gradient) / scale) <= CONVERGED
    # A group that has arrived still takes this last step: a small gradient is a smaller one afterwards.
    step = -_solve_hessian(part, look.gradient, look.p)
    longest = np.maximum(_group_max(part, np.abs(step)), 1e-300)
    step *= np.minimum(1.0, LONGEST_STEP / longest)[part.group]
    before = sum_by(part.group_of_choice, look.loss, groups)
    slope = sum_by(part.group, look.gradient * step, groups)
    noise = 1e-14 * (np.abs(before) + part.group_weight)
    t = np.ones(groups)
    waits = np.bincount(part.group) > DENSE
    for n in range(60):
        there = luce_loss(part, theta + t[part.group] * step)
        after = sum_by(part.group_of_choice, there.loss, groups)
        # Written so that a NaN loss counts as too large.
        enough = after <= before + 1e-4 * t * slope + noise
        if (enough | (~waits & (n >= HURRIED))).all():
            break
        t[~enough] /= 2
    if not enough.all():
        # What found no shorter step has met the limit of float64 and stays; the certificate judges it.
        step = np.where(enough[part.group], step, 0.0)
        there = luce_loss(part, theta + t[part.group] * step)
    theta = theta + t[part.group] * step
    mean = sum_by(part.group, theta, groups) / np.bincount(part.group)
    return theta - mean[part.group], there, arrived | ~enough


def _group_max(part: Choices, value: Float[np.ndarray, " items"]) -> Float[np.ndarray, " groups"]:
    """The largest value in each group."""
    head = np.flatnonzero(np.diff(part.group, prepend=-1))
    return np.maximum.reduceat(value, head) if len(head) else np.zeros(0)


def square_root(part: Choices, p: Float[np.ndarray, " entries"]) -> Sparse:
    """√w p, a row for each choice: the Hessian is a diagonal minus its square."""
    from scipy.sparse import csr_array

    shape = (len(part.winner), len(part.group))
    return csr_array((np.sqrt(part.entry_weight) * p, part.item, part.start), shape=shape)


def _solve_hessian(
    part: Choices, gradient: Float[np.ndarray, " items"], p: Float[np.ndarray, " entries"]
) -> Float[np.ndarray, " items"]:
    """H⁻¹ g group by group; groups of one size share a batched dense solve, large ones use CG.

    Choices of one group stand together.
    """
    from scipy.sparse import csr_array

    n = len(gradient)
    half = square_root(part, p)
    diagonal = sum_by(part.item, part.entry_weight * p, n)
    size = np.bincount(part.group)
    first = row_pointer(size)[:-1]
    step = np.empty(n)
    large = size > DENSE
    for group in np.flatnonzero(large):
        of_group = slice(first[group], first[group] + size[group])
        low, high = np.searchsorted(part.group_of_choice, [group, group + 1])
        start = half.indptr[low : high + 1]
        own = slice(start[0], start[-1])
        rows = csr_array(
            (half.data[own], half.indices[own] - first[group].astype(np.int32), start - start[0]),
            shape=(high - low, size[group]),
        )
        scale = part.group_weight[group]
        step[of_group] = solve_sparse(rows, diagonal[of_group], gradient[of_group], scale)
    if large.all():
        return step
    small = half[~large[part.group_of_choice]] if large.any() else half
    square = small.T @ small
    for s in np.unique(size[~large]):
        groups = np.flatnonzero(size == s)
        rows = first[groups][:, None] + np.arange(s)
        block = -dense_blocks(square, rows)
        block[:, np.arange(s), np.arange(s)] += diagonal[rows]
        # Scores are known up to a constant per group; the constant direction is filled in, and since the
        # gradient has no part in it, the step has none either.
        block += (np.trace(block, axis1=1, axis2=2) / s**2)[:, None, None]
        try:
            step[rows] = np.linalg.solve(block, gradient[rows][..., None])[..., 0]
        except np.linalg.LinAlgError:
            # Weights unlike by more than 16 digits: whatever this step is worth, careful ones follow.
            inverse = np.linalg.pinv(block, hermitian=True)
            step[rows] = (inverse @ gradient[rows][..., None])[..., 0]
    return step


def dense_blocks(
    H: Sparse, rows: Int[np.ndarray, "groups size"]
) -> Float[np.ndarray, "groups size size"]:
    """The diagonal blocks of a symmetric block-diagonal sparse matrix, each over consecutive rows (or columns)."""
    groups, s = rows.shape
    flat = rows.ravel()
    length = H.indptr[flat + 1] - H.indptr[flat]
    at = ragged_indices(H.indptr[flat].astype(np.int64), length.astype(np.int64))
    row = np.repeat(np.arange(groups * s), length)
    block = np.zeros((groups * s, s))
    block[row, H.indices[at] - np.repeat(rows[:, 0], s)[row]] = H.data[at]
    return block.reshape(groups, s, s)


def solve_sparse(
    half: Sparse,
    diagonal: Float[np.ndarray, " size"],
    g: Float[np.ndarray, " size"],
    scale: float,
) -> Float[np.ndarray, " size"]:
    """One group's step by conjugate gradients: the Hessian is diagonal − halfᵀ half and never built."""
    flip = half.T.tocsr()
    return conjugate_gradients(lambda way: flip @ (half @ way), diagonal, g, scale)


def conjugate_gradients(
    push: Callable[[Float[np.ndarray, " size"]], Float[np.ndarray, " size"]],
    diagonal: Float[np.ndarray, " size"],
    g: Float[np.ndarray, " size"],
    scale: float,
) -> Float[np.ndarray, " size"]:
    """The step of one group whose Hessian is its diagonal minus what `push` does, the constant direction filled in.

    Far from the answer three digits of a Newton step are worth having (with one, an item that wins most of its choices
    runs away); near it, enough for the steps to converge faster than any fixed rate.
    """
    fill, share = diagonal.mean(), 1.0 / diagonal
    digits = float(np.clip(np.abs(g).max() / scale, 1e-8, 1e-3))
    dot = np.dot if len(g) <= UNTHREADED else inner
    enough = digits * float(np.sqrt(dot(g, g)))
    # Written out: a general solver spends more time between the products of small matrices than in them.
    x, rest, way, before = np.zeros(len(g)), g.astype(np.float64), np.zeros(len(g)), 1.0
    for _ in range(10 * len(g)):
        if np.sqrt(dot(rest, rest)) <= enough:
            break
        scaled = share * rest
        now = dot(rest, scaled)
        way *= now / before
        way += scaled
        pushed = diagonal * way - push(way) + fill * way.mean()
        length = now / dot(way, pushed)
        x += length * way
        rest -= length * pushed
        before = now
    return x


class FiniteSubspace:
    """S_fin: the span of (e_i − e_j) e_kᵀ for tied i, j, and the orthogonal projection onto it.

    A member is kept as coefficients on the observed pairs that vanish outside components of two or more
    tokens and sum to 0 inside each.
    """

    def __init__(self, graph: PriorityGraph, embeddings: Embeddings | None = None):
        self.graph = graph
        self.coupled = embeddings is not None and not embeddings.orthonormal
        self.embeddings = embeddings
        self.items = np.flatnonzero(graph.cyclic)

    @cached_property
    def dimension(self) -> int:
        """Number of independent directions: tied tokens minus components that tie them, unless their vectors depend."""
        if self.embeddings is not None and not self.embeddings.independent:
            return len(self.basis)
        return len(self.items) - len(np.unique(self.graph.component[self.items]))

    def coefficients(self, value: Float[np.ndarray, " pairs"]) -> Float[np.ndarray, " pairs"]:
        """The member whose score differences inside components are those of `value`."""
        if not self.coupled:
            return centred_in(self.graph, value)
        answer = np.zeros_like(value)
        if len(self.items):
            # Scores H M match `value` up to one constant c per component, and M sums to 0 in each.
            assert self.embeddings is not None
            group = np.unique(self.graph.component[self.items], return_inverse=True)[1]
            inside = value[self.items]
            B = (group[:, None] == np.arange(group.max() + 1)).astype(float)
            try:
                X = np.linalg.solve(self._gram, np.column_stack([inside, B]))
                c = -np.linalg.solve(B.T @ X[:, 1:], B.T @ X[:, 0])
            except np.linalg.LinAlgError as error:
                raise self.embeddings.too_close("no W_fin") from error
            answer[self.items] = X[:, 0] + X[:, 1:] @ c
            off = self._gram @ answer[self.items] - inside
            off -= (B.T @ off / B.sum(axis=0))[group]
            if not np.abs(off).max() <= MATCHED * max(1.0, np.abs(inside).max()):
                raise self.embeddings.too_close(
                    f"W_fin misses its log-odds by {np.abs(off).max():.1e} nats"
                )
        return answer

    @cached_property
    def _gram(self) -> Float[np.ndarray, "items items"]:
        return self._products(self.items)

    def _products(self, pairs: Int[np.ndarray, " n"] | slice) -> Float[np.ndarray, "n items"]:
        """Inner products of the matrices e_x e_kᵀ of some pairs with those of the tied ones."""
        assert self.embeddings is not None
        G, q, x = self.embeddings.gram, self.graph.pair_last, self.graph.pair_token
        return G[np.ix_(q[pairs], q[self.items])] * G[np.ix_(x[pairs], x[self.items])]

    def scores(self, coefficient: Float[np.ndarray, " pairs"]) -> Float[np.ndarray, " pairs"]:
        """The scores of a member on all observed pairs."""
        if not self.coupled:
            return coefficient
        return self._products(slice(None)) @ coefficient[self.items]

    @cached_property
    def basis(self) -> Float[np.ndarray, "directions key_width query_width"]:
        """An orthonormal basis of S_fin as dense matrices of W's shape, for small ones."""
        graph, given = self.graph, self.embeddings
        E = Embeddings(np.eye(len(graph.vocabulary))) if given is None else given
        shape = E.keys.shape[1], E.queries.shape[1]
        size = shape[0] * shape[1]
        most = min(len(self.items) - len(np.unique(graph.component[self.items])), size)
        if most * size > BASIS_ENTRIES:
            raise UsageError(
                f"a basis of {most:,} matrices of {shape[0]:,} × {shape[1]:,} is too large to write out; "
                "`coefficients` projects without one."
            )
        import scipy.linalg

        component = graph.component[self.items]
        order = self.items[np.argsort(component, kind="stable")]
        follows = graph.component[order[1:]] == graph.component[order[:-1]]
        a, b = order[1:][follows], order[:-1][follows]
        key = E.keys[graph.pair_token[a]] - E.keys[graph.pair_token[b]]
        query = E.queries[graph.pair_last[a]]
        span = np.zeros((0, size))
        for first in range(0, len(a), size):
            some = slice(first, first + size)
            new = np.einsum("na,nb->nab", key[some], query[some]).reshape(-1, size)
            span = np.concatenate([span, new])
            if len(span) > size:  # as many rows as there are dimensions span the same
                span = np.asarray(np.linalg.qr(span, mode="r"))
        q, r, _ = scipy.linalg.qr(span.T, mode="economic", pivoting=True)
        left = np.abs(np.diag(r))
        kept = left > INDEPENDENT * left.max(initial=0.0)
        return q.T[kept].reshape(int(kept.sum()), *shape)

    def project(
        self, W: Float[np.ndarray, "key_width query_width"]
    ) -> Float[np.ndarray, "key_width query_width"]:
        """The part of W inside S_fin."""
        return np.einsum("nab,n->ab", self.basis, np.einsum("nab,ab->n", self.basis, W))

    def part(self, params: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """The part inside S_fin of W, or without embeddings of the scores of the pairs."""
        return self.coefficients(params) if self.embeddings is None else self.project(params)


def centred_in(
    graph: PriorityGraph, score: Float[np.ndarray, " pairs"]
) -> Float[np.ndarray, " pairs"]:
    """Scores with mean 0 in each component, 0 where a pair is tied with nothing: log π of every pair."""
    mean = np.bincount(graph.component, score) / graph.component_size
    return np.where(graph.cyclic, score - mean[graph.component], 0.0)


def active_subspace(graph: PriorityGraph, embeddings: Embeddings | None = None) -> FiniteSubspace:
    """S_active: the span of (e_i − e_j) e_kᵀ over all edges i → j of G^(k), outside which no gradient points.

    Every context of a last token holds that token, so its edges connect all tokens seen with it: the same span as if
    they were all tied.
    """
    return FiniteSubspace(
        regrouped(graph, np.unique(graph.pair_last, return_inverse=True)[1]), embeddings
    )
