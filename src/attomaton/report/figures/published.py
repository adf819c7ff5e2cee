"""The pictures of the published experiments, from the plain numbers that `claims` returns."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from attomaton.claims import global_protocol, local_protocol, published
from attomaton.claims.picture import grouped, heat, line
from attomaton.errors import counted, cut
from attomaton.report.figures.canvas import Figure
from attomaton.report.figures.colours import BLACK
from attomaton.report.figures.panels import panels_figure
from attomaton.report.figures.training import protocol_figure
from attomaton.report.graphs import readable
from attomaton.results import Panel, Upright

Result = Mapping[str, Any]

ETA_Y, ETA_Z = r"$\eta_Y$", r"$\eta_Z$"
curve = partial(line, points=None)  # a figure of its own shows every point


def mechanics_global(result: Result) -> Figure:
    """Final cosines and distances of every seed, and the way there."""
    ranges = {"cosine_svm": global_protocol.COSINES, "distance_fin": global_protocol.DISTANCE}
    return protocol_figure(
        result["rows"], result["curves"], None if "changed" in result else ranges
    )


def mechanics_local(result: Result) -> Figure:
    """Final cosines with the local and the global direction."""
    ranges = {"cosine_local": local_protocol.COSINES}
    return protocol_figure(result["rows"], None, None if "changed" in result else ranges)


def fig3(result: Result) -> Figure:
    """Growth factor over time, one curve for each decoder rate, with the predicted start of snapping."""
    curves = result["curves"]
    lines = [curve(c["t"], c["chi"], f"{ETA_Y} = {c['eta_y']:g}") for c in curves]
    marks = [Upright(c["t_0"], colour=i) for i, c in enumerate(curves)]
    title = f"K = {result['K']}, M = {result['M']}, {ETA_Z} = {result['eta_z']:g}; dotted: $t_0$"
    panel = Panel(title, "time", r"growth factor $\chi$", lines, "log", "log", marks=marks)
    return panels_figure("attention scans, then snaps", [panel])


def fig4(result: Result) -> Figure:
    """Attention of each class over its tokens, at a few steps, for two decoder rates."""
    panels = []
    for row in result["rows"]:
        attention = np.asarray(row["attention"])  # steps × classes × tokens
        for n in range(attention.shape[1]):
            tokens = np.flatnonzero(attention[:, n].max(axis=0) > 0)
            title = f"class {n}, {ETA_Y} = {row['eta_y']:g}, {ETA_Z} = {row['eta_z']:g}"
            steps = [f"{s:g}" for s in row["steps"]]
            seen = attention[:, n][:, tokens].T
            over = title, "step", "token (0–9 common)"
            panels.append(heat(*over, seen, steps, tokens.tolist(), "attention", 0.0))
    return panels_figure("attention drops common and rare tokens", panels, columns=2)


def fig5(result: Result) -> Figure:
    """Final attention under Adam at three rates, beside SGD with momentum."""
    runs = [("SGD", result["sgd"]), *((f"Adam, rate {r['eta']:g}", r) for r in result["rows"])]
    over = "token (0–9 common, then rising P)", "final attention"
    panels = []
    for n, own in enumerate(np.asarray(result["sgd"]["attention"])):
        tokens = np.flatnonzero(own > 0)
        lines = [
            curve(np.arange(len(tokens)), np.asarray(run["attention"][n])[tokens], label)
            for label, run in runs
        ]
        panels.append(Panel(f"class {n}", *over, lines))
    return panels_figure("Adam picks other tokens than SGD", panels, columns=2)


def fig6(result: Result) -> Figure:
    """Entropy of attention over distinct tokens, by the two learning rates and the number of queries."""
    cells = result["cells"]
    over = "ratio", f"{ETA_Y} / {ETA_Z}", "entropy", "entropy (nats)", "eta_z", ETA_Z
    panels = _by_queries(cells, *over, cells[0]["seeds"])
    return panels_figure("larger rates focus attention, larger ratios spread it", panels, columns=2)


def fig7(result: Result) -> Figure:
    """First-layer attention maps at four moments, and how entropy and maps change over training."""
    words = [readable(result["tokens"])[token] for token in result["tokens"]]
    panels = [
        heat(
            f"{counted(part['layers'], 'layer')}, step {step:,}", "key (earlier token)", "query",
            np.asarray(attention) ** 0.5, [""] * len(words), [cut(word, 12) for word in words],
            "√attention", 0.0, 1.0,
        )
        for part in result["maps"]
        for step, attention in zip(part["steps"], part["attention"], strict=True)
    ]  # fmt: skip
    curves = result["curves"]
    third = [Upright(curves[0]["step"][-1] * 2 / 3)]
    for name, label, marks in (
        ("entropy", "entropy on validation (nats)", third),
        ("change", "change of maps since last record", third),
        ("valid_loss", "loss on validation (nats)", None),
    ):
        lines = [curve(c["step"], c[name], counted(c["layers"], "layer")) for c in curves]
        title = "first layer; dotted: the last third" if marks else "model"
        panels.append(Panel(title, "step", label, lines, marks=marks))
    received = [
        Panel(
            f"who receives it, {counted(c['layers'], 'layer')}", "step", "attention / even attention",
            [curve(c["step"], np.asarray(c[kind]) / even, kind)
             for kind, even in result["even"].items() if even > 0],
        )
        for c in curves
    ]  # fmt: skip
    panels += _one_key(received)
    return panels_figure(
        f"first-layer attention while a transformer learns ({result['size']})", panels,
        columns=len(result["maps"][0]["steps"]),
    )  # fmt: skip


def fig10(result: Result) -> Figure:
    """Entropy of attention by the learning rate, with its interval over seeds, and on the way there."""
    rows = result["rows"]
    rate = [row["lr"] for row in rows]
    nats = "entropy on validation (nats)"
    ended = curve(
        rate, [row["entropy_mean"] for row in rows], error=[row["entropy_error"] for row in rows]
    )
    panels = [Panel("after training; bars: 95 % over seeds", "learning rate", nats, [ended])]
    for name, label in (("entropy", nats), ("valid_loss", "loss on validation (nats)")):
        lines = [curve(c["step"], c[name], f"rate {c['lr']:g}") for c in result["curves"]]
        panels.append(Panel("mean over seeds", "step", label, lines))
    return panels_figure(f"attention entropy and the learning rate ({result['size']})", panels)


def fig8(result: Result) -> Figure:
    """The decoder's growth in steps against its continuous form."""
    panels = []
    for M, curves in grouped(result["curves"], "M"):
        lines = []
        for i, c in enumerate(curves):
            x = np.arange(len(c["h"]))
            lines.append(curve(x, c["h_discrete"], f"{ETA_Y} = {c['eta_y']:g}", colour=i))
            lines.append(curve(x, c["h"], style="theory", ink=BLACK))
        panels.append(Panel(f"M = {M}; dashed: continuous", "step", "h", lines))
    return panels_figure("decoder growth in steps and in continuous time", panels)


