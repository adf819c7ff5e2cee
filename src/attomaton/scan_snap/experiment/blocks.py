r"""Sampled training in NumPy, the distinct tokens class by class: for processors what `train` compiles for others.

A context holds tokens of its own class alone. With the common tokens first and the distinct ones class by class after
them, f of a batch sorted by class is a dense block and one small block for each class:

    f = [ common | class 0 |         |         ]        Y = [ common  ]
        [ common |         | class 1 |         ]            [ class 0 ]
        [ common |         |         | class 2 ]            [ …       ]

so that products with Y take as many operations as there are tokens in a class, not as there are tokens. Nothing is
compiled, and JAX is not imported. The residual variant, whose f has no zeros, is not offered.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from attomaton.base.optimisers import Adam
from attomaton.base.shapes import Float, Int
from attomaton.scan_snap.data import SequenceClasses
from attomaton.scan_snap.experiment.draws import contexts_of

Values = dict[str, np.ndarray]

SMALL = 1e-25  # sums of exponentials below this have lost digits to underflow


class Plan(NamedTuple):
    """What a step of training depends on besides numbers of each run, and a compiled program besides shapes."""

    optimizer: str
    momentum: float
    T: int
    batch: int
    normalise: str
    residual: bool


@dataclass(frozen=True, eq=False)
class Blocks:
    """Sequence classes with their tokens in blocks: `order` are context tokens, by position, common ones first.

    A *bag* of a class counts the common tokens and the distinct ones of the class, in columns of one width.
    """

    classes: SequenceClasses
    order: Int[np.ndarray, " tokens"]
    common: int  # how many tokens are
    ends: Int[np.ndarray, " classes_and_one"]  # where each class's distinct tokens begin in `order`
    column: Int[np.ndarray, "classes bag"]  # the place in `order` of every column of a class's bag
    held: Float[np.ndarray, "classes bag"]  # 1 where a column stands for a token of the class
    law: Float[np.ndarray, "classes bag"]  # P(l|n)
    bias: Float[np.ndarray, " tokens"]  # prior on the attention logits, in `order`

    @classmethod
    def of(
        cls, classes: SequenceClasses, bias: Float[np.ndarray, " tokens"], dtype: type
    ) -> "Blocks":
        """The blocks of some classes; `bias` is by position."""
        token = classes.context_tokens
        common, distinct = classes.common[token], classes.distinct[:, token]
        own = [np.flatnonzero(row) for row in distinct]
        order = np.concatenate([np.flatnonzero(common), *own])
        first, size = int(common.sum()), np.array([len(x) for x in own])
        ends = first + np.concatenate([[0], np.cumsum(size)])
        column = np.zeros((classes.K, first + int(size.max())), np.int64)
        column[:, :first] = np.arange(first)
        column[:, first:] = ends[:-1, None] + np.arange(size.max())
        there = np.arange(column.shape[1]) < (first + size)[:, None]
        column = np.where(there, column, 0)
        law = np.where(there, np.take_along_axis(classes.P[:, token[order]], column, axis=1), 0.0)
        return cls(
            classes, order, first, ends, column, (law > 0).astype(dtype), law.astype(dtype),
            bias[order].astype(dtype),
        )  # fmt: skip

    @cached_property
    def query(self) -> Int[np.ndarray, " classes"]:
        """The row of Z of each class."""
        return np.searchsorted(self.classes.queries, self.classes.query_of)

    @cached_property
    def of_query(self) -> Float[np.ndarray, "queries classes"]:
        """1 where a class has a query."""
        return (np.arange(len(self.classes.queries))[:, None] == self.query).astype(self.law.dtype)

    def own(self, n: int) -> slice:
        """The distinct tokens of a class."""
        return slice(int(self.ends[n]), int(self.ends[n + 1]))


@dataclass(frozen=True)
class Rule:
    """How a gradient becomes a step: the optimiser and its memory for one array of parameters, changed in place.

    As `base.optimisers` has it, in NumPy.
    """

    optimizer: str
    momentum: float
    memory: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, optimizer: str, momentum: float, parameter: np.ndarray) -> "Rule":
        """The rule before the first step."""
        many = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer]
        return cls(optimizer, momentum, tuple(np.zeros_like(parameter) for _ in range(many)))

    def step(self, w: np.ndarray, g: np.ndarray, eta: np.ndarray, step: int) -> None:
        """Move `w` by the gradient `g`, which is used up."""
        if self.optimizer == "momentum":
            (b,) = self.memory
            b *= b.dtype.type(self.momentum)
            b += g
            np.multiply(b, eta, out=g)
        elif self.optimizer == "adam":
            (m, v), rule, one = self.memory, Adam(), w.dtype.type
            m *= one(rule.beta_1)
            m += one(1 - rule.beta_1) * g
            v *= one(rule.beta_2)
            v += one(1 - rule.beta_2) * g * g
            fair_m, fair_v = 1 - rule.beta_1 ** (step + 1), 1 - rule.beta_2 ** (step + 1)
            np.divide(eta * m / one(fair_m), np.sqrt(v / one(fair_v)) + one(rule.epsilon), out=g)
        else:
            g *= eta
        w += g


def train_stream(
    blocks: Blocks,
    plan: Plan,
    start: tuple[Float[np.ndarray, "tokens vocab"], Float[np.ndarray, "queries tokens"]],
    eta: tuple[Float[np.ndarray, " cells"], Float[np.ndarray, " cells"]],
    marks: Int[np.ndarray, " records"],
    seed: int,
    index: int,
) -> tuple[Values, Int[np.ndarray, " cells"]]:
    """All cells on one stream of contexts: what `train` records at each of the `marks`, and where cells diverged."""
    dtype, cells = blocks.law.dtype, len(eta[0])
    Y, Z = (np.repeat(w.astype(dtype)[None], cells, axis=0) for w in start)
    Y, Z = Y[:, blocks.order], Z[:, :, blocks.order]
    rules = [Rule.of(plan.optimizer, plan.momentum, w) for w in (Y, Z)]
    rates = [x.astype(dtype)[:, None, None] for x in eta]
    failed = np.zeros(cells, np.int64)
    ascent = _ascent(blocks, Y, Z, plan.batch, plan.normalise)
    steps = contexts_of(
        blocks.classes, T=plan.T, batch=plan.batch, steps=int(marks[-1]), index=index, seed=seed
    )
    kept: list[Values] = []
    noted = set(marks.tolist())
    with np.errstate(all="ignore"):  # a run that diverges is noted, not warned of
        kept.append(_record(blocks, Y, Z, plan.normalise, 0, failed))
        for step, (n, counts) in enumerate(_bags(blocks, steps)):
            for w, g, rule, rate in zip((Y, Z), ascent(n, counts), rules, rates, strict=True):
                rule.step(w, g, rate, step)
            # Y moves by bounded amounts; where it does overflow, the next gradient by Z is not finite.
            failed[(failed == 0) & ~np.isfinite(Z).all(axis=(1, 2))] = step + 1
            if step + 1 in noted:
                kept.append(_record(blocks, Y, Z, plan.normalise, step + 1, failed))
    return {name: np.stack([x[name] for x in kept]) for name in kept[0]}, failed


def _bags(
    blocks: Blocks,
    steps: Iterator[tuple[Int[np.ndarray, " batch"], Int[np.ndarray, "batch slots"]]],
) -> Iterator[tuple[Int[np.ndarray, " batch"], Float[np.ndarray, "batch bag"]]]:
    """Every step's contexts sorted by query and class, counted in the columns of their class's bag."""
    # A class's slots are its tokens in ascending order; a column that is none of them finds the zero after the last.
    place = np.argsort(blocks.order)
    token = blocks.classes.context_tokens
    none = int((blocks.classes.P > 0).sum(axis=1).max())
    slot = np.full(blocks.column.shape, none)
    for k, law in enumerate(blocks.classes.P[:, token]):
        own = place[np.flatnonzero(law)]
        where = np.full(len(token), none)
        where[own] = np.arange(len(own))
        slot[k] = np.where(blocks.held[k] > 0, where[blocks.column[k]], none)
    rank = np.argsort(np.argsort(blocks.query, kind="stable"))
    for of_class, counts in steps:
        at = np.argsort(rank[of_class], kind="stable")
        n = of_class[at]
        yield n, counts[at[:, None], slot[n]].astype(blocks.law.dtype)


def _attention(
    z: Float[np.ndarray, "*cells rows bag"], counts: Float[np.ndarray, "rows bag"]
) -> Float[np.ndarray, "*cells rows bag"]:
    r"""$c_l \propto m_l e^{z_l}$, adding up to 1; exactly 0 for a token that does not occur."""
    z = np.where(counts > 0, z, z.dtype.type(-np.inf))
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * counts
    return e / e.sum(axis=-1, keepdims=True)


def _logits_of_classes(blocks: Blocks, Z: np.ndarray) -> Float[np.ndarray, "cells classes bag"]:
    """The attention logits of every class's bag."""
    return (Z + blocks.bias)[:, blocks.query[:, None], blocks.column]


