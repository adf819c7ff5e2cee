"""A predictor on the automaton's screen: the words and the shares of `explain`."""

import pytest

from attomaton import as_windows, tune
from attomaton.lab.automaton.predictor import commands, opened
from attomaton.lab.shelf import folder_id
from attomaton.report.text.reasons import story, whys
from attomaton.report.words import signed

TEXT = ["the", "cat", "and", "the", "dog", "and", "the", "cat", "saw", "the", "dog"]
TEXTS = "[...document.querySelectorAll('main {}')].map(e => e.innerText.trim())"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    seen, held_out = as_windows([TEXT * 3], context=6), as_windows([TEXT[3:] + TEXT], context=6)
    path = tmp_path_factory.mktemp("data") / "P"
    tune(seen, held_out, priors=["main"], lambdas=[1.0], thetas=[1.0]).save(path)
    return path


@pytest.fixture(scope="module")
def lab(start_lab, folder):
    return start_lab(folder)


def test_the_page_has_the_words_and_shares_of_explain(tab, folder):
    tab.see(f"/automaton?on={folder_id(folder)}&context=the+cat+saw+the")
    told = opened(folder).explain(["the", "cat", "saw", "the"])
    shares = '[aria-label^="Why ‘"] {}'
    found = tab.wait(
        f"(() => {{ const t = {TEXTS.format(shares.format('.why-term'))}; return t.length ? t : null; }})()"
    )
    assert found == [w.term for w in whys(told)]
    for part, want in (
        ("share", [signed(w.share) for w in whys(told)]),
        ("words", [w.words for w in whys(told)]),
    ):
        assert tab.wait(TEXTS.format(shares.format(f".why-{part}"))) == want
    lines = story(told)
    assert tab.wait(TEXTS.format(".story")) == [x.strip() for x in lines[: lines.index("")]]


def test_the_context_is_text_and_a_word_shows_the_terms_of_its_score(tab, folder):
    tab.see(f"/automaton?on={folder_id(folder)}&context=the+cat+saw+the")
    told = opened(folder).explain(["the", "cat", "saw", "the"])
    gate = 1.0 if told.gate is None else told.gate
    want = {t.token: gate * t.p / t.count for t in told.terms}
    text = "[...document.querySelectorAll('.text-word[role=option]')]"
    got = tab.wait(
        f"(() => {{ const t = {text}.map(e => [e.querySelector('span').innerText,"
        " +e.style.getPropertyValue('--shade')]); return t.length ? t : null; })()"
    )
    assert [x for x, _ in got] == ["the", "cat", "saw", "the"]
    assert [p for _, p in got] == pytest.approx([want[x] for x, _ in got], abs=1e-4)
    tab.click(".text-word:nth-of-type(3)")
    term = next(t for t in told.terms if t.token == "saw")
    parts = [term.count_term, *term.prior.values(), term.learned, *term.stage.values()]
    card = '[aria-label="The context, with attention on it"] .why-share'
    tab.wait("document.querySelector('.text-word:nth-of-type(3)').classList.contains('chosen')")
    assert tab.wait(TEXTS.format(card)) == [signed(x) for x in parts]
    tab.type("input[aria-label^=Context]", '["the", ')
    tab.press("Enter")
    assert "JSON" in tab.wait("document.querySelector('.problem')?.innerText")
    assert not tab.value("document.querySelectorAll('.text-word[role=option], .why-term').length")


def test_what_the_page_copies(folder):
    line, code = commands(folder, ["the", "-v", "a b"])
    assert line == f"attomaton explain {folder} -- the -v 'a b'"
    assert f"Predictor.open({str(folder)!r})" in code
    assert opened(folder) is opened(folder)
