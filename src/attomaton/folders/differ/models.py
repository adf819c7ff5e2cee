"""How two models differ: last tokens and edges gained and lost, orders turned, components split and merged, answers.

Tokens are the same if their labels are: both models are put on one vocabulary first. A pair (last token, token) and an
edge then each become one whole number, so that millions of them are compared as sorted arrays.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.vocabulary import Label, Vocabulary
from attomaton.disk.formats import read_json
from attomaton.folders.differ.answers import Answers, answers_difference
from attomaton.folders.model import ModelFolder


class _Graphs(NamedTuple):
    """The graphs of one model on the vocabulary of both, K words; pairs, and ends of edges, are last · K + token."""

    key: Int[np.ndarray, " pairs"]  # ascending
    component: Int[np.ndarray, " pairs"]  # distinct over all last tokens
    score: Float[np.ndarray, " pairs"]
    log_pi: Float[np.ndarray, " pairs"]
    winner: Int[np.ndarray, " edges"]
    loser: Int[np.ndarray, " edges"]
    weight: Float[np.ndarray, " edges"]


@dataclass(frozen=True)
class Edge:
    """An edge in words: after this last token, who outranks whom, by which weight."""

    last: Label
    winner: Label
    loser: Label
    weight: float


@dataclass(frozen=True)
class Torn:
    """A component of one model in words, as the groups it is in the other."""

    last: Label
    groups: list[list[Label]]


@dataclass(frozen=True)
class Found:
    """How many there are, and the first few."""

    count: int
    examples: list[Label] | list[Edge] | list[Torn]


@dataclass(frozen=True)
class Graphs:
    """The graphs of model b against those of model a: `gained` is what only b holds, `lost` what only a does."""

    same: bool
    tokens: dict[str, Found]
    last_tokens: dict[str, Found]
    edges: dict[str, Found]
    components: dict[str, Found]  # split, merged
    # Edges of a: strict there and tied or reversed in b, tied there and apart in b.
    orders: dict[str, Found]
    in_both: dict[str, int]
    moved: dict[str, int | float]  # of what is in both: edges of unlike weight, the largest changes
    answers: dict[str, Answers]  # in the contexts of a, and in those of b


def model_difference(a: Path, b: Path, most: int = 5) -> Graphs:
    """The graphs of model `b` against those of model `a`; the first few differences of each sort in words."""
    paths = [folder / "vocabulary.json" for folder in (a, b)]
    labels = [Vocabulary.from_record(read_json(path), path).labels for path in paths]
    words = list(dict.fromkeys([*labels[0], *labels[1]]))
    K, ids = len(words), [Vocabulary(words).ids_of(own) for own in labels]
    x, y = _read(a, ids[0], K), _read(b, ids[1], K)
    pairs = np.union1d(x.key, y.key)
    # Each edge as one whole number: where its first pair stands among those of both models, and its end.
    in_x, in_y, turned = (
        np.searchsorted(pairs, first) * K + second % K
        for first, second in ((x.winner, x.loser), (y.winner, y.loser), (x.loser, x.winner))
    )
    both, p, q = np.intersect1d(in_x, in_y, assume_unique=True, return_indices=True)
    key, i, j = np.intersect1d(x.key, y.key, assume_unique=True, return_indices=True)
    found = (
        _sets(ids[0], ids[1], words, most),
        _sets(x.key // K, y.key // K, words, most),
        {
            "gained": _edges(y, ~np.isin(in_y, in_x), words, most),
            "lost": _edges(x, ~np.isin(in_x, in_y), words, most),
        },
        {
            "split": _torn(x.component[i], y.component[j], key, words, most),
            "merged": _torn(y.component[j], x.component[i], key, words, most),
        },
        {k: _edges(x, chosen, words, most) for k, chosen in _orders(x, y, in_y, turned).items()},
    )
    moved = {
        "edge_weights": int((x.weight[p] != y.weight[q]).sum()),
        "svm_score": _largest(x.score[i], y.score[j]),
        "log_pi": _largest(x.log_pi[i], y.log_pi[j]),
    }
    changes = sum(part.count for sort in found for part in sort.values())
    same = not changes and not any(moved.values())
    return Graphs(
        same, *found, {"pairs": len(key), "edges": len(both)}, moved, answers_difference(a, b, most)
    )


def _read(folder: Path, ids: Int[np.ndarray, " labels"], K: int) -> _Graphs:
    """Pairs and edges as the model has them, its ids put on the vocabulary of both."""
    model = ModelFolder(folder)
    pairs = model.rows("pairs", ("last", "token", "component", "svm_score", "log_pi"))
    edges = model.rows("edges", ("last", "from", "to", "weight"))
    key = ids[pairs["last"]] * K + ids[pairs["token"]]
    order = np.argsort(key)
    # Components are numbered within their last token; K · last keeps those of different ones apart.
    component = pairs["last"].astype(np.int64) * K + pairs["component"]
    score, log_pi = pairs["svm_score"][order], pairs["log_pi"][order]
    winner, loser = (ids[edges["last"]] * K + ids[edges[end]] for end in ("from", "to"))
    return _Graphs(key[order], component[order], score, log_pi, winner, loser, edges["weight"])


def _orders(
    x: _Graphs, y: _Graphs, in_y: Int[np.ndarray, " others"], turned: Int[np.ndarray, " edges"]
) -> dict[str, Bool[np.ndarray, " edges"]]:
    """The edges of `x` whose two tokens `y` ranks otherwise; `turned` are those of `x` the other way round."""
    strict = [_components(g, g.winner) != _components(g, g.loser) for g in (x, y)]
    ends = [_components(y, end) for end in (x.winner, x.loser)]
    known = (ends[0] >= 0) & (ends[1] >= 0)
    return {
        "tied": strict[0] & known & (ends[0] == ends[1]),
        "apart": ~strict[0] & known & (ends[0] != ends[1]),
        "reversed": strict[0] & np.isin(turned, in_y[strict[1]]),
    }


def _components(g: _Graphs, key: Int[np.ndarray, " edges"]) -> Int[np.ndarray, " edges"]:
    """The components of pairs in `g`; −1 where it does not have the pair."""
    at = np.minimum(np.searchsorted(g.key, key), len(g.key) - 1)
    return np.where(g.key[at] == key, g.component[at], -1)


def _sets(a: np.ndarray, b: np.ndarray, words: list[Label], most: int) -> dict[str, Found]:
    """What only `b` holds, and what only `a` holds."""
    only = {"gained": np.setdiff1d(b, a), "lost": np.setdiff1d(a, b)}
    return {k: Found(len(ids), [words[i] for i in ids[:most]]) for k, ids in only.items()}


def _edges(g: _Graphs, chosen: Bool[np.ndarray, " edges"], words: list[Label], most: int) -> Found:
    """The chosen edges: how many, and those with the most samples behind them."""
    at, K = np.flatnonzero(chosen), len(words)
    heaviest = at[np.argsort(-g.weight[at], kind="stable")][:most]
    ends = zip(g.winner[heaviest], g.loser[heaviest], g.weight[heaviest], strict=True)
    edges = [Edge(words[a // K], words[a % K], words[b % K], float(w)) for a, b, w in ends]
    return Found(len(at), edges)


def _torn(
    whole: Int[np.ndarray, " pairs"],
    parts: Int[np.ndarray, " pairs"],
    key: Int[np.ndarray, " pairs"],
    words: list[Label],
    most: int,
) -> Found:
    """Components of one model whose pairs lie in several of the other, as far as both have them."""
    names, at = np.unique(whole, return_inverse=True)
    others, part = np.unique(parts, return_inverse=True)
    meetings = np.unique(at * len(others) + part)  # one for each two components with a common pair
    torn = names[np.bincount(meetings // max(len(others), 1), minlength=len(names)) > 1]
    examples = []
    for c in torn[:most]:
        inside = np.flatnonzero(whole == c)
        groups = [
            [words[k % len(words)] for k in key[inside[parts[inside] == d]]]
            for d in dict.fromkeys(parts[inside].tolist())
        ]
        examples.append(Torn(words[key[inside[0]] // len(words)], groups))
    return Found(len(torn), examples)


def _largest(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.abs(x - y).max(initial=0.0))
