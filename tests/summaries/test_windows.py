"""Windows of a corpus in their order: found by last token and answer, and those behind an edge."""

import numpy as np
import pytest

from attomaton import Automaton, as_windows, read_samples, solve_limit
from attomaton.corpus.documents import read_documents
from attomaton.errors import UsageError
from attomaton.summaries.document import document_text, document_windows, window_words
from attomaton.summaries.windows import (
    ANSWERS,
    edge_windows,
    find_window,
    is_right,
    of_sample,
    window,
)

WORDS = [list("abacabadabcabcaabdbca"), list("cabbacdabacab")]


@pytest.fixture(scope="module")
def windows():
    return as_windows(WORDS, context=4)


@pytest.fixture(scope="module")
def limit(windows):
    return solve_limit(windows.samples())


def judged(windows, limit):
    """Every window's answer, asked one by one."""
    automaton, found = Automaton(limit), []
    for i in range(len(windows)):
        w = window(windows, i)
        p = automaton.predict_proba(w.context)
        right = w.realizable and p.get(w.next, 0) >= max(p.values(), default=1) * (1 - 1e-9)
        found.append("absent" if not w.realizable else "right" if right else "wrong")
    return found


def test_a_window_has_its_words_in_their_order(windows):
    streams = ["".join(row) for row in WORDS]
    for i in range(len(windows)):
        w = window(windows, i)
        assert any("".join([*w.context, w.next]) in stream for stream in streams)


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("last", [None, "a", "b"])
@pytest.mark.parametrize("step", [1, -1])
def test_the_next_window_is_the_next_that_is_as_wanted_around_the_corpus(
    windows, limit, answer, last, step
):
    told, n = judged(windows, limit), len(windows)
    wanted = [
        i for i in range(n)
        if answer in ("any", told[i]) and (last is None or window(windows, i).context[-1] == last)
    ]  # fmt: skip
    for at in range(n):
        around = [(at + step * k) % n for k in range(n)]
        want = next((i for i in around if i in wanted), None)
        assert find_window(windows, lambda _: limit, at, step, last, answer) == want


def test_right_and_wrong_are_what_one_by_one_says(windows, limit):
    told = judged(windows, limit)
    assert {"right", "wrong", "absent"} <= set(told)
    rows = np.flatnonzero(windows.realizable)
    right = is_right(windows, Automaton(limit), rows)
    assert right.tolist() == [told[i] == "right" for i in rows]


def test_windows_behind_an_edge_hold_its_loser_and_its_winner_came_next(windows, limit):
    view = Automaton(limit).explain(list("abcda"))
    edges = [edge for fate in view.fates for edge in fate.path]
    assert edges
    for edge in edges:
        found = edge_windows(windows, "a", edge.winner, edge.loser, most=100)
        assert len(found) == edge.weight
        for w in found:
            assert (w.context[-1], w.next) == ("a", edge.winner)
            assert edge.loser in w.context
    assert edge_windows(windows, "a", "nobody", "b") == []


def test_a_sample_leads_back_to_its_window(windows, limit):
    samples = limit.samples
    for row in range(len(samples)):
        w = window(windows, of_sample(windows, int(samples.source[row])))
        bag = {x: w.context.count(x) for x in w.context}
        assert bag == samples.bag(row)
        assert w.next == samples.vocabulary[samples.label[row]]
    assert of_sample(windows, 10**9) is None


def test_an_unknown_last_token_is_refused(windows, limit):
    with pytest.raises(UsageError, match="not a token"):
        find_window(windows, lambda _: limit, 0, 1, "nobody")
    with pytest.raises(UsageError, match="answer"):
        find_window(windows, lambda _: limit, 0, 1, None, "maybe")


def test_a_document_is_read_word_by_word_as_the_automaton_answers(tmp_path):
    path = tmp_path / "told.txt"
    path.write_text(
        " = A = \n the cup and the pot and the cup and a tea \n = B = \n the tea and the cup and a pot \n"
    )
    limit = solve_limit(read_samples(path, context=5))
    automaton, documents, seen = Automaton(limit), read_documents(path), set()
    for i in range(len(documents)):
        windows = document_windows(limit, documents, i, 5)
        read = document_text(windows)
        begin, end = documents.start[i : i + 2]
        assert [w.word for w in read] == [documents.vocabulary[x] for x in documents.ids[begin:end]]
        for place, word in enumerate(read):
            context = window_words(windows, place)
            seen.add(word.outcome)
            if word.outcome is None:
                assert begin + place < 5 or not automaton.predict_proba(context)
                continue
            p = automaton.predict_proba(context)
            top = max(p.values())
            assert len(context) == 5
            assert p[word.answer] == pytest.approx(top) == pytest.approx(word.answer_p)
            assert word.p == pytest.approx(p.get(word.word, 0.0))
            assert word.right == (p.get(word.word, 0.0) >= top * (1 - 1e-9))
            assert (word.outcome == "absent") == (word.word not in context)
    assert {None, "hard", "absent"} <= seen
