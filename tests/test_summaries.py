"""What was learned, in numbers: a model solved by hand, plain loops, scikit-learn, and what must not change."""

from collections import Counter
from math import log

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from attomaton import samples_from_sequences, summaries
from attomaton.corpus.documents import read_documents
from attomaton.corpus.readers import read_samples
from attomaton.corpus.reading import Reading
from attomaton.disk.formats import plain
from attomaton.errors import UsageError
from attomaton.mechanics.synthetic import draw_samples
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.numerics import BLOCK, heaviest
from attomaton.summaries.outcomes import OUTCOMES, outcomes
from attomaton.summaries.rank import disagreement, places


def model_summary(*arguments, **options):
    """As plain data, which the tests below look into by name."""
    return plain(summaries.model_summary(*arguments, **options))


def last_token_lens(*arguments, **options):
    return plain(summaries.last_token_lens(*arguments, **options))


def document_lens(*arguments, **options):
    return plain(summaries.document_lens(*arguments, **options))


# After q: a and b tied above c and q. After z: the chain x, y, z. After w: v and w tied, 3 to 1.
# The last row's label is not in its context.
SEQUENCES = ["abcq", "abq", "xyz", "yz", "vw", "vw", "aq"]
NEXTS = "abxyvwb"
WEIGHTS = [1, 1, 1, 5, 3, 1, 1]
ALL = 10**6


@pytest.fixture(scope="module")
def hand():
    return solve_limit(samples_from_sequences([list(s) for s in SEQUENCES], list(NEXTS), WEIGHTS))


@pytest.fixture(scope="module")
def drawn():
    """A random model with repeats in contexts, ties and several levels."""
    return solve_limit(
        draw_samples(np.random.default_rng(4), 9, 150, 5, kind="general", repeats=True)
    )


def lens(limit, token, **options):
    return last_token_lens(limit, limit.graph.vocabulary.id_of(token), **options)


def by(rows, key):
    return {row[key]: row for row in rows}


# The hand-solved model


def test_shares_of_last_tokens(hand):
    kinds = by(model_summary(hand)["last_token_kinds"], "kind")
    assert {k: (r["last_tokens"], r["weight"]) for k, r in kinds.items()} == {
        "hard": (1, 6.0), "soft": (1, 4.0), "mixed": (1, 2.0)
    }  # fmt: skip
    assert sum(r["share"] for r in kinds.values()) == pytest.approx(1)
    assert sum(r["weight_share"] for r in kinds.values()) == pytest.approx(1)


def test_how_windows_end(hand):
    p = model_summary(hand)["predictions"]
    weight = {r["outcome"]: r["weight"] for r in p["outcomes"]}
    assert weight == {"hard": 6, "soft": 6, "lost": 0, "absent": 1}
    assert (p["windows"], p["realizable"]) == (13, 12)
    assert sum(r["share_of_windows"] for r in p["outcomes"]) == pytest.approx(1)
    # 6 at probability 1, two at 1/2 (both then likeliest), three at 3/4 and one at 1/4.
    assert p["right"] == pytest.approx(11 / 12)
    assert p["label_probability"]["mean"] == pytest.approx(9.5 / 12)
    assert p["label_probability"]["mean_where_soft"] == pytest.approx(3.5 / 6)
    soft = {b["from"]: b["soft"] * 12 for b in p["label_probability"]["bins"] if b["soft"]}
    assert soft == pytest.approx({0.2: 1, 0.5: 2, 0.7: 3})


def test_levels_priorities_and_ties(hand):
    s = model_summary(hand)
    assert [[r[k] for k in ("components", "tied_components", "tokens", "weight")] for r in s["levels"]] == [
        [3, 2, 5, 7], [3, 0, 3, 5], [1, 0, 1, 0]
    ]  # fmt: skip
    first = s["priorities"][0]
    assert [first[k] for k in ("last", "winner", "loser", "weight", "relation")] == [
        "z", "y", "z", 5, "strict"
    ]  # fmt: skip
    margins = {(r["winner"], r["loser"]): r["margin"] for r in s["priorities"]}
    assert margins == pytest.approx(
        {("a", "c"): 1, ("a", "q"): 1, ("b", "q"): 1, ("x", "y"): 1, ("x", "z"): 2, ("y", "z"): 1}
    )
    tie = by(s["components"], "last")
    assert set(tie) == {"q", "w"}
    assert (tie["w"]["size"], tie["w"]["level"], tie["w"]["weight"]) == (2, 0, 4)
    assert [(m["token"], m["weight"]) for m in tie["w"]["members"]] == [("v", 3), ("w", 1)]
    assert tie["w"]["members"][0]["log_pi"] == pytest.approx(log(3) / 2)
    # Half of log-odds whose variance is 1/3 + 1/1.
    assert [m["se"] for m in tie["w"]["members"]] == pytest.approx([(1 / 3 + 1) ** 0.5 / 2] * 2)


