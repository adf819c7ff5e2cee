"""What every published figure must bring as evidence."""

import json
from dataclasses import asdict


def assert_stands(evidence, name):
    """It holds, its control fails, it is named, and it brings pictures with theory that can be written down."""
    assert evidence.stands, (evidence.measured, evidence.control_measured)
    assert evidence.claim == name
    assert evidence.prediction
    assert evidence.panels
    for panel in evidence.panels:
        assert all(len(x.x) == len(x.y) <= 200 for x in panel.lines)
        assert any(x.style == "theory" for x in panel.lines)
    panels = [asdict(panel) for panel in evidence.panels]
    json.dumps([evidence.measured, evidence.control_measured, panels], allow_nan=False)
