"""Second implementations for the tests: the definitions written out in plain loops.

Nothing here is fast and nothing here imports the rooms under test, except to build their input.
"""

from dataclasses import dataclass
from math import exp, log

import numpy as np

from attomaton.corpus.samples import Samples
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences


@dataclass(frozen=True)
class Raw:
    """Samples as a user writes them: contexts, next tokens, weights; tokens are 0 … K−1."""

    K: int
    rows: tuple[tuple[int, ...], ...]
    labels: tuple[int, ...]
    weights: tuple[float, ...]

    def samples(self) -> Samples:
        return samples_from_sequences(
            self.rows, self.labels, self.weights, vocabulary=Vocabulary(range(self.K))
        )

    def relabelled(self, new: np.ndarray) -> "Raw":
        """Token x renamed `new[x]`."""
        rows = tuple(tuple(int(new[x]) for x in row) for row in self.rows)
        return Raw(self.K, rows, tuple(int(new[y]) for y in self.labels), self.weights)

    def __iter__(self):
        return iter(zip(self.rows, self.labels, self.weights, strict=True))


def draw(
    rng: np.random.Generator,
    K: int,
    n: int,
    lasts: int,
    *,
    repeats: bool = True,
    weighted: bool = False,
) -> Raw:
    """n random samples over K tokens with at most `lasts` last tokens, labels from the context."""
    last_tokens = rng.choice(K, size=min(lasts, K), replace=False)
    rows, labels = [], []
    for _ in range(n):
        q, size = int(rng.choice(last_tokens)), int(rng.integers(2, min(K, 5) + 1))
        others = np.delete(np.arange(K), q)
        row = rng.integers(K, size=size - 1) if repeats else rng.permutation(others)[: size - 1]
        rows.append((*map(int, row), q))
        labels.append(int(rng.choice(rows[-1])))
    weights = rng.uniform(0.2, 5.0, n) if weighted else np.ones(n)
    return Raw(K, tuple(rows), tuple(labels), tuple(map(float, weights)))


def unit_rows(rng: np.random.Generator, K: int, d: int) -> np.ndarray:
    """Random embeddings of norm 1, independent with probability 1."""
    E = rng.standard_normal((K, d))
    return E / np.linalg.norm(E, axis=1, keepdims=True)


def edges(raw: Raw) -> dict[int, dict[tuple[int, int], float]]:
    """For each last token the edges label → other token, with the weight of the samples behind."""
    graphs: dict[int, dict[tuple[int, int], float]] = {}
    for row, y, w in raw:
        graph = graphs.setdefault(row[-1], {})
        for x in set(row) - {y}:
            graph[y, x] = graph.get((y, x), 0.0) + w
    return graphs


def nodes(raw: Raw) -> dict[int, set[int]]:
    """For each last token the tokens seen with it."""
    seen: dict[int, set[int]] = {}
    for row in raw.rows:
        seen.setdefault(row[-1], set()).update(row)
    return seen


def reachable(start: int, arrows: set[tuple[int, int]]) -> set[int]:
    """Where paths from `start` lead, itself included."""
    found, front = {start}, [start]
    while front:
        here = front.pop()
        for a, b in arrows:
            if a == here and b not in found:
                found.add(b)
                front.append(b)
    return found


def kosaraju(members: set[int], arrows: set[tuple[int, int]]) -> dict[int, frozenset[int]]:
    """The strongly connected component of each node: two depth-first searches."""
    order: list[int] = []
    seen: set[int] = set()

    def visit(v: int) -> None:
        seen.add(v)
        for a, b in arrows:
            if a == v and b not in seen:
                visit(b)
        order.append(v)

    for v in sorted(members):
        if v not in seen:
            visit(v)
    component: dict[int, frozenset[int]] = {}
    for v in reversed(order):  # latest finished first: its ancestors still free are its component
        if v not in component:
            backwards = {(b, a) for a, b in arrows if a not in component and b not in component}
            part = frozenset(reachable(v, backwards))
            component.update(dict.fromkeys(part, part))
    return component


def components(raw: Raw) -> dict[int, dict[int, frozenset[int]]]:
    """For each last token the component of each token seen with it."""
    arrows = edges(raw)
    return {q: kosaraju(members, set(arrows[q])) for q, members in nodes(raw).items()}


def cyclic_part(raw: Raw) -> list[tuple[int, dict[int, int], int, float]]:
    """Of each sample what is tied with its label: last token, tokens with counts, label, weight."""
    part = components(raw)
    kept = []
    for row, y, w in raw:
        tied = part[row[-1]][y]
        counts = {x: row.count(x) for x in row if x in tied}
        if len(counts) > 1:
            kept.append((row[-1], counts, y, w))
    return kept


def cyclic_loss(raw: Raw, score: dict[tuple[int, int], float]) -> float:
    """The loss of the cyclic part, over the weight of all samples; `score[last, token]`."""
    total = 0.0
    for q, counts, y, w in cyclic_part(raw):
        mass = {x: m * exp(score[q, x]) for x, m in counts.items()}
        total -= w * log(mass[y] / sum(mass.values()))
    return total / sum(raw.weights)


def loss(raw: Raw, S: np.ndarray) -> float:
    """The training loss at scores `S[last, token]`, position by position as the layer has it."""
    total = 0.0
    for row, y, w in raw:
        z = np.array([S[row[-1], x] for x in row])
        a = np.exp(z - z.max())
        total -= w * log(sum(p for p, x in zip(a / a.sum(), row, strict=True) if x == y))
    return total / sum(raw.weights)


def minorize_maximize(
    raw: Raw, most: int = 20_000, *, count_repeats: bool = True
) -> dict[tuple[int, int], float] | None:
    """log π of every tied pair (mean 0 per component) by Hunter's iteration; None if too slow.

    Every step is π_i ← wins_i / Σ_n w_n m_ni/S_n with S_n = Σ_j m_nj π_j.
    """
    choices = cyclic_part(raw)
    part = components(raw)
    pi = {(q, x): 1.0 for q, tied in part.items() for x in tied if len(tied[x]) > 1}
    wins = dict.fromkeys(pi, 0.0)
    for q, _, y, w in choices:
        wins[q, y] += w
    for _ in range(most):
        load = dict.fromkeys(pi, 0.0)
        for q, counts, _, w in choices:
            m = counts if count_repeats else dict.fromkeys(counts, 1)
            rate = w / sum(k * pi[q, x] for x, k in m.items())
            for x, k in m.items():
                load[q, x] += k * rate
        new = {p: wins[p] / load[p] for p in pi}
        mean = {p: np.mean([log(new[p[0], x]) for x in part[p[0]][p[1]]]) for p in pi}
        new = {p: new[p] / exp(mean[p]) for p in pi}
        change = max((abs(log(new[p] / pi[p])) for p in pi), default=0.0)
        pi = new
        if change < 1e-13:
            return {p: log(v) for p, v in pi.items()}
    return None
