"""Figures from plain records: priority graph, convergence, prediction, protocol.

Each function returns a `matplotlib.figure.Figure` that belongs to nobody else: no pyplot, no global
state left behind. Colours are Okabe and Ito's, and whatever a colour says, a line style, hatch,
marker or word says too. Parts of the figures carry ids (`component-3`, `arrow-0-3`, `bar-1`) that
survive into the SVG.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np

from attomaton.errors import counted, cut
from attomaton.mechanics.theory.automaton import Explanation, Fate
from attomaton.mechanics.theory.norms import Norm, norm_key
from attomaton.report.figures.canvas import FIN, S_FIN, SVM, Figure, drawn, mention, new_figure
from attomaton.report.figures.colours import BLACK, BLUE, CURVES, GREY, MARKERS, VERMILION
from attomaton.report.graphs import Label, readable
from attomaton.report.text.training import norm_text
from attomaton.report.words import percent, signed, tick

# --- convergence ---------------------------------------------------------------------------------


Values = np.ndarray | Sequence[float] | Sequence[int] | Sequence[Sequence[float]]
Published = float | tuple[float, float]  # a number, or its range
BAR_CAP = 16  # tokens in a prediction figure
CURVE_CAP = 7  # curves told apart by colour and marker
LOWEST = -0.25  # margin that is drawn


@dataclass(frozen=True)
class _Panel:
    """One quantity over training: which records, which axis, and where theory says it goes."""

    title: str
    curves: list[tuple[str, str]]  # record, name in the key (empty: only one curve)
    theory: float | None  # the limit; infinite: grows without bound; None: not said
    log: bool = True


def _panels(records: Mapping[str, Values], own: Norm, floor: bool, growth: bool) -> list[_Panel]:
    """The panels of some records; of margins that in the norm of the optimiser comes first, Frobenius' beside it.

    Without the `floor` of the loss, and with a `growth` of the norm, these two have other axes.
    """
    norms = dict.fromkeys((own, "frobenius" if own != "frobenius" else "max"))
    margins = [(f"margin_{norm_key(x)}", f"in the {norm_text(x)}") for x in norms]
    cosines = [("cosine_svm", "of W"), ("cosine_outside", f"of W outside {S_FIN}")]
    of_own = f"cosine_{norm_key(own)}"
    if of_own in records:
        cosines.append((of_own, f"with W of the {norm_text(own)}"))
    return [
        _Panel(r"loss above its floor, $L - L_*$", [("loss", "")], 0.0)
        if floor
        else _Panel("loss", [("loss", "")], None, log=False),
        _Panel(f"cosine with {SVM}", cosines, 1.0, log=False),
        _Panel("margin, of the best in a norm", margins, 1.0, log=False),
        _Panel(f"distance to {FIN} inside {S_FIN}", [("distance_fin", "")], 0.0),
        _Panel("attention on the retrieved component", [("mass_retrieved", "")], 1.0, log=False),
        _Panel("norm of W", [("norm", "")], None if growth else np.inf, log=not growth),
    ]


@drawn
def convergence_figure(
    records: Mapping[str, Values],
    loss_floor: float | None = None,
    norm_rate: float | None = None,
    norm: Norm = "frobenius",
) -> Figure:
    """Training on its way to the limit: median and range over seeds, theory dashed.

    `records` holds `steps`, `loss` (seeds × records) and what else was measured: `cosine_svm`, `cosine_outside`,
    `distance_fin`, `mass_retrieved`, `norm`, and margins and cosines in the `norm` of the optimiser. Under gradient
    descent the norm grows like `norm_rate` · log(step), drawn as a slope where that is given.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    steps = np.asarray(records["steps"], dtype=float)
    loss = np.atleast_2d(np.asarray(records["loss"], dtype=float))
    known = _panels(records, norm, loss_floor is not None, bool(norm_rate))
    measured = {
        name: np.atleast_2d(np.asarray(records[name], dtype=float))
        for panel in known
        for name, _ in panel.curves
        if name in records
    }
    if loss_floor is not None:
        measured["loss"] = loss - loss_floor
    panels = [p for p in known if any(name in measured for name, _ in p.curves)]
    columns = min(3, len(panels)) if len(panels) != 4 else 2
    lines = -(-len(panels) // columns)
    title = f"training approaches its limit ({counted(len(loss), 'seed')})"
    figure = new_figure(title, max(3.3 * columns + 0.4, 4.8), 2.6 * lines + 0.5)
    for i, panel in enumerate(panels):
        axes = figure.add_subplot(lines, columns, i + 1)
        _draw_panel(axes, panel, steps, measured)
        step_axis(axes, steps)
        if panel.curves[0][0] == "norm" and norm_rate:
            # The slope that theory gives, through the last point measured.
            line = growth_line(steps, measured["norm"], norm_rate)
            axes.plot(*line, "--", color=BLACK, lw=1.2, gid="theory-norm", zorder=3)
            text = rf"theory: slope $\Vert${SVM}$\Vert$ log τ"
            axes.text(0.02, 0.97, text, transform=axes.transAxes, fontsize=8, va="top")
        if i == 0 and len(loss) > 1:
            median = Line2D([], [], color=BLUE, lw=1.8, label="median")
            seeds = Patch(fc=BLUE, alpha=0.22, label="all seeds")
            axes.legend(handles=[median, seeds], loc="upper right")
    return figure


def _draw_panel(
    axes: Any, panel: _Panel, steps: np.ndarray, measured: Mapping[str, np.ndarray]
) -> None:
    axes.set_title(panel.title)
    axes.set_gid(f"panel-{panel.curves[0][0]}")
    styles = ((BLUE, "-"), (VERMILION, "-."), (BLACK, ":"))
    there = [(*curve, *style) for curve, style in zip(panel.curves, styles, strict=False)
             if curve[0] in measured]  # fmt: skip
    if panel.log and not any((measured[name] > 0).any() for name, *_ in there):
        axes.text(0.5, 0.5, "0 throughout", transform=axes.transAxes, ha="center", color=GREY)
        axes.set_yticks([])
        return
    for name, label, colour, style in there:
        # Median over seeds, and the range as a band.
        rows = measured[name]
        middle, low, high = np.median(rows, axis=0), rows.min(axis=0), rows.max(axis=0)
        if panel.log:
            # Rounding can put a gap at or below 0, which has no place on the axis.
            least = rows[rows > 0].min()
            low, high = np.maximum(low, least), np.maximum(high, least)
            middle = np.where(middle > 0, middle, np.nan)
        if len(rows) > 1:
            axes.fill_between(steps, low, high, color=colour, alpha=0.22, lw=0)
        axes.plot(steps, middle, style, color=colour, lw=1.8, label=label or None)
    if panel.log:
        axes.set_yscale("log")
    elif there[0][0].startswith("margin_"):
        # How wrong an order was matters little.
        axes.set_ylim(bottom=max(axes.get_ylim()[0], LOWEST))
    # The norm grows without bound only where there is a direction to grow in.
    if panel.theory is not None and (np.isfinite(panel.theory) or "cosine_svm" in measured):
        _draw_theory(axes, panel)
    if len(there) > 1:
        axes.legend(loc="best" if there[0][0].startswith("margin_") else "lower right")


def _draw_theory(axes: Any, panel: _Panel) -> None:
    """The limit as a dashed line; on a log axis, which shows neither 0 nor infinity, at its edge."""
    assert panel.theory is not None
    look = {"ls": "--", "color": BLACK, "lw": 1.2, "gid": f"theory-{panel.curves[0][0]}"}
    word = {"transform": axes.get_yaxis_transform(), "fontsize": 8}
    if not panel.log:
        low = axes.get_ylim()[0]
        room = 0.16 * max(panel.theory - low, 1e-3)
        axes.set_ylim(low, panel.theory + room)
        axes.axhline(panel.theory, **look)
        text = f"theory: {panel.theory:g}"
        axes.text(0.02, panel.theory + 0.12 * room, text, va="bottom", **word)
        return
    up = np.isinf(panel.theory)
    axes.spines["bottom"].set_visible(up)
    axes.plot([0, 1], [up, up], transform=axes.transAxes, clip_on=False, **look)
    word["transform"] = axes.transAxes
    text = "theory: up, without bound ↑" if up else "theory: down to 0 ↓"
    axes.text(0.02, 0.97 if up else 0.02, text, va="top" if up else "bottom", **word)


def growth_line(steps: np.ndarray, norm: np.ndarray, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """The norm under gradient descent as theory has it, `rate` · log(step), through the last median over seeds.

    Late steps and the line over them; `norm` is seeds × records.
    """
    late = steps >= max(1.0, steps.max() ** 0.25)
    return steps[late], np.median(norm, axis=0)[-1] + rate * np.log(steps[late] / steps[-1])


def step_axis(axes: Any, steps: np.ndarray) -> None:
    """A logarithmic axis of steps; step 0, where there is one, gets a place of its own."""
    if steps.size and steps.min() <= 0:
        axes.set_xscale("symlog", linthresh=1, linscale=0.3)
        axes.xaxis.get_minor_locator().set_params(subs=range(2, 10))
    else:
        axes.set_xscale("log")
    if steps.max() < 1e5:
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    if steps.max() > steps.min():
        axes.set_xlim(max(0, steps.min()), steps.max())
    axes.set_xlabel("step")


# --- prediction ----------------------------------------------------------------------------------


@drawn
def prediction_figure(explanation: Explanation) -> Figure:
    """One prediction and its reasons: who is retrieved and who lost, and the way from soft to hard."""
    fates = explanation.fates
    names = readable([*(fate.token for fate in fates), explanation.last])
    best = max((fate.probability or 0.0 for fate in fates), default=0.0)
    answer = "no prediction"
    if explanation.prediction is not None:
        answer = f"{mention(explanation.prediction)} with {percent(best)}"
    title = f"after {_tail(explanation.context)}: {answer}"
    bars = min(len(fates), BAR_CAP)
    size = 12 if len(title) < 70 else 10
    figure = new_figure(title, 9, max(3.2, 1.3 + 0.26 * bars), size)
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
    _draw_fates(left, fates, names)
    _draw_soft_to_hard(right, explanation, names)
    if explanation.note:
        figure.supxlabel(
            fill(explanation.note, 115), fontsize=8, color=GREY, x=0.01, ha="left", parse_math=False
        )
    return figure


def _draw_fates(axes: Any, fates: Sequence[Fate], names: dict[Label, str]) -> None:
    from matplotlib.patches import Patch

    axes.set_title("next token, in the limit of training")
    shown = fates[:BAR_CAP]
    for i, fate in enumerate(shown):
        p = fate.probability or 0.0
        # A lost token has no bar; a hatched stub stands where it would begin.
        length, kept = p or 0.012, p > 0
        look = (
            {"fc": BLUE, "ec": BLUE} if kept else {"fc": "white", "ec": VERMILION, "hatch": "/////"}
        )
        bar = axes.barh(i, length, height=0.62, **look)[0]
        bar.set_gid(f"bar-{i}")
        inside = length > 0.7
        axes.text(
            length + (-0.015 if inside else 0.015), i, _fate_word(fate, names), va="center",
            ha="right" if inside else "left", fontsize=8, parse_math=False,
            color="white" if inside else BLACK,
        )  # fmt: skip
    labels = [cut(names[f.token], 16) + (f"  ×{f.count}" if f.count > 1 else "") for f in shown]
    axes.set_yticks(range(len(shown)), labels, fontsize=9, parse_math=False)
    axes.set(xlim=(0, 1.02), ylim=(max(len(shown), 4) - 0.4, -0.6), xlabel="probability")
    axes.grid(axis="y", visible=False)
    key = [Patch(fc=BLUE, ec=BLUE, label="retrieved")]
    if any(fate.probability == 0 for fate in shown):
        key.append(Patch(fc="white", ec=VERMILION, hatch="/////", label="lost: probability 0"))
    axes.legend(handles=key, loc="lower right")
    if len(fates) > len(shown):
        axes.set_ylabel(f"shown {len(shown)} of {len(fates):,} tokens", fontsize=8, color=GREY)


def _fate_word(fate: Fate, names: dict[Label, str]) -> str:
    if fate.probability:
        return percent(fate.probability)
    if fate.reason == "outranked" and fate.path:
        winner = fate.path[0].winner
        return f"outranked by {cut(names.get(winner, str(winner)), 16)}"
    if fate.reason == "lower score":
        return f"lower score, {signed(fate.svm_score)}"
    return str(fate.reason)


def _draw_soft_to_hard(axes: Any, explanation: Explanation, names: dict[Label, str]) -> None:
    """Probabilities against the radius; the last place on the axis is the limit."""
    axes.set_title("from soft to hard")
    finite = [(r, p) for r, p in explanation.soft_to_hard if np.isfinite(r)]
    fates = [fate for fate in explanation.fates if fate.probability is not None]
    if not fates:
        axes.text(0.5, 0.5, "nothing was learned here", ha="center", va="center", color=GREY)
        axes.set_axis_off()
        return
    for i, fate in enumerate(fates[:CURVE_CAP]):
        token, kept = fate.token, bool(fate.probability)
        curve = [p[token] for _, p in finite] + [fate.probability]
        # Hollow markers that shrink: curves lying on each other are all seen.
        axes.plot(
            range(len(curve)), curve, "-" if kept else "--", color=CURVES[i], marker=MARKERS[i],
            ms=8.5 - i, mfc="none", mew=1.5, lw=1.8 if kept else 1.2, clip_on=False,
            label=f"curve {i}", gid=f"curve-{i}",
        )  # fmt: skip
    ticks = [tick(r) for r, _ in finite] + ["limit"]
    axes.set_xticks(range(len(ticks)), ticks)
    axes.axvline(len(ticks) - 1, color=GREY, lw=0.8, ls=":")
    axes.set(ylim=(0, 1.02), xlim=(0, len(ticks) - 1))
    axes.set(xlabel=f"size of W along {SVM} (radius)", ylabel="probability")
    key = axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), title_fontsize=8)
    for i, text in enumerate(key.get_texts()):
        text.set_parse_math(False)
        text.set_text(cut(names[fates[i].token], 16))
    if len(fates) > CURVE_CAP:
        key.set_title(f"{CURVE_CAP} of {len(fates):,} tokens")