def test_heaviest_last_tokens(hand):
    z, w, q = model_summary(hand)["last_tokens"]
    assert [r["last"] for r in (z, w, q)] == ["z", "w", "q"]
    assert (z["kind"], z["tokens"], z["components"], z["levels"], z["hard_share"]) == (
        "hard",
        3,
        3,
        3,
        1,
    )
    assert z["next"] == [{"token": "y", "weight": 5}, {"token": "x", "weight": 1}]
    assert (q["kind"], q["components"], q["hard_share"]) == ("mixed", 3, 0)
    assert len(model_summary(hand, top=2)["last_tokens"]) == 2


def test_priorities_of_tokens_over_all_last_tokens():
    # j under i after p (weight 2) and after r, i under j after s, i and j tied after t.
    rows = ["ijp", "ijr", "ijs", "ijt", "ijt"]
    limit = solve_limit(
        samples_from_sequences([list(r) for r in rows], list("iijij"), [2, 1, 1, 1, 1])
    )
    top = [
        r
        for r in model_summary(limit, ALL)["token_priorities"]
        if (r["winner"], r["loser"]) == ("i", "j")
    ]
    assert top == [
        {"winner": "i", "loser": "j", "weight": 3, "last_tokens": 2, "tied": 1, "reversed": 1}
    ]


def test_the_lens_on_a_last_token(hand):
    q = lens(hand, "q", max_df=1.0)
    assert (q["weight"], q["weight_share"], q["kind"]) == (2, pytest.approx(2 / 12), "mixed")
    assert (q["tokens"], q["components"], q["edges"]) == (4, 3, 5)
    assert [[r["components"], r["tied_components"], r["tokens"], r["weight"]] for r in q["levels"]] == [
        [1, 1, 2, 2], [2, 0, 2, 0]
    ]  # fmt: skip
    tokens = by(q["points"], "token")
    # Both samples hold a, b and q, with the labels a and b; c was seen with a alone.
    assert {t: r["labels"] for t, r in tokens.items()} == {"a": 2, "b": 2, "c": 1, "q": 2}
    assert {t: r["label_share"] for t, r in tokens.items()} == {
        "a": 0.5,
        "b": 0.5,
        "c": 1,
        "q": 0.5,
    }
    assert q["distinct_tokens"] == 1
    assert {t: r["svm_score"] for t, r in tokens.items()} == pytest.approx(
        {"a": 0.5, "b": 0.5, "c": -0.5, "q": -0.5}
    )
    assert {t: r["priority_place"] for t, r in tokens.items()} == {
        "a": 1.5,
        "b": 1.5,
        "c": 3.5,
        "q": 3.5,
    }
    assert {(e["winner"], e["relation"]) for e in q["outrank_it"]} == {
        ("a", "strict"),
        ("b", "strict"),
    }
    assert q["outranked_by_it"] == []
    assert {
        e["relation"] for e in q["strongest_edges"] if {e["winner"], e["loser"]} == {"a", "b"}
    } == {"tied"}


