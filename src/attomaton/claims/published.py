"""The published figures: how their numbers become evidence, a small picture and a table.

The numbers come from the modules that make them; here they only change their dress.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from attomaton.claims.cases import not_applicable
from attomaton.claims.global_protocol import PEAK
from attomaton.claims.picture import BLACK, band, grouped, heat, level, line, theory_line
from attomaton.errors import AttomatonError, UsageError, counted, nearest
from attomaton.results import (
    Assumption,
    Evidence,
    Line,
    Panel,
    Quantities,
    Result,
    Upright,
    Verdict,
)

Columns = dict[str, list[Any]]  # a table
Panels = Callable[[Result], Sequence[Panel]]
Setting = int | float | str | tuple[int, ...]
Settings = dict[str, Setting]
# Arguments of `make` that are no settings
INNER = ("first", "every", "quick", "checkpoint", "progress", "run")
DRAWN = Assumption("data as published", True, "drawn anew")
BAND = "mean; band: 80 % of the instances"
FREEZING = ("entropy", "entropy_end", "share_fall", "entropy_moves")  # of figure 7, by layers


def rows_table(result: Result) -> Columns:
    """The instances, rows, or cells of the numbers as columns."""
    rows = next(result[name] for name in ("instances", "rows", "cells") if name in result)
    return {name: [row[name] for row in rows] for name in rows[0]}


@dataclass(frozen=True)
class Figure:
    """One published figure: what makes its numbers, and how they are judged, drawn and kept.

    `make` returns its numbers with a `verdict` and a `control`; `big` names entries of the numbers too large for a
    summary.
    """

    make: Callable[..., Result]
    formula: str
    tolerance: str
    reason: str
    panels: Panels
    prediction: Callable[[Result], Quantities] = lambda r: {}
    measured: Callable[[Result], Quantities] = lambda r: r["measured"]
    control: Callable[[Result], Quantities] = lambda r: r["control_measured"]
    table: Callable[[Result], Columns] = rows_table
    big: tuple[str, ...] = ()
    text: bool = False  # needs WikiText-2

    @property
    def kept(self) -> bool:
        """Whether what is finished of it can be kept, to go on from there."""
        return "checkpoint" in signature(self.make).parameters

    @property
    def seeds(self) -> int | None:
        """How many draws were published; None where nothing is drawn."""
        said = signature(self.make).parameters.get("seeds")
        return None if said is None else said.default

    @property
    def divided(self) -> bool:
        """Whether its parts can be made by several processes."""
        return "run" in signature(self.make).parameters

    @property
    def settings(self) -> Settings:
        """What can be set, each with its published value: the other arguments of `make`."""
        said = signature(self.make).parameters.values()
        return {x.name: x.default for x in said if x.name not in INNER and x.default is not x.empty}

    def asked(self, said: Mapping[str, Any]) -> Settings:
        """These settings, each of the kind of its published value; numbers may come as text."""
        known, found = self.settings, {}
        has = ", ".join(f"{name}={_text_of(usual)}" for name, usual in known.items())
        for name, value in said.items():
            if name not in known:
                near = [x for x in known if x.lower() == name.lower()]
                close = f"; did you mean {near[0]!r}?" if near else nearest(name, known)
                raise UsageError(f"no setting {name!r}{close} This experiment has {has or 'none'}.")
            found[name] = _of_kind(name, _text_of(value), known[name])
        return found

    def check(self, **options: Any) -> Evidence:
        """The figure made anew, as evidence; `options` are those of `make`."""
        data = _text() if self.text else DRAWN
        if not data.holds:
            return not_applicable(data)
        return self.evidence(self.make(**options), data, options)

    def evidence(
        self, result: Result, data: Assumption = DRAWN, options: Mapping[str, Any] | None = None
    ) -> Evidence:
        """What was made with these options, as evidence."""
        return Evidence(
            formula=self.formula,
            assumptions=(data,),
            verdict=Verdict(result["verdict"]),
            control=Verdict(result["control"]),
            prediction=self.prediction(result),
            tolerance=result.get("tolerance", self.tolerance),
            reason=self.reason,
            measured=self.measured(result),
            control_measured=self.control(result),
            panels=tuple(self.panels(result)),
            settings={**(options or {}), **({"size": result["size"]} if "size" in result else {})},
        )


def _text_of(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def _of_kind(name: str, text: str, usual: Any) -> Any:
    """A value read as its published one is: a whole number, a number, a word or several of a kind."""
    try:
        if isinstance(usual, tuple):
            return tuple(type(usual[0])(x) for x in text.split(","))
        return type(usual)(text)
    except ValueError:
        one = usual[0] if isinstance(usual, tuple) else usual
        kind = "whole number" if isinstance(one, int) else "number"
        wanted = f"a {kind} is" if one is usual else f"{kind}s with commas between are"
        raise UsageError(f"{name}={text}: {wanted} needed, such as {_text_of(usual)}.") from None


def _text() -> Assumption:
    """Whether WikiText-2 is at hand, or can be fetched."""
    from attomaton.corpus.datasets import dataset_files

    try:
        files = dataset_files("wikitext-2")
    except AttomatonError as error:
        return Assumption("WikiText-2 is at hand", False, str(error))
    return Assumption("WikiText-2 is at hand", True, str(files["train"].parent.name))


# Mechanics


def global_panels(r: Result) -> list[Panel]:
    """Direction over the steps, and where each seed ends."""
    t, cosines = r["curves"]["steps"], np.asarray(r["curves"]["cosine_svm"])
    lines = [line(t[1:], y[1:], "W(τ), each seed" if i == 0 else None, points=60, colour=0)
             for i, y in enumerate(cosines)]  # fmt: skip
    lines.append(level(t[1:], 1.0, "W_svm"))
    names = {"cosine_svm": "with W_svm", "cosine_shuffled": "control: shuffled labels"}
    return [
        Panel("Direction", "step", "cosine with W_svm", lines, xscale="log"),
        _seeds_panel(r, "After 4,000 steps", names),
    ]


def local_panels(r: Result) -> list[Panel]:
    """Where each seed ends."""
    names = {"cosine_local": "with the local W_svm", "cosine_global": "control: the global one"}
    return [_seeds_panel(r, "After 2,000 steps", names)]


def _seeds_panel(r: Result, title: str, names: Mapping[str, str]) -> Panel:
    seeds = range(len(r["rows"]))
    lines = [line(seeds, [x[k] for x in r["rows"]], word, "points") for k, word in names.items()]
    return Panel(title, "seed", "cosine", [*lines, level(seeds, 1.0, "theory")])


def global_means_panels(r: Result) -> list[Panel]:
    """Figures 4 and 5: direction and finite part over the steps, in the mean, and where each instance ends."""
    t, curves = r["curves"]["steps"], r["curves"]
    direction = band(t, curves["cosine_svm"], BAND)
    panels = [
        Panel("Direction", "step", "cosine with W_svm", [direction, *_told(r, t, "cosine_svm", 0)])
    ]
    if np.any(curves["distance_fin"]):
        finite = [band(t, curves["distance_fin"], BAND), *_told(r, t, "distance_fin", 0)]
        if not r.get("changed"):
            finite.append(line([PEAK[0]], [PEAK[1]], "published peak", "points"))
        panels.append(Panel("Finite part", "step", "distance to W_fin", finite))
    ends = ("cosine_svm", "W_svm"), ("cosine_shuffled", "control: W_svm of shuffled labels")
    return [*panels, _ends_panel(r, ends)]  # fmt: skip


def local_means_panels(r: Result) -> list[Panel]:
    """Figures 6 and 7: the same, beside the global and beside the local limit."""
    t, curves = r["curves"]["steps"], r["curves"]
    names = {"local": "local", "global": "control: global"}
    return [
        *(
            Panel(title, "step", ylabel, [
                *(band(t, curves[f"{key}_{where}"], word) for where, word in names.items()),
                *(x for i, where in enumerate(names) for x in _told(r, t, f"{key}_{where}", i)),
            ])
            for key, title, ylabel in (("cosine", "Direction", "cosine with W_svm"),
                                       ("distance", "Finite part", "distance to W_fin"))
        ),
        _ends_panel(r, [(f"cosine_{where}", f"{word} W_svm") for where, word in names.items()]),
    ]  # fmt: skip


def _told(r: Result, t: Any, name: str, colour: int) -> list[Line]:
    """What was published of a quantity, as a level in its colour; none where other settings were asked for."""
    said = next((row["published"] for row in r["rows"] if row["quantity"] == name), None)
    if not said:
        return []
    ends, value = np.asarray(t, float)[[0, -1]], float(said.strip("<> "))
    return [line(ends, [value, value], f"published: {said}", "theory", colour=colour)]


def _ends_panel(r: Result, names: Sequence[tuple[str, str]]) -> Panel:
    """Where every instance ends, in order."""
    ranks = range(1, len(r["instances"]) + 1)
    lines = [
        line(ranks, sorted(x[name] for x in r["instances"]), word, "points") for name, word in names
    ]
    lines.append(level(ranks, 1.0, "theory"))
    steps = f"{int(r['curves']['steps'][-1]):,}"
    return Panel(f"After {steps} steps", "instance, by rank", "cosine", lines)


def many_tokens_panels(r: Result) -> list[Panel]:
    """Cosine or distance over the steps, its mean and what most instances stay within, and where they end."""
    curves = r["curves"]
    which = "cosine_svm" if "cosine_svm" in curves[0] else "distance_fin"
    name, scale = {
        "cosine_svm": ("cosine with W_svm", None),
        "distance_fin": ("distance to W_fin", "log"),
    }[which]
    t, y = np.asarray(curves[0]["step"])[1:], np.array([c[which] for c in curves])[:, 1:]
    share = (np.arange(len(y)) + 0.5) / len(y)
    value, said = r["published"], f"published: {r['published']:g}"
    told = "changed" not in r
    return [
        Panel(
            "In training", "step", name,
            [band(t, y, BAND), *([level(t, value, said)] if told else [])], xscale="log", yscale=scale,
        ),
        Panel(
            f"After {t[-1]:,} steps: {r['mean']:.4f} ± {r['error']:.4f}", name, "share of instances below",
            [line(np.sort(y[:, -1]), share, "instances", "points"),
             *([theory_line([value] * 2, [0, 1], said)] if told else [])],
        ),
    ]  # fmt: skip


def components_panels(r: Result) -> list[Panel]:
    """Components against samples, as counted and as theory has them."""
    x = rows_table(r)
    late = [x for x in r["rows"] if x["n"] >= 1000]
    return [
        Panel(
            "Components of one last token's graph", "samples n", "components",
            [line(x["n"], x["components"], "counted, contexts of 64", error=x["error"]),
             line(x["n"], x["pairs"], "control: contexts of 2"),
             theory_line([x["n"] for x in late], [x["theory"] for x in late], "1 + K exp(−n/K)")],
            xscale="log",
        )
    ]  # fmt: skip


def dimensions_panels(r: Result) -> list[Panel]:
    """What is selected, what is strict, and the loss floor against the dimension."""
    x, d = rows_table(r), [x["d"] for x in r["rows"]]
    told = [x for x in r["rows"] if x["published"] is not None]
    return [
        Panel(
            "Selected by retrieval", "dimensions d", "share",
            [line(d, x["selected"], "mass on the label's component", error=x["error"]),
             line(d, x["strict"], "strict differences"),
             line([x["d"] for x in told], [x["published"] for x in told], "published", "points"),
             level(d, 1.0, "a dimension for each token")],
            xscale="log",
        ),
        Panel("Loss floor", "dimensions d", "L*", [line(d, x["loss_floor"], "mean over draws")], xscale="log"),
    ]  # fmt: skip


# Linear decoders


def decoder_panels(r: Result) -> list[Panel]:
    """Loss, length, direction and finite part over the steps, a colour for each optimiser."""
    t, names = np.asarray(r["curves"][0]["step"])[1:], {c["optimizer"]: None for c in r["curves"]}

    def ways(key: str) -> list[Line]:
        return [
            band(t, np.array([c[key] for c in r["curves"] if c["optimizer"] == x])[:, 1:], x)
            for x in names
        ]  # fmt: skip

    cosines = [*ways("cosine_svm"), level(t, 1.0, "W_mm")]
    outside = [*ways("cosine_outside"), level(t, 1.0, "W_mm")]
    return [
        Panel("Loss above the entropy", "step", "CE − H", ways("loss_gap"), xscale="log", yscale="log"),
        Panel("Length", "step", "‖W‖", ways("norm"), xscale="log", yscale="log"),
        Panel("Direction", "step", "cosine with W_mm", cosines, xscale="log"),
        Panel("Direction outside F", "step", "cosine with W_mm", outside, xscale="log"),
        Panel("Finite part", "step", "‖Π_F W − W*‖", ways("distance_fin"), xscale="log", yscale="log"),
    ]  # fmt: skip


def ntp_fig1_panels(r: Result) -> list[Panel]:
    """The way of every token's row of W in the plane, beside contexts and rows of W_mm; and the way there."""
    W_mm, path = np.array(r["W_mm"]), np.array(r["path"])
    path = path * np.linalg.norm(W_mm) / np.linalg.norm(path, axis=(0, 1))
    tokens = range(len(W_mm))
    plane = Panel(
        "W outside F, as long as W_mm (dashed)", "", "",
        [*(line(path[v, 0], path[v, 1], f"token {v + 1}", colour=v) for v in tokens),
         *(line([0, W_mm[v, 0]], [0, W_mm[v, 1]], None, "theory", colour=v) for v in tokens),
         *(line([x], [y], f"{name}: before {', '.join(str(v + 1) for v in np.flatnonzero(p))}", "points", ink=BLACK)
           for name, (x, y), p in zip("ABC", r["contexts"], r["probabilities"], strict=True))],
        legend="outside",
    )  # fmt: skip
    return [plane, *decoder_panels(r)]


