"""The pictures of the published experiments, from the plain numbers that `claims` returns."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attomaton.errors import counted, cut
from attomaton.report.figures.canvas import Figure
from attomaton.report.figures.panels import panels_figure
from attomaton.report.figures.training import protocol_figure
from attomaton.report.graphs import readable

Result = Mapping[str, Any]

ETA_Y, ETA_Z = r"$\eta_Y$", r"$\eta_Z$"


def mechanics_global(result: Result) -> Figure:
    """Final cosines and distances of every seed, and the way there."""
    ranges = {"cosine_svm": (0.976, 0.993), "distance_fin": 0.005}
    return protocol_figure(result["rows"], result["curves"], ranges)


def mechanics_local(result: Result) -> Figure:
    """Final cosines with the local and the global direction."""
    return protocol_figure(result["rows"], None, {"cosine_local": (0.992, 0.9995)})


def fig3(result: Result) -> Figure:
    """Growth factor over time, one curve for each decoder rate, with the predicted start of snapping."""
    curves = result["curves"]
    lines = [{"x": c["t"], "y": c["chi"], "label": f"{ETA_Y} = {c['eta_y']:g}"} for c in curves]
    marks = [{"x": c["t_0"], "colour": i} for i, c in enumerate(curves)]
    panel = {"title": f"K = {result['K']}, M = {result['M']}, {ETA_Z} = {result['eta_z']:g}; dotted: "
             r"$t_0$", "lines": lines, "marks": marks, "xlabel": "time", "ylabel": r"growth factor $\chi$",
             "xscale": "log", "yscale": "log"}  # fmt: skip
    return panels_figure("attention scans, then snaps", [panel])


def fig4(result: Result) -> Figure:
    """Attention of each class over its tokens, at a few steps, for two decoder rates."""
    panels = []
    for row in result["rows"]:
        attention = np.asarray(row["attention"])  # steps × classes × tokens
        for n in range(attention.shape[1]):
            tokens = np.flatnonzero(attention[:, n].max(axis=0) > 0)
            panels.append(
                {
                    "title": f"class {n}, {ETA_Y} = {row['eta_y']:g}, {ETA_Z} = {row['eta_z']:g}",
                    "heat": attention[:, n][:, tokens].T,
                    "xticks": [f"{s:g}" for s in row["steps"]],
                    "yticks": tokens,
                    "xlabel": "step",
                    "ylabel": "token (0–9 common)",
                    "colour": "attention",
                    "low": 0.0,
                }
            )
    return panels_figure("attention drops common and rare tokens", panels, columns=2)


def fig5(result: Result) -> Figure:
    """Final attention under Adam at three rates, beside SGD with momentum."""
    runs = [("SGD", result["sgd"]), *((f"Adam, rate {r['eta']:g}", r) for r in result["rows"])]
    classes = np.asarray(result["sgd"]["attention"]).shape[0]
    panels = []
    for n in range(classes):
        lines = []
        for label, run in runs:
            attention = np.asarray(run["attention"])[n]
            tokens = np.flatnonzero(np.asarray(result["sgd"]["attention"])[n] > 0)
            lines.append({"x": np.arange(len(tokens)), "y": attention[tokens], "label": label})
        panels.append(
            {"title": f"class {n}", "lines": lines, "ylabel": "final attention",
             "xlabel": "token (0–9 common, then rising P)"}
        )  # fmt: skip
    return panels_figure("Adam picks other tokens than SGD", panels, columns=2)


def fig6(result: Result) -> Figure:
    """Entropy of attention over distinct tokens, by the two learning rates and the number of queries."""
    panels = [
        {
            "title": counted(queries, "query"),
            "lines": _series(
                [c for c in result["cells"] if c["queries"] == queries],
                "ratio", "entropy", "eta_z", ETA_Z, result["cells"][0]["seeds"],
            ),
            "xlabel": f"{ETA_Y} / {ETA_Z}",
            "ylabel": "entropy (nats)",
        }
        for queries in _values(result["cells"], "queries")
    ]  # fmt: skip
    return panels_figure(
        "larger rates focus attention, larger ratios spread it", _one_key(panels), columns=2
    )


def fig7(result: Result) -> Figure:
    """First-layer attention maps at four moments, and how entropy and maps change over training."""
    panels: list[dict[str, Any]] = []
    words = [readable(result["tokens"])[token] for token in result["tokens"]]
    for part in result["maps"]:
        for step, attention in zip(part["steps"], part["attention"], strict=True):
            panels.append(
                {
                    "title": f"{counted(part['layers'], 'layer')}, step {step:,}",
                    "heat": np.asarray(attention) ** 0.5,
                    "xticks": [""] * len(words),
                    "yticks": [cut(word, 12) for word in words],
                    "xlabel": "key (earlier token)",
                    "ylabel": "query",
                    "colour": "√attention",
                    "low": 0.0,
                    "high": 1.0,
                }
            )
    curves = result["curves"]
    for name, label in (
        ("entropy", "entropy on validation (nats)"),
        ("change", "change of maps since last record"),
        ("valid_loss", "loss on validation (nats)"),
    ):
        lines = [
            {"x": c["step"], "y": [np.nan if y is None else y for y in c[name]], "label": counted(c["layers"], "layer")}
            for c in curves
        ]  # fmt: skip
        panels.append({"title": "model" if name == "valid_loss" else "first layer; dotted: the last third",
                       "lines": lines, "xlabel": "step", "ylabel": label,
                       "marks": [] if name == "valid_loss" else [{"x": curves[0]["step"][-1] * 2 / 3}]})  # fmt: skip
    received = [
        {"title": f"who receives it, {counted(c['layers'], 'layer')}",
         "lines": [{"x": c["step"], "y": np.asarray(c[kind]) / even, "label": kind}
                   for kind, even in result["even"].items() if even > 0],
         "xlabel": "step", "ylabel": "attention / even attention"}
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
    panels: list[dict[str, Any]] = [
        {
            "title": "after training; bars: 95 % over seeds",
            "lines": [{"x": rate, "y": [row["entropy_mean"] for row in rows],
                       "error": [row["entropy_error"] for row in rows]}],
            "xlabel": "learning rate",
            "ylabel": "entropy on validation (nats)",
        }
    ]  # fmt: skip
    for name, label in (
        ("entropy", "entropy on validation (nats)"),
        ("valid_loss", "loss on validation (nats)"),
    ):
        lines = [
            {"x": c["step"], "y": c[name], "label": f"rate {c['lr']:g}"} for c in result["curves"]
        ]
        panels.append({"title": "mean over seeds", "lines": lines, "xlabel": "step", "ylabel": label})  # fmt: skip
    return panels_figure(f"attention entropy and the learning rate ({result['size']})", panels)


def fig8(result: Result) -> Figure:
    """The decoder's growth in steps against its continuous form."""
    panels = []
    for M in _values(result["curves"], "M"):
        lines: list[dict[str, Any]] = []
        for i, c in enumerate(c for c in result["curves"] if c["M"] == M):
            x = np.arange(len(c["h"]))
            lines.append(
                {"x": x, "y": c["h_discrete"], "label": f"{ETA_Y} = {c['eta_y']:g}", "colour": i}
            )
            lines.append({"x": x, "y": c["h"], "style": "theory", "ink": "#000000"})
        panels.append(
            {
                "title": f"M = {M}; dashed: continuous",
                "lines": lines,
                "xlabel": "step",
                "ylabel": "h",
            }
        )
    return panels_figure("decoder growth in steps and in continuous time", panels)


