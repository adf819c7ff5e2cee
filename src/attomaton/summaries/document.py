"""One document under the lens: its key terms, its windows through the automaton, and documents like it.

The windows of a document are those whose label lies in it, with their context as it stands in the whole text:
on the text a model was fitted on these are the windows of the fit, and every one belongs to one document.

Attention ranks tokens for one last token at a time. What it thinks of a word in a document is therefore a mean
over the document's windows that hold the word; for a two-word term "a b", over those of them with last token a.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.corpus.documents import Documents
from attomaton.corpus.terms import MAX_DF, TermWeights, tfidf
from attomaton.corpus.vocabulary import Label
from attomaton.errors import UsageError
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import heaviest, ragged_indices, row_pointer, sum_by
from attomaton.summaries.outcomes import OUTCOMES, outcomes
from attomaton.summaries.rank import compared, places
from attomaton.summaries.records import (
    DecidedOn,
    DocumentPoint,
    DocumentSummary,
    DocumentTerm,
    ShownEdge,
    SimilarDocument,
)

SHARED = 5  # terms named of what two documents share


def document_lens(
    limit: Limit,
    documents: Documents,
    i: int,
    top: int = 20,
    max_df: float = MAX_DF,
    context: int | None = None,
    windows: "DocumentWindows | None" = None,
) -> DocumentSummary:
    """What a model makes of one document of a text, as a record.

    `context` is the number of tokens before a label in the fit (by default the most its samples show). The limit
    may be one opened for the last tokens of this document alone. `windows` are those of `document_windows`, where they
    are at hand.
    """
    windows = document_windows(limit, documents, i, context) if windows is None else windows
    weights = tfidf(documents.terms.counts, max_df)
    term, weight = weights.row(i)
    text = sum_by(term, weight, weights.weight.shape[1])
    counts = documents.terms.counts[[i]].toarray()[0]
    word = windows.held
    columns = {
        "count": counts[word],
        "documents": weights.document_count[word],
        "tfidf": text[word],
        "tfidf_place": places(text[word]),
        **{k: v[word] for k, v in windows.columns(windows.word, len(documents.vocabulary)).items()},
    }
    columns["priority_place"] = places(columns["svm_score"])

    def rows(chosen: list[int]) -> list[DocumentPoint]:
        return [
            DocumentPoint(documents.vocabulary[word[c]], **_entries(columns, c)) for c in chosen
        ]

    apart, points = compared(columns, top, rows)
    return DocumentSummary(
        subject="document",
        document=i,
        title=documents.titles[i],
        documents=len(documents),
        words=int(counts[: len(documents.vocabulary)].sum()),
        distinct_words=int((counts[: len(documents.vocabulary)] > 0).sum()),
        context=windows.context,
        predictions=windows.result.predictions(np.ones(len(windows.label))),
        levels=windows.levels(),
        max_df=max_df,
        terms=_terms(documents, weights, windows, i, top),
        disagreement=apart,
        strongest_edges=windows.edges(top),
        similar=_similar(documents, weights, i, top),
        points=points,
    )


@dataclass(frozen=True)
class ReadWord:
    """A word of a document, and the answer of the automaton to what stands before it.

    `outcome` is one of `OUTCOMES`, None of words without a window of their own; `p` is what the answer gives to the
    word, `right` says that nothing is likelier, and `answer` is the likeliest token with its probability.
    """

    word: Label
    outcome: str | None = None
    p: float = 0.0
    right: bool = False
    answer: Label | None = None
    answer_p: float = 0.0


def document_windows(
    limit: Limit, documents: Documents, i: int, context: int | None = None
) -> "DocumentWindows":
    """The windows of one document of a text, for `document_lens` and `document_text`."""
    if not 0 <= i < len(documents):
        raise UsageError(f"document {i}: there are 0 … {len(documents) - 1}.")
    if not context:  # the most tokens a sample holds, repeats included
        context = int(np.add.reduceat(limit.samples.count, limit.samples.start[:-1]).max())
    return DocumentWindows(limit, documents, i, context)


def document_text(windows: "DocumentWindows") -> list[ReadWord]:
    """All words of a document in their order, each with the answer to what stands before it."""
    words, result = windows.documents.vocabulary, windows.result
    begin, end = windows.documents.start[windows.i : windows.i + 2].tolist()
    read = [ReadWord(words[x]) for x in windows.documents.ids[begin:end].tolist()]
    known = np.flatnonzero(windows.known).tolist()
    for k in known:
        at = int(windows.position[k])
        read[at - begin] = ReadWord(
            words[int(windows.label[k])],
            OUTCOMES[result.kind[k]],
            float(result.label_p[k]),
            bool(result.likeliest[k] and result.kind[k] < OUTCOMES.index("absent")),
            words[int(windows.word[result.answer[k]])],
            float(result.answer_p[k]),
        )
    return read


def window_words(windows: "DocumentWindows", place: int) -> list[Label]:
    """What stands before a word of the document, as far as its window reaches."""
    documents = windows.documents
    at = int(documents.start[windows.i]) + place
    edge = int(documents.start[windows.i]) if documents.apart else 0
    return [documents.vocabulary[x] for x in documents.ids[max(at - windows.context, edge) : at]]


class DocumentWindows:
    """The windows of one document as bags, words by their ids in the text, and what becomes of them."""

    def __init__(self, limit: Limit, documents: Documents, i: int, context: int):
        self.limit, self.documents, self.i, self.context = limit, documents, i, context
        graph, words, V = limit.graph, documents.vocabulary, len(documents.vocabulary)
        begin, end = documents.start[i : i + 2]
        edge = begin if documents.apart else 0
        # As in a fit, a stream begins with a full context, a document with one word.
        first = begin + 1 if documents.apart else max(begin, context)
        self.position: Int[np.ndarray, " windows"] = np.arange(first, max(first, end))
        self.label: Int[np.ndarray, " windows"] = documents.ids[self.position]
        self.last: Int[np.ndarray, " windows"] = documents.ids[self.position - 1]

        # Entries are the distinct words of each window.
        left = np.maximum(self.position - context, edge)
        row = np.repeat(np.arange(len(left)), self.position - left)
        inside = documents.ids[ragged_indices(left, self.position - left)]
        entry, count = np.unique(row * V + inside, return_counts=True)
        self.owner: Int[np.ndarray, " entries"] = entry // V
        self.word: Int[np.ndarray, " entries"] = entry % V
        self.held: Int[np.ndarray, " held"] = np.unique(self.word)

        # The model's ids, −1 where it knows none; without a known last token there is no answer.
        known = graph.vocabulary
        self.model_id: Int[np.ndarray, " vocabulary"] = (
            np.arange(len(known))
            if words.labels == known.labels
            else known.ids_of([known.read(str(x)) for x in words])
        )
        ids = self.model_id[self.last]
        self.known: Bool[np.ndarray, " windows"] = (ids >= 0) & np.isin(ids, graph.last_tokens)

        # Scores and levels for the last token of the window; −1 where a word was never seen with it.
        last, token = ids[self.owner], self.model_id[self.word]
        self.svm: Float[np.ndarray, " entries"] = limit.scores(limit.svm.coefficient, last, token)
        finite = limit.scores(limit.finite.coefficient, last, token)
        pair = graph.pairs(last, token)
        self.level: Int[np.ndarray, " entries"] = np.where(
            pair >= 0, graph.level[graph.component[pair]], -1
        )
        start = row_pointer(np.bincount(self.owner, minlength=len(self.label)))
        self.result = outcomes(start, self.word, count, self.label, self.svm, finite)

    def columns(self, key: Int[np.ndarray, " entries"], size: int) -> dict[str, np.ndarray]:
        """Means over the entries of each key 0 … size − 1 (−1: no key); NaN for a key without entries."""
        V = len(self.documents.vocabulary)
        chosen = np.flatnonzero(key >= 0)
        key, seen = key[chosen], self.level[chosen] >= 0
        number, everywhere = np.bincount(key, minlength=size), np.ones(len(chosen), bool)

        def mean(value: np.ndarray, over: np.ndarray) -> np.ndarray:
            n = np.bincount(key[over], minlength=size)
            total = np.bincount(key[over], value[chosen][over], size)
            return np.divide(total, n, out=np.full(size, np.nan), where=n > 0)

        both, times = np.unique(key * V + self.label[self.owner[chosen]], return_counts=True)
        labels = np.bincount(both // V, minlength=size)
        most = np.zeros(size)
        np.maximum.at(most, both // V, times)
        return {
            "windows": number,
            "level": mean(self.level, seen),
            "svm_score": mean(self.svm, everywhere),
            "retrieved": mean(self.result.retrieved, everywhere),
            "labels": labels,
            "label_share": np.divide(most, number, out=np.full(size, np.nan), where=number > 0),
            "distinct": labels == 1,
        }

    def levels(self) -> list[DecidedOn]:
        """How many windows are decided on each level of priority, and how many of them rightly."""
        n = len(self.label)
        kept = np.flatnonzero(self.result.retrieved & (self.level >= 0))
        level = np.full(n, np.iinfo(np.int64).max)
        np.minimum.at(level, self.owner[kept], self.level[kept])
        values, which = np.unique(level, return_inverse=True)
        right = np.bincount(which, self.result.likeliest & (self.result.kind < 3), len(values))
        number = np.bincount(which, minlength=len(values))
        unseen = np.iinfo(np.int64).max
        return [
            DecidedOn(None if v == unseen else int(v), int(m), int(r))
            for v, m, r in zip(values, number, right, strict=True)
        ]

    def edges(self, top: int) -> list[ShownEdge]:
        """The priorities this document shows most often: its label came next, the other word stood there too."""
        V, words = len(self.documents.vocabulary), self.documents.vocabulary
        label = self.label[self.owner]
        use = (self.result.kind[self.owner] < 3) & (self.word != label)
        triple = (self.last[self.owner] * V + label) * V + self.word
        seen, number = np.unique(triple[use], return_counts=True)
        rows = []
        for t, n in ((int(seen[b]), int(number[b])) for b in heaviest(number, top)):
            last, winner, loser = t // V**2, t // V % V, t % V
            held = self._in_model(last, winner, loser)
            rows.append(ShownEdge(words[last], words[winner], words[loser], n, *held))
        return rows

    def _in_model(self, last: int, winner: int, loser: int) -> tuple[float, str, float | None]:
        """What the model holds of an edge: the weight of all samples behind it, its relation there, its margin."""
        graph = self.limit.graph
        k, i, j = (int(self.model_id[x]) for x in (last, winner, loser))
        a, b = (graph.pair(k, x) if min(k, x) >= 0 else None for x in (i, j))
        if a is None or b is None:
            return 0.0, "unseen", None
        part = graph.edges_of(k)
        edge = (graph.edge_from[part] == a) & (graph.edge_to[part] == b)
        back = (graph.edge_from[part] == b) & (graph.edge_to[part] == a)
        margin = float(self.limit.svm.score[a] - self.limit.svm.score[b])
        relation = "strict" if edge.any() else "reversed" if back.any() else "unrelated"
        tied = graph.component[a] == graph.component[b]
        weight = float(graph.edge_weight[part][edge].sum())
        return weight, "tied" if tied else relation, margin


def _entries(columns: Mapping[str, np.ndarray], i: int) -> dict[str, Any]:
    """One entry of each column as Python's own; what is not a number is nothing."""
    return {k: None if np.isnan(v[i]) else v[i].item() for k, v in columns.items()}


