import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfTransformer

from attomaton.corpus.documents import read_documents
from attomaton.corpus.readers import read_samples
from attomaton.corpus.terms import tfidf
from attomaton.errors import DataError, UsageError

TEXT = """
 = One title = 
 first line 
 = = A section = = 

 second paragraph 
 goes on 
 = Two = 
 = not a title 
 end"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def words(documents, i):
    return [documents.vocabulary[x] for x in documents.ids[slice(*documents.start[i : i + 2])]]


@pytest.mark.parametrize(
    ("split", "titles"),
    [
        ("articles", ("One title", "Two")),
        ("paragraphs", ("= One title =", "second paragraph")),
        ("lines", ("= One title =", "first line", "= = A section = =", "second paragraph", "goes on",
                   "= Two =", "= not a title", "end")),
    ],
)  # fmt: skip
def test_where_documents_begin(path, split, titles):
    documents = read_documents(path, split)
    assert documents.titles == titles
    assert words(documents, len(documents) - 1)[-1] == "end"
    assert documents.start[0] == 0
    assert documents.start[-1] == len(documents.ids)
    assert (np.diff(documents.start) > 0).all()


def test_the_stream_is_the_one_samples_are_made_of(path):
    documents = read_documents(path)
    samples = read_samples(path, context=2)
    assert len(documents.ids) == samples.tokens
    assert documents.vocabulary == samples.vocabulary
    assert "<eos>" not in read_documents(path, line_ends=False).vocabulary


def test_pairs_of_words_stay_inside_their_document(path):
    documents = read_documents(path)
    terms, word = documents.terms, documents.vocabulary
    pairs = {(word[a], word[b]) for a, b in zip(terms.first, terms.second, strict=True) if b >= 0}
    assert ("line", "=") in pairs  # a line end is white space
    assert ("on", "=") not in pairs  # but an article's end is an end
    assert "<eos>" not in {x for pair in pairs for x in pair}


def test_long_first_lines_make_short_titles(tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("word " * 40)
    (title,) = read_documents(path, "lines").titles
    assert len(title) <= 60
    assert title.endswith("…")


def test_a_document_is_found_by_number_and_by_title(path):
    documents = read_documents(path)
    assert [documents.find(x) for x in ("1", "Two", "two")] == [1, 1, 1]
    with pytest.raises(UsageError, match=r"document 2: there are 0 … 1"):
        documents.find("2")
    with pytest.raises(UsageError, match="did you mean 'One title'"):
        documents.find("One tittle")


def test_faults_are_named(tmp_path):
    plain = tmp_path / "plain.txt"
    plain.write_text("no heading here\n")
    with pytest.raises(DataError, match=r"no articles found\. Use --split paragraphs or lines"):
        read_documents(plain)
    with pytest.raises(DataError, match=r"cannot be read.*--data FILE"):
        read_documents(tmp_path / "gone.txt")
    with pytest.raises(UsageError, match="did you mean 'lines'"):
        read_documents(plain, "line")
    with pytest.raises(UsageError, match=r"not of \.csv"):
        read_documents(tmp_path / "log.csv")
    plain.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="not UTF-8"):
        read_documents(plain)


def test_tfidf_is_scikit_learns():
    counts = np.random.default_rng(1).poisson(0.6, (12, 30)).astype(float)
    counts[3] = 0  # an empty document stays one
    ours = tfidf(csr_array(counts), max_df=1.0)
    theirs = TfidfTransformer().fit_transform(counts).toarray()
    np.testing.assert_allclose(ours.weight.toarray(), theirs, atol=1e-14)
    np.testing.assert_array_equal(ours.document_count, (counts > 0).sum(axis=0))
    np.testing.assert_allclose(ours.cosines(5), theirs @ theirs[5], atol=1e-14)
    # Counts of zero that are stored are no counts.
    padded = csr_array(np.where(counts == 0, 1.0, counts))
    padded.data[(counts == 0).ravel()] = 0
    np.testing.assert_allclose(tfidf(padded, 1.0).weight.toarray(), theirs, atol=1e-14)


def test_common_terms_weigh_nothing_unless_there_is_one_document():
    counts = csr_array(np.array([[1.0, 1, 0], [1, 0, 1], [1, 0, 1], [1, 0, 0]]))
    weight = tfidf(counts, 0.5).weight.toarray()
    assert (weight[:, 0] == 0).all()
    assert weight[0, 1] == weight[1, 2] == 1
    assert weight[3].tolist() == [0, 0, 0]
    alone = tfidf(csr_array(np.array([[3.0, 4.0]]))).weight
    assert alone.toarray()[0] == pytest.approx([0.6, 0.8])
    with pytest.raises(UsageError, match="max_df"):
        tfidf(counts, 0.0)
