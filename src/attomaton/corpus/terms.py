"""Terms of documents and their TF-IDF weights, as scikit-learn's TfidfVectorizer weighs them by default.

With N documents, n of them holding a term, and c its count in one of them,

    weight = c · (ln((1 + N) / (1 + n)) + 1),        each document scaled to length 1.

Terms found in more than a share `max_df` of the documents say little about any one of them and weigh 0.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from attomaton.base.shapes import Float, Int
from attomaton.errors import UsageError
from attomaton.numerics import sum_by

MAX_DF = 0.5


@dataclass(frozen=True, eq=False)
class TermWeights:
    """TF-IDF of all documents: `weight` is documents × terms with rows of length 1 (or 0)."""

    weight: csr_array
    document_count: Int[np.ndarray, " terms"]

    def row(self, document: int) -> tuple[Int[np.ndarray, " there"], Float[np.ndarray, " there"]]:
        """The terms of one document that weigh something, and their weights."""
        part = slice(*self.weight.indptr[document : document + 2])
        return self.weight.indices[part].astype(np.int64), self.weight.data[part]

    def cosines(self, document: int) -> Float[np.ndarray, " documents"]:
        """The cosine of one document with every document."""
        term, weight = self.row(document)
        return self.weight @ sum_by(term, weight, self.weight.shape[1])


def tfidf(counts: csr_array, max_df: float = MAX_DF) -> TermWeights:
    """TF-IDF weights of a matrix of counts, documents × terms.

    >>> w = tfidf(csr_array(np.array([[2.0, 1, 0], [0, 1, 1]])), max_df=1.0)
    >>> w.document_count.tolist(), w.weight.toarray().round(4).tolist()
    ([1, 2, 1], [[0.9422, 0.3352, 0.0], [0.0, 0.5797, 0.8148]])
    """
    counts = csr_array(counts, dtype=float, copy=True)
    counts.sum_duplicates()
    counts.eliminate_zeros()
    N, terms = counts.shape
    df = np.bincount(counts.indices, minlength=terms)
    counts.data *= idf(df, N, max_df)[counts.indices]
    row = np.repeat(np.arange(N), np.diff(counts.indptr))
    norm = np.sqrt(sum_by(row, counts.data**2, N))
    counts.data /= np.where(norm > 0, norm, 1.0)[row]
    counts.eliminate_zeros()
    return TermWeights(counts, df)


def idf(
    document_count: Int[np.ndarray, " terms"], N: int, max_df: float
) -> Float[np.ndarray, " terms"]:
    """What a count of each term weighs; nothing where more than a share `max_df` of N documents hold the term."""
    if not 0 < max_df <= 1:
        raise UsageError(f"max_df is a share of the documents above 0 and up to 1, not {max_df}.")
    # What a single document holds is never common, however few documents there are.
    rare = document_count <= max(max_df * N, 1)
    return np.where(rare, np.log((1 + N) / (1 + document_count)) + 1, 0.0)