def test_the_document_of_a_last_token(hand):
    # Contexts without the query, labels once more: a 3, b 3, c 1; "q a", "q b". No other document has these.
    q = lens(hand, "q", max_df=1.0)
    assert {t["term"]: t["count"] for t in q["terms"]} == {
        "a": 3,
        "b": 3,
        "c": 1,
        "q a": 1,
        "q b": 1,
    }
    assert {t["documents"] for t in q["terms"]} == {1}
    assert {t["term"]: t["tfidf"] for t in q["terms"]} == pytest.approx(
        {
            "a": 3 / 21**0.5,
            "b": 3 / 21**0.5,
            "c": 1 / 21**0.5,
            "q a": 1 / 21**0.5,
            "q b": 1 / 21**0.5,
        }
    )
    w = lens(hand, "w", max_df=1.0)
    assert {t["term"]: t["count"] for t in w["terms"]} == {"v": 7, "w": 1, "w v": 3, "w w": 1}
    assert next(t for t in w["terms"] if t["term"] == "w v")["svm_score"] == pytest.approx(0)


def test_a_token_that_is_never_last_is_refused(hand):
    with pytest.raises(UsageError, match="'a' is never a last token"):
        lens(hand, "a")


def test_a_token_in_too_many_documents_weighs_nothing(drawn):
    common = lens(drawn, drawn.graph.vocabulary[int(drawn.graph.last_tokens[0])], max_df=0.5)
    lasts = len(drawn.graph.last_tokens)
    assert all(r["documents"] <= lasts / 2 or r["tfidf"] == 0 for r in common["points"])
    assert any(r["documents"] > lasts / 2 for r in common["points"])


# Second implementations


def test_outcomes_are_those_of_the_automaton(drawn):
    samples, automaton = drawn.samples, Automaton(drawn)
    weight, right, mean = Counter(), 0.0, 0.0
    for i in range(len(samples)):
        q, y = samples.vocabulary[samples.last[i]], samples.vocabulary[samples.label[i]]
        bag = samples.bag(i)
        bag[q] -= 1
        p = automaton.predict_proba([*(x for x, m in bag.items() for _ in range(m)), q])
        inside = [x for x in p if drawn.graph.tied(*map(samples.vocabulary.id_of, (q, x, y)))]
        weight["hard" if len(inside) == 1 else "soft"] += samples.weight[i]
        right += samples.weight[i] * (p[y] >= max(p.values()) - 1e-9)
        mean += samples.weight[i] * p[y]
    s = model_summary(drawn)["predictions"]
    assert weight["hard"] > 0
    assert weight["soft"] > 0
    found = {r["outcome"]: r["weight"] for r in s["outcomes"]}
    assert found == {**weight, "lost": 0, "absent": samples.set_aside.weight}
    assert s["right"] == pytest.approx(right / samples.total_weight)
    assert s["label_probability"]["mean"] == pytest.approx(mean / samples.total_weight)


def test_the_label_probabilities_make_the_loss_floor(drawn):
    samples, graph = drawn.samples, drawn.graph
    pair = graph.pairs(samples.last[samples.sample_of], samples.token)
    result = outcomes(
        samples.start, samples.token, samples.count, samples.label,
        drawn.svm.score[pair], drawn.finite.score[pair],
    )  # fmt: skip
    floor = -(samples.weight @ np.log(result.label_p)) / samples.total_weight
    assert floor == pytest.approx(drawn.finite.loss_floor, abs=1e-12)


def test_windows_that_are_lost_or_absent():
    # Two windows of the same two tokens, 7 above 8: label 8 is lost, label 9 absent.
    end = outcomes(np.array([0, 2, 4]), np.array([7, 8, 7, 8]), np.ones(4, int), np.array([8, 9]),
                   np.array([1.0, 0, 1, 0]), np.zeros(4))  # fmt: skip
    assert [OUTCOMES[k] for k in end.kind] == ["lost", "absent"]
    assert end.label_p.tolist() == [0, 0]
    record = end.predictions(np.array([2.0, 1.0]))
    assert record.right == 0
    assert record.label_probability.mean_where_soft is None


def plain_documents(limit):
    """The terms of each last token's document, written out word by word."""
    samples, documents = limit.samples, {}
    for i in range(len(samples)):
        q, y = (str(samples.vocabulary[x[i]]) for x in (samples.last, samples.label))
        words = [str(x) for x, m in samples.bag(i).items() for _ in range(m)]
        words.remove(q)
        times = int(samples.weight[i])
        documents.setdefault(samples.last[i], []).extend([*words, y, f"{q} {y}"] * times)
    return documents


