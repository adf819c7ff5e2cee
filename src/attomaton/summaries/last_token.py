"""One last token under the lens: its levels, key terms, strongest edges, and last tokens like it.

The *document* of a last token q, for TF-IDF, is the pool of its samples. Every sample adds the tokens of its
context as often as they occur there, but for the one q that is the query; its label once more; and the two-word
term "q label"; all times the sample's weight. The documents are those of all last tokens.

A token x of q is *distinct* when all samples of q that hold x have one label, else *common*.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array, hstack, vstack

from attomaton.base.shapes import Float, Int
from attomaton.corpus.samples import Samples
from attomaton.corpus.terms import MAX_DF, idf
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.errors import UsageError, nearest
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import heaviest, sum_by
from attomaton.summaries.model import KINDS, edge_record, following, last_token_kinds
from attomaton.summaries.outcomes import outcomes
from attomaton.summaries.rank import compared, places
from attomaton.summaries.records import (
    Edge,
    LastTokenPoint,
    LastTokenSummary,
    LastTokenTerm,
    Leading,
    Level,
    LikeLast,
    Predictions,
    Similar,
)

LEADING = 6  # tokens named of a level


def last_token_lens(
    limit: Limit,
    last: int,
    top: int = 20,
    max_df: float = MAX_DF,
    every: "LastTokens | None" = None,
) -> LastTokenSummary:
    """What was learned for one last token (an id), as a record.

    With `every` last token at hand the limit may be one opened for this one alone.
    """
    graph, word = limit.graph, limit.graph.vocabulary
    if last not in graph.last_tokens:
        raise UsageError(f"{word[last]!r} is never a last token in this model, so it has no graph.")
    every = LastTokens.of(limit) if every is None else every
    lens = _Lens(limit, last, every, every.text(max_df))
    apart, points = compared(lens.columns, top, lens.rows)
    own, part = lens.own, graph.edges_of(last)
    edges = np.arange(part.start, part.stop)
    itself = graph.pair(last, last)
    return LastTokenSummary(
        subject="last token",
        last=word[last],
        weight=own.total_weight,
        weight_share=own.total_weight / every.weight,
        kind=KINDS[last_token_kinds(graph)[np.searchsorted(graph.last_tokens, last)]],
        tokens=len(lens.token),
        components=int(np.ptp(lens.component)) + 1,
        edges=len(edges),
        distinct_tokens=int(lens.columns["distinct"].sum()),
        next=following(word, lens.token, lens.label_weight),
        predictions=lens.predictions(),
        levels=lens.levels(),
        max_df=max_df,
        terms=lens.terms(top),
        disagreement=apart,
        strongest_edges=_edges(limit, edges, top),
        outrank_it=_edges(limit, edges[graph.edge_to[edges] == itself], top),
        outranked_by_it=_edges(limit, edges[graph.edge_from[edges] == itself], top),
        similar=_similar(every, lens.row, lens.weights, word, top),
        points=points,
    )


def find_last_token(vocabulary: Vocabulary, lasts: Int[np.ndarray, " lasts"], word: str) -> int:
    """The id of the last token a person means; an error names the nearest where there is none."""
    token = vocabulary.id_of(vocabulary.read(word))
    if token is None or token not in lasts:
        what = "is not a token of" if token is None else "is never a last token in"
        near = nearest(word, [str(vocabulary[k]) for k in lasts.tolist()])
        raise UsageError(f"{word!r} {what} this model{near}")
    return token


@dataclass(frozen=True, eq=False)
class Text:
    """TF-IDF of the documents of all last tokens: words as a matrix, and two-word terms, which no two of them share."""

    words: csr_array  # rows of length 1, two-word terms included
    pairs: csr_array  # by their second word
    document_count: Int[np.ndarray, " tokens"]

    def row(self, i: int) -> tuple[Int[np.ndarray, " there"], Float[np.ndarray, " there"]]:
        """The terms of one document that weigh something, and their weights; term K + x is the last token, then x."""
        both = hstack([self.words[[i]], self.pairs[[i]]], format="csr")
        both.sort_indices()
        there = both.data > 0
        return both.indices[there].astype(np.int64), both.data[there]

    def cosines(self, i: int) -> Float[np.ndarray, " lasts"]:
        """The cosine of one document with every other one."""
        return self.words @ self.words[[i]].toarray()[0]


@dataclass(frozen=True, eq=False)
class LastTokens:
    """What the lens on one last token wants to know of all of them, a row each: documents, and rows of scores."""

    lasts: Int[np.ndarray, " lasts"]
    words: csr_array  # of its document, counted
    labels: csr_array  # what came next, and how often
    svm: csr_array
    finite: csr_array
    weight: float
    _texts: dict[float, Text] = field(default_factory=dict)

    @classmethod
    def of(cls, limit: Limit) -> "LastTokens":
        """Those of a whole limit."""
        graph = limit.graph
        scores = graph.pair_last, graph.pair_token, limit.svm.score, limit.finite.score
        return cls.made(limit.samples, *scores)

    @classmethod
    def made(
        cls,
        samples: Samples,
        last: Int[np.ndarray, " pairs"],
        token: Int[np.ndarray, " pairs"],
        svm: Float[np.ndarray, " pairs"],
        finite: Float[np.ndarray, " pairs"],
    ) -> "LastTokens":
        """The same from all samples and the scores of all pairs, both in the order of their last tokens."""
        # Found by their neighbours: a search would make numbers with a point of all of them first.
        begins = np.flatnonzero(np.concatenate([[len(last) > 0], last[1:] != last[:-1]]))
        lasts = last[begins].astype(np.int64)
        L, n, K = len(lasts), len(samples.last), len(samples.vocabulary)
        start = np.append(np.searchsorted(samples.last, lasts.astype(samples.last.dtype)), n)
        weigh = csr_array((samples.weight, np.arange(n), start), shape=(L, n))
        bags = csr_array((samples.count.astype(float), samples.token, samples.start), shape=(n, K))
        came = csr_array((np.ones(n), samples.label, np.arange(n + 1)), shape=(n, K))
        labels = weigh @ came
        query = csr_array((np.asarray(weigh.sum(axis=1)), lasts, np.arange(L + 1)), shape=(L, K))
        head = np.append(begins, len(last))
        hard, soft = (csr_array((x, token, head), shape=(L, K)) for x in (svm, finite))
        words = weigh @ bags + (labels - query)
        words.eliminate_zeros()  # a last token that no context holds twice
        return cls(lasts, words, labels, hard, soft, float(samples.weight.sum()))

    @classmethod
    def together(cls, parts: "Sequence[LastTokens]") -> "LastTokens":
        """Those of all parts of a model, whose last tokens ascend from one to the next."""
        words, labels, svm, finite = (
            vstack([getattr(part, name) for part in parts], format="csr")
            for name in ("words", "labels", "svm", "finite")
        )
        lasts = np.concatenate([part.lasts for part in parts])
        return cls(lasts, words, labels, svm, finite, sum(part.weight for part in parts))

    def text(self, max_df: float = MAX_DF) -> Text:
        """Their TF-IDF, as `corpus.terms` has it; the last one is kept."""
        if max_df not in self._texts:
            self._texts.clear()
            self._texts[max_df] = self._weighed(max_df)
        return self._texts[max_df]

    def _weighed(self, max_df: float) -> Text:
        words, pairs, N = self.words, self.labels, len(self.lasts)
        df = np.bincount(words.indices, minlength=words.shape[1])
        once = idf(np.ones(1, np.int64), N, max_df)[0]
        weighed = [
            _like(words, words.data * idf(df, N, max_df)[words.indices]),
            _like(pairs, pairs.data * once),
        ]
        norm = np.sqrt(sum(np.asarray(_like(x, x.data**2).sum(axis=1)) for x in weighed))
        for x in weighed:
            x.data /= np.repeat(np.where(norm > 0, norm, 1.0), np.diff(x.indptr))
        return Text(weighed[0], weighed[1], df)

    @cached_property
    def there(self) -> csr_array:
        """Which tokens were seen with each."""
        return _like(self.svm, np.ones(len(self.svm.data)))


class _Lens:
    """One last token's part of a limit, with the TF-IDF of its document; tokens by place in its graph."""

    def __init__(self, limit: Limit, last: int, every: LastTokens, weights: Text):
        self.limit, self.last, self.weights = limit, last, weights
        self.row = int(np.searchsorted(every.lasts, last))
        lo, hi = np.searchsorted(limit.samples.last, [last, last + 1])
        self.own = limit.samples.take(np.arange(lo, hi))
        self.pairs = limit.graph.pairs_of(last)
        self.token: Int[np.ndarray, " tokens"] = limit.graph.pair_token[self.pairs]
        self.component: Int[np.ndarray, " tokens"] = limit.graph.component[self.pairs]
        # How often each term is in its document: words, then the last token with each of them behind it
        self.counts: Float[np.ndarray, " terms"] = np.concatenate(
            [x[[self.row]].toarray()[0] for x in (every.words, every.labels)]
        )
        # How often each token came next
        self.label_weight: Float[np.ndarray, " tokens"] = sum_by(
            np.searchsorted(self.token, self.own.label), self.own.weight, len(self.token)
        )

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """What the tables say about every token."""
        limit, pairs, K = self.limit, self.pairs, len(self.limit.graph.vocabulary)
        term, weight = self.weights.row(self.row)
        text = sum_by(term[term < K], weight[term < K], K)[self.token]
        labels, label_share = self._labels()
        score, log_pi = limit.svm.score[pairs], limit.finite.log_pi[pairs]
        return {
            "count": self.counts[self.token],
            "documents": self.weights.document_count[self.token],
            "tfidf": text,
            "tfidf_place": places(text),
            "level": limit.graph.level[self.component],
            "svm_score": score,
            "log_pi": log_pi,
            "priority_place": places(score, log_pi),
            "labels": labels,
            "label_share": label_share,
            "distinct": labels == 1,
        }

    def _labels(self) -> tuple[Int[np.ndarray, " tokens"], Float[np.ndarray, " tokens"]]:
        """With how many labels each token was seen, and the share of the commonest of them."""
        graph = self.limit.graph
        edges = graph.edges_of(self.last)
        # The edge y → x weighs what the samples with label y that hold x do; those with label x hold x too.
        loser, weight = graph.edge_to[edges] - self.pairs.start, graph.edge_weight[edges]
        n = len(self.token)
        most = self.label_weight.copy()
        np.maximum.at(most, loser, weight)
        total = sum_by(loser, weight, n) + self.label_weight
        return np.bincount(loser, minlength=n) + (self.label_weight > 0), most / total

    def rows(self, chosen: Int[np.ndarray, " chosen"] | list[int]) -> list[LastTokenPoint]:
        """The columns of some tokens, one record each."""
        word = self.limit.graph.vocabulary
        return [
            LastTokenPoint(word[self.token[i]], **{k: v[i].item() for k, v in self.columns.items()})
            for i in chosen
        ]

    def terms(self, top: int) -> list[LastTokenTerm]:
        """The terms of largest TF-IDF; a two-word term stands with the priority of its second word."""
        graph, K = self.limit.graph, len(self.limit.graph.vocabulary)
        term, weight = self.weights.row(self.row)
        best = heaviest(weight, top)
        two = term[best] >= K
        token = term[best] % K
        rows = []
        points = self.rows(np.searchsorted(self.token, token))
        for point, t, w, pair in zip(points, term[best], weight[best], two, strict=True):
            first = f"{graph.vocabulary[self.last]} " if pair else ""
            own = {
                "term": f"{first}{point.token}",
                "words": 1 + int(pair),
                "count": float(self.counts[t]),
                "documents": 1 if pair else int(self.weights.document_count[t]),
                "tfidf": float(w),
            }
            # The place is that of the token alone, not of this term.
            rest = {k: v for k, v in vars(point).items() if k != "tfidf_place"}
            rows.append(LastTokenTerm(**rest | own))
        return rows

    def predictions(self) -> Predictions:
        """What the automaton makes of this last token's samples."""
        own, place = self.own, np.searchsorted(self.token, self.own.token)
        svm, finite = (x.score[self.pairs][place] for x in (self.limit.svm, self.limit.finite))
        result = outcomes(own.start, own.token, own.count, own.label, svm, finite)
        return result.predictions(own.weight)

    def levels(self) -> list[Level]:
        """Each level: how many components and tokens, how often its tokens came next, and who leads it."""
        word, size = self.limit.graph.vocabulary, self.limit.graph.component_size
        level, column = self.columns["level"], self.columns
        order = np.lexsort((-self.label_weight, -column["log_pi"], column["priority_place"], level))
        rows = []
        for i, members in enumerate(np.split(order, np.cumsum(np.bincount(level))[:-1])):
            component = np.unique(self.component[members])
            rows.append(
                Level(
                    i,
                    len(component),
                    int((size[component] > 1).sum()),
                    len(members),
                    float(self.label_weight[members].sum()),
                    [
                        Leading(
                            word[self.token[m]],
                            float(column["svm_score"][m]),
                            float(column["log_pi"][m]),
                            float(self.label_weight[m]),
                        )
                        for m in members[:LEADING]
                    ],
                )
            )
        return rows