def fig9(result: Result) -> Figure:
    """Scan progress at a fixed ratio of the rates: the curves meet at their predicted start of snapping."""
    panels = []
    for M, curves in grouped(result["curves"], "M"):
        ratio = curves[0]["eta_y"] / curves[0]["eta_z"]
        lines = [curve(c["t"], c["B"], f"{ETA_Z} = {c['eta_z']:g}") for c in curves]
        met = [c["t_0"] for c in curves], [c["B_at_t_0"] for c in curves]
        lines.append(curve(*met, r"at $t_0$", "points"))
        title = f"M = {M}, {ETA_Y}/{ETA_Z} = {ratio:g}"
        panels.append(Panel(title, "time", "scan progress B", lines, xscale="log"))
    return panels_figure(r"progress at $t_0$ depends on the ratio of the rates alone", panels)


def recall_over(name: str, label: str) -> Callable[[Result], Figure]:
    """A figure of recall of distinct tokens against one of the rates, one curve for each threshold."""

    def draw(result: Result) -> Figure:
        over = name, label, "recall", "recall of distinct tokens", "threshold", "threshold · M"
        panels = _by_queries(result["rows"], *over)
        return panels_figure(f"recall of distinct tokens against {label}", panels, columns=3)

    return draw


def _one_key(panels: list[Panel]) -> list[Panel]:
    """Panels whose lines mean the same: the last one explains them for all."""
    return [
        *(replace(p, legend="none") for p in panels[:-1]),
        replace(panels[-1], legend="outside"),
    ]


