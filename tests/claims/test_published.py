"""Published figures as evidence: every preset is there, and each brings a picture with theory or measurement."""

import pytest
from tests.claims.standing import assert_stands

from attomaton.claims.registry import CLAIMS, figures
from attomaton.errors import DataError
from attomaton.results import Verdict

# Those that test_protocols.py has made anyway are judged there.
FAST = ["scan-snap-fig3", "scan-snap-fig8", "scan-snap-fig9", "mechanics-fig4"]


@pytest.mark.parametrize("name", FAST)
def test_the_figure_stands(name):
    assert_stands(CLAIMS[name].check(**CLAIMS[name].quick), name)


def test_a_figure_on_text_without_its_text_is_not_applicable(monkeypatch):
    def nowhere(name):
        raise DataError("data set wikitext-2 was not found")

    monkeypatch.setattr("attomaton.corpus.datasets.dataset_files", nowhere)
    evidence = CLAIMS["scan-snap-fig7"].check(quick=True)
    assert evidence.verdict is Verdict.NOT_APPLICABLE
    assert "was not found" in evidence.reason


def test_every_published_experiment_has_a_drawing_and_every_drawing_an_experiment():
    from attomaton.report.figures.published import DRAWINGS

    assert set(DRAWINGS) == set(figures())
