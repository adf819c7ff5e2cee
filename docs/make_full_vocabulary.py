"""Draws docs/images/full_vocabulary.png from the curves beside it: `python docs/make_full_vocabulary.py`.

The curves are those of `attomaton train MODEL --every log` with the model of WikiText-2 and five optimizers.
"""

import csv
from pathlib import Path

import numpy as np

from attomaton.report.canvas import write
from attomaton.report.panels import panels_figure

HERE = Path(__file__).parent
NAMES = {"gd": "gradient descent", "ngd": "normalised", "polyak": "Polyak's step", "adam": "Adam"}
PANELS = {
    "loss_gap": ("loss − L*", "log", "how far the loss is from its floor"),
    "cosine_svm": (r"cosine of $W$ with $W_{svm}$", "linear", "hard part: the direction"),
    "distance_fin": (r"distance to $W_{fin}$ inside $S_{fin}$", "log", "soft part"),
    "norm": (r"$\|W\|$", "log", "size"),
}


def main() -> None:
    """The picture of docs/full_vocabulary.md."""
    with (HERE / "figures" / "full_vocabulary.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    runs = list(dict.fromkeys((row["optimizer"], row["lr"]) for row in rows))
    panels = []
    for name, (label, scale, title) in PANELS.items():
        lines = []
        for optimizer, lr in runs:
            mine = [
                r for r in rows if (r["optimizer"], r["lr"]) == (optimizer, lr) and r["step"] != "0"
            ]
            rate = "" if optimizer == "polyak" else f", rate {lr}"
            lines.append(
                {
                    "x": np.array([float(r["step"]) for r in mine]),
                    "y": np.array([float(r[name]) for r in mine]),
                    "label": NAMES[optimizer] + rate,
                }
            )
        panels.append(
            {"title": title, "lines": lines, "xlabel": "step", "ylabel": label, "xscale": "log",
             "yscale": scale, "legend": "best" if name == "cosine_svm" else None}
        )  # fmt: skip
    figure = panels_figure(
        "WikiText-2, all 33,279 words: training approaches its exact limit", panels, columns=2
    )
    write(figure, HERE / "images" / "full_vocabulary.png")


if __name__ == "__main__":
    main()