def ntp_fig4_panels(r: Result) -> list[Panel]:
    """The way there for three optimisers, outside F too, and the entropies of the draws beside the published one."""
    H = {c["seed"]: c["entropy"] for c in r["curves"]}
    drawn = [line([*H], [*H.values()], "draws", "points"), *_told(r, [*H], "entropy", 1)]
    return [*decoder_panels(r), Panel("Entropy", "draw", "H", drawn, xticks=[*H])]


# Scan and Snap


def fig3_panels(r: Result) -> list[Panel]:
    """The growth factor over time."""
    curves = r["curves"]
    lines = [line(c["t"], c["chi"], f"η_Y = {c['eta_y']:g}", points=100) for c in curves]
    one = curves[0]
    early = np.geomspace(one["t"][0], one["t_0"], 50)
    at = float(np.interp(early[25], one["t"], one["chi"]))
    lines.append(theory_line(early, at * early / early[25], "proportional to t"))
    marks = [Upright(c["t_0"], colour=i) for i, c in enumerate(curves)]
    title = "Growth factor, t_0 dotted"
    return [Panel(title, "time t", "χ", lines, xscale="log", yscale="log", marks=marks)]


def _attention(run: Result, n: int = 0) -> np.ndarray:
    c = np.asarray(run["attention"])
    return c.reshape(-1, *c.shape[-2:])[:, n]