@pytest.mark.parametrize("max_df", [1.0, 0.6])
def test_tfidf_of_last_tokens_is_scikit_learns(drawn, max_df):
    documents = plain_documents(drawn)
    vectorizer = TfidfVectorizer(analyzer=lambda words: words, max_df=max_df)
    weights = vectorizer.fit_transform(documents.values()).toarray()
    names = vectorizer.get_feature_names_out()
    cosines = weights @ weights.T
    for row, last in enumerate(documents):
        found = last_token_lens(drawn, int(last), ALL, max_df)
        expected = {n: w for n, w in zip(names, weights[row], strict=True) if w > 0}
        assert {t["term"]: t["tfidf"] for t in found["terms"]} == pytest.approx(expected, abs=1e-12)
        like = {r["last"]: r["tfidf_cosine"] for r in found["similar"]["by_text"]}
        word = drawn.graph.vocabulary
        assert like == pytest.approx(
            {word[other]: cosines[row, i] for i, other in enumerate(documents) if i != row and cosines[row, i] > 0}
        )  # fmt: skip


def test_likeness_by_attention_is_the_cosine_of_columns_of_w(drawn):
    svm, finite = (drawn.dense(x.coefficient) for x in (drawn.svm, drawn.finite))
    word, last = drawn.graph.vocabulary, int(drawn.graph.last_tokens[2])

    def cosine(W, k):
        scale = np.linalg.norm(W[:, last]) * np.linalg.norm(W[:, k])
        return W[:, last] @ W[:, k] / scale if scale > 0 else 0.0

    rows = last_token_lens(drawn, last, ALL)["similar"]["by_attention"]
    assert rows
    for row in rows:
        k = word.id_of(row["last"])
        assert row["svm_cosine"] == pytest.approx(cosine(svm, k), abs=1e-9)
        assert row["finite_cosine"] == pytest.approx(cosine(finite, k), abs=1e-9)


def test_labels_of_every_token_by_a_plain_loop(drawn):
    samples = drawn.samples
    for last in drawn.graph.last_tokens:
        seen = {}
        for i in np.flatnonzero(samples.last == last).tolist():
            for x in samples.bag(i):
                seen.setdefault(x, Counter())[int(samples.label[i])] += samples.weight[i]
        rows = by(last_token_lens(drawn, int(last))["points"], "token")
        assert {x: len(c) for x, c in seen.items()} == {x: r["labels"] for x, r in rows.items()}
        share = {x: max(c.values()) / sum(c.values()) for x, c in seen.items()}
        assert {x: r["label_share"] for x, r in rows.items()} == pytest.approx(share)
        assert {x for x, c in seen.items() if len(c) == 1} == {
            x for x, r in rows.items() if r["distinct"]
        }


# What must not change


def test_new_names_and_a_new_order_of_samples_change_nothing_but_names():
    rng = np.random.default_rng(8)
    rows = rng.integers(0, 7, (60, 5))
    labels = np.array([rng.choice(r) for r in rows])
    weights = rng.uniform(0.5, 2, 60)
    other, order = rng.permutation(7), rng.permutation(60)
    one = solve_limit(samples_from_sequences(rows, labels, weights))
    two = solve_limit(
        samples_from_sequences(other[rows][order], other[labels][order], weights[order])
    )
    a, b = model_summary(one, ALL), model_summary(two, ALL)
    for kind_a, kind_b in zip(a["last_token_kinds"], b["last_token_kinds"], strict=True):
        assert kind_a == pytest.approx(kind_b)
    for row_a, row_b in zip(a["levels"], b["levels"], strict=True):
        assert row_a == pytest.approx(row_b)
    assert a["predictions"]["right"] == pytest.approx(b["predictions"]["right"])

    def edges(s, names):
        return {
            tuple(int(names[r[k]]) for k in ("last", "winner", "loser")): (r["weight"], r["margin"])
            for r in s["priorities"]
        }

    left, right = edges(a, other), edges(b, np.arange(7))
    assert left.keys() == right.keys()
    assert all(left[k] == pytest.approx(right[k], abs=1e-6) for k in left)
    last = int(one.graph.vocabulary[int(one.graph.last_tokens[0])])
    x, y = lens(one, last, top=ALL), lens(two, int(other[last]), top=ALL)
    points = by(y["points"], "token")
    for row in x["points"]:
        mate = points[int(other[row["token"]])]
        assert {k: v for k, v in row.items() if k != "token"} == pytest.approx(
            {k: v for k, v in mate.items() if k != "token"}, abs=1e-6
        )


