"""Published figures as evidence: every preset is there, and each brings a picture with theory or measurement."""

import json
from dataclasses import asdict

import pytest

from attomaton.claims.registry import CLAIMS, figures
from attomaton.errors import DataError
from attomaton.results import Verdict

FAST = ["scan-snap-fig3", "scan-snap-fig8", "scan-snap-fig9", "mechanics-global", "mechanics-local"]
FAST += [f"mechanics-fig{n}" for n in (4, 6)]


@pytest.mark.parametrize("name", FAST)
def test_the_figure_stands(name):
    evidence = CLAIMS[name].check(**CLAIMS[name].quick)
    assert evidence.stands, (evidence.measured, evidence.control_measured)
    assert evidence.claim == name
    assert evidence.prediction
    assert evidence.panels
    for panel in evidence.panels:
        assert all(len(x.x) == len(x.y) <= 200 for x in panel.lines)
        assert any(x.style == "theory" for x in panel.lines)
    panels = [asdict(panel) for panel in evidence.panels]
    json.dumps([evidence.measured, evidence.control_measured, panels], allow_nan=False)


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
