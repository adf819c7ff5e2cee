"""A model with more tokens than dimensions in the lab: what the embeddings tie is said, and called no cycle."""

from urllib.parse import urlencode

import numpy as np
import pytest

from attomaton import Vocabulary, samples_from_sequences, save_model, solve_limit

FIVE = np.array([[1, 0, 0], [0, 1, 0], [-0.5, 0.5, 0], [0.5, -0.5, 0], [0, 0, 1.0]])
WHY = "‘a’ over ‘b’ (×3) and ‘c’ over ‘d’ (×1) add up to nothing, because e_a + e_c = e_b + e_d"


@pytest.fixture(scope="module")
def lab(start_lab, tmp_path_factory):
    samples = samples_from_sequences(
        [list("abq"), list("cdq")], ["a", "c"], weights=[3, 1], vocabulary=Vocabulary("abcdq")
    )
    folder = tmp_path_factory.mktemp("model") / "five"
    save_model(solve_limit(samples, FIVE), folder, {})
    return start_lab(folder)


def test_the_automaton_says_why_two_tokens_are_retrieved(tab):
    tab.see("/automaton?" + urlencode({"context": "a b q", "why": "b"}))
    tab.wait("!!document.querySelector('.tie-words')")
    tab.says(WHY, ".tie-words")


def test_the_graph_says_why_an_edge_is_a_tie(tab):
    tab.see("/graph?" + urlencode({"last": "q", "chosen": "a", "over": "b"}))
    tab.wait(f"document.querySelector('.pg-panel').innerText.includes({WHY!r})")
    said = tab.text(".pg-panel")
    assert "other samples say the opposite" not in said
    assert "so the hard part keeps both" in said


@pytest.mark.parametrize("page", ["/", "/lens", "/lens?last=q", "/training", "/data"])
def test_every_screen_opens(lab, tab, page):
    tab.see(page)
    assert "Traceback" not in lab.log.read_text()