def fig4_panels(r: Result) -> list[Panel]:
    """Attention of the first class, by token and step."""
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
        panels.append(Panel(title, "token", "attention of class 0", lines))
    return panels


def fig5_panels(r: Result) -> list[Panel]:
    """Attention of the first class, and picks shared."""
    own = _attention(r["sgd"])[-1]
    tokens = np.flatnonzero(own > 0)
    lines = [theory_line(tokens, own[tokens], "SGD, η = 1")]
    lines += [
        line(tokens, _attention(x)[-1][tokens], f"Adam, η = {x['eta']:g}", "points") for x in r["rows"]
    ]  # fmt: skip
    shared = [x["picks shared with sgd"] for x in r["rows"]]
    rates = [x["eta"] for x in r["rows"]]
    return [
        Panel("Attention of class 0", "token", "attention", lines),
        Panel(
            "Picks shared with SGD", "η", "share",
            [line(rates, shared, "Adam", "points"), level(rates, 0.8, "at most")],
        ),
    ]  # fmt: skip


def fig6_panels(r: Result) -> list[Panel]:
    """Entropy by the rates, for one query and for ten."""
    panels = []
    for q in (1, 10):
        cells = [c for c in r["cells"] if c["queries"] == q]
        lines = []
        for ratio, own in grouped(cells, "ratio"):
            x, y, e = ([c[k] for c in own] for k in ("eta_z", "entropy_mean", "entropy_std"))
            lines.append(line(x, y, f"η_Y/η_Z = {ratio:g}", error=e))
        panels.append(Panel(counted(q, "query"), "η_Z", "entropy (nats)", lines))
    return panels