def _tail(context: Sequence[Label], most: int = 40) -> str:
    """The end of a context in quotes, as much as fits a title."""
    names = readable(context)
    words: list[str] = []
    for x in reversed(context):
        if words and len(" ".join([*words, names[x]])) > most:
            return f"“… {' '.join(reversed(words))}”"
        words.append(cut(names[x], 24))
    return f"“{' '.join(reversed(words))}”"


# --- protocol ------------------------------------------------------------------------------------


_FINALS = {  # name of a row's entry: words, marker
    "cosine_svm": (f"final cosine with {SVM}", "o"),
    "cosine_local": (f"final cosine with the local {SVM}", "o"),
    "cosine_global": (f"final cosine with the global {SVM}", "s"),
    "distance_fin": (f"final distance to {FIN}", "D"),
}


@drawn
def protocol_figure(
    rows: Sequence[Mapping[str, float | int]],
    curves: Mapping[str, Values] | None = None,
    published: Mapping[str, Published] | None = None,
) -> Figure:
    """A published protocol, repeated: final cosines and distances of every seed, and the way there.

    `rows` hold `seed` and two or more of the quantities named above; `curves`, where kept, `steps` and
    `cosine_svm` (seeds × records). `published` may hold a number or a (low, high) range for each.
    """
    published = published or {}
    names = [name for name in _FINALS if name in rows[0]]
    title = f"{counted(len(rows), 'seed')} of the published protocol"
    columns = len(names) + bool(curves)
    figure = new_figure(title, 3.2 * columns + 0.4, 3.1)
    panels = list(np.atleast_1d(figure.subplots(1, columns)))
    if curves:
        _draw_seed_curves(panels.pop(0), curves)
    for axes, name in zip(panels, names, strict=True):
        _draw_final(axes, name, rows, published.get(name))
    return figure


