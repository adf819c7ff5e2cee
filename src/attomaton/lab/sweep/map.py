"""A sweep as a heat map: two of its settings as axes, the others held, one measured quantity as colour."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, floor, log10
from typing import Any

from attomaton.folders.sweep import MEASURED, Mean, Sweep, cell_means
from attomaton.lab.kit.charts import POINTS, Axis, Margins, Picture, Series, Shades, Square

LABELLED = 80  # cells up to which each shows its number
NAMES = {
    "entropy": "entropy of attention (nats)",
    "largest_attention": "largest attention",
    "loss": "loss",
    "y_norm": "norm of Y",
}
NONE = ""  # no second axis
# Colour, sign and hatching of what has no mean.
LOOKS = {
    "failed": ("$vermilion", "✕", "$paper"),
    "diverged": ("$purple", "∞", "$paper"),
    "missing": ("$fill", "…", "$line"),
}


@dataclass(frozen=True)
class Axes:
    """What is looked at: settings along x and y, the quantity, and the values of the settings held."""

    x: str
    y: str
    value: str
    held: dict[str, str | int | float]


def settings_of(sweep: Sweep) -> dict[str, list[Any]]:
    """The settings that vary, with their values; the learning rate of Z where none does."""
    every = {"classes": list(sweep.classes), **sweep.grid}
    varying = {name: values for name, values in every.items() if len(values) > 1}
    return varying or {"eta_z": sweep.grid["eta_z"]}


def read_axes(sweep: Sweep, asked: Mapping[str, str]) -> Axes:
    """Axes from the settings of an address; what makes no sense there becomes the usual."""
    settings = settings_of(sweep)
    names = list(settings)
    usual: list[str] = [name for name in ("eta_z", "eta_y", "ratio") if name in names]
    usual += [name for name in names if name not in usual]
    x = asked.get("x", "") if asked.get("x") in names else usual[0]
    rest = [name for name in usual if name != x]
    y = asked.get("y", "") if asked.get("y") in rest else rest[0] if rest else NONE
    value = asked.get("value", "") if asked.get("value") in MEASURED else MEASURED[0]
    held: dict[str, str | int | float] = {}
    for name in names:
        if name not in (x, y):
            words = {str(v): v for v in settings[name]}
            held[name] = words.get(asked.get(f"at_{name}", ""), settings[name][0])
    return Axes(x, y, value, held)


def cells_on(sweep: Sweep, axes: Axes) -> dict[tuple[int, int], int]:
    """The cell at each place (column, row) of the map."""
    settings = settings_of(sweep)
    columns = {_key(v): i for i, v in enumerate(settings[axes.x])}
    rows = {_key(v): i for i, v in enumerate(settings[axes.y])} if axes.y else {}
    found = {}
    for number, cell in enumerate(sweep.cells):
        if all(cell[name] == value for name, value in axes.held.items()):
            found[columns[_key(cell[axes.x])], rows[_key(cell[axes.y])] if axes.y else 0] = number
    return found


def drawn(sweep: Sweep, axes: Axes, chosen: int | None) -> Picture:
    """The map; the chosen cell is framed."""
    settings, means = settings_of(sweep), cell_means(sweep, axes.value)
    places = cells_on(sweep, axes)
    ended = dict.fromkeys(sweep.missing, "missing") | dict.fromkeys(sweep.failed, "failed")
    ended |= dict.fromkeys(means, "finished")
    states = {cell: ended.get(cell, "diverged") for cell in places.values()}
    # The chosen one comes last, so that no neighbour covers its frame.
    shown = dict(sorted(list(places.items())[:POINTS], key=lambda pair: pair[1] == chosen))
    values = [means[c].mean for c in shown.values() if c in means]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    high = high if high > low else low + max(abs(low), 1.0) * 1e-9
    names = list(settings)
    digits = min(max(2 - floor(log10(high - low)), 0), 15)
    scale = {"show": len(set(values)) > 1, "calculable": True, "precision": digits}
    frame = {"emphasis": {"itemStyle": {"borderColor": "$ink", "borderWidth": 2}}}
    squares = []
    for place, cell in shown.items():
        where = [f"{n} {sweep.cells[cell][n]}" for n in (axes.x, axes.y) if n]
        one = _square(place, axes.value, means.get(cell), states[cell], (low, high))
        label = one.label if len(shown) <= LABELLED else ""
        name = ", ".join([*where, one.name])
        squares.append(replace(one, name=name, label=label, framed=cell == chosen))
    return Picture(
        x=_axis(axes.x, settings[axes.x], gap=30),
        y=_axis(axes.y, settings[axes.y] if axes.y else [""], gap=None),
        series=[Series("heatmap", squares, more=frame)],
        header=["cell", *names, axes.value, "± (95 %)", "seeds", "ended"],
        rows=[
            [c, *(sweep.cells[c][n] for n in names), *_numbers(means.get(c)), state]
            for c, state in states.items()
        ],
        note=_note(axes, list(states.values()), len(shown)),
        margins=Margins(16, 16, 34, 92, labels=True),
        shades=Shades(low, high, ["high", "low"], more=scale | {"itemHeight": 180}),
        hover={"formatter": "{b}"},
        more={"animation": False},
    )


def _square(
    place: tuple[int, int], value: str, mean: Mean | None, state: str, span: tuple[float, float]
) -> Square:
    """One cell: coloured by its mean, or hatched with the word for what became of it."""
    if mean is None:
        colour, sign, hatch = LOOKS[state]
        return Square([*place, 0], state, sign, colour=colour, hatch=hatch)
    said = f"{value} {spread(mean)} ({mean.seeds} seed{'s' * (mean.seeds > 1)})"
    # Dark words on the bright half of the scale.
    ink = "#1b1f24" if (mean.mean - span[0]) / (span[1] - span[0]) > 0.45 else "#ffffff"
    # As many digits as tell the ends of the scale apart.
    digits = min(max(2 + ceil(log10(max(map(abs, span)) / (span[1] - span[0]))), 3), 6)
    return Square([*place, mean.mean], said, f"{mean.mean:.{digits}g}", ink)


def spread(mean: Mean) -> str:
    """A mean and how sure it is."""
    return f"{mean.mean:.6g}" + ("" if mean.half is None else f" ± {mean.half:.2g}")


def _axis(name: str, values: list[Any], gap: int | None) -> Axis:
    return Axis(name, names=[str(v) for v in values], gap=gap, more={"splitArea": {"show": False}})


def _key(value: Any) -> tuple[str, Any]:
    """A value as a key of its own: 1 and true are different settings."""
    return type(value).__name__, value


def _numbers(mean: Mean | None) -> list[Any]:
    if mean is None:
        return ["–", "–", 0]
    return [mean.mean, "–" if mean.half is None else mean.half, mean.seeds]


def _note(axes: Axes, states: list[str], shown: int) -> str:
    said = f"Mean over seeds; {len(states):,} cells"
    if parts := [f"{n} {word}" for word in LOOKS if (n := states.count(word))]:
        said += f", {', '.join(parts)} (✕ failed, ∞ diverged, … missing)"
    if axes.held:
        said += "; held: " + ", ".join(f"{k} {v}" for k, v in axes.held.items())
    if shown < len(states):
        said += f"; {shown:,} of {len(states):,} drawn, all are in the table"
    return f"{said}."
