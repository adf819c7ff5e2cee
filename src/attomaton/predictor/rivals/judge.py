"""Rivals side by side: fitted on one corpus, mixed by another, judged on a third, window by window.

Each is a convex mixture of components with weights for each bucket of windows (a single component has weight 1). There
are two sets of weights, both fitted on validation windows: one over the whole vocabulary on all of them, one among the
tokens of the context where the label is one of them. So both questions are answered as well as a rival can.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Float, Int
from attomaton.corpus.windows import Windows
from attomaton.predictor.bags import Bags, bags_of, thinned
from attomaton.predictor.measured import RANKS, Measured, joined, measure, ranked
from attomaton.predictor.ngrams import Ids, Numbers
from attomaton.predictor.rivals.mixing import Weights, fit_weights
from attomaton.predictor.rivals.spreads import (
    Component,
    Dense,
    Listable,
    Listed,
    Listing,
    Spread,
    listing,
)

Rows = Int[np.ndarray, " rows"]
Shares = Float[np.ndarray, " incidences"]
Mix = Float[np.ndarray, "rows parts"]  # the weight of each component on each row

BLOCK = 2048  # windows whose histories are looked up at a time
CELLS = 1 << 19  # probabilities of one component that are dense at a time
LISTED = 1 << 22  # cells that listed ones stand for at a time
ALWAYS = 128  # tokens of the base that are always listed: more than can come before the last rank that counts
MOST = 40_000  # validation windows that weights are fitted on


@dataclass(frozen=True, eq=False)
class Rival:
    """A named mixture: its components, and the weights of both questions for each bucket."""

    name: str
    parts: tuple[str, ...]
    whole: Weights
    inside: Weights


class Judged(NamedTuple):
    """Rivals by name: among the tokens of contexts that hold their label, and over the whole vocabulary."""

    inside: dict[str, Measured]
    whole: dict[str, Measured]


@dataclass(frozen=True, eq=False)
class _DenseChunk:
    """Some rows of a block, and what each component says about them, over the whole vocabulary."""

    rows: slice
    dense: Mapping[str, Dense]

    def at(self, name: str, row: Ids, token: Ids) -> Numbers:
        """What a component gives to tokens of these rows, counted from the first of them."""
        p = self.dense[name]
        return p[row, np.minimum(token, p.shape[1] - 1)]

    def against(self, weight: Mix, parts: Sequence[str], label: np.ndarray) -> Measured:
        """A mixture of components against labels, over the whole vocabulary."""
        return against_all(mixed(weight, [self.dense[name] for name in parts]), label)


@dataclass(frozen=True, eq=False)
class _ListedChunk:
    """The same, on the tokens that any component has an entry for and the likeliest of the base that all share.

    What is not listed has a share of the base, which falls: so nothing that is not listed comes before a rank that
    counts, or is the first guess.
    """

    rows: slice
    base: Float[np.ndarray, " vocab_and_one"]
    there: Listing
    listed: Mapping[str, Listed]

    def at(self, name: str, row: Ids, token: Ids) -> Numbers:
        """What a component gives to tokens of these rows, counted from the first of them."""
        token = np.minimum(token, len(self.base) - 1)
        place, mine = self.there.at(row * len(self.base) + token), self.listed[name]
        return np.where(place >= 0, mine.p[place], mine.scale[row] * self.base[token])

    def against(self, weight: Mix, parts: Sequence[str], label: np.ndarray) -> Measured:
        """A mixture of components against labels, over the whole vocabulary."""
        there, K, rows = self.there, len(self.base) - 1, np.arange(len(label))
        row, p, mine = there.row, np.zeros(len(there.row)), np.zeros(len(label))
        for i, name in enumerate(parts):
            p += weight[row, i] * self.listed[name].p
            mine += weight[:, i] * self.at(name, rows, label)
        p[there.token == K] = -1.0  # any word never seen is no guess
        ahead = (p > mine[row]) | ((p == mine[row]) & (there.token < label[row]))
        start = np.searchsorted(row, rows)
        above = np.add.reduceat(ahead, start, dtype=np.int64)
        return ranked(mine, np.where(label < K, above, RANKS), np.maximum.reduceat(p, start))


_Chunk = _DenseChunk | _ListedChunk


class _Block:
    """Some windows and what each component says about them; those that hold their label as bags."""

    def __init__(self, components: Mapping[str, Component], windows: Windows, rows: Rows):
        self.windows, self.rows = windows, rows
        self.spreads = {name: one.on(windows, rows) for name, one in components.items()}
        self.holding: Int[np.ndarray, " bags"] = np.flatnonzero(windows.realizable[rows])
        self.bags = bags_of(windows, rows[self.holding]) if len(self.holding) else None
        self._p: dict[str, list[np.ndarray]] = {name: [] for name in components}

    def chunks(self) -> Iterator[tuple[_Chunk, Rows]]:
        """A few rows at a time, with their labels; what is said of their contexts' tokens is kept on the way."""
        bags = self.bags
        owner = np.zeros(0, dtype=np.int64) if bags is None else self.holding[bags.owner]
        for chunk in _chunks(self.spreads, len(self.rows), len(self.windows.vocabulary) + 1):
            yield chunk, self.windows.label[self.rows[chunk.rows]]
            if bags is not None:
                at = slice(*np.searchsorted(owner, [chunk.rows.start, chunk.rows.stop]))
                for name, parts in self._p.items():
                    parts.append(chunk.at(name, owner[at] - chunk.rows.start, bags.token[at]))

    def shares(self, bags: Bags) -> dict[str, Shares]:
        """What each component gives to the tokens of contexts as shares of them, once all chunks were seen.

        They are even where there is nothing. A component that has another model for this question answers itself
        (`among`).
        """
        found, even = {}, 1.0 / np.diff(bags.start)[bags.owner]
        for name, parts in self._p.items():
            if (own := getattr(self.spreads[name], "among", None)) is not None:
                found[name] = own(bags)
                continue
            p = np.concatenate(parts)
            total = bags.sums(p)[bags.owner]
            found[name] = np.where(total > 0, p / np.where(total > 0, total, 1.0), even)
        return found


