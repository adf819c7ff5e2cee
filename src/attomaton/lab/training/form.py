"""What a run of training is asked for in the page: fields, checked as the command line checks its options."""

from collections.abc import Callable
from typing import Any, TypeVar

from nicegui import ui

from attomaton.errors import UsageError, one_of
from attomaton.lab.kit.parts import abreast, button, card, note, place
from attomaton.lab.opened import Opened
from attomaton.lab.view import View
from attomaton.mechanics.experiment import arguments
from attomaton.mechanics.experiment.arguments import Settings

Number = TypeVar("Number", int, float)
CHOICES = {
    "optimizer": arguments.OPTIMIZERS,
    "init": arguments.INITS,
    "head": arguments.HEADS,
    "loss": arguments.LOSSES,
    "every": ("log", "even"),
    "schedule": arguments.SCHEDULES,
}
OPEN = ("optimizer",)  # others than those of the list may be typed: mirror:p with any p
# As Python and the command line have them, but for the records: the page draws steps on a log axis.
NAMES = (
    "optimizer", "lr", "schedule", "eps", "beta1", "beta2", "steps", "seeds", "seed", "init", "loss", "head",
    "batch_size", "factorised",
)  # fmt: skip
USUAL = {x: "" if (usual := getattr(Settings, x)) is None else str(usual) for x in NAMES}
USUAL["every"] = "log"
# Of a large model steps of gradient descent are as small as its samples are many: its curves would stay flat.
OF_LARGE = {"optimizer": "adam", "lr": "0.1", "steps": "300"}
LABELS = {
    "lr": "lr (empty: usual)", "batch_size": "batch size", "every": "records", "eps": "ε (adam, ngd)",
    "beta1": "β₁ (adam, muon)", "beta2": "β₂ (adam)", "factorised": "rank of W = K Qᵀ",
}  # fmt: skip
LARGE = 200_000  # pairs from which opening a model takes seconds and gigabytes
PAIRS_A_SECOND, BYTES_A_PAIR = 1e6, 850  # measured on 5.8 million pairs
MOST_STEPS, MOST_SEEDS = 10**9, 100  # in the page


class Form:
    """The fields; each is in the address, so that it brings the form back."""

    def __init__(
        self, view: View, model: Opened, start: Callable[[], Any], changed: Callable[[], Any]
    ):
        self.view, self.model, self._changed = view, model, changed
        self.fields: dict[str, ui.select | ui.input] = {}
        large = self.pairs > LARGE
        self.usual = USUAL | (OF_LARGE if large else {})
        with card("A new run"):
            with abreast().classes("fields"):
                for name in USUAL:
                    self._field(name)
                self.keep = ui.input("watch after (tokens)", value=view.get("keep")[:200])
                self.keep.props("dense outlined").classes("field-keep")
                self.keep.on_value_change(lambda: view.put(keep=self.watched))
                button("Start anyway" if large else "Start", start)
            if large:
                seconds, gigabytes = self.pairs / PAIRS_A_SECOND, self.pairs * BYTES_A_PAIR / 1e9
                note(
                    f"This model has {self.pairs:,} pairs: opening it takes about {seconds:.0f} s, training it about "
                    f"{gigabytes:.1f} GB, and every step goes over all its samples. Begin with few steps and one "
                    "seed. Adam moves at once; steps of gradient descent are as small as the samples are many."
                ).classes("warning").props('role="note"')
            self.wrong = place()

    @property
    def pairs(self) -> int:
        """Parameters: pairs of a last token and a token of its contexts."""
        return self.model.record.summary.pairs

    @property
    def watched(self) -> str | None:
        """Last tokens whose snapshots are kept before all others."""
        return str(self.keep.value or "").strip() or None

    def asked(self) -> Settings:
        """The settings of `train_run`, or the error the command line would give."""
        said = {name: str(field.value or "").strip() for name, field in self.fields.items()}
        for name, choices in CHOICES.items():
            if name not in OPEN:
                one_of(name, said[name], choices)
        asked: dict[str, Any] = {name: _needed(name, said[name]) for name in ("steps", "seeds")}
        asked["batch_size"] = _number("batch_size", said["batch_size"], int)
        asked["seed"] = _number("seed", said["seed"], int) or 0
        lr = _number("lr", said["lr"], float)
        asked |= {name: said[name] for name in ("optimizer", "head", "loss", "schedule")}
        arguments.check_options(**asked)
        own: dict[str, Any] = {
            name: _number(name, said[name], float) for name in ("eps", "beta1", "beta2")
        }
        arguments.own_options(said["optimizer"], **own)
        rank = _number("factorised", said["factorised"], int)
        arguments.factor_scale(said["optimizer"], rank, None, said["init"])
        rate = arguments.learning_rate(said["optimizer"], lr)
        arguments.step_sizes(1.0 if rate is None else rate, 1)
        arguments.loss_floors(0.0 if said["loss"] == "log" else None, said["optimizer"], 1)
        for name, most in (("steps", MOST_STEPS), ("seeds", MOST_SEEDS)):
            if asked[name] > most:
                raise UsageError(
                    f"{name}={asked[name]}: at most {most:,} in the page; use `attomaton train`."
                )
        every = "log" if said["every"] == "log" else None
        return Settings(init=said["init"], lr=lr, every=every, factorised=rank, **asked, **own)

    def _field(self, name: str) -> None:
        label, asked = LABELS.get(name, name), self.view.get(name, self.usual[name])[:40]
        if name in CHOICES:
            typed = name in OPEN
            known = asked if typed or asked in CHOICES[name] else self.usual[name]
            field: ui.select | ui.input = ui.select(
                list(dict.fromkeys((*CHOICES[name], known))), value=known, label=label,
                new_value_mode="add-unique" if typed else None,
            ).props("options-dense")  # fmt: skip
        else:
            field = ui.input(label, value=asked).props('inputmode="decimal"')
        field.props("dense outlined").classes(f"field-{name}")
        field.on_value_change(lambda: self._put(name))
        self.fields[name] = field

    def _put(self, name: str) -> None:
        value = str(self.fields[name].value or "").strip()
        self.view.put(**{name: None if value == self.usual[name] else value})
        self._changed()


def _needed(name: str, text: str) -> int:
    found = _number(name, text, int)
    if found is None:
        raise UsageError(f"{name}: a whole number is needed.")
    return found


def _number(name: str, text: str, kind: Callable[[str], Number]) -> Number | None:
    whole = kind is int
    try:
        return kind(text.replace(",", "").replace("_", "") if whole else text) if text else None
    except ValueError as error:
        raise UsageError(f"{name}={text}: a {'whole ' * whole}number is needed.") from error