def fig8_panels(r: Result) -> list[Panel]:
    """Decoder growth, by steps and in closed form."""
    panels = []
    for M, own in grouped(r["curves"], "M"):
        lines: list[Line] = []
        for c in own[::2]:
            s = range(len(c["h"]))
            colour = len(lines) // 2
            lines += [
                line(s, c["h_discrete"], f"steps, η_Y = {c['eta_y']:g}", points=100, colour=colour),
                theory_line(s, c["h"], None, points=100, colour=colour),
            ]
        panels.append(Panel(f"M = {M}: closed form dashed", "step", "h", lines))
    return panels


def fig9_panels(r: Result) -> list[Panel]:
    """Scan progress over time."""
    panels = []
    for M, own in grouped(r["curves"], "M"):
        lines = [line(c["t"], c["B"], f"η_Z = {c['eta_z']:g}", points=80) for c in own]
        lines.append(level(own[0]["t"], own[0]["B_at_t_0"], "B at every t_0"))
        marks = [Upright(c["t_0"], colour=i) for i, c in enumerate(own)]
        ratio = own[0]["eta_y"] / own[0]["eta_z"]
        title = f"M = {M}, η_Y/η_Z = {ratio:g}, t_0 dotted"
        panels.append(Panel(title, "time t", "B", lines, xscale="log", marks=marks))
    return panels