def _term(documents: Documents, term: int) -> str:
    words = documents.terms.first[term], documents.terms.second[term]
    return " ".join(str(documents.vocabulary[w]) for w in words if w >= 0)


def _terms(
    documents: Documents, weights: TermWeights, windows: DocumentWindows, i: int, top: int
) -> list[DocumentTerm]:
    """The terms of largest TF-IDF, each with what attention makes of it in this document."""
    term, weight = weights.row(i)
    best = heaviest(weight, top)
    first, second = documents.terms.first[term[best]], documents.terms.second[term[best]]
    rows = []
    for t, w, a, b in zip(term[best], weight[best], first, second, strict=True):
        here: Bool[np.ndarray, " entries"] = windows.word == (a if b < 0 else b)
        if b >= 0:
            here = here & (windows.last[windows.owner] == a)
        learned = windows.columns(np.where(here, 0, -1), 1)
        rows.append(
            DocumentTerm(
                term=_term(documents, int(t)),
                words=1 if b < 0 else 2,
                count=float(documents.terms.counts[i, t]),
                documents=int(weights.document_count[t]),
                tfidf=float(w),
                **_entries(learned, 0),
            )
        )
    return rows


def _similar(documents: Documents, weights: TermWeights, i: int, top: int) -> list[SimilarDocument]:
    """The documents of largest TF-IDF cosine, with the terms that bring them near."""
    cosine = weights.cosines(i)
    cosine[i] = -np.inf
    term, weight = weights.row(i)
    own = sum_by(term, weight, weights.weight.shape[1])
    rows = []
    for d in heaviest(cosine, top):
        if cosine[d] <= 0:
            break
        other, there = weights.row(int(d))
        product = there * own[other]
        near = heaviest(product, SHARED)
        rows.append(
            SimilarDocument(
                int(d),
                documents.titles[d],
                float(cosine[d]),
                int((product > 0).sum()),
                [_term(documents, int(other[t])) for t in near if product[t] > 0],
            )
        )
    return rows