def _draw_final(
    axes: Any, name: str, rows: Sequence[Mapping[str, float | int]], published: Published | None
) -> None:
    words, marker = _FINALS[name]
    values = [row[name] for row in rows]
    axes.set_title(words)
    if published is not None:
        low, high = published if isinstance(published, tuple) else (published, published)
        look: dict[str, Any] = {"label": "published", "gid": f"published-{name}"}
        if low == high:
            axes.axhline(low, color=GREY, lw=1.2, ls=":", **look)
        else:
            axes.axhspan(low, high, color="#999999", alpha=0.3, lw=0, **look)
    axes.plot(range(len(rows)), values, marker, color=BLUE, ms=6, label="measured",
              gid=f"seeds-{name}", clip_on=False)  # fmt: skip
    stride = max(1, -(-len(rows) // 12))
    axes.set_xticks(range(0, len(rows), stride), [str(row["seed"]) for row in rows[::stride]])
    axes.set(xlabel="seed", xlim=(-0.6, len(rows) - 0.4))
    if name in ("cosine_svm", "cosine_local"):
        axes.axhline(1, ls="--", color=BLACK, lw=1.2, gid="theory-final", label="theory: 1")
    elif name == "distance_fin" and 0 < min(values) < max(values) / 20:
        axes.set_yscale("log")
    elif name == "distance_fin":
        axes.set_ylim(0, 1.1 * max(values) or 1)
    _key_below(axes)


def _draw_seed_curves(axes: Any, curves: Mapping[str, Values]) -> None:
    steps = np.asarray(curves["steps"], dtype=float)
    values = np.atleast_2d(np.asarray(curves["cosine_svm"], dtype=float))
    axes.set_title(f"cosine with {SVM} in training")
    for i, row in enumerate(values):
        axes.plot(steps, row, color=BLUE, lw=0.8, alpha=0.45, gid=f"seed-{i}")
    axes.plot(steps, np.median(values, axis=0), color=BLUE, lw=2.2, label="median")
    axes.axhline(1, ls="--", color=BLACK, lw=1.2, gid="theory", label="theory: 1")
    step_axis(axes, steps)
    _key_below(axes)


def _key_below(axes: Any) -> None:
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, columnspacing=1,
                handlelength=1.4, handletextpad=0.5)  # fmt: skip
