"""The first screen: a sentence in, an answer out, why; six steps with live figures; numbers explained on hover."""

import json
import re

import numpy as np
import pytest
from tests.chromium import eventually

from attomaton import Automaton, example_samples, solve_limit
from attomaton.lab.kit.formulas import mathml, typeset
from attomaton.lab.kit.glossary import TERMS
from attomaton.lab.server import screens
from attomaton.lab.story.figures import ASKED, RADII, TIED, Cafe, scan, snap
from attomaton.lab.story.panel import STEPS, reasons


@pytest.fixture(scope="module")
def cafe():
    return Cafe()


def test_the_answer_of_the_first_screen_is_that_of_explain(tab):
    why = Automaton(solve_limit(example_samples())).explain(list(ASKED))
    tab.see("/")
    said = tab.wait("document.querySelector('.ask-answer')?.innerText")
    assert said == "→ guest 40%, order 40%, bill 20%"
    eventually(
        reasons(why),
        tab.value,
        "[...document.querySelectorAll('.ask-why li')].map(e => e.innerText)",
    )
    tab.type(".ask input", "cake soup bell")
    tab.press("Enter")
    tab.wait("document.querySelector('.ask-answer')?.innerText === '→ soup 100%'")
    tab.type(".ask input", '["cake", ')
    tab.press("Enter")
    tab.wait("!!document.querySelector('.ask .problem')")
    assert not tab.value(
        "!!document.querySelector('.ask-answer')"
    )  # no old answer under a new error


def test_six_steps_each_with_a_figure_and_a_door(tab):
    paths = {s.path for s in screens()}
    tab.see("/")
    for at, step in enumerate(STEPS, 1):
        assert step.screen in paths
        tab.wait(f"document.querySelector('.story-steps .here')?.innerText.includes('{step.name}')")
        tab.wait("!!document.querySelector('.story-figure canvas, .story-figure svg')", 120)
        door = tab.value("document.querySelector('.story-body a.chip').getAttribute('href')")
        assert door.startswith(f".{step.screen}?on=example")
        if at < len(STEPS):
            tab.click_text("Next")
    assert "step=6" in tab.value("location.search")
    assert not tab.errors


def test_a_number_is_explained_on_hover(tab):
    tab.see("/?step=2")
    tip = "document.querySelector('.q-tooltip.term')"
    tab.hover(
        ".figure-name.defined",
        until=f"{tip}?.innerText.includes('hold their own next token') && !!{tip}.querySelector('math')",
    )


def test_every_formula_is_typeset(tab):
    for term in TERMS.values():
        if term.formula:
            assert mathml(term.formula).startswith("<math>")
    for screen in screens():
        made = typeset(screen.help)
        shown = re.sub(r"<math>.*?</math>|<code>.*?</code>", "", made, flags=re.S)
        assert "_" not in shown, screen.title
        assert "$" not in shown, screen.title
    tab.see("/automaton")
    tab.press("?", "Slash", modifiers=8)
    tab.wait("document.querySelectorAll('.help math msub').length > 2")


def test_formulas():
    assert mathml(r"\frac{a}{b_1^2}") == (
        "<math><mfrac><mi>a</mi><msubsup><mi>b</mi><mn>1</mn><mn>2</mn></msubsup></mfrac></math>"
    )
    assert "<munderover>" in mathml(r"\sum_i^n x_i")
    for wrong in (r"\nothing", "{a", "a}", "x_"):
        with pytest.raises(ValueError, match=r"known|match|missing"):
            mathml(wrong)
    # Words of the data are never taken for formulas, and code stays code.
    assert typeset("`W_svm` and a_long_name and user_id").strip() == (
        "<p><code>W_svm</code> and a_long_name and user_id</p>"
    )


# What the figures show


def test_growing_weights_leave_the_tied_tokens_alone(cafe):
    lost = [sum(cafe.attention(ASKED, r)[x] for x in ("floor", "dishes")) for r in RADII]
    assert np.all(np.diff(lost) < 0)
    assert lost[0] > 0.2
    assert lost[-1] < 1e-3
    end = cafe.attention(ASKED)
    assert [round(end[x], 9) for x in ("guest", "order", "bill", "floor")] == [0.4, 0.4, 0.2, 0.0]


def test_every_further_bill_counts_once_more(cafe):
    for n in (1, 2, 3):
        p = cafe.attention((*["bill"] * (n - 1), *TIED))
        assert p["bill"] == pytest.approx(n / (4 + n))


def test_attention_leaves_what_is_common_and_freezes_earlier_for_a_faster_decoder(cafe):
    names = scan(cafe.dynamics).header[1:]
    first, *_, last = scan(cafe.dynamics).rows
    share = {name: (first[i], last[i]) for i, name in enumerate(names, 1)}
    assert share["espresso"][1] > 0.8 > share["espresso"][0]
    assert share["cake"][1] < 0.02 < share["cake"][0]
    slow, fast = snap(cafe.dynamics).rows[-1][1:]
    assert fast > slow + 0.1
    assert json.dumps(snap(cafe.dynamics).options())
