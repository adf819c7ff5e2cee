"""Many data sets of Luce choices drawn at once: what claims about standard errors and consistency share."""

from typing import NamedTuple

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.mechanics.theory.finite import Choices
from attomaton.numerics import ragged_indices, row_pointer


class Bags(NamedTuple):
    """Kinds of contexts, each a bag over the same tokens, and the probability of each token to come next."""

    held: Int[np.ndarray, "kinds tokens"]
    p: Float[np.ndarray, "kinds tokens"]


def bags_of(count: Int[np.ndarray, "kinds tokens"], theta: Float[np.ndarray, " tokens"]) -> Bags:
    """Bags whose next tokens follow the context-conditioned chain m_y P_y / Σ m_j P_j, P = softmax θ."""
    mass = count * np.exp(theta)
    return Bags(count, mass / mass.sum(axis=1, keepdims=True))


class Rows(NamedTuple):
    """Weighted rows: the data set, the kind of context and the next token of each."""

    draw: Int[np.ndarray, " rows"]
    kind: Int[np.ndarray, " rows"]
    label: Int[np.ndarray, " rows"]
    weight: Float[np.ndarray, " rows"]


def drawn_rows(rng: np.random.Generator, bags: Bags, draws: int, n: int) -> Rows:
    """Data sets of n independent rows each, every kind of context equally likely, equal rows added up."""
    kinds = len(bags.held)
    many = rng.multinomial(n, np.full(kinds, 1 / kinds), size=draws)
    wins = rng.multinomial(many, np.broadcast_to(bags.p, (draws, *bags.p.shape)))
    draw, kind, label = np.nonzero(wins)
    return Rows(draw, kind, label, wins[draw, kind, label].astype(float))


def next_tokens(
    rng: np.random.Generator, bags: Bags, kind: Int[np.ndarray, " rows"]
) -> Int[np.ndarray, " rows"]:
    """One next token for each context."""
    edges = np.cumsum(bags.p, axis=1)
    return (rng.random(len(kind))[:, None] * edges[kind, -1:] > edges[kind]).sum(axis=1)


def as_choices(bags: Bags, rows: Rows, draws: int) -> tuple[Choices, Bool[np.ndarray, " rows"]]:
    """Rows as choices, one group for each data set, and which rows hold two tokens or more and so are choices."""
    K = bags.held.shape[1]
    of, token = np.nonzero(bags.held)
    size = np.bincount(of, minlength=len(bags.held))
    kept = size[rows.kind] > 1
    draw, kind, label, weight = (x[kept] for x in rows)
    at = ragged_indices(row_pointer(size)[:-1][kind], size[kind])
    return Choices(
        row_pointer(size[kind]),
        np.repeat(draw * K, size[kind]) + token[at],
        np.log(bags.held[of[at], token[at]]),
        draw * K + label,
        weight,
        np.repeat(np.arange(draws), K),
    ), kept


def connected(choices: Choices, draws: int) -> Bool[np.ndarray, " draws"]:
    """The data sets in which every token beat every other one, directly or through others: those with finite odds."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    n = len(choices.group)
    ends = choices.winner[choices.choice_of], choices.item
    graph = csr_array((np.ones(len(ends[0]), bool), ends), shape=(n, n))
    part = connected_components(graph, directed=True, connection="strong")[1].reshape(draws, -1)
    return (part == part[:, :1]).all(axis=1)


def chi_squared(
    theta: Float[np.ndarray, "draws tokens"], truth: Float[np.ndarray, " tokens"]
) -> Float[np.ndarray, " draws"]:
    """Σ (P̂ − P)² / P of softmax θ against that of the truth."""
    P, Q = (np.exp(x - x.max(axis=-1, keepdims=True)) for x in (truth, theta))
    P, Q = P / P.sum(), Q / Q.sum(axis=1, keepdims=True)
    return ((Q - P) ** 2 / P).sum(axis=1)


def expected_information(bags: Bags) -> Float[np.ndarray, "tokens tokens"]:
    """The information of one row about θ, every kind of context equally likely."""
    p = bags.p
    return (np.diag(p.sum(axis=0)) - p.T @ p) / len(p)
