"""The pictures of the published experiments, from the plain numbers that `claims` returns."""

from collections.abc import Mapping
from typing import Any

from attomaton.report.canvas import Figure
from attomaton.report.figures import protocol_figure

Result = Mapping[str, Any]


def mechanics_global(result: Result) -> Figure:
    """Final cosines and distances of every seed, and the way there."""
    ranges = {"cosine_svm": (0.976, 0.993), "distance_fin": 0.005}
    return protocol_figure(result["rows"], result["curves"], ranges)


def mechanics_local(result: Result) -> Figure:
    """Final cosines with the local and the global direction."""
    return protocol_figure(result["rows"], None, {"cosine_local": (0.992, 0.9995)})