def judge(
    rivals: Sequence[Rival],
    components: Mapping[str, Component],
    windows: Windows,
    progress: Progress = quiet,
) -> Judged:
    """All rivals on all windows."""
    inside: dict[str, list[Measured]] = {rival.name: [] for rival in rivals}
    whole: dict[str, list[Measured]] = {rival.name: [] for rival in rivals}
    for begin in range(0, len(windows), BLOCK):
        progress(begin, len(windows), "windows asked of the baselines")
        rows = np.arange(begin, min(begin + BLOCK, len(windows)))
        block = _Block(components, windows, rows)
        state = {name: spread.bucket for name, spread in block.spreads.items()}
        buckets = {rival.name: _joint(rival.parts, components, state) for rival in rivals}
        for chunk, label in block.chunks():
            for rival in rivals:
                weight = rival.whole.value[buckets[rival.name][chunk.rows]]
                whole[rival.name].append(chunk.against(weight, rival.parts, label))
        if block.bags is None:
            continue
        shares = block.shares(block.bags)
        for rival in rivals:
            weight = rival.inside.value[buckets[rival.name][block.holding]][block.bags.owner]
            p = sum(weight[:, i] * shares[name] for i, name in enumerate(rival.parts))
            inside[rival.name].append(measure(block.bags, np.asarray(p)))
    progress(len(windows), len(windows), "windows asked of the baselines")
    return Judged(*({name: joined(parts) for name, parts in x.items()} for x in (inside, whole)))