def fig9(result: Result) -> Figure:
    """Scan progress at a fixed ratio of the rates: the curves meet at their predicted start of snapping."""
    panels = []
    for M in _values(result["curves"], "M"):
        curves = [c for c in result["curves"] if c["M"] == M]
        ratio = curves[0]["eta_y"] / curves[0]["eta_z"]
        lines: list[dict[str, Any]] = [
            {"x": c["t"], "y": c["B"], "label": f"{ETA_Z} = {c['eta_z']:g}"} for c in curves
        ]
        lines.append(
            {"x": [c["t_0"] for c in curves], "y": [c["B_at_t_0"] for c in curves],
             "style": "points", "label": r"at $t_0$"}
        )  # fmt: skip
        panels.append(
            {"title": f"M = {M}, {ETA_Y}/{ETA_Z} = {ratio:g}", "lines": lines, "xscale": "log",
             "xlabel": "time", "ylabel": "scan progress B"}
        )  # fmt: skip
    return panels_figure(r"progress at $t_0$ depends on the ratio of the rates alone", panels)


def recall_over(name: str, label: str) -> Callable[[Result], Figure]:
    """A figure of recall of distinct tokens against one of the rates, one curve for each threshold."""

    def draw(result: Result) -> Figure:
        panels = [
            {
                "title": counted(queries, "query"),
                "lines": _series(
                    [r for r in result["rows"] if r["queries"] == queries],
                    name, "recall", "threshold", "threshold · M", None,
                ),
                "xlabel": label,
                "ylabel": "recall of distinct tokens",
            }
            for queries in _values(result["rows"], "queries")
        ]  # fmt: skip
        title = f"recall of distinct tokens against {label}"
        return panels_figure(title, _one_key(panels), columns=3)

    return draw


def _one_key(panels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Panels whose lines mean the same: the last one explains them for all."""
    return [*({**p, "legend": None} for p in panels[:-1]), {**panels[-1], "legend": "outside"}]


def _values(rows: list[Result], name: str) -> list[Any]:
    return list(dict.fromkeys(row[name] for row in rows))


def _series(
    rows: list[Result], x: str, y: str, by: str, label: str, seeds: int | None
) -> list[dict[str, Any]]:
    """One line for each value of `by`, with the standard error (of `seeds` seeds) or deviation as bars."""
    lines = []
    for value in _values(rows, by):
        part = [row for row in rows if row[by] == value]
        spread = np.array([row[f"{y}_std"] for row in part]) / np.sqrt(seeds or 1)
        lines.append(
            {"x": [row[x] for row in part], "y": [row[f"{y}_mean"] for row in part],
             "error": spread, "label": f"{label} = {value:g}"}
        )  # fmt: skip
    return lines


# By the name of the published experiment.
DRAWINGS: dict[str, Callable[[Result], Figure]] = {
    "mechanics-global": mechanics_global,
    "mechanics-local": mechanics_local,
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
