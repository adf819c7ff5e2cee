"""Draws the pictures of docs/images whose curves are kept in docs/figures: `python docs/make_figures.py`.

- `full_vocabulary`: `attomaton train MODEL --every log` with the model of WikiText-2 and five optimizers;
- `optimisers`: the same with six optimisers, each measured in the norm of its own limit, too;
- `transformer_loss`: the transformer of Figure 7 beside the textbook program of the tests, five starts each.
"""

import csv
from pathlib import Path

import numpy as np

from attomaton.claims.picture import line
from attomaton.report.figures.canvas import Figure, write
from attomaton.report.figures.panels import panels_figure
from attomaton.results import Panel

HERE = Path(__file__).parent
NAMES = {"gd": "gradient descent", "ngd": "normalised", "polyak": "Polyak's step", "adam": "Adam"}
PANELS = {
    "loss_gap": ("loss − L*", "log", "how far the loss is from its floor"),
    "cosine_svm": (r"cosine of $W$ with $W_{svm}$", "linear", "hard part: the direction"),
    "distance_fin": (r"distance to $W_{fin}$ inside $S_{fin}$", "log", "soft part"),
    "norm": (r"$\|W\|$", "log", "size"),
}

SHARES = {
    "margin_max": ("share of the best margin", "max norm: the limit of sign descent and Adam"),
    "margin_frobenius": ("share of the best margin", "Frobenius norm: the limit of descent"),
    "cosine_svm": (r"cosine of $W$ with $W_{svm}$", "direction"),
    "loss_gap": ("loss − L*", "how far the loss is from its floor"),
}
LEAST = (
    -1.0
)  # margins below it are drawn there: a run begins with orders of thousands of pairs wrong


def table(name: str) -> list[dict[str, str]]:
    """The rows of a file of curves."""
    with (HERE / "figures" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def full_vocabulary() -> Figure:
    """Training at full vocabulary, towards its exact limit."""
    rows = table("full_vocabulary")
    runs = list(dict.fromkeys((row["optimizer"], row["lr"]) for row in rows))
    panels = []
    for name, (label, scale, title) in PANELS.items():
        lines = []
        for optimizer, lr in runs:
            mine = [
                r for r in rows if (r["optimizer"], r["lr"]) == (optimizer, lr) and r["step"] != "0"
            ]
            rate = "" if optimizer == "polyak" else f", rate {lr}"
            steps, values = ([float(r[k]) for r in mine] for k in ("step", name))
            lines.append(line(steps, values, NAMES[optimizer] + rate, points=None))
        legend = "best" if name == "cosine_svm" else "none"
        panels.append(Panel(title, "step", label, lines, "log", scale, legend))
    title = "WikiText-2, all 33,279 words: training approaches its exact limit"
    return panels_figure(title, panels, columns=2)


def optimisers() -> Figure:
    """Each optimiser against the limits of two norms, at full vocabulary."""
    rows = [row for row in table("optimisers") if row["step"] != "0"]
    panels = []
    for name, (label, title) in SHARES.items():
        lines = []
        for run in dict.fromkeys(row["run"] for row in rows):
            steps, values = (
                np.array([float(r[k]) for r in rows if r["run"] == run]) for k in ("step", name)
            )
            values = np.maximum(values, 1e-8 if name == "loss_gap" else LEAST)
            lines.append(line(steps, values, run, points=None))
        scale, legend = ("log", "none") if name == "loss_gap" else ("linear", "none")
        legend = "best" if name == "margin_max" else legend
        panels.append(Panel(title, "step", label, lines, "log", scale, legend))
    title = "WikiText-2, all 33,279 words: every optimiser has a limit of its own"
    return panels_figure(title, panels, columns=2)


def transformer_loss() -> Figure:
    """The fast program and the textbook one: losses, and their difference with its error."""
    rows = table("transformer_loss")
    names = list(dict.fromkeys(row["program"] for row in rows))
    mean, error = (
        {n: np.array([float(r[c]) for r in rows if r["program"] == n]) for n in names}
        for c in ("mean_loss", "standard_error")
    )
    step = 50 * np.arange(len(mean[names[0]])) + 25
    losses = [line(step, mean[n], n, error=2 * error[n], points=None) for n in names]
    gaps = [
        line(
            step, mean[n] - mean["reference"], f"{n} − reference", colour=i, points=None,
            error=2 * np.hypot(error[n], error["reference"]),
        )
        for i, n in enumerate(names) if n != "reference"
    ]  # fmt: skip
    panels = [
        Panel("training loss, means of 50 steps and 5 starts", "step", "loss (nats)", losses),
        Panel("difference, with two standard errors", "step", "nats", gaps),
    ]
    return panels_figure("The fast program learns what the textbook program learns", panels)


if __name__ == "__main__":
    for draw in (full_vocabulary, optimisers, transformer_loss):
        write(draw(), HERE / "images" / f"{draw.__name__}.png")
