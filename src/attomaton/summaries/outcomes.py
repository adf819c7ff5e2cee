r"""What the automaton makes of many contexts at once: hard, soft, lost or absent, and the label's probability.

A window is *absent* when its label does not occur in its context (no attention can then name it), *hard* when
retrieval leaves the label alone, *soft* when it leaves the label among others, *lost* when it leaves only
others. On the samples of a fit nothing is lost: a label outranks or ties every other token of its context.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.mechanics.theory.many import mixing_scores
from attomaton.numerics import row_pointer, sum_by
from attomaton.summaries.records import Bin, Ending, LabelProbability, Predictions

OUTCOMES = ("hard", "soft", "lost", "absent")
BINS = 10  # of the label's probability, between 0 and 1
EQUAL = 1e-9  # relative difference of probabilities below which both are likeliest


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The end of every window; `kind` counts through `OUTCOMES`."""

    kind: Int[np.ndarray, " windows"]
    label_p: Float[np.ndarray, " windows"]
    likeliest: Bool[np.ndarray, " windows"]
    retrieved: Bool[np.ndarray, " entries"]
    answer: Int[np.ndarray, " windows"]  # the entry of the likeliest token, the first among equals
    answer_p: Float[np.ndarray, " windows"]

    def predictions(
        self, weight: Float[np.ndarray, " windows"], absent: float = 0.0
    ) -> Predictions:
        """Weights and shares by outcome, and the label's probability where it is in the context.

        `absent` is the weight of windows that were set aside before they came here.
        """
        total = sum_by(self.kind, weight, len(OUTCOMES))
        total[OUTCOMES.index("absent")] += absent
        there = total[:3].sum()
        present = self.kind < 3
        soft = self.kind == 1
        p, w = self.label_p[present], weight[present]
        bins, _ = np.histogram(self.label_p[soft], BINS, (0, 1), weights=weight[soft])
        return Predictions(
            windows=float(total.sum()),
            realizable=float(there),
            realizable_share=_share(there, total.sum()),
            outcomes=[
                Ending(
                    name,
                    float(total[i]),
                    _share(total[i], total.sum()),
                    _share(total[i], there) if i < 3 else None,
                )
                for i, name in enumerate(OUTCOMES)
            ],
            right=_share(w @ self.likeliest[present], there),
            label_probability=LabelProbability(
                mean=_share(w @ p, there),
                mean_where_soft=_share(weight[soft] @ self.label_p[soft], total[1]),
                bins=[Bin(i / BINS, (i + 1) / BINS, _share(b, there)) for i, b in enumerate(bins)],
            ),
        )


def _share(part: float, whole: float) -> float | None:
    return float(part / whole) if whole > 0 else None


def outcomes(
    start: Int[np.ndarray, " windows_and_one"],
    token: Int[np.ndarray, " entries"],
    count: Int[np.ndarray, " entries"],
    label: Int[np.ndarray, " windows"],
    svm: Float[np.ndarray, " entries"],
    finite: Float[np.ndarray, " entries"],
) -> Outcomes:
    """Every window through the automaton: hard retrieval by `svm`, soft composition by `finite`.

    The distinct tokens of window `i` are `token[start[i] : start[i + 1]]`, with their multiplicities and the
    scores e_xᵀ W_svm e_q and e_xᵀ W_fin e_q.

    >>> one = outcomes(np.array([0, 3]), np.array([4, 5, 6]), np.array([1, 3, 1]), np.array([4]),
    ...                np.array([1.0, 1.0, 0.0]), np.zeros(3))
    >>> OUTCOMES[one.kind[0]], one.label_p.tolist(), one.likeliest.tolist()
    ('soft', [0.25], [False])
    """
    n = len(label)
    if not n:
        none = np.zeros(0, bool)
        nothing = np.zeros(0, np.int64)
        return Outcomes(nothing, np.zeros(0), none, none, nothing, np.zeros(0))
    owner = np.repeat(np.arange(n), np.diff(start))
    score = mixing_scores(start, count, svm, finite)
    retrieved = np.isfinite(score)
    kept = np.flatnonzero(retrieved)
    number = np.bincount(owner[kept], minlength=n)
    first, of = row_pointer(number)[:-1], owner[kept]
    score = score[kept]
    mass = np.exp(score - np.maximum.reduceat(score, first)[of])  # the likeliest token has mass 1
    won = token[kept] == label[of]
    label_mass = sum_by(of[won], mass[won], n)
    present = np.bincount(owner[token == label[owner]], minlength=n) > 0
    top = np.flatnonzero(mass >= 1 - EQUAL)
    best = kept[top[np.flatnonzero(np.diff(of[top], prepend=-1))]]
    total = np.add.reduceat(mass, first)
    kind = np.where(label_mass == 0, 2, np.where(number == 1, 0, 1))
    return Outcomes(
        np.where(present, kind, 3),
        label_mass / total,
        label_mass >= 1 - EQUAL,
        retrieved,
        best,
        1 / total,
    )