def _like(rows: csr_array, data: Float[np.ndarray, " entries"]) -> csr_array:
    """Other entries in the places of these."""
    return csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


def _edges(limit: Limit, edges: Int[np.ndarray, " edges"], top: int) -> list[Edge]:
    """Some edges in words, the heaviest first."""
    best = edges[heaviest(limit.graph.edge_weight[edges], top)]
    return [edge_record(limit, int(e)) for e in best]


def _similar(every: LastTokens, row: int, text: Text, word: Vocabulary, top: int) -> Similar:
    """The last tokens most like one, by what attention learned and by TF-IDF.

    `svm_cosine` and `finite_cosine` are cosines of the rows of W_svm's and W_fin's scores, 0 at tokens never
    seen with a last token, as the layer has it; `shared` counts the tokens seen with both.
    """
    columns = {
        "svm_cosine": _cosines(every.svm, row),
        "finite_cosine": _cosines(every.finite, row),
        "tfidf_cosine": text.cosines(row),
        "shared": every.there @ every.there[[row]].toarray()[0],
    }
    by = "svm_cosine" if columns["svm_cosine"][row] > 0 else "finite_cosine"

    def most(name: str) -> list[LikeLast]:
        value = columns[name].copy()
        value[row] = -np.inf
        return [
            LikeLast(word[int(every.lasts[i])], **{k: float(v[i]) for k, v in columns.items()})
            for i in heaviest(value, top)
            if value[i] > 0
        ]

    return Similar(by, most(by), most("tfidf_cosine"))


def _cosines(rows: csr_array, row: int) -> Float[np.ndarray, " lasts"]:
    norm = np.sqrt(np.add.reduceat(rows.data**2, rows.indptr[:-1]))
    scale = norm * norm[row]
    dot = rows @ rows[[row]].toarray()[0]
    return np.divide(dot, scale, out=np.zeros(len(norm)), where=scale > 0)