def recall_panels(over: str, xlabel: str) -> Panels:
    """Recall over a setting, a line for each number of queries."""

    def draw(r: Result) -> list[Panel]:
        rows = [x for x in r["rows"] if x["threshold"] == 1.0]
        lines = []
        for q, own in grouped(rows, "queries"):
            x, y, e = ([c[k] for c in own] for k in (over, "recall_mean", "recall_std"))
            lines.append(line(x, y, counted(q, "query"), error=e))
        return [Panel("Recall of distinct tokens over 1/M", xlabel, "recall", lines)]

    return draw


def fig7_panels(r: Result) -> list[Panel]:
    """Entropy over the steps."""
    return [
        Panel(
            "Entropy of attention on validation text", "step", "nats",
            [line(c["step"], c["entropy"], f"{c['layers']} layers") for c in r["curves"]],
        )
    ]  # fmt: skip


def fig10_panels(r: Result) -> list[Panel]:
    """Entropy by the learning rate."""
    rows = r["rows"]
    rate = np.array([x["lr"] for x in rows])
    entropy = np.array([x["entropy_mean"] for x in rows])
    fitted = entropy.mean() + r["measured"]["slope"] * (rate - rate.mean())
    return [
        Panel(
            "Entropy by learning rate", "learning rate", "nats",
            [line(rate, entropy, "trained", error=[x["entropy_error"] for x in rows]),
             theory_line(rate, fitted, "fitted line")],
        )
    ]  # fmt: skip


def joma_fig2_panels(r: Result) -> list[Panel]:
    """Shares of tokens by class, and how trained scores correlate with what the weights predict."""
    names = {
        "correlation": "with the prediction",
        "growth": "with Σ v²/2T alone",
        "shared": "with −x̄ Σ ‖w‖²/2T alone",
        "shuffled": "control: tokens shuffled",
    }
    lines = [line(c["step"][1:], c["correlation"][1:], names[c["of"]]) for c in r["curves"]]
    step = r["curves"][0]["step"][1:]
    return [
        heat(
            "Contexts", "class", "token", np.asarray(r["share"]), range(len(r["share"][0])), range(len(r["share"])),
            "share", 0.0,
        ),
        Panel(
            "Scores of attention", "step", "mean correlation over tokens",
            [*lines, level(step, 1.0, "theory")], xscale="log", legend="outside",
        ),
    ]  # fmt: skip


