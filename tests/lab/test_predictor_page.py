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
    found = tab.wait(
        f"(() => {{ const t = {TEXTS.format('.why-term')}; return t.length ? t : null; }})()"
    )
    assert found == [w.term for w in whys(told)]
    assert tab.wait(TEXTS.format(".why-share")) == [signed(w.share) for w in whys(told)]
    assert tab.wait(TEXTS.format(".why-words")) == [w.words for w in whys(told)]
    lines = story(told)
    assert tab.wait(TEXTS.format(".story")) == [x.strip() for x in lines[: lines.index("")]]


def test_what_the_page_copies(folder):
    line, code = commands(folder, ["the", "-v", "a b"])
    assert line == f"attomaton explain {folder} -- the -v 'a b'"
    assert f"Predictor.open({str(folder)!r})" in code
    assert opened(folder) is opened(folder)