def _features(
    z: Float[np.ndarray, "cells classes bag"],
    n: Int[np.ndarray, " batch"],
    counts: Float[np.ndarray, "batch bag"],
    held: Float[np.ndarray, "classes bag"],
    normalise: str,
) -> Float[np.ndarray, "cells batch bag"]:
    """f of every context of a batch. Exponentials are taken once for each class, from its largest logit.

    Where none of a context's tokens is near that one, all contexts of the run take them from their own largest.
    """
    own = np.where(held > 0, z, z.dtype.type(-np.inf))
    e = np.exp(own - own.max(axis=-1, keepdims=True)).take(n, axis=1)
    e *= counts
    size = np.vecdot(e, e)
    for cell in np.flatnonzero(~(size > SMALL).all(axis=1)):
        e[cell] = _attention(z[cell, n], counts)
        size[cell] = np.vecdot(e[cell], e[cell])
    e *= (1 / np.sqrt(size) if normalise == "l2" else 1 / e.sum(axis=-1))[..., None]
    return e


def _runs(sorted_: Int[np.ndarray, " n"]) -> list[tuple[int, slice]]:
    """Every value of a sorted array, and where it stands.

    >>> _runs(np.array([4, 4, 7]))
    [(4, slice(0, 2, None)), (7, slice(2, 3, None))]
    """
    start = [0, *(np.flatnonzero(np.diff(sorted_)) + 1).tolist(), len(sorted_)]
    return [(int(sorted_[a]), slice(a, b)) for a, b in pairwise(start)]


