r"""The automaton on many contexts at once: one look-up of pairs, one softmax, no loop over contexts.

Whether the data determine an answer is judged by `evidence`: *determined* where one component outranks all others of
the context, *undetermined* where the scores of W_svm alone choose between components that the data leave unrelated,
*unseen* where a token of it was never seen with this last token, or not at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from attomaton.base.face import Tabular
from attomaton.base.lazily import pa
from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.vocabulary import Label
from attomaton.errors import counted
from attomaton.mechanics.theory.dependency import TieFinder
from attomaton.mechanics.theory.evidence import UNSEEN, VERDICTS, Reach, judge
from attomaton.mechanics.theory.graph import PriorityGraph
from attomaton.mechanics.theory.information import SoftErrors
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import ragged_indices, ragged_softmax, row_pointer, sorted_unique

NOT_A_TOKEN = "not in the vocabulary"
NEVER_LAST = "never a last token"
NEVER_TOGETHER = "never seen with the last token"
REASONS = ("retrieved", "outranked", "lower score", NEVER_TOGETHER)
TIE = 1e-6  # scores this close are equal: far above the solvers' residuals, far below any margin


def mixing_scores(
    start: Int[np.ndarray, " bags_and_one"],
    count: Int[np.ndarray, " entries"],
    svm: Float[np.ndarray, " entries"],
    finite: Float[np.ndarray, " entries"],
    radius: float = np.inf,
    norm: float = 1.0,
) -> Float[np.ndarray, " entries"]:
    r"""The score of every token of many bags: its softmax over a bag is what the automaton predicts.

    $\log m_x + e_x^\top W_{fin} e_q$ for the tokens with the highest score of $W_{svm}$ and −∞ for all others; on the
    way there, $W_{svm}$'s unit scores times `radius` are added instead (`norm` is $\|W_{svm}\|$).

    >>> mixing_scores(np.array([0, 3]), np.array([1, 1, 1]), np.array([1.0, 1.0, 0.0]), np.zeros(3)).tolist()
    [0.0, 0.0, -inf]
    """
    score = np.log(count) + finite
    if np.isinf(radius):
        top = np.repeat(np.maximum.reduceat(svm, start[:-1]), np.diff(start)) if len(svm) else svm
        return np.where(svm >= top - TIE, score, -np.inf)
    return score + radius * svm / norm if norm > 0 else score


@dataclass(frozen=True, eq=False, repr=False)
class Answers(Tabular):
    """What the automaton answers to many contexts, one row each, in their order.

    The known tokens of row `i` are `token[start[i] : start[i + 1]]`, distinct, as they first appear, with their
    multiplicities (`count`), the pair of each with the last token (−1 where never seen with it) and its probability
    `p`: of no meaning where the row is not `answered`. `last` is −1 outside the vocabulary, `unknown` has the tokens
    outside it by row where they have names, and `reason` counts through `REASONS` (None unless it was asked for). As
    a table: `prediction`, `probability`, `retrieval` (hard or soft), `status`, `known_last`, `unseen` and `unknown`.

    >>> from attomaton import Automaton, example_samples, solve_limit
    >>> automaton = Automaton(solve_limit(example_samples()))
    >>> answers = automaton.predict_many([["cake", "soup", "bell"], ["dishes", "phone"]])
    >>> answers
    Answers(2 contexts: 2 determined, 0 undetermined, 0 unseen)
    >>> answers.prediction, answers.probability.tolist()
    (['soup', 'phone'], [1.0, 0.75])
    """

    limit: Limit
    last: Int[np.ndarray, " rows"]
    known_last: Bool[np.ndarray, " rows"]
    answered: Bool[np.ndarray, " rows"]
    start: Int[np.ndarray, " rows_and_one"]
    token: Int[np.ndarray, " entries"]
    count: Int[np.ndarray, " entries"]
    pair: Int[np.ndarray, " entries"]
    svm: Float[np.ndarray, " entries"]
    p: Float[np.ndarray, " entries"]
    strange: Bool[np.ndarray, " rows"]  # holds tokens outside the vocabulary
    unknown: dict[int, tuple[Label, ...]]
    reach: Reach
    reason: Int[np.ndarray, " entries"] | None = None

    def __len__(self) -> int:
        return len(self.last)

    def _in_short(self) -> str:
        each = np.bincount(self.verdict, minlength=len(VERDICTS))
        said = ", ".join(f"{n:,} {name}" for n, name in zip(each, VERDICTS, strict=True))
        return f"{counted(len(self), 'context')}: {said}"

    @cached_property
    def owner(self) -> Int[np.ndarray, " entries"]:
        """The row of each entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    @cached_property
    def kept(self) -> Int[np.ndarray, " kept"]:
        """The entries with a probability, of rows that are answered."""
        return np.flatnonzero((self.p > 0) & self.answered[self.owner])

    @cached_property
    def many(self) -> Int[np.ndarray, " rows"]:
        """How many tokens are retrieved: one is hard retrieval, more are composed."""
        return np.bincount(self.owner[self.kept], minlength=len(self))

    @cached_property
    def best(self) -> Int[np.ndarray, " rows"]:
        """The entry of the likeliest token, the first in the context among equals; −1 where there is no answer."""
        order = self.falling
        best = np.full(len(self), -1)
        rows = self.owner[order]
        head = np.flatnonzero(np.diff(rows, prepend=-1))
        best[rows[head]] = order[head]
        return best

    @cached_property
    def falling(self) -> Int[np.ndarray, " kept"]:
        """The entries with a probability, row by row, the likeliest first."""
        return self.kept[np.lexsort((-self.p[self.kept], self.owner[self.kept]))]

    def intervals(
        self, errors: SoftErrors
    ) -> tuple[Float[np.ndarray, " entries"], Float[np.ndarray, " entries"]]:
        """The 95 % interval of a probability where tied tokens are mixed, as `Automaton.intervals`; NaN elsewhere."""
        graph, kept = self.limit.graph, self.kept
        low, high = np.full(len(self.p), np.nan), np.full(len(self.p), np.nan)
        if self.limit.dependent:
            return low, high
        kept = kept[self.many[self.owner[kept]] > 1]
        row = self.owner[kept]
        component = np.where(self.pair[kept] >= 0, graph.component[self.pair[kept]], -1)
        head = np.flatnonzero(np.diff(row, prepend=-1))
        length = np.diff(head, append=len(row))
        one = (component == np.repeat(component[head], length)) & (component >= 0)
        fixed = np.logical_and.reduceat(one, head) if len(head) else one
        at = kept[np.repeat(fixed, length)]
        start = row_pointer(length[fixed])
        low[at], high[at] = errors.intervals(
            self.last[row[head[fixed]]], start, self.pair[at], self.count[at]
        )
        return low, high

    @property
    def best_token(self) -> Int[np.ndarray, " rows"]:
        """The likeliest next token; −1 where there is no answer."""
        return self.of_best(self.token, -1)

    @property
    def prediction(self) -> list[Label | None]:
        """The likeliest next token of each context; None where there is no answer."""
        labels = self.limit.graph.vocabulary.labels
        return [None if x < 0 else labels[x] for x in self.best_token.tolist()]

    @property
    def probability(self) -> Float[np.ndarray, " rows"]:
        """Its probability; NaN where there is no answer."""
        return self.of_best(self.p, np.nan)

    def of_best(self, value: np.ndarray, none: float | int) -> np.ndarray:
        """A number of the likeliest token of each row; `none` where there is no answer."""
        found, there = np.full(len(self), none, value.dtype), self.best >= 0
        found[there] = value[self.best[there]]
        return found

    @cached_property
    def parts(self) -> Int[np.ndarray, " rows"]:
        """In how many classes of ties the retrieved tokens fall; one never seen with the last token may be its own."""
        graph, kept = self.limit.graph, self.kept
        seen = kept[self.pair[kept] >= 0]
        many = len(graph.level) + 1
        classes = sorted_unique(self.owner[seen] * many + graph.component[self.pair[seen]])
        strange = self.owner[kept[self.pair[kept] < 0]]
        parts = np.bincount(classes // many, minlength=len(self))
        parts += np.bincount(strange, minlength=len(self))
        if self.limit.dependent:  # vectors may tie what the data never hold together
            for row in np.unique(strange[parts[strange] > 1]).tolist():
                at = slice(self.start[row], self.start[row + 1])
                won = self.p[at] > 0
                finder = TieFinder(self.limit, int(self.last[row]))
                parts[row] = tie_classes(graph, self.token[at][won], self.pair[at][won], finder)
        return parts

    @cached_property
    def verdict(self) -> Int[np.ndarray, " rows"]:
        """Whether the data determine each answer: a place in `VERDICTS`."""
        graph, pair = self.limit.graph, self.pair
        judged = judge(graph, self.last, self.start, self.token, self.reach, pair)
        return np.where(self.strange, VERDICTS.index(UNSEEN), judged.verdict)

    def to_arrow(self) -> Any:
        """One row for each context, in words, as a `pyarrow.Table`."""
        word, none = self.limit.graph.vocabulary.column, self.best < 0
        unseen = np.flatnonzero(self.pair < 0)
        named = [(i, x) for i in sorted(self.unknown) for x in self.unknown[i]]
        kinds = np.where(none, 2, np.where(self.many == 1, 0, 1))
        return pa.table(
            {
                "prediction": _masked(word(self.of_best(self.token, 0)), none),
                "probability": pa.array(self.probability, mask=none),
                "retrieval": _masked(words_at(("hard", "soft", ""), kinds), none),
                "status": words_at(VERDICTS, self.verdict),
                "known_last": self.known_last,
                "unseen": pa.LargeListArray.from_arrays(
                    row_pointer(np.bincount(self.owner[unseen], minlength=len(self))),
                    word(self.token[unseen]).dictionary_decode(),
                ),
                "unknown": pa.LargeListArray.from_arrays(
                    row_pointer(
                        np.bincount(np.array([i for i, _ in named], int), minlength=len(self))
                    ),
                    pa.array([str(x) for _, x in named], pa.string()),
                ),
            }
        )


def words_at(names: Sequence[str], which: Int[np.ndarray, " rows"]) -> Any:
    """Names by their places, as an Arrow column."""
    return pa.DictionaryArray.from_arrays(pa.array(which, pa.int8()), pa.array(names))


def _masked(column: Any, none: Bool[np.ndarray, " rows"]) -> Any:
    where = pa.array(column.indices.to_numpy(), mask=none)
    return pa.DictionaryArray.from_arrays(where, column.dictionary)


def tie_classes(
    graph: PriorityGraph,
    tokens: Int[np.ndarray, " kept"],
    pairs: Int[np.ndarray, " kept"],
    finder: TieFinder | None,
) -> int:
    """In how many classes of ties the tokens retrieved from one context fall."""
    heads: dict[int, int] = {}
    for k, (i, token) in enumerate(zip(pairs.tolist(), tokens.tolist(), strict=True)):
        part = int(graph.component[i]) if i >= 0 else -1 - k
        tied = finder and any(finder.tied(token, head) for head in heads.values())
        if part not in heads and not tied:
            heads[part] = token
    return len(heads)


def coupled(limit: Limit) -> bool:
    """Whether scores of pairs never seen follow from the vectors."""
    return limit.embeddings is not None and not limit.embeddings.orthonormal


def answer_many(
    limit: Limit,
    ids: Int[np.ndarray, " tokens"],
    length: Int[np.ndarray, " rows"],
    radius: float = np.inf,
    *,
    unknown: dict[int, tuple[Label, ...]] | None = None,
    reach: Reach | None = None,
    in_order: bool = True,
) -> Answers:
    """The automaton on contexts that lie end to end; −1 stands for the tokens outside the vocabulary.

    No context is empty. Tokens come as they first appear, or ascending where that is not wanted (`in_order`).
    """
    n = len(length)
    last = ids[np.cumsum(length) - 1]
    row, token, count, place = _distinct(ids, length, last, len(limit.graph.vocabulary))
    pair = limit.graph.pairs(last[row], token)
    if in_order:  # contexts lie end to end: the order of places is that of rows
        back = np.full(len(ids), -1)
        back[place] = np.arange(len(place))
        back = back[back >= 0]
    else:
        back = np.argsort(row, kind="stable")
    row, token, count, pair = row[back], token[back], count[back], pair[back]
    size = np.bincount(row, minlength=n)
    start = row_pointer(size)
    svm, finite = (
        limit.scores(x.coefficient, last[row], token, pair) for x in (limit.svm, limit.finite)
    )
    some = row_pointer(size[size > 0])
    p = np.zeros(0)
    if len(row):
        p = ragged_softmax(mixing_scores(some, count, svm, finite, radius, limit.svm.norm), some)
    known_last = np.isin(last, limit.graph.last_tokens)
    answered = known_last | ((last >= 0) & coupled(limit))
    strange = np.bincount(np.repeat(np.arange(n), length)[ids < 0], minlength=n) > 0
    return Answers(
        limit, last, known_last, answered, start, token, count, pair, svm, p, strange, unknown or {},
        reach or Reach(limit.graph),
    )  # fmt: skip


def _distinct(
    ids: Int[np.ndarray, " tokens"],
    length: Int[np.ndarray, " rows"],
    last: Int[np.ndarray, " rows"],
    K: int,
) -> tuple[Any, Any, Any, Any]:
    """The distinct known tokens of rows: row, token, count, first place.

    By last token, then by token: pairs that follow each other are found quickly.
    """
    known = np.flatnonzero(ids >= 0)
    row = np.repeat(np.arange(len(length)), length)
    bits, for_place = K.bit_length(), len(ids).bit_length()
    key = (last + 1)[row[known]] << bits | ids[known]
    if 2 * bits + for_place < 63:
        # Places go along in the last bits: sorting alone is many times faster than finding the order.
        key = np.sort(key << for_place | known)
        key, place = key >> for_place, key & ((1 << for_place) - 1)
    else:
        along = np.argsort(key, kind="stable")
        key, place = key[along], known[along]
    row = row[place]
    new = np.ones(len(key), bool)
    new[1:] = (key[1:] != key[:-1]) | (row[1:] != row[:-1])
    head = np.flatnonzero(new)
    count = np.diff(head, append=len(key))
    return row[head], key[head] & ((1 << bits) - 1), count, place[head]


def with_reasons(answers: Answers) -> Answers:
    """The same answers, with the reason why each token won or lost."""
    graph, owner, p = answers.limit.graph, answers.owner, answers.p
    reason = np.full(len(p), REASONS.index("lower score"))
    reason[(p > 0)] = REASONS.index("retrieved")
    lost = np.flatnonzero((p == 0) & (answers.pair >= 0) & answers.answered[owner])
    winner = answers.kept[answers.pair[answers.kept] >= 0]
    # Every loser of a row against every component that won in it: most rows have one.
    many = len(graph.level)
    won = sorted_unique(owner[winner] * many + graph.component[answers.pair[winner]])
    rows = won // many
    begin = np.searchsorted(rows, owner[lost])
    length = np.searchsorted(rows, owner[lost], "right") - begin
    asked = np.repeat(lost, length)
    above = won[ragged_indices(begin, length)] % many
    below = graph.component[answers.pair[asked]]
    led = above == below
    lower = np.flatnonzero(graph.level[above] < graph.level[below])
    led[lower] = answers.reach(above[lower], below[lower])
    reason[asked[led]] = REASONS.index("outranked")
    strange = (answers.pair < 0) & (p == 0) | ~answers.answered[owner]
    reason[strange] = REASONS.index(NEVER_TOGETHER)
    return replace(answers, reason=reason)