def _by_queries(
    rows: list[Result], x: str, xlabel: str, y: str, ylabel: str, by: str, label: str, seeds: int = 1
) -> list[Panel]:  # fmt: skip
    """A panel for each number of queries, in it a line for each value of `by`.

    Bars are the standard error of `seeds` seeds, or the deviation.
    """
    panels = []
    for queries, own in grouped(rows, "queries"):
        lines = []
        for value, part in grouped(own, by):
            spread = np.array([row[f"{y}_std"] for row in part]) / np.sqrt(seeds)
            at, mean = ([row[name] for row in part] for name in (x, f"{y}_mean"))
            lines.append(curve(at, mean, f"{label} = {value:g}", error=spread))
        panels.append(Panel(counted(queries, "query"), xlabel, ylabel, lines))
    return _one_key(panels)


def _titled(
    panels: Callable[[dict[str, Any]], list[Panel]], title: str = ""
) -> Callable[[Result], Figure]:
    """A figure of an experiment that says its title itself, or over many instances of Mechanics under a title."""

    def draw(r: Result) -> Figure:
        name = f"{title} ({len(r['instances'])} instances)" if title else r["title"]
        return panels_figure(name, panels(dict(r)))

    return draw


def ntp_fig1(result: Result) -> Figure:
    """Decoder rows in the plane, and the way there."""
    figure = panels_figure(result["title"], published.ntp_fig1_panels(dict(result)))
    plane = figure.axes[0]
    plane.set_aspect("equal", adjustable="datalim")
    for name, at in zip("ABC", result["contexts"], strict=True):
        plane.annotate(name, at, xytext=(4, 4), textcoords="offset points")
    return figure


# By the name of the published experiment.
DRAWINGS: dict[str, Callable[[Result], Figure]] = {
    "mechanics-global": mechanics_global,
    "mechanics-local": mechanics_local,
    "mechanics-fig4": _titled(published.global_means_panels, "descent finds the two components"),
    "mechanics-fig5": _titled(
        published.global_means_panels, "acyclic data: descent finds the direction"
    ),
    "mechanics-fig6": _titled(
        published.local_means_panels, "squared loss: descent settles locally"
    ),
    "mechanics-fig7": _titled(
        published.local_means_panels, "cross-entropy: descent settles locally"
    ),
    "mechanics-fig9": _titled(published.many_tokens_panels),
    "mechanics-fig10": _titled(published.many_tokens_panels),
    "mechanics-fig11": _titled(published.components_panels),
    "mechanics-fig12": _titled(published.dimensions_panels),
    "ntp-fig1": ntp_fig1,
    "ntp-fig4": _titled(published.ntp_fig4_panels),
    "joma-fig2": _titled(published.joma_fig2_panels),
    "joma-fig3": _titled(published.joma_fig3_panels),
    "joma-fig4": _titled(published.joma_fig4_panels),
    "scan-snap-fig3": fig3,
    "scan-snap-fig4": fig4,
    "scan-snap-fig5": fig5,
    "scan-snap-fig6": fig6,
    "scan-snap-fig7": fig7,
    "scan-snap-fig8": fig8,
    "scan-snap-fig9": fig9,
    "scan-snap-fig10": fig10,
    "scan-snap-fig11": recall_over("ratio", f"{ETA_Y} / {ETA_Z}"),
    "scan-snap-fig12": recall_over("eta_z", ETA_Z),
}