def _softmax(
    logits: Float[np.ndarray, "cells batch vocab"], out: Float[np.ndarray, "cells batch vocab"]
) -> None:
    """The softmax of every row, into `out`.

    Logits are small, unless a run diverges: only where they are not is the largest of each row taken off first.
    """
    ones = np.ones(logits.shape[-1], logits.dtype)
    np.exp(logits, out=out)
    total = out @ ones
    for cell in np.flatnonzero(~(np.isfinite(total) & (total > SMALL)).all(axis=1)):
        np.exp(logits[cell] - logits[cell].max(axis=-1, keepdims=True), out=out[cell])
        total[cell] = out[cell] @ ones
    out *= (1 / total)[..., None]


def _ascent(
    blocks: Blocks,
    Y: Float[np.ndarray, "cells tokens vocab"],
    Z: Float[np.ndarray, "cells queries tokens"],
    batch: int,
    normalise: str,
) -> Callable[
    [Int[np.ndarray, " batch"], Float[np.ndarray, "batch bag"]], tuple[np.ndarray, np.ndarray]
]:
    r"""The function that gives the direction of steepest ascent by Y and Z, where they stand, on a sorted batch.

    With $r = e_n - \alpha$ and $g = Y r$ a context contributes $\dot Y = f r^\top$ and
    $\dot z_m = f \circ (g - f\,(f^\top g))$, see `model.ascent`. Of a token $l$ the contexts of one query have
    $\sum_b f_{bl} g_{bl} = \sum_j Y_{lj} \dot Y_{lj}$, with their share of $\dot Y$. Large arrays are made once.
    """
    first, label, K = blocks.common, blocks.classes.next_of, blocks.classes.K
    logits = np.empty((len(Y), batch, Y.shape[2]), Y.dtype)
    r, part, share = np.empty_like(logits), np.empty_like(logits), np.empty_like(Y[:, :first])
    dY, dZ = np.empty_like(Y), np.zeros_like(Z)
    own_class = np.repeat(np.arange(K), np.diff(blocks.ends))
    own_token = np.arange(first, len(blocks.order))
    own_column = own_token - blocks.ends[own_class] + first
    size, rows = np.diff(blocks.ends).tolist(), np.arange(batch)

    def ascent(n: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        spans, asked = _runs(n), _runs(blocks.query[n])
        f = _features(_logits_of_classes(blocks, Z), n, counts, blocks.held, normalise)
        np.matmul(f[:, :, :first], Y[:, :first], out=logits)
        for k, at in spans:
            np.matmul(f[:, at, first : first + size[k]], Y[:, blocks.own(k)], out=part[:, at])
        np.add(logits, part, out=logits)
        _softmax(logits, r)
        np.negative(r, out=r)
        r[:, rows, label[n]] += 1
        along = np.vecdot(logits, r)[..., None]  # fᵀg
        back = f * f.dtype.type(1 / batch)
        for k, at in spans:
            np.matmul(back[:, at, first : first + size[k]].mT, r[:, at], out=dY[:, blocks.own(k)])
        for k in set(range(K)).difference(k for k, _ in spans):
            dY[:, blocks.own(k)] = 0
        dZ[:, :, :first] = 0
        for i, (q, at) in enumerate(asked):
            own = share if i else dY[:, :first]
            np.matmul(back[:, at, :first].mT, r[:, at], out=own)
            dZ[:, q, :first] = np.vecdot(own, Y[:, :first])
            if i:
                dY[:, :first] += own
        of_class = (np.arange(K)[:, None] == n).astype(f.dtype)
        back *= along
        drawn = of_class @ (back * f if normalise == "l2" else back)
        dZ[:, :, :first] -= blocks.of_query @ drawn[:, :, :first]
        met = np.vecdot(dY[:, first:], Y[:, first:])
        dZ[:, blocks.query[own_class], own_token] = met - drawn[:, own_class, own_column]
        return dY, dZ

    return ascent


def _record(
    blocks: Blocks, Y: np.ndarray, Z: np.ndarray, normalise: str, step: int, failed: np.ndarray
) -> Values:
    """What is kept of every cell at one moment, as `model.signal` has it; NaN once it has diverged."""
    first, K = blocks.common, blocks.classes.K
    c = _attention(_logits_of_classes(blocks, Z), blocks.law)
    F = c / np.sqrt(np.vecdot(c, c))[..., None] if normalise == "l2" else c
    common = F[:, :, :first]
    logits, g = common @ Y[:, :first], np.zeros_like(F)
    for n in range(K):
        own = blocks.own(n)
        logits[:, [n]] += F[:, [n], first : first + own.stop - own.start] @ Y[:, own]
    peak = logits.max(axis=-1, keepdims=True)
    log_alpha = logits - peak - np.log(np.exp(logits - peak).sum(axis=-1, keepdims=True))
    r, label = -np.exp(log_alpha), blocks.classes.next_of
    r[:, np.arange(K), label] += 1
    g[:, :, :first] = r @ Y[:, :first].mT
    for n in range(K):
        own = blocks.own(n)
        g[:, [n], first : first + own.stop - own.start] = r[:, [n]] @ Y[:, own].mT
    dz = F * (g - (F if normalise == "l2" else 1) * np.vecdot(logits, r)[..., None])
    # On the columns of distinct tokens f² of the unit attention, in every variant.
    f2 = c**2 / np.vecdot(c, c)[..., None] * blocks.held
    f2[:, :, :first] = 0
    weight = np.vecdot(f2, f2)
    rate = np.where(weight > 0, np.vecdot(f2, dz) / np.where(weight > 0, weight, 1), np.nan)
    loss = -log_alpha[:, np.arange(K), label].mean(axis=-1)
    # Large entries are shrunk by a power of two, so that their squares do not overflow before they do.
    flat = Y.reshape(len(Y), -1)
    shrink = np.where(np.abs(flat).max(axis=1) > 1e15, 2.0**-64, 1.0).astype(Y.dtype)
    norm = np.linalg.norm(flat * shrink[:, None], axis=1) / shrink
    failed[(failed == 0) & ~(np.isfinite(loss) & np.isfinite(norm))] = step
    # Distinct tokens of two classes never meet.
    gram = (
        common @ common.mT
        + np.eye(K, dtype=F.dtype) * np.vecdot(F[:, :, first:], F[:, :, first:])[..., None]
    )
    values = {
        "Z": Z[:, :, np.argsort(blocks.order)], "y_norm": norm, "loss": loss, "gram": gram,
        "onto": r @ logits.mT, "scan_rate": rate,
    }  # fmt: skip
    for value in values.values():
        value[failed != 0] = np.nan
    return values
