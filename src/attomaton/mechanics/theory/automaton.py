r"""The automaton attention becomes: retrieve the highest priority (hard), mix what is tied (soft).

Given a context $X$ with last token $q$, the layer in the limit of training

1. *hard retrieval*: keeps the tokens of $X$ with the largest score $e_x^\top W_{svm} e_q$. On tokens that the
   priority graph of $q$ relates this is its highest component present in $X$; between unrelated components the
   scores decide, equal scores keep both;
2. *soft composition*: chooses among the kept tokens with probability $\propto m_x e^{e_x^\top W_{fin} e_q}$.

What the data do not speak about is said in the answer. A token outside the vocabulary has no vector: it is named, left
out and gets no probability. A last token that never was one has taught nothing: there is no answer. A token never
seen with $q$ keeps the score 0 it had at the start (orthonormal embeddings), so it loses to what $q$ ranks above 0 and
beats what $q$ ranks below. With other embeddings the scores of both follow from the vectors.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from attomaton.base.face import Shown, Tabular, figure_of
from attomaton.base.lazily import pa
from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.samples import Samples, read_context
from attomaton.corpus.vocabulary import Label, Vocabulary
from attomaton.errors import DataError, UsageError, number, visible, whole_number
from attomaton.mechanics.theory.dependency import Dependency, TieFinder
from attomaton.mechanics.theory.evidence import Reach, contrary_bound
from attomaton.mechanics.theory.inference import Inference
from attomaton.mechanics.theory.information import Interval
from attomaton.mechanics.theory.limit import Limit, expect_limit
from attomaton.mechanics.theory.many import (
    NEVER_LAST,
    NEVER_TOGETHER,
    NOT_A_TOKEN,
    REASONS,
    Answers,
    answer_many,
    coupled,
    mixing_scores,
    tie_classes,
    with_reasons,
)
from attomaton.numerics import ragged_softmax, sorted_unique

if TYPE_CHECKING:
    from attomaton.corpus.given import Contexts

NO_ANSWER = "Nothing was learned about contexts that end in the last token: there is no prediction."
SUGGESTED = 5  # unknown tokens of a context for which the nearest known one is looked up
REMEMBERED = 10_000  # such tokens, with what is nearest to them
NOT_ASKED = {"inference", "tie", "low", "high", "contrary"}  # where they are None
TIES = 5  # retrieved tokens whose tie with the predicted one is looked for


@dataclass(frozen=True)
class Witness:
    """One of the samples that made an edge: its tokens with their counts, and what came next."""

    tokens: dict[Label, int]
    next: Label
    weight: float
    source: int


@dataclass(frozen=True)
class Edge:
    """One step of a path, `winner` over `loser`, with the heaviest samples that made it.

    Where dependent embeddings tie the two without a sample that says so, the step is that `tie`.
    """

    winner: Label
    loser: Label
    weight: float
    evidence: tuple[Witness, ...]
    tie: Dependency | None = None
    # The largest probability of the contrary that these samples leave open, where none of them says it.
    contrary: float | None = None


@dataclass(frozen=True)
class Unknown:
    """A token of a context that a model does not know: `why` is `NOT_A_TOKEN` or, of a last token, `NEVER_LAST`."""

    token: Label
    nearest: Label | None
    why: str


class Answer(dict[Label, float]):
    """Probabilities of the known tokens of a context, in their order; and what the model does not know of it.

    It is empty where nothing was learned about contexts that end in this last token. `unknown` are the tokens outside
    the vocabulary, `unseen` the known ones that were never seen with the last token, and `known_last` says whether
    that was ever a last token.
    """

    def __init__(
        self,
        probability: Mapping[Label, float],
        unknown: tuple[Label, ...] = (),
        unseen: tuple[Label, ...] = (),
        known_last: bool = True,
    ):
        super().__init__(probability)
        self.unknown, self.unseen, self.known_last = unknown, unseen, known_last

    def __reduce__(self) -> tuple[Any, ...]:
        return Answer, (dict(self), self.unknown, self.unseen, self.known_last)


@dataclass(frozen=True)
class Fate:
    """What became of one token of the context, and why.

    `reason` is one of `retrieved`, `outranked` (then `path` leads down from a retrieved token),
    `lower score` (unrelated in the graph; W_svm's scores decide), `never seen with the last token` and
    `not in the vocabulary`. `probability` is None where there is none: of a token outside the vocabulary, and of
    all where there is no answer. `seen` says whether the data hold the token together with the last token: of one
    that is retrieved without, nothing was learned but that the others are worse. With dependent embeddings the `tie`
    says why the token is retrieved together with the predicted one (of the likeliest `TIES`).
    """

    token: Label
    count: int
    probability: float | None
    reason: str
    svm_score: float
    finite_score: float
    path: tuple[Edge, ...] = ()
    seen: bool = True
    tie: Dependency | None = None
    low: float | None = None  # the 95 % interval of the probability, where it is mixed
    high: float | None = None


@dataclass(frozen=True, repr=False)
class Explanation(Tabular):
    """A prediction with its reasons; `fates` come in order of falling probability, then score.

    `prediction` is None where nothing was learned about contexts that end in this last token. `unknown` names what the
    model does not know, with the nearest it does. As a table it has one row for each token of the context: `token`,
    `count`, `probability`, `reason`, `svm_score`, `finite_score`, `seen`.

    >>> from attomaton import Automaton, example_samples, solve_limit
    >>> why = Automaton(solve_limit(example_samples())).explain(["cake", "soup", "bell"])
    >>> why
    Explanation('soup' after 'bell': 1 retrieved, 2 outranked)
    >>> why.to_arrow().column("reason").to_pylist()
    ['retrieved', 'outranked', 'outranked']
    """

    context: tuple[Label, ...]
    last: Label
    prediction: Label | None
    known_last: bool
    undetermined: bool
    fates: tuple[Fate, ...]
    soft_to_hard: tuple[tuple[float, dict[Label, float]], ...]
    note: str
    unknown: tuple[Unknown, ...] = ()
    inference: Inference | None = None  # where keys and queries were asked, too

    def _in_short(self) -> str:
        return in_short(self.prediction, self.last, Counter(fate.reason for fate in self.fates))

    def _notes(self) -> str:
        return self.note

    def to_arrow(self) -> Any:
        """One row for each token of the context, as a `pyarrow.Table`."""
        names = ("count", "probability", "reason", "svm_score", "finite_score", "seen")
        words = Vocabulary(fate.token for fate in self.fates)
        rest = {name: [getattr(fate, name) for fate in self.fates] for name in names}
        return pa.table({"token": words.column(np.arange(len(words))), **rest})

    def plot(self) -> Any:
        """The prediction, who lost, and the way from soft to hard, as a `matplotlib.figure.Figure`."""
        return figure_of(self)

    def record(self) -> dict[str, Any]:
        """All of it as plain data, tables instead of dictionaries keyed by token."""
        record = asdict(self, dict_factory=_told)
        record["unknown"] = list(record["unknown"])
        record["soft_to_hard"] = [
            {"radius": radius, "probability": [{"token": k, "p": v} for k, v in p.items()]}
            for radius, p in self.soft_to_hard
        ]
        return record


class Automaton(Shown):
    """Predictions of a fitted limit, and their reasons.

    >>> from attomaton import Automaton, example_samples, solve_limit
    >>> automaton = Automaton(solve_limit(example_samples()))
    >>> automaton.predict(["cake", "soup", "bell"]), automaton.predict_proba(["dishes", "phone"])
    ('soup', {'dishes': 0.25, 'phone': 0.75})
    """

    def __init__(self, limit: Limit):
        expect_limit(limit)
        self.limit = limit

    def _in_short(self) -> str:
        return repr(self.limit)

    def predict_proba(self, context: Sequence[Label], radius: float = np.inf) -> Answer:
        """Next-token probabilities over the distinct known tokens of the context.

        `radius` is ‖W‖ along W_svm: infinite is the limit of training, smaller values show the layer on
        its way there, W = W_fin + radius · W_svm/‖W_svm‖.
        """
        seen = self._look_up(context)
        p = self._mix(seen, radius)
        unseen = [word for word, pair in zip(seen.words, seen.pairs, strict=True) if pair < 0]
        return Answer(
            dict(zip(seen.words, p.tolist(), strict=True)) if seen.answered else {},
            tuple(seen.unknown),
            tuple(unseen),
            seen.known_last,
        )

    def intervals(self, context: Sequence[Label]) -> dict[Label, Interval]:
        """The probabilities of tokens that are mixed, each with its standard error and 95 % interval.

        Empty where one token is retrieved alone (strict orders have bounds instead: `explain`), or where the data do
        not fix the odds of those retrieved.

        >>> from attomaton import Automaton, example_samples, solve_limit
        >>> found = Automaton(solve_limit(example_samples())).intervals(["dishes", "phone"])
        >>> [round(x, 3) for x in (found["phone"].low, found["phone"].value, found["phone"].high)]
        [0.433, 0.75, 0.922]
        """
        seen = self._look_up(context)
        return self._intervals(seen, np.flatnonzero(self._mix(seen, np.inf) > 0))

    def _intervals(self, seen: "_Seen", kept: Int[np.ndarray, " kept"]) -> dict[Label, Interval]:
        graph, pairs = self.limit.graph, seen.pairs[kept]
        if len(kept) < 2 or seen.q is None or self.limit.dependent or (pairs < 0).any():
            return {}
        if len(np.unique(graph.component[pairs])) > 1:
            return {}
        found = self.limit.errors_after(seen.q).shares(
            pairs - graph.pairs_of(seen.q).start, seen.count[kept]
        )
        return {seen.words[k]: x for k, x in zip(kept, found, strict=True)}

    def predict(self, context: Sequence[Label]) -> Label | None:
        """The likeliest next token (the first in the context among equals); None where there is no answer."""
        probability = self.predict_proba(context)
        return max(probability, key=probability.__getitem__) if probability else None

    def predict_many(
        self, contexts: "Contexts", radius: float = np.inf, *, ids: bool = False
    ) -> Answers:
        """The answers of `predict_proba` to many contexts, all at once: a record of arrays, one row each.

        `contexts` are sequences of labels, or with `ids` the rows of an array of places in the vocabulary (−1 stands
        for a token outside it).

        >>> from attomaton import Automaton, example_samples, solve_limit
        >>> automaton = Automaton(solve_limit(example_samples()))
        >>> automaton.predict_many([["cake", "soup", "bell"], ["tea", "tex"]]).to_arrow().to_pylist()[1]["unknown"]
        ['tex']
        """
        if ids:
            rows = whole_rows(contexts, len(self.limit.graph.vocabulary))
            return self.predict_ids(rows.ravel(), np.full(len(rows), rows.shape[1]), radius)
        from attomaton.corpus.given import read_contexts

        given = contexts if hasattr(contexts, "__len__") else list(contexts)
        tokens, length = read_contexts(given)[:2]
        flat, outside = self.limit.graph.vocabulary.ids_of(tokens), dict[int, dict[Label, None]]()
        owner = np.repeat(np.arange(len(length)), length)
        for i in np.flatnonzero(flat < 0).tolist():
            outside.setdefault(int(owner[i]), {})[tokens[i]] = None
        unknown = {row: tuple(labels) for row, labels in outside.items()}
        return self.predict_ids(flat, length, radius, unknown)

    def predict_ids(
        self,
        ids: Int[np.ndarray, " tokens"],
        length: Int[np.ndarray, " contexts"],
        radius: float = np.inf,
        unknown: dict[int, tuple[Label, ...]] | None = None,
    ) -> Answers:
        """The same for places in the vocabulary, end to end; `unknown` names those that are −1, by context."""
        radius = number("radius", radius, least=0)
        return answer_many(self.limit, ids, length, radius, unknown=unknown, reach=self._reach)

    def explain_many(self, contexts: "Contexts") -> Answers:
        """The same at the end of training, with the reason why each token won or lost (`Answers.reason`)."""
        return with_reasons(self.predict_many(contexts))

    @cached_property
    def spoken(self) -> Any:
        """Every label as `spoken`, as an Arrow column; behind them what is said where there is no prediction."""
        return pa.array([spoken(x) for x in (*self.limit.graph.vocabulary.labels, None)])

    @cached_property
    def _reach(self) -> Reach:
        return Reach(self.limit.graph)

    def sample(
        self, context: Sequence[Label], rng: "np.random.Generator", length: int = 1
    ) -> list[Label]:
        """A continuation drawn token by token; each drawn token becomes the next last token.

        It ends early, or is empty, where the last token never was one in the data: nothing was learned about
        what follows it.
        """
        whole_number("length", length, least=1)
        expect_generator(rng)
        # What is drawn stands in the context already: no step changes which tokens there are, only how often.
        seen = self._look_up(context)
        count, place = seen.count.copy(), {x: i for i, x in enumerate(seen.words)}
        after: dict[Label, _Seen] = {}  # the context by its last token
        drawn: list[Label] = []
        while seen.answered and seen.words and len(drawn) < length:
            p = self._mix(replace(seen, count=count), np.inf)
            edges = p.cumsum()
            i = int((edges / edges[-1]).searchsorted(rng.random(), side="right"))
            drawn.append(word := seen.words[i])
            count[place[word]] += 1
            if word not in after:
                after[word] = self._look_up([*seen.words, word])
            seen = after[word]
        return drawn

    def choices(self, context: Sequence[Label]) -> "Choices":
        """What each known token of a context would choose among them, were it the last."""
        seen = self._look_up(context)
        after = [self._look_up([*seen.words, word]) for word in seen.words]
        at, n = {x: i for i, x in enumerate(seen.words)}, len(seen.words)
        return Choices(
            tuple(seen.words),
            np.array([at[x] for x in seen.context if x in at], np.int64),
            at.get(seen.context[-1]),
            np.array([x.answered for x in after], bool),
            np.array([x.svm for x in after]).reshape(n, n),
            np.array([x.finite for x in after]).reshape(n, n),
        )

    def explain(self, context: Sequence[Label], evidence: int = 3) -> Explanation:
        """The prediction for a context, and for every token of it why it won or lost.

        `evidence` is the number of samples shown for each edge of a path, heaviest first.
        """
        whole_number("evidence", evidence, least=0)
        seen = self._look_up(context)
        words, tokens, q = seen.words, seen.tokens, seen.q
        unknown = tuple(self._unknown(seen))
        nobody = [
            Fate(x, m, None, NOT_A_TOKEN, 0.0, 0.0, seen=False) for x, m in seen.unknown.items()
        ]
        p = self._mix(seen, np.inf)
        kept = np.flatnonzero(p > 0)
        best = int(np.argmax(p)) if len(p) else -1
        # Says why tokens tie where there may be no cycle.
        finder = None if q is None or not self.limit.dependent else TieFinder(self.limit, q)
        parts = tie_classes(self.limit.graph, tokens[kept], seen.pairs[kept], finder)
        others = sorted((k for k in kept.tolist() if k != best), key=lambda k: -p[k])[:TIES]
        ties = {k: finder.why(int(tokens[best]), int(tokens[k])) for k in others if finder}
        lost = self._why_lost(seen, tokens[kept], tokens[p == 0], evidence, finder)
        fates, sure = [], self._intervals(seen, kept)
        for i, word in enumerate(words):
            reason, path = ("retrieved", ()) if p[i] > 0 else next(lost)
            share: float | None = float(p[i])
            if not seen.answered:
                reason, share = NEVER_TOGETHER, None
            values = int(seen.count[i]), share, reason, float(seen.svm[i]), float(seen.finite[i])
            fate = Fate(word, *values, path, bool(seen.pairs[i] >= 0), ties.get(i))
            fates.append(sure[word].put_on(fate) if word in sure else fate)
        order = sorted(range(len(words)), key=lambda i: (-p[i], -seen.svm[i]))
        radii = np.array([0.0, 0.5, 1.0, 2.0, 4.0, 8.0]) * max(self.limit.svm.norm, 1.0)
        return Explanation(
            tuple(seen.context),
            seen.context[-1],
            words[best] if seen.answered else None,
            seen.known_last,
            parts > 1 or not seen.answered,
            tuple([*(fates[i] for i in order), *nobody]),
            tuple((float(r), dict(zip(words, self._mix(seen, r).tolist(), strict=True)))
                  for r in radii if seen.answered),
            self.note(seen.answered, unknown, parts, [words[k] for k in kept if seen.pairs[k] < 0]),
            unknown,
        )  # fmt: skip

    def unknown(self, context: Sequence[Label]) -> tuple[Unknown, ...]:
        """What the model does not know of a context, with the nearest it does (looked up for the first few)."""
        return tuple(self._unknown(self._look_up(context)))

    def nearest(self, label: Label) -> Label | None:
        """The token most like one that the model does not know; what was asked once is remembered for a while."""
        if label not in self._near:
            if len(self._near) >= REMEMBERED:
                self._near.clear()
            self._near[label] = self.limit.graph.vocabulary.nearest(label)
        return self._near[label]

    @cached_property
    def _near(self) -> dict[Label, Label | None]:
        return {}

    def _unknown(self, seen: "_Seen") -> Iterator[Unknown]:
        for i, word in enumerate(seen.unknown):
            yield Unknown(word, self.nearest(word) if i < SUGGESTED else None, NOT_A_TOKEN)
        if not seen.known_last and seen.context[-1] not in seen.unknown:
            yield Unknown(seen.context[-1], None, NEVER_LAST)

    def _look_up(self, context: Sequence[Label]) -> "_Seen":
        """What the model knows of a context."""
        words = read_context(context)
        if not words:
            raise DataError("the context is empty; a prediction needs at least one token.")
        counted = Counter(words)
        limit, vocabulary = self.limit, self.limit.graph.vocabulary
        known = [x for x in counted if x in vocabulary]
        tokens = np.array([vocabulary.id_of(x) for x in known], np.int64)
        q = vocabulary.id_of(words[-1])
        last = np.full(len(known), -1 if q is None else q)
        pairs_of = limit.graph.pairs_of(-1 if q is None else q)
        known_last = pairs_of.stop > pairs_of.start
        pairs = limit.graph.pairs(last, tokens)
        return _Seen(
            words,
            {x: m for x, m in counted.items() if x not in vocabulary},
            known,
            q,
            known_last,
            known_last or (coupled(limit) and q is not None),
            tokens,
            np.array([counted[x] for x in known], np.int64),
            pairs,
            *(limit.scores(x.coefficient, last, tokens, pairs) for x in (limit.svm, limit.finite)),
        )

    def _mix(self, seen: "_Seen", radius: float) -> Float[np.ndarray, " known"]:
        """The shares of one bag's tokens; see `mixing_scores`."""
        radius = number("radius", radius, least=0)
        if not seen.words:
            return np.zeros(0)
        whole, norm = np.array([0, len(seen.words)]), self.limit.svm.norm
        score = mixing_scores(whole, seen.count, seen.svm, seen.finite, radius, norm)
        return ragged_softmax(score, whole)

    def _why_lost(
        self,
        seen: "_Seen",
        winners: Int[np.ndarray, " kept"],
        losers: Int[np.ndarray, " lost"],
        evidence: int,
        finder: TieFinder | None,
    ) -> Iterator[tuple[str, tuple[Edge, ...]]]:
        """The reason of each loser, with the shortest path down to it from a winner; by ties where no other leads."""
        q = seen.q
        if q is None:
            return
        ends = winners.tolist(), losers.tolist()
        ways = self.limit.graph.paths(q, *ends)
        if finder and None in ways:
            more = self.limit.graph.paths(q, *ends, ties=True)
            ways = [other if way is None else way for way, other in zip(ways, more, strict=True)]
        for loser, way in zip(losers, ways, strict=True):
            if self.limit.graph.pair(q, int(loser)) is None:
                yield NEVER_TOGETHER, ()
            elif way is None:
                yield "lower score", ()
            else:
                steps = (self._edge(q, i, k, evidence, finder) for i, k in pairwise(way))
                yield "outranked", tuple(steps)

    def note(
        self, answered: bool, unknown: Sequence[Unknown], parts: int, unseen: Sequence[Label]
    ) -> str:
        """What an answer rests on, in sentences: unknown tokens first; `unseen` are retrieved without being learned."""
        said = [unknown_note(unknown, answered)] if unknown else []
        if not answered:
            return said[0] if said else NO_ANSWER
        if parts > 1:
            said.append(
                "Tokens the data leave unrelated share the highest score: the theorem keeps them all "
                "but leaves the odds between them to the start of training; those of a start at zero "
                "are shown."
            )
        if unseen:
            why = "follow from the embeddings" if coupled(self.limit) else "are the 0 of the start"
            names = ", ".join(f"‘{visible(x)}’" for x in unseen[:SUGGESTED])
            more = f" and {len(unseen) - SUGGESTED} more" if len(unseen) > SUGGESTED else ""
            said.append(
                f"Retrieved, but {NEVER_TOGETHER}: {names}{more}; nothing was learned about it there, "
                f"its scores {why}."
            )
        if parts == 1 and not unseen:
            said.append("One component is retrieved; the theorem fixes all odds.")
        return " ".join(said)

    def _edge(self, q: int, i: int, j: int, evidence: int, finder: TieFinder | None) -> Edge:
        samples, vocabulary = self.limit.samples, self.limit.graph.vocabulary
        rows = samples_behind(samples, q, i, j)
        if finder and not len(rows):
            return Edge(vocabulary[i], vocabulary[j], 0.0, (), finder.why(i, j))
        heaviest = rows[np.argsort(-samples.weight[rows], kind="stable")][:evidence]
        return Edge(
            vocabulary[i],
            vocabulary[j],
            float(samples.weight[rows].sum()),
            tuple(
                Witness(
                    samples.bag(int(r)),
                    vocabulary[samples.label[r]],
                    float(samples.weight[r]),
                    int(samples.source[r]),
                )
                for r in heaviest
            ),
            contrary=None
            if self.limit.graph.tied(q, i, j)
            else contrary_bound(int(samples.rows[rows].sum())),
        )


def whole_rows(rows: object, K: int) -> Int[np.ndarray, "rows width"]:
    """An array of places in a vocabulary of K tokens, a row for each context; −1 stands for one outside it."""
    found = np.asarray(rows)
    if found.ndim != 2 or found.dtype.kind not in "iu" or not found.size:
        raise DataError(
            f"ids: found {found.dtype} of shape {found.shape}; an array of integers, a row for each context, is needed."
        )
    if found.min() < -1 or found.max() >= K:
        raise DataError(f"ids: places in this vocabulary are −1 (outside it) to {K - 1}.")
    return found.astype(np.int64)


def _told(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """A part of an explanation as plain data: what was not asked for is left out, counted tokens are a table."""
    record = {k: v for k, v in items if v is not None or k not in NOT_ASKED}
    if "source" in record:
        record["tokens"] = [{"token": k, "count": m} for k, m in record["tokens"].items()]
    return record


def expect_generator(rng: object) -> None:
    """Refuse what draws nothing."""
    if not isinstance(rng, (np.random.Generator, np.random.RandomState)):
        raise UsageError(
            f"rng={rng!r:.60}: a NumPy generator is needed, such as numpy.random.default_rng(0)."
        )


def samples_behind(samples: Samples, last: int, i: int, j: int) -> Int[np.ndarray, " rows"]:
    """The samples that made the edge i → j in the graph of `last`: its label is i, it holds j."""
    lo, hi = np.searchsorted(samples.last, [last, last + 1])
    lo, hi = lo + np.searchsorted(samples.label[lo:hi], [i, i + 1])
    part = samples.take(np.arange(lo, hi))
    return lo + sorted_unique(part.sample_of[part.token == j])


@dataclass(frozen=True)
class _Seen:
    """A context as a model sees it: its known tokens in order of appearance, with their scores."""

    context: list[Label]
    unknown: dict[Label, int]  # tokens outside the vocabulary, with their counts
    words: list[Label]
    q: int | None  # the last token
    known_last: bool
    answered: bool  # whether anything was learned about contexts that end in q
    tokens: Int[np.ndarray, " known"]
    count: Int[np.ndarray, " known"]
    pairs: Int[np.ndarray, " known"]  # −1 where never seen with q
    svm: Float[np.ndarray, " known"]
    finite: Float[np.ndarray, " known"]


@dataclass(frozen=True, eq=False)
class Choices:
    """What each token of a context would choose among them, were it the last: row k of `svm` and `finite` is after it.

    `words` are the known tokens, `order` is the context in their numbers, `last` that of its last token (None where the
    model does not know it), `answered` after which of them anything was learned.
    """

    words: tuple[Label, ...]
    order: Int[np.ndarray, " context"]
    last: int | None
    answered: Bool[np.ndarray, " words"]
    svm: Float[np.ndarray, "words words"]
    finite: Float[np.ndarray, "words words"]

    def odds(self) -> Float[np.ndarray, "words words"]:
        """P_k up to a factor of each row: 0 for what is not retrieved, and where there is no answer."""
        n = len(self.words)
        start, once = np.arange(n + 1) * n, np.ones(n * n, np.int64)
        score = mixing_scores(start, once, self.svm.ravel(), self.finite.ravel()).reshape(n, n)
        shifted = score - score.max(1, keepdims=True, initial=-np.inf)
        return np.where(self.answered[:, None], np.exp(shifted), 0.0)


def in_short(prediction: Label | None, last: Label, reasons: Mapping[str, int]) -> str:
    """A prediction and how many tokens won or lost for each reason, in a line.

    >>> in_short("soup", "bell", {"outranked": 2, "retrieved": 1})
    "'soup' after 'bell': 1 retrieved, 2 outranked"
    """
    return f"{spoken(prediction)} after {spoken(last)}: {fates_in_short(reasons)}"


def spoken(label: Label | None) -> str:
    """A prediction, or a last token, in a line."""
    return "no prediction" if label is None else repr(visible(label, 40))


def fates_in_short(reasons: Mapping[str, int]) -> str:
    """How many tokens won or lost for each reason.

    >>> fates_in_short({"outranked": 2, "retrieved": 1})
    '1 retrieved, 2 outranked'
    """
    return ", ".join(f"{n} {x}" for x in (*REASONS, NOT_A_TOKEN) if (n := reasons.get(x, 0)))


def unknown_note(unknown: Sequence[Unknown], answered: bool) -> str:
    """What a model does not know of a context, and what came of it, in sentences; nothing where it knows all.

    >>> print(unknown_note([Unknown("teq", "tea", NOT_A_TOKEN)], True))
    ‘teq’ is not in the vocabulary; did you mean ‘tea’? It was left out.
    """
    said = [naming(unknown)] if unknown else []
    out = sum(x.why == NOT_A_TOKEN for x in unknown)
    if not answered:
        said.append(NO_ANSWER)
    elif out:
        said.append("It was left out." if out == 1 else "They were left out.")
    if answered and len(unknown) > out:
        said.append("Its scores follow from the embeddings.")
    return " ".join(said)


def naming(unknown: Sequence[Unknown]) -> str:
    """The tokens that a model does not know, each in a sentence, with the nearest that it does."""
    said = []
    for x in unknown[:SUGGESTED]:
        near = "." if x.nearest is None else f"; did you mean ‘{visible(x.nearest)}’?"
        is_not = f"was {x.why} in the data." if x.why == NEVER_LAST else f"is {x.why}{near}"
        said.append(f"‘{visible(x.token)}’ {is_not}")
    if len(unknown) > SUGGESTED:
        said.append(f"Nor are {len(unknown) - SUGGESTED} more.")
    return " ".join(said)
