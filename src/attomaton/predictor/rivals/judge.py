"""Rivals side by side: fitted on one corpus, mixed by another, judged on a third, window by window.

Each is a convex mixture of components with weights for each bucket of windows (a single component has weight 1). There
are two sets of weights, both fitted on validation windows: one over the whole vocabulary on all of them, one among the
tokens of the context where the label is one of them. So both questions are answered as well as a rival can.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from attomaton.base.progress import Progress, quiet
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


class _Block(NamedTuple):
    """What was gathered of a block: its rows that hold their label as bags, each component's shares of their tokens."""

    holding: Int[np.ndarray, " bags"]
    bags: Bags | None
    shares: Mapping[str, Shares]


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
        spreads = {name: one.on(windows, rows) for name, one in components.items()}
        buckets = {rival.name: _bucket(rival.parts, components, spreads) for rival in rivals}

        def see(chunk: _Chunk, rows: np.ndarray = rows, buckets: dict = buckets) -> None:
            label = windows.label[rows[chunk.rows]]
            for rival in rivals:
                weight = rival.whole.value[buckets[rival.name][chunk.rows]]
                whole[rival.name].append(chunk.against(weight, rival.parts, label))

        block = _gather(spreads, windows, rows, see)
        if block.bags is None:
            continue
        for rival in rivals:
            weight = rival.inside.value[buckets[rival.name][block.holding]][block.bags.owner]
            p = sum(weight[:, i] * block.shares[name] for i, name in enumerate(rival.parts))
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
    mixing = {part for parts in recipes.values() if len(parts) > 1 for part in parts}
    given = _given({x: components[x] for x in components if x in mixing}, valid, asked, progress)
    weight = valid.weight[asked]
    rivals = []
    for name, parts in recipes.items():
        sizes = [components[x].buckets for x in parts]
        many = int(np.prod(sizes))
        if len(parts) == 1:
            alone = Weights(np.ones((many, 1)), 0.0)
            rivals.append(Rival(name, tuple(parts), alone, alone))
            continue
        bucket = _joint([given.bucket[x] for x in parts], sizes)
        p, p_in = (np.stack([x[y] for y in parts], axis=1) for x in (given.whole, given.inside))
        whole = fit_weights(p, weight, bucket, many)
        inside = fit_weights(p_in, weight[given.holding], bucket[given.holding], many)
        rivals.append(Rival(name, tuple(parts), whole, inside))
    return rivals


class _Given(NamedTuple):
    """The probabilities that components gave to labels, over the vocabulary and (rows `holding`) in the context."""

    whole: dict[str, Float[np.ndarray, " rows"]]
    inside: dict[str, Float[np.ndarray, " held"]]
    bucket: dict[str, Rows]
    holding: Int[np.ndarray, " held"]


def _given(
    components: Mapping[str, Component], windows: Windows, asked: Rows, progress: Progress
) -> _Given:
    p: dict[str, list[np.ndarray]] = {name: [] for name in components}
    p_in: dict[str, list[np.ndarray]] = {name: [] for name in components}
    state: dict[str, list[np.ndarray]] = {name: [] for name in components}
    held = [np.zeros(0, dtype=np.int64)]
    for begin in range(0, len(asked) if components else 0, BLOCK):
        progress(begin, len(asked), "validation windows")
        rows = asked[begin : begin + BLOCK]
        spreads = {name: one.on(windows, rows) for name, one in components.items()}

        def see(chunk: _Chunk, rows: np.ndarray = rows) -> None:
            label = windows.label[rows[chunk.rows]]
            for name in components:
                p[name].append(chunk.at(name, np.arange(len(label)), label))

        block = _gather(spreads, windows, rows, see)
        held.append(begin + block.holding)
        for name, spread in spreads.items():
            state[name].append(spread.bucket)
            if block.bags is not None:
                p_in[name].append(block.shares[name][block.bags.label_at])
    whole, inside = (
        {name: np.concatenate([np.zeros(0), *v]) for name, v in x.items()} for x in (p, p_in)
    )
    bucket = {name: np.concatenate(v) for name, v in state.items()}
    return _Given(whole, inside, bucket, np.concatenate(held))


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


def _gather(
    spreads: Mapping[str, Spread], windows: Windows, rows: Rows, see: Callable[[_Chunk], None]
) -> _Block:
    """Chunks of all rows, for whoever wants to `see` them; keep the shares of contexts' tokens."""
    holding = np.flatnonzero(windows.realizable[rows])
    bags = bags_of(windows, rows[holding]) if len(holding) else None
    owner = np.zeros(0, dtype=np.int64) if bags is None else holding[bags.owner]
    raw: dict[str, list[np.ndarray]] = {name: [] for name in spreads}
    for chunk in _chunks(spreads, len(rows), len(windows.vocabulary) + 1):
        see(chunk)
        if bags is not None:
            begin, end = chunk.rows.start, chunk.rows.stop
            at = slice(*np.searchsorted(owner, [begin, end]))
            for name in spreads:
                raw[name].append(chunk.at(name, owner[at] - begin, bags.token[at]))
    shares = {} if bags is None else {
        name: _shares(bags, spreads[name], np.concatenate(parts)) for name, parts in raw.items()
    }  # fmt: skip
    return _Block(holding, bags, shares)


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


def _shares(bags: Bags, spread: Spread, p: Shares) -> Shares:
    """Probabilities made shares of each context; even ones where there are none.

    A component that has another model for this question answers itself (`among`).
    """
    if (own := getattr(spread, "among", None)) is not None:
        return own(bags)
    total = bags.sums(p)[bags.owner]
    even = 1.0 / np.diff(bags.start)[bags.owner]
    return np.where(total > 0, p / np.where(total > 0, total, 1.0), even)


def _bucket(
    parts: Sequence[str], components: Mapping[str, Component], spreads: Mapping[str, Spread]
) -> Rows:
    return _joint([spreads[x].bucket for x in parts], [components[x].buckets for x in parts])


def _joint(state: Sequence[Rows], sizes: Sequence[int]) -> Rows:
    """One number for the states of several components."""
    return np.ravel_multi_index([np.asarray(x, dtype=np.int64) for x in state], sizes)
