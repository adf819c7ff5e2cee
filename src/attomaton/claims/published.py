"""The published figures as evidence: what each one asks, its verdict and control, and a small picture of its own.

The numbers come from the modules that make them; here they only change their dress.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from attomaton.claims.cases import not_applicable
from attomaton.claims.picture import level, line, panel
from attomaton.errors import AttomatonError
from attomaton.results import Assumption, Evidence, Verdict

Result = dict[str, Any]
BLACK = "#000000"


@dataclass(frozen=True)
class Figure:
    """One published figure: where its numbers come from, what is claimed, and how it is judged."""

    title: str
    statement: str
    formula: str
    source: tuple[str, str]
    tolerance: str
    reason: str
    draw: Callable[[Result], Sequence[dict[str, Any]]]
    prediction: Callable[[Result], dict[str, Any]] = lambda r: {}
    measured: Callable[[Result], dict[str, Any]] = lambda r: r["measured"]
    control: Callable[[Result], dict[str, Any]] = lambda r: r["control_measured"]
    text: bool = False  # needs WikiText-2


def check(name: str, **options: Any) -> Evidence:
    """The figure of this name, made anew; `options` are those of the function that makes it."""
    figure = FIGURES[name]
    data: tuple[Assumption, ...] = (Assumption("data as published", True, figure.title),)
    if figure.text:
        found = _text()
        if not found.holds:
            return not_applicable(name, figure.title, figure.statement, found)
        data = (found,)
    module, function = figure.source
    result = getattr(import_module(f"attomaton.claims.{module}"), function)(**options)
    return Evidence(
        claim=name,
        title=figure.title,
        statement=figure.statement,
        formula=figure.formula,
        assumptions=data,
        verdict=Verdict(result["verdict"]),
        control=Verdict(result["control"]),
        prediction=figure.prediction(result),
        tolerance=result.get("tolerance", figure.tolerance),
        reason=figure.reason,
        measured=figure.measured(result),
        control_measured=figure.control(result),
        panels=tuple(figure.draw(result)),
        settings=options | ({"size": result["size"]} if "size" in result else {}),
    )


def _text() -> Assumption:
    """Whether WikiText-2 is at hand, or can be fetched."""
    from attomaton.corpus.datasets import dataset_files

    try:
        files = dataset_files("wikitext-2")
    except AttomatonError as error:
        return Assumption("WikiText-2 is at hand", False, str(error))
    return Assumption("WikiText-2 is at hand", True, str(files["train"].parent.name))


# Mechanics


def _global(r: Result) -> list[dict[str, Any]]:
    t, seeds = r["curves"]["steps"], range(len(r["rows"]))
    cosines = np.asarray(r["curves"]["cosine_svm"])
    lines = [line(t[1:], y[1:], "W(τ), each seed" if i == 0 else None, points=60, colour=0)
             for i, y in enumerate(cosines)]  # fmt: skip
    return [
        panel("Direction", "step", "cosine with W_svm", [*lines, level(t[1:], 1.0, "W_svm")], xscale="log"),
        panel(
            "After 4,000 steps", "seed", "cosine",
            [line(seeds, [x["cosine_svm"] for x in r["rows"]], "with W_svm", "points"),
             line(seeds, [x["cosine_shuffled"] for x in r["rows"]], "control: shuffled labels", "points"),
             level(seeds, 1.0, "theory")],
        ),
    ]  # fmt: skip


def _local(r: Result) -> list[dict[str, Any]]:
    seeds = range(len(r["rows"]))
    return [
        panel(
            "After 2,000 steps", "seed", "cosine",
            [line(seeds, [x["cosine_local"] for x in r["rows"]], "with the local W_svm", "points"),
             line(seeds, [x["cosine_global"] for x in r["rows"]], "control: the global one", "points"),
             level(seeds, 1.0, "theory")],
        )
    ]  # fmt: skip


# Scan and Snap


def _fig3(r: Result) -> list[dict[str, Any]]:
    curves = r["curves"]
    lines = [line(c["t"], c["chi"], f"η_Y = {c['eta_y']:g}", points=100) for c in curves]
    one = curves[0]
    early = np.geomspace(one["t"][0], one["t_0"], 50)
    at = float(np.interp(early[25], one["t"], one["chi"]))
    lines.append(line(early, at * early / early[25], "proportional to t", "theory", ink=BLACK))
    marks = [{"x": c["t_0"], "colour": i} for i, c in enumerate(curves)]
    title = "Growth factor, t_0 dotted"
    return [panel(title, "time t", "χ", lines, xscale="log", yscale="log", marks=marks)]


def _attention(run: Result, n: int = 0) -> np.ndarray:
    c = np.asarray(run["attention"])
    return c.reshape(-1, *c.shape[-2:])[:, n]


def _fig4(r: Result) -> list[dict[str, Any]]:
    panels = []
    for run in r["rows"]:
        c = _attention(run)
        tokens = np.flatnonzero(c[0] > 0)
        steps = [int(s) for s in run["steps"]]
        lines = [
            line(tokens, c[k][tokens], f"step {steps[k]}", "points" if k else "theory")
            for k in (0, len(steps) // 2, len(steps) - 1)
        ]
        title = f"η_Y = {run['eta_y']:g}: tokens 0–9 are common"
        panels.append(panel(title, "token", "attention of class 0", lines))
    return panels


def _fig5(r: Result) -> list[dict[str, Any]]:
    own = _attention(r["sgd"])[-1]
    tokens = np.flatnonzero(own > 0)
    lines = [line(tokens, own[tokens], "SGD, η = 1", "theory", ink=BLACK)]
    lines += [
        line(tokens, _attention(x)[-1][tokens], f"Adam, η = {x['eta']:g}", "points") for x in r["rows"]
    ]  # fmt: skip
    shared = [x["picks shared with sgd"] for x in r["rows"]]
    rates = [x["eta"] for x in r["rows"]]
    return [
        panel("Attention of class 0", "token", "attention", lines),
        panel(
            "Picks shared with SGD", "η", "share",
            [line(rates, shared, "Adam", "points"), level(rates, 0.8, "at most")],
        ),
    ]  # fmt: skip


def _fig6(r: Result) -> list[dict[str, Any]]:
    panels = []
    for q in (1, 10):
        cells = [c for c in r["cells"] if c["queries"] == q]
        lines = []
        for ratio in sorted({c["ratio"] for c in cells}):
            own = [c for c in cells if c["ratio"] == ratio]
            x, y, e = ([c[k] for c in own] for k in ("eta_z", "entropy_mean", "entropy_std"))
            lines.append(line(x, y, f"η_Y/η_Z = {ratio:g}", error=e))
        panels.append(
            panel(f"{q} {'query' if q == 1 else 'queries'}", "η_Z", "entropy (nats)", lines)
        )
    return panels


def _fig8(r: Result) -> list[dict[str, Any]]:
    panels = []
    for M in sorted({c["M"] for c in r["curves"]}):
        lines: list[dict[str, Any]] = []
        for c in [c for c in r["curves"] if c["M"] == M][::2]:
            s = range(len(c["h"]))
            colour = len(lines) // 2
            lines += [
                line(s, c["h_discrete"], f"steps, η_Y = {c['eta_y']:g}", points=100, colour=colour),
                line(s, c["h"], None, "theory", points=100, colour=colour, ink=BLACK),
            ]
        panels.append(panel(f"M = {M}: closed form dashed", "step", "h", lines))
    return panels


def _fig9(r: Result) -> list[dict[str, Any]]:
    panels = []
    for M in sorted({c["M"] for c in r["curves"]}):
        own = [c for c in r["curves"] if c["M"] == M]
        lines = [line(c["t"], c["B"], f"η_Z = {c['eta_z']:g}", points=80) for c in own]
        lines.append(level(own[0]["t"], own[0]["B_at_t_0"], "B at every t_0"))
        marks = [{"x": c["t_0"], "colour": i} for i, c in enumerate(own)]
        ratio = own[0]["eta_y"] / own[0]["eta_z"]
        title = f"M = {M}, η_Y/η_Z = {ratio:g}, t_0 dotted"
        panels.append(panel(title, "time t", "B", lines, xscale="log", marks=marks))
    return panels


def _recall(over: str, xlabel: str) -> Callable[[Result], list[dict[str, Any]]]:
    def draw(r: Result) -> list[dict[str, Any]]:
        rows = [x for x in r["rows"] if x["threshold"] == 1.0]
        lines = []
        for q in sorted({x["queries"] for x in rows}):
            own = [x for x in rows if x["queries"] == q]
            x, y, e = ([c[k] for c in own] for k in (over, "recall_mean", "recall_std"))
            lines.append(line(x, y, f"{q} {'query' if q == 1 else 'queries'}", error=e))
        return [panel("Recall of distinct tokens over 1/M", xlabel, "recall", lines)]

    return draw


def _fig7(r: Result) -> list[dict[str, Any]]:
    return [
        panel(
            "Entropy of attention on validation text", "step", "nats",
            [line(c["step"], c["entropy"], f"{c['layers']} layers") for c in r["curves"]],
        )
    ]  # fmt: skip


def _fig10(r: Result) -> list[dict[str, Any]]:
    rows = r["rows"]
    rate = np.array([x["lr"] for x in rows])
    entropy = np.array([x["entropy_mean"] for x in rows])
    fitted = entropy.mean() + r["measured"]["slope"] * (rate - rate.mean())
    return [
        panel(
            "Entropy by learning rate", "learning rate", "nats",
            [line(rate, entropy, "trained", error=[x["entropy_error"] for x in rows]),
             line(rate, fitted, "fitted line", "theory", ink=BLACK)],
        )
    ]  # fmt: skip


ORDER = (
    "no pair contradicts by two standard errors, more obey than chance, largest difference ≥ 0.02"
)
PAIRED = "pairs are compared stream by stream; by chance one in forty obeys by two standard errors"
FORMULA = "rounding: the figure is a formula"

FIGURES = {
    "mechanics-global": Figure(
        "Normalised gradient descent finds W_svm and W_fin",
        "Ten runs as published end along W_svm, with the finite part near W_fin.",
        "W/‖W‖ → W_svm/‖W_svm‖,  Π_fin W → W_fin",
        ("global_protocol", "reproduce"),
        "every cosine ≥ 0.96, every distance ≤ 0.02",
        "published: 0.976 to 0.993, and about 0.005; the step of 0.01 bounds the distance",
        _global,
        lambda r: {"cosine": 1.0, "distance": 0.0, "published": "0.976–0.993, about 0.005"},
        lambda r: {k: [x[k] for x in r["rows"]] for k in ("cosine_svm", "distance_fin", "distance_exact")},
        lambda r: {"cosine, shuffled labels": [x["cosine_shuffled"] for x in r["rows"]]},
    ),
    "mechanics-local": Figure(
        "With a tied head and squared loss, descent finds the local W_svm",
        "Ten runs as published end along the Graph-SVM of their own attention's order, not of the data's.",
        "W/‖W‖ → W_svm(pseudo graph)/‖W_svm(pseudo graph)‖",
        ("local_protocol", "reproduce"),
        "every cosine ≥ 0.97, median ≥ 0.99",
        "published: 0.992 to 0.9995",
        _local,
        lambda r: {"cosine": 1.0, "published": "0.992–0.9995"},
        lambda r: {"cosine_local": [x["cosine_local"] for x in r["rows"]]},
        lambda r: {"cosine_global": [x["cosine_global"] for x in r["rows"]]},
    ),
    "scan-snap-fig3": Figure(
        "Attention grows, then freezes: growth factor over time",
        "The growth factor is nearly proportional to time while scanning and hardly grows from t_0 on.",
        "χ = e^{2B(t)}",
        ("scan_snap_figures", "fig3"),
        "exponent ≥ 0.9 while scanning, < 0.5 at t_0; control: at a tenth of t_0",
        FORMULA,
        _fig3,
        lambda r: {"t_0": [c["t_0"] for c in r["curves"]]},
        lambda r: {k: r[k] for k in ("exponent while scanning", "exponent at t_0")},
        lambda r: {"rule": "exponent < 0.5 at a tenth of t_0"},
    ),
    "scan-snap-fig4": Figure(
        "Attention drops common tokens and rare distinct ones",
        "Common tokens lose, gain follows P(l|n), and a larger decoder rate leaves attention denser.",
        "c_{l|n} ∝ P(l|n) e^{z_ml}",
        ("attention_entropy", "fig4"),
        "all common tokens lose, together ≥ 5%; rank correlation ≥ 0.8; entropy larger for η_Y = 10, on every stream",
        "chance in 128 contexts of 128 tokens reorders neighbours only",
        _fig4,
        lambda r: {"common tokens that lose": 1.0, "rank correlation": 1.0},
    ),
    "scan-snap-fig5": Figure(
        "Adam selects other distinct tokens than SGD",
        "The half of the distinct tokens whose logits grow most differs between Adam and SGD.",
        "picks(Adam) ≠ picks(SGD)",
        ("attention_entropy", "fig5"),
        "on average at most 4 of 5 picks shared, at every rate",
        "SGD at other rates (the control) shares nearly all",
        _fig5,
        lambda r: {"picks shared, at most": 0.8},
    ),
    "scan-snap-fig6": Figure(
        "Entropy of attention by the two learning rates, 1 to 10 queries",
        "Entropy falls with η_Z at a fixed ratio, and rises with η_Y/η_Z from 2 on.",
        "H(c_n) ↓ in η_Z,  ↑ in η_Y/η_Z ≥ 2",
        ("attention_entropy", "fig6"),
        ORDER,
        PAIRED,
        _fig6,
        lambda r: {"contradicting pairs": 0},
    ),
    "scan-snap-fig7": Figure(
        "Attention of a transformer on WikiText-2 becomes sparse, and its entropy freezes",
        "First-layer entropy falls and then hardly moves, for one layer and for three.",
        "H(attention) ↓, then constant",
        ("text_attention", "fig7"),
        "as its result says",
        "standard errors over validation windows",
        _fig7,
        lambda r: {"sparse": "holds", "frozen": "holds"},
        lambda r: {f"{x['layers']} layers": {k: x[k] for k in ("entropy", "entropy_end", "share_fall", "entropy_moves")}
                   for x in r["rows"]},
        lambda r: {"rate 1e-4 of the published": r["control_measured"]},
        text=True,
    ),
    "scan-snap-fig8": Figure(
        "Decoder growth in steps against its continuous form",
        "The discrete h* leads the closed form h by no more than η_Y/M.",
        "0 ≤ h*(s) − h(s) ≤ η_Y/M",
        ("scan_snap_figures", "fig8"),
        "the lead is at least −1e-12 and at most 1, in units of η_Y/M",
        FORMULA,
        _fig8,
        lambda r: {"lead in units of eta_Y / M, at most": 1.0},
        lambda r: {"lead in units of eta_Y / M": r["lead in units of eta_Y / M"]},
        lambda r: {"rule": "steps that know nothing of α"},
    ),
    "scan-snap-fig9": Figure(
        "Scan progress at a fixed ratio of the rates",
        "B at t_0 is the same for all rates of one ratio.",
        "B(t_0) = function of K, M, η_Y/η_Z",
        ("scan_snap_figures", "fig9"),
        "spread ≤ 1e-12",
        FORMULA,
        _fig9,
        lambda r: {"spread at t_0": 0.0},
        lambda r: {"spread at t_0": r["spread at t_0"]},
        lambda r: {"spread at t = 10": r["spread at t = 10"]},
    ),
    "scan-snap-fig10": Figure(
        "Entropy of attention on WikiText-2 by the learning rate",
        "Entropy on the validation text falls as the learning rate grows.",
        "dH/d(rate) < 0",
        ("text_attention", "fig10"),
        "as its result says",
        "Student's t over seeds",
        _fig10,
        lambda r: {"slope": "below 0"},
        text=True,
    ),
    "scan-snap-fig11": Figure(
        "Recall of distinct tokens against the ratio of the rates",
        "Recall of distinct tokens rises with η_Y/η_Z from 2 on.",
        "recall(c_n > 1/M) ↑ in η_Y/η_Z ≥ 2",
        ("attention_entropy", "fig11"),
        ORDER,
        PAIRED,
        _recall("ratio", "η_Y/η_Z"),
        lambda r: {"contradicting pairs": 0},
    ),
    "scan-snap-fig12": Figure(
        "Recall of distinct tokens against the attention rate",
        "Recall of distinct tokens falls with η_Z.",
        "recall(c_n > 1/M) ↓ in η_Z",
        ("attention_entropy", "fig12"),
        ORDER,
        PAIRED,
        _recall("eta_z", "η_Z"),
        lambda r: {"contradicting pairs": 0},
    ),
}  # fmt: skip