# Orders


def test_heaviest_is_a_stable_sort():
    rng = np.random.default_rng(0)
    for n in (0, 1, 5, BLOCK, 5 * BLOCK + 3):
        weight = rng.integers(0, 50, n).astype(float)
        for top in (1, 3, 20, 10 * BLOCK):
            expected = np.argsort(-weight, kind="stable")[:top]
            np.testing.assert_array_equal(heaviest(weight, top), expected)


def test_places_and_disagreement():
    text, attention = places(np.array([9.0, 5, 1, 0])), places(np.array([0.0, 2, 2, 7]))
    assert text.tolist() == [1, 2, 3, 4]
    assert attention.tolist() == [4, 2.5, 2.5, 1]
    apart = disagreement(text, attention, 5)
    assert apart.text_over_attention == [0, 1]  # two and a half places from the better half
    assert apart.attention_over_text == [3, 2]
    assert apart.rank_correlation == pytest.approx(np.corrcoef(text, attention)[0, 1])
    same = disagreement(text, text, 5)
    assert (same.rank_correlation, same.text_over_attention) == (pytest.approx(1), [])


# Documents

TEXT = """ = Tea = 

 the cup and the pot and the cup 
 = = Pots = = 
 the pot and the cup 

 = Sea = 

 a boat on the sea and a boat on the lake 
 the sea and the boat and the sea 
"""


@pytest.fixture
def told(tmp_path):
    path = tmp_path / "told.txt"
    path.write_text(TEXT)
    return path, solve_limit(read_samples(path, context=4)), read_documents(path)


def test_tfidf_of_documents_is_scikit_learns(told):
    path, limit, _ = told
    lines = read_documents(path, "lines")
    plain = [line for line in TEXT.split("\n") if line.strip()]
    vectorizer = TfidfVectorizer(
        tokenizer=str.split, token_pattern=None, lowercase=False, ngram_range=(1, 2), max_df=0.5
    )
    weights = vectorizer.fit_transform(plain).toarray()
    names = vectorizer.get_feature_names_out()
    for i in range(len(plain)):
        found = document_lens(limit, lines, i, ALL)
        expected = {n: w for n, w in zip(names, weights[i], strict=True) if w > 0}
        assert {t["term"]: t["tfidf"] for t in found["terms"]} == pytest.approx(expected)
        cosine = weights @ weights[i]
        near = {j: cosine[j] for j in range(len(plain)) if j != i and cosine[j] > 1e-12}
        assert {d["document"]: d["tfidf_cosine"] for d in found["similar"]} == pytest.approx(near)


@pytest.mark.parametrize("split", ["articles", "paragraphs", "lines"])
def test_the_windows_of_all_documents_are_those_of_the_fit(told, split):
    path, limit, _ = told
    documents = read_documents(path, split)
    whole = {r["outcome"]: r["weight"] for r in model_summary(limit)["predictions"]["outcomes"]}
    parts, levels = Counter(), Counter()
    for i in range(len(documents)):
        record = document_lens(limit, documents, i)
        parts.update({r["outcome"]: r["weight"] for r in record["predictions"]["outcomes"]})
        levels.update({"windows": sum(r["windows"] for r in record["levels"])})
    assert parts == whole
    assert levels["windows"] == limit.samples.windows


@pytest.mark.parametrize("split", ["paragraphs", "lines"])
@pytest.mark.parametrize("tokenizer", ["lower", "chars"])
def test_windows_of_documents_fitted_apart(tmp_path, split, tokenizer):
    path = tmp_path / "apart.txt"
    path.write_text(
        "\nThe cup and the pot\nand the cup  \n \n\nA boat on a lake and a boat\r\non a sea"
    )
    limit = solve_limit(read_samples(path, context=4, split=split, tokenizer=tokenizer))
    documents = read_documents(path, split, Reading(split=split, tokenizer=tokenizer))
    assert len(documents.ids) == limit.samples.tokens
    whole = {r["outcome"]: r["weight"] for r in model_summary(limit)["predictions"]["outcomes"]}
    parts = Counter()
    for i in range(len(documents)):
        record = document_lens(limit, documents, i)
        parts.update({r["outcome"]: r["weight"] for r in record["predictions"]["outcomes"]})
    assert parts == whole


