"""Scan and snap in a picture: attention over time, level beside level."""

from collections.abc import Mapping

import numpy as np

from attomaton.base.shapes import Float
from attomaton.claims.picture import heat, line
from attomaton.report.figures.canvas import Figure
from attomaton.report.figures.panels import panels_figure
from attomaton.report.words import tick
from attomaton.results import Panel
from attomaton.scan_snap.trajectory import Dynamics


def dynamics_figure(title: str, runs: Mapping[str, Dynamics]) -> Figure:
    """Attention of the first class over time for each level, then entropy, progress and gain together."""
    classes = next(iter(runs.values())).classes
    tokens = np.flatnonzero(classes.P[0] > 0)
    panels: list[Panel] = []
    most = max(float(run.attention[:, :, 0].max(initial=0.0)) for run in runs.values())
    for level, run in runs.items():
        c = np.median(run.attention[:, :, 0][..., tokens], axis=0)
        times, names = [tick(t) for t in run.t], [classes.names[l] for l in tokens]
        over = f"attention of class 0, {level}", "time", "token"
        panels.append(heat(*over, c.T, times, names, "attention", 0.0, most))
    for key, heading, scale in (
        ("entropy", "entropy over distinct tokens (nats)", "linear"),
        ("B", "scan progress B", "linear"),
        ("gamma", "decoder gain γ", "log"),
    ):
        lines = []
        for level, run in runs.items():
            if key == "entropy" or (key in run.records and np.isfinite(run.records[key]).any()):
                positive, style = run.t > 0, "theory" if level == "reduced" else "measured"
                value = middle(run, key)[positive]
                lines.append(line(run.t[positive], value, level, style, points=None))
        if lines:
            panels.append(Panel(heading, "time", lines=lines, xscale="log", yscale=scale))
    return panels_figure(title, panels)


def middle(run: Dynamics, key: str) -> Float[np.ndarray, " times"]:
    """A record, or the entropy, at each recorded time: the median over runs of the mean over classes."""
    value = run.entropy if key == "entropy" else np.asarray(run.records[key], float)
    return np.median(value.mean(axis=-1) if value.ndim == 3 else value, axis=0)