def fit_rivals(
    recipes: Mapping[str, Sequence[str]],
    components: Mapping[str, Component],
    valid: Windows,
    progress: Progress = quiet,
) -> list[Rival]:
    """Mixtures of these components, their weights fitted on (up to `MOST`, evenly spread) validation windows."""
    asked = thinned(np.arange(len(valid)), MOST)
    # A component that stands alone has weight 1 and need not be asked.
    mixing = {x: components[x] for parts in recipes.values() if len(parts) > 1 for x in parts}
    # What each gave to the labels: over the vocabulary, and in the contexts (of the rows `held`) that hold them
    p: dict[str, list[np.ndarray]] = {name: [] for name in mixing}
    p_in: dict[str, list[np.ndarray]] = {name: [np.zeros(0)] for name in mixing}
    state: dict[str, list[np.ndarray]] = {name: [] for name in mixing}
    held = [np.zeros(0, dtype=np.int64)]
    for begin in range(0, len(asked) if mixing else 0, BLOCK):
        progress(begin, len(asked), "validation windows")
        block = _Block(mixing, valid, asked[begin : begin + BLOCK])
        for chunk, label in block.chunks():
            for name in mixing:
                p[name].append(chunk.at(name, np.arange(len(label)), label))
        held.append(begin + block.holding)
        for name, spread in block.spreads.items():
            state[name].append(spread.bucket)
        if block.bags is not None:
            for name, share in block.shares(block.bags).items():
                p_in[name].append(share[block.bags.label_at])
    whole, inside, states = (
        {name: np.concatenate(v) for name, v in x.items()} for x in (p, p_in, state)
    )
    weight, holding = valid.weight[asked], np.concatenate(held)
    rivals = []
    for name, parts in recipes.items():
        many = int(np.prod([components[x].buckets for x in parts]))
        if len(parts) == 1:
            alone = Weights(np.ones((many, 1)), 0.0)
            rivals.append(Rival(name, tuple(parts), alone, alone))
            continue
        bucket = _joint(parts, components, states)
        of_all, of_held = (np.stack([x[y] for y in parts], axis=1) for x in (whole, inside))
        both = (
            fit_weights(of_all, weight, bucket, many),
            fit_weights(of_held, weight[holding], bucket[holding], many),
        )
        rivals.append(Rival(name, tuple(parts), *both))
    return rivals


def mixed(weight: Mix, dense: Sequence[Dense]) -> Dense:
    """Distributions mixed row by row."""
    if len(dense) == 1:
        return dense[0]
    p, part = weight[:, :1] * dense[0], np.empty_like(dense[0])
    for i, one in enumerate(dense[1:], 1):
        p += np.multiply(weight[:, i : i + 1], one, out=part)
    return p


def against_all(p: Dense, label: Rows) -> Measured:
    """Distributions against labels; of equals the one of lower id comes first.

    All words never seen are one event, the last entry: it has a probability and is never a hit.
    """
    K = p.shape[1] - 1
    known = p[:, :K]
    mine = p[np.arange(len(p)), np.minimum(label, K)]
    above = np.count_nonzero(known > mine[:, None], axis=1)
    close = np.flatnonzero((above < RANKS) & (label < K))  # only there does it matter who is equal
    equal = known[close] == mine[close, None]
    above[close] += np.count_nonzero(equal & (np.arange(K) < label[close, None]), axis=1)
    return ranked(mine, np.where(label < K, above, RANKS), known.max(axis=1))


def _chunks(spreads: Mapping[str, Spread], rows: int, cells: int) -> Iterator[_Chunk]:
    """A few rows at a time: listed where all spreads can be, and share a base; else dense, so many `cells` each."""
    can = {name: x for name, x in spreads.items() if isinstance(x, Listable)}
    base = next((x.base for x in can.values()), np.zeros(0))
    listed = bool(can) and len(can) == len(spreads)
    listed = listed and all(np.array_equal(x.base, base) for x in can.values())
    if not listed:
        size = max(1, CELLS // cells)
        for begin in range(0, rows, size):
            end = min(begin + size, rows)
            dense = {name: spread.dense(begin, end) for name, spread in spreads.items()}
            yield _DenseChunk(slice(begin, end), dense)
        return
    always = np.argsort(-base[:-1], kind="stable")[:ALWAYS]
    size = max(1, LISTED // len(base))
    for begin in range(0, rows, size):
        end = min(begin + size, rows)
        keys = [key for x in can.values() for key in x.keys(begin, end)]
        there = listing(end - begin, len(base), keys, always)
        on = {name: x.listed(begin, end, there) for name, x in can.items()}
        yield _ListedChunk(slice(begin, end), base, there, on)


def _joint(
    parts: Sequence[str], components: Mapping[str, Component], state: Mapping[str, Rows]
) -> Rows:
    """One number for the states of several components."""
    sizes = [components[name].buckets for name in parts]
    return np.ravel_multi_index([np.asarray(state[x], dtype=np.int64) for x in parts], sizes)