def test_what_attention_makes_of_a_word_of_a_document(told):
    _, limit, documents = told
    lens_, automaton = document_lens(limit, documents, 1, ALL), Automaton(limit)
    words = [documents.vocabulary[x] for x in documents.ids]
    begin, end = documents.start[1:3]
    held, retrieved, labels = Counter(), Counter(), {}
    pair_held, pair_labels = Counter(), {}
    for at in range(begin, end):
        context, y = words[at - 4 : at], words[at]
        # After a token that never was last nothing was learned: nobody is outranked.
        p = automaton.predict_proba(context) or dict.fromkeys(context, 1.0)
        for x in p:
            held[x] += 1
            retrieved[x] += p[x] > 0
            labels.setdefault(x, set()).add(y)
            pair_held[f"{context[-1]} {x}"] += 1
            pair_labels.setdefault(f"{context[-1]} {x}", set()).add(y)
    points = by(lens_["points"], "token")
    assert {x: r["windows"] for x, r in points.items()} == held
    assert {x: r["labels"] for x, r in points.items()} == {x: len(s) for x, s in labels.items()}
    assert {x: r["retrieved"] for x, r in points.items()} == pytest.approx(
        {x: retrieved[x] / held[x] for x in held}
    )
    pairs = [t for t in lens_["terms"] if t["words"] == 2]
    assert pairs
    assert [t["windows"] for t in pairs] == [pair_held[t["term"]] for t in pairs]
    assert [t["labels"] for t in pairs] == [len(pair_labels.get(t["term"], ())) for t in pairs]


def test_edges_of_a_document_stand_with_their_weight_in_the_model(told):
    _, limit, documents = told
    rows = [r for i in range(2) for r in document_lens(limit, documents, i, ALL)["strongest_edges"]]
    total = Counter()
    for r in rows:
        total[r["last"], r["winner"], r["loser"]] += r["weight"]
        assert r["relation"] in ("tied", "strict")
    model = {(r["last"], r["winner"], r["loser"]): r["model_weight"] for r in rows}
    assert total == model
    assert len(model) == len(limit.graph.edge_from)


def test_a_document_of_unknown_words(told, tmp_path):
    _, limit, _ = told
    other = tmp_path / "other.txt"
    other.write_text(
        " = New = \n foo bar foo bar baz foo \n = Tea = \n the cup and the pot and the cup \n"
    )
    new = document_lens(limit, read_documents(other), 0)
    # Unknown words are still different words: foo, bar and foo again come back, baz is new.
    assert new["predictions"]["realizable"] == 3
    assert new["levels"][-1]["level"] is None
    assert all(e["relation"] == "unseen" for e in new["strongest_edges"] if e["winner"] == "foo")


def test_a_document_too_short_for_a_window(told, tmp_path):
    _, limit, _ = told
    brief = tmp_path / "brief.txt"
    brief.write_text("the cup\nthe pot and the cup and the pot\n")
    first = document_lens(limit, read_documents(brief, "lines"), 0)
    assert first["predictions"]["windows"] == 0
    assert first["predictions"]["right"] is None
    assert [first[k] for k in ("levels", "strongest_edges", "points")] == [[], [], []]
    assert {t["term"]: t["windows"] for t in first["terms"]} == {}  # both documents hold its words
    assert first["words"] == 2


def test_wikitext(wikitext):
    limit = solve_limit(read_samples(wikitext / "valid.txt", context=16))
    found = {r["outcome"]: r["weight"] for r in model_summary(limit)["predictions"]["outcomes"]}
    # Known counts of this text: 217,630 windows, 44,722 realizable, 26,452 with a tied competitor.
    assert found == {"hard": 44_722 - 26_452, "soft": 26_452, "lost": 0, "absent": 217_630 - 44_722}
    assert len(read_documents(wikitext / "valid.txt")) == 60
