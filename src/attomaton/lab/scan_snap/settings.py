"""The settings of the scan-and-snap screen: fields and sliders that say what has been changed."""

from collections.abc import Callable, Mapping
from math import isfinite, log10

from nicegui import ui

from attomaton.lab.kit.parts import abreast, card, dense
from attomaton.lab.scan_snap.runs import KINDS, ORDER, Asked, Option, worded
from attomaton.scan_snap.experiment.train import OPTIMIZERS, STARTS
from attomaton.scan_snap.families import FAMILIES
from attomaton.scan_snap.levels import settings_of
from attomaton.scan_snap.theory.reduced import MIXINGS

WIDEST = (-2.0, 2.0)  # log₁₀ of the learning rates the sliders reach
STEP = 0.05
CHOICES = {"optimizer": OPTIMIZERS, "start": STARTS, "mixing": MIXINGS}
LABELS = {
    "until": "until (limit, reduced)",
    "steps": "steps (sampled, limit)",
    "T": "length T (sampled)",
    "batch": "batch (sampled)",
    "optimizer": "optimizer (sampled)",
    "start": "start (sampled, limit)",
    "mixing": "mixing (reduced)",
    "seeds": "seeds (sampled, limit)",
    "seed": "first seed",
}
LEVELS = {"reduced": "reduced (theory)", "limit": "limit", "sampled": "sampled"}
OFTEN = ("until", "mixing", "T", "steps", "seeds")  # the others are folded away


class Settings:
    """All controls; `change(name=text, …)` is told of every change, with None for what is taken back."""

    def __init__(self, asked: Asked, change: Callable[..., None], own: Mapping[str, str]):
        self.asked, self.change, self.own = asked, change, own
        self.levels = list(asked.levels)
        self.fields: dict[str, ui.select | ui.number] = {}
        self.usual = settings_of("sampled", {})
        with card(label="Settings"):
            self._build()
        self.follow(asked)

    def follow(self, asked: Asked) -> None:
        """Offer what the present question can use: options of its levels, the rates beside if there are any."""
        for name, field in self.fields.items():
            field.set_enabled(asked.uses(name))
        two = len(asked.rates) > 1
        if two != bool(self.beside.default_slot.children):
            self.beside.clear()
            if two:
                with self.beside:
                    self._rate("η_Y beside", "beside_eta_y", asked.rates[1][0])
                    self._rate("η_Z beside", "beside_eta_z", asked.rates[1][1])
        self.asked = asked

    def _build(self) -> None:
        asked, options = self.asked, dict(self.asked.options)
        known = {**self.own, **{name: name for name in FAMILIES}}
        known.setdefault(asked.classes, asked.classes)
        with abreast():
            family = dense(ui.select(known, label="classes", value=asked.classes), "choose")
            family.on_value_change(
                lambda e: self.change(classes=e.value, **{"class": None, "t": None})
            )
            for level in ORDER:
                box = ui.checkbox(LEVELS[level], value=level in asked.levels).props("dense")
                box.on_value_change(lambda e, level=level: self._level(level, e.value))
        with ui.element("div").classes("rates"):
            self._rate("η_Y", "eta_y", asked.rates[0][0])
            self._rate("η_Z", "eta_z", asked.rates[0][1])
        compare = ui.switch("Compare with other learning rates", value=len(asked.rates) > 1)
        compare.props("dense").on_value_change(lambda e: self._compare(e.value))
        self.beside = ui.element("div").classes("rates")
        with ui.element("div").classes("more"):
            for name in OFTEN:
                self._option(name, options.get(name))
        folded = ui.expansion("More settings", icon="tune").props("dense").classes("w-full")
        with folded, ui.element("div").classes("more"):
            for name in KINDS:
                if name not in OFTEN:
                    self._option(name, options.get(name))

    def _option(self, name: str, value: Option | None) -> None:
        """A field of an option; an empty one leaves the choice to the levels."""
        field: ui.select | ui.number
        if name in CHOICES:
            known = list(dict.fromkeys([*CHOICES[name], *([value] if value else [])]))
            field = ui.select(known, label=LABELS[name], value=value or known[0])
        else:
            usual = str(self.usual.get(name, 0))
            number = None if isinstance(value, str) else value
            field = ui.number(LABELS[name], value=number, placeholder=usual)
            field.props("stack-label clearable step=any")
        field.props(f'dense outlined options-dense aria-label="{LABELS[name]}"')
        field.on_value_change(
            lambda e: self.change(**{name: None if e.value is None else worded(e.value)})
        )
        self.fields[name] = field

    def _rate(self, label: str, name: str, value: float) -> None:
        """A learning rate: a slider on a logarithmic scale and the number itself, each following the other."""
        ui.label(label).classes("mono")
        slider = ui.slider(min=WIDEST[0], max=WIDEST[1], step=STEP, value=_place(value))
        slider.props(f'dense aria-label="{label}, slider"')
        field = ui.number(value=value).props(f'dense outlined step=any aria-label="{label}"')

        def slid(place: float) -> None:
            # The field moves the slider too: only a place that is not the field's comes from the user.
            if field.value is None or abs(_place(field.value) - place) > STEP / 2:
                field.set_value(float(f"{10**place:.3g}"))

        def typed(rate: float | None) -> None:
            if rate is not None:
                slider.set_value(_place(rate))
                self.change(**{name: worded(float(rate))})

        slider.on_value_change(lambda e: slid(e.value))
        field.on_value_change(lambda e: typed(e.value))

    def _compare(self, on: bool) -> None:
        """A second pair of rates, at first with a decoder four times as fast; or none."""
        y, z = self.asked.rates[0]
        self.change(
            beside_eta_y=worded(4 * y) if on else None, beside_eta_z=worded(z) if on else None
        )

    def _level(self, level: str, on: bool) -> None:
        self.levels = [x for x in ORDER if (on if x == level else x in self.levels)]
        self.change(levels=",".join(self.levels) or ",")  # a comma is no level at all


def _place(rate: float) -> float:
    """Where a learning rate stands on its slider.

    >>> _place(10.0), _place(1e9), _place(-1.0)
    (1.0, 2.0, -2.0)
    """
    return min(max(log10(rate), WIDEST[0]), WIDEST[1]) if rate > 0 and isfinite(rate) else WIDEST[0]