def joma_fig3_panels(r: Result) -> list[Panel]:
    """Weights of hidden nodes on tokens before and after, and four components of one node on their way."""
    maps = [
        heat(
            title, "hidden node", "token", np.asarray(r["maps"][key]), range(len(r["maps"][key][0])),
            range(len(r["maps"][key])), "v",
        )
        for key, title in (("first", "V at the start"), ("last", "V after training"))
    ]  # fmt: skip
    lines = []
    for i, c in enumerate(r["curves"]):
        step, v = np.asarray(c["step"], float), np.asarray(c["v"])
        early = step <= step[-1] / 4
        lines.append(line(step, v, f"token {c['component']}", colour=i))
        first = v[0] + c["rate"] * step[early]
        lines.append(theory_line(step[early], first, "rate (x − x̄)/K" if not i else None))
    return [*maps, Panel("Components of node 0", "step", "v", lines)]


def joma_fig4_panels(r: Result) -> list[Panel]:
    """Components on their way to their targets, and the entropy of attention."""
    curves, entropy = r["curves"], r["entropy"]
    place = np.arange(len(curves))
    moments = [i for i in (0, 10, 20, 30, 60, 200) if i < len(curves[0]["step"])]
    lines = [
        line(place, [c["v"][i] for c in curves], f"step {curves[0]['step'][i]:,}") for i in moments
    ]
    lines += [
        line(place, [c["theory"][i] for c in curves], style="theory", ink=BLACK) for i in moments
    ]
    return [
        Panel(
            "Components; dashed: solution", "component, by its target", "v",
            [*lines, line(place, r["target"], "μ", "points")], legend="outside",
        ),
        Panel(
            "Entropy of softmax(v²/T)", "step", "nats",
            [line(entropy["step"], entropy["steps"], "in steps"),
             line(entropy["step"], entropy["even"], "control: even attention"),
             theory_line(entropy["step"], entropy["theory"], "solution")],
        ),
    ]  # fmt: skip


def means(*names: str) -> Callable[[Result], Quantities]:
    """The means of these quantities, from the rows of a figure over many instances."""
    return lambda r: {row["quantity"]: row["mean"] for row in r["rows"] if row["quantity"] in names}


# Tables


def curves_table(result: Result) -> Columns:
    """Curves as long columns: their settings repeated beside every point."""
    columns: Columns = {}
    for i, curve in enumerate(result["curves"]):
        long = {
            k: v for k, v in curve.items() if isinstance(v, (list, tuple)) or hasattr(v, "shape")
        }
        size = len(next(iter(long.values())))
        for name, value in {"curve": i, "point": range(size), **curve}.items():
            points = list(value) if name in long or name == "point" else [value] * size
            columns.setdefault(name, []).extend(points)
    return columns


def attention_table(result: Result) -> Columns:
    """Attention of figures 4 and 5 as rows: run, step, class, token."""
    runs = [*result["rows"], *([result["sgd"]] if "sgd" in result else [])]
    each = [np.asarray(run["attention"]) for run in runs]
    each = [c.reshape(-1, *c.shape[-2:]) for c in each]
    parts = [(i, *np.indices(c.shape), c) for i, c in enumerate(each)]
    return _long(("run", "record", "class", "token", "attention"), parts)


def maps_table(result: Result) -> Columns:
    """Attention maps of figure 7 as rows: model, step, query, key."""
    parts = []
    for part in result["maps"]:
        b = np.asarray(part["attention"])
        record, query, key = np.indices(b.shape)
        parts.append((part["layers"], np.asarray(part["steps"])[record], query, key, b))
    return _long(("layers", "step", "query", "key", "attention"), parts)


def _long(names: Sequence[str], parts: Sequence[tuple[Any, ...]]) -> Columns:
    """Arrays of one shape as columns, part after part; a number stands beside all of its part."""
    columns: Columns = {name: [] for name in names}
    for part in parts:
        for name, value in zip(names, np.broadcast_arrays(*part), strict=True):
            columns[name].extend(value.ravel().tolist())
    return columns
