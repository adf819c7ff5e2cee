r"""Sequence classes as a data set has them: labels are classes, last tokens are queries.

A class is what came before one label: $P(l|n)$ is how often token $l$ stood there, its query the last token. A label
that came after several last tokens has the one it came after most often; the rows of the others are set aside. So are
the rarer labels, and the rarer tokens of the classes that are left, whose probability goes to the others.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.errors import DataError
from attomaton.numerics import sum_by
from attomaton.scan_snap.data import SequenceClasses, sequence_classes

MOST_CLASSES, MOST_TOKENS = 20, 200
QUERY = (
    " (query)"  # after the name of a last token: as a query it is another token than in a context
)


@dataclass(frozen=True, eq=False)
class Observed:
    """Classes with how much of the data stands behind them, in weight; `folded` is the share of tokens left out."""

    classes: SequenceClasses
    weight: Float[np.ndarray, " classes"]
    total: float
    other_queries: float
    other_labels: float
    folded: float

    @property
    def said(self) -> str:
        """In words."""
        whole = self.total or 1.0
        text = f"{self.classes.K} labels as classes, {self.weight.sum() / whole:.0%} of the data"
        for share, what in (
            (self.other_queries, "after another last token"),
            (self.other_labels, "of other labels"),
        ):
            text += f"; {share / whole:.0%} {what} set aside" if share else ""
        return text + (f"; {self.folded:.0%} of their tokens folded away" if self.folded else "")


def observed_classes(
    last: Int[np.ndarray, " samples"],
    label: Int[np.ndarray, " samples"],
    weight: Float[np.ndarray, " samples"],
    sample: Int[np.ndarray, " incidences"],
    token: Int[np.ndarray, " incidences"],
    count: Int[np.ndarray, " incidences"],
    names: list[str],
    most_classes: int = MOST_CLASSES,
    most_tokens: int = MOST_TOKENS,
) -> Observed:
    """The classes of samples: token `token[i]` stands `count[i]` times in sample `sample[i]`, the last one among them.

    >>> found = observed_classes(np.array([2, 2]), np.array([0, 1]), np.ones(2), np.array([0, 0, 0, 1, 1]),
    ...                          np.array([0, 1, 2, 1, 2]), np.array([1, 2, 1, 1, 1]), ["tea", "cake", "bell"])
    >>> found.classes.P.round(3).tolist(), found.classes.names
    ([[0.333, 0.667, 0.0], [0.0, 1.0, 0.0]], ('tea', 'cake', 'bell (query)'))
    """
    K = len(names)
    pair, which = np.unique(label * np.int64(K) + last, return_inverse=True)
    mass = sum_by(which, weight, len(pair))
    # The heaviest last token of every label: of equal ones the first.
    order = np.lexsort((-mass, pair // K))
    first = np.unique(pair[order] // K, return_index=True)[1]
    best = order[first]
    chosen = best[np.argsort(-mass[best], kind="stable")]
    is_best = np.isin(np.arange(len(pair)), best)
    rest = count - (token == last[sample])  # one of the last token is the query itself
    filled = sum_by(which[sample], weight[sample] * rest, len(pair)) > 0
    chosen = chosen[filled[chosen]][:most_classes]
    if not len(chosen):
        raise DataError("no classes: every context holds its last token alone.")
    number = np.full(len(pair), -1)
    number[chosen] = np.arange(len(chosen))
    own = number[which[sample]]
    inside = (own >= 0) & (rest > 0)
    law = np.zeros((len(chosen), K))
    np.add.at(law, (own[inside], token[inside]), (weight[sample] * rest)[inside])
    law /= law.sum(axis=1, keepdims=True)
    # Every class keeps its likeliest token, the others go by what they are in all classes together.
    seen = np.argsort(-(law.sum(axis=0) + law.shape[0] * (law.argmax(axis=1)[:, None] == np.arange(K)).any(axis=0)),
                      kind="stable")[: max(most_tokens, law.shape[0])]  # fmt: skip
    kept = np.sort(seen[law[:, seen].any(axis=0)])
    folded = float(1 - (law[:, kept].sum(axis=1) * mass[chosen]).sum() / mass[chosen].sum())
    law = law[:, kept] / law[:, kept].sum(axis=1, keepdims=True)
    labels, lasts = pair[chosen] // K, pair[chosen] % K
    words = [names[t] for t in kept]
    place = {int(t): i for i, t in enumerate(kept)}
    for t in labels.tolist():
        if t not in place:
            place[t] = len(words)
            words.append(names[t])
    queries = np.unique(lasts)
    first_query = len(words)
    words += [names[q] + QUERY for q in queries]
    P = np.zeros((len(chosen), len(words)))
    P[:, : len(kept)] = law
    made = sequence_classes(
        P, first_query + np.searchsorted(queries, lasts), np.array([place[t] for t in labels.tolist()]), tuple(words)
    )  # fmt: skip
    return Observed(
        made, mass[chosen], float(weight.sum()), float(mass[~is_best].sum()),
        float(mass[is_best & (number < 0)].sum()), max(folded, 0.0),
    )  # fmt: skip
