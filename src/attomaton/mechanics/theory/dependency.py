r"""Why two tokens tie: the differences of the data that add up to nothing.

Tokens $i, j$ are tied after $q$ iff the ties' differences $\delta = (e_y - e_x) e_r^\top$ add up, with factors
$\lambda \ge 0$, to $(e_i - e_j) e_q^\top$, and others to its reverse. Where paths of the priority graph lead both ways,
the factors are 1 and every vector cancels: a cycle. Where embeddings are dependent there need not be a path: then a
small linear program finds factors, a basic solution, so that they are few. It is not believed: the sum is taken again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.corpus.vocabulary import Label
from attomaton.errors import visible
from attomaton.mechanics.theory.limit import Limit

if TYPE_CHECKING:
    from attomaton.mechanics.theory.extremes import Rows

EXACT = 1e-9  # residual of a sum, in units of the longest difference, that counts as nothing
# Distance from the span of the ties, in units of a difference, at which it lies inside
SPANNED = 1e-7
STEPS = 1000  # of least squares
MOST_NUMBERS = 2 * 10**5  # of a linear program: less than a second
NAMED = 6  # differences that a sentence names


@dataclass(frozen=True)
class Difference:
    """A term of a dependency: `factor` times "`winner` over `loser`" after `last`; `weight` is that of its samples."""

    factor: float
    last: Label
    winner: Label
    loser: Label
    weight: float


@dataclass(frozen=True)
class Dependency:
    """Why `one` and `other` tie after `last`.

    The differences `above` add up to "`one` over `other`", those `below` to the reverse, so that all of them add up to
    nothing but `residual` (in units of the longest): no W is positive on them. A `cycle` needs no embeddings.
    Where the residual is None the data tie the two by some of their `ties` tied differences, too many to find out by
    which.
    """

    last: Label
    one: Label
    other: Label
    above: tuple[Difference, ...]
    below: tuple[Difference, ...]
    cycle: bool
    residual: float | None
    ties: int

    def words(self) -> str:
        """In a sentence."""
        return f"‘{visible(self.one)}’ and ‘{visible(self.other)}’ tie: {self._because()}."

    def _because(self) -> str:
        terms = self.above + self.below
        if self.residual is None:
            return (
                f"differences of the data add up to nothing by the embeddings; {self.ties:,} are tied, too many to "
                "tell which of them it takes here"
            )
        within = f"within {max(self.residual, 1e-16):.0e}"
        if not (self.above and self.below):
            return f"no W tells them apart after ‘{visible(self.last)}’, their vectors are the same there {within}"
        lasts = {term.last for term in terms}
        said = [_said(term, self.last) for term in terms[:NAMED]]
        if len(terms) > NAMED:
            after = f" after {len(lasts):,} last tokens" if len(lasts) > 1 else ""
            said = [*said[: NAMED // 2], f"{len(terms) - NAMED // 2:,} more{after}"]
        head = f"{', '.join(said[:-1])} and {said[-1]} add up to nothing"
        if self.cycle:
            return f"{head}: a cycle"
        if len(terms) > NAMED:
            return f"{head} by the embeddings, {within}"
        why = _relation(terms) if len(lasts) == 1 else f"{' + '.join(map(_product, terms))} = 0"
        return f"{head}, because {why} {within}"


def _said(term: Difference, last: Label) -> str:
    factor = "" if abs(term.factor - 1) < EXACT else f"{term.factor:.4g} · "
    after = "" if term.last == last else f" after ‘{visible(term.last)}’"
    return (
        f"{factor}‘{visible(term.winner)}’ over ‘{visible(term.loser)}’{after} (×{term.weight:g})"
    )


def _relation(terms: Sequence[Difference]) -> str:
    """Which vectors add up to which others, where all differences are those of one last token."""
    net: dict[Label, float] = {}
    for term in terms:
        net[term.winner] = net.get(term.winner, 0.0) + term.factor
        net[term.loser] = net.get(term.loser, 0.0) - term.factor
    sides = [
        " + ".join(_times(s * f, f"e_{visible(x)}") for x, f in net.items() if s * f > EXACT)
        for s in (1, -1)
    ]
    return " = ".join(side or "0" for side in sides)


def _product(t: Difference) -> str:
    return _times(t.factor, f"(e_{visible(t.winner)} − e_{visible(t.loser)}) e_{visible(t.last)}ᵀ")


def _times(factor: float, what: str) -> str:
    return what if abs(factor - 1) < EXACT else f"{factor:.4g} {what}"


class TieFinder:
    """The tied differences of a limit, and which of them tie two tokens (ids) after one last token."""

    def __init__(self, limit: Limit, last: int):
        graph = limit.graph
        self.graph, self.last = graph, last
        self.edge = np.flatnonzero(~graph.strict)
        E = np.zeros((len(graph.vocabulary), 0)) if limit.embeddings is None else limit.embeddings.E
        # In coordinates of the rows' span: fewer equations, the same sums.
        left, singular, _ = np.linalg.svd(E, full_matrices=False)
        kept = singular > EXACT * singular.max(initial=0.0)
        self.E = left[:, kept] * singular[kept]

    def tied(self, i: int, j: int) -> bool:
        """Whether the difference of two tokens lies in the span of the ties, if the data hold them there or not."""
        graph, pairs = self.graph, [self.graph.pair(self.last, x) for x in (i, j)]
        if None not in pairs:
            return graph.tied(self.last, i, j)
        target = np.outer(self.E[i] - self.E[j], self.E[self.last])
        return i == j or self._distance(target) <= SPANNED * float(np.linalg.norm(target))

    def _distance(self, target: Float[np.ndarray, "rank rank"]) -> float:
        """From the span of the ties, by least squares; matrices are never written out for the differences."""
        from scipy.sparse.linalg import LinearOperator, lsqr

        rows = self._rows
        whole = LinearOperator(
            (target.size, len(self.edge)),
            matvec=lambda factor: rows.back(factor.ravel()).ravel(),
            rmatvec=lambda W: rows.of_w(W.reshape(target.shape)),
            dtype=np.float64,
        )
        return float(lsqr(whole, target.ravel(), atol=1e-12, btol=1e-12, iter_lim=STEPS)[3])

    @cached_property
    def _rows(self) -> "Rows":
        """The tied differences."""
        from attomaton.mechanics.theory.extremes import Rows
        from attomaton.mechanics.theory.matrices import Matrices

        graph = self.graph
        lasts, last = np.unique(graph.pair_last, return_inverse=True)
        space = Matrices(self.E[graph.pair_token], self.E[lasts], last, 1.0)
        return Rows(space, graph.edge_from[self.edge], graph.edge_to[self.edge], 0)

    def why(self, one: int, other: int) -> Dependency | None:
        """Why they tie; None where they do not."""
        if one == other or not self.tied(one, other):
            return None
        sums: list[tuple[Difference, ...]] = []
        off, cycle = 0.0, True
        for i, j in ((one, other), (other, one)):
            way = self.graph.path(self.last, i, j)
            found = self.sum_to(i, j) if way is None else (self.along(way), 0.0)
            cycle &= way is not None
            if found is None:
                sums, off = [(), ()], np.nan
                break
            sums.append(found[0])
            off = max(off, found[1])
        word = self.graph.vocabulary
        return Dependency(
            word[self.last], word[one], word[other], sums[0], sums[1], cycle,
            None if np.isnan(off) else off, len(self.edge),
        )  # fmt: skip

    def along(self, way: Sequence[int]) -> tuple[Difference, ...]:
        """The steps of a path, each once."""
        pairs = [self.graph.pair(self.last, x) for x in way]
        n = len(self.graph.pair_last)
        key = self.graph.edge_from * n + self.graph.edge_to
        edges = [int(np.searchsorted(key, a * n + b)) for a, b in pairwise(pairs)]  # type: ignore[operator]
        return tuple(self._term(e, 1.0) for e in edges)

    def sum_to(self, i: int, j: int) -> tuple[tuple[Difference, ...], float] | None:
        """Differences that add up to "i over j", and how far off: of this last token if they do, else of all."""
        graph, E, q = self.graph, self.E, self.last
        above, query = E[i] - E[j], E[q]
        scale = float(np.square(np.linalg.norm(E, axis=1)).max(initial=0.0)) or 1.0
        nothing = float(np.linalg.norm(above) * np.linalg.norm(query)) / scale
        if nothing <= EXACT:
            return (), nothing
        from attomaton.mechanics.theory.normal import factors

        key, last = factors(self._rows)
        own = np.flatnonzero(graph.pair_last[self._rows.above] == q)
        found = self._solved(own, key[own], above)
        if found is not None:
            return found
        # The same two tokens after other last tokens whose vectors add up to this one's.
        sign = np.sign(key @ above)
        same = np.flatnonzero(np.linalg.norm(key - sign[:, None] * above, axis=1) <= EXACT)
        found = self._solved(same, sign[same, None] * last[same], query)
        if found is not None:
            return found
        width = E.shape[1] ** 2
        most = MOST_NUMBERS // width
        near = np.arange(len(key))
        if most < len(near):
            length = np.linalg.norm(key, axis=1) * np.linalg.norm(last, axis=1)
            cosine = (key @ above) * (last @ query) / np.where(length > 0, length, np.inf)
            near = np.sort(np.argsort(-cosine, kind="stable")[:most])
        if len(near) < min(2 * width, len(key)):  # too few to hold much of the space
            return None
        columns = (key[near, :, None] * last[near, None, :]).reshape(len(near), width)
        return self._solved(near, columns, np.outer(above, query).ravel())

    def _solved(
        self,
        which: Int[np.ndarray, " n"],
        rows: Float[np.ndarray, "n width"],
        target: Float[np.ndarray, " width"],
    ) -> tuple[tuple[Difference, ...], float] | None:
        """λ ≥ 0 with Σ λ row = target, of smallest sum of lengths; None where there is none."""
        from scipy.optimize import linprog

        length = np.linalg.norm(rows, axis=1)
        some = length > EXACT * length.max(initial=0.0)
        which, rows, length = which[some], rows[some], length[some]
        size = float(np.linalg.norm(target))
        if not len(rows):
            return None
        unit = rows / length[:, None]
        answer = linprog(np.ones(len(unit)), A_eq=unit.T, b_eq=target / size, method="highs-ds")
        if answer.x is None:
            return None
        used = np.flatnonzero(answer.x > 1e-9 * answer.x.max(initial=0.0))
        share = np.linalg.lstsq(unit[used].T, target / size, rcond=None)[0]
        off = float(np.linalg.norm(unit[used].T @ share - target / size))
        if off > EXACT or share.min(initial=0.0) < 0:
            return None
        factor = share * size / length[used]
        order = np.argsort(-factor, kind="stable")
        edges = self.edge[which[used]]
        return tuple(self._term(int(edges[k]), float(factor[k])) for k in order), off

    def _term(self, edge: int, factor: float) -> Difference:
        graph, word = self.graph, self.graph.vocabulary
        a, b = graph.edge_from[edge], graph.edge_to[edge]
        # Factors are right to about 1e-15: 1 is meant where 1 is nearly said.
        factor = float(round(factor)) if abs(factor - round(factor)) < 1e-12 else factor
        return Difference(
            factor, word[graph.pair_last[a]], word[graph.pair_token[a]], word[graph.pair_token[b]],
            float(graph.edge_weight[edge]),
        )  # fmt: skip
