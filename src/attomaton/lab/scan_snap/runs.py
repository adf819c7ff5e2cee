"""What the scan-and-snap screen asks of the levels: read from an address, computed in a job, kept for the next page."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from attomaton.corpus.reading import AS_NAMED
from attomaton.disk.formats import read_toml
from attomaton.disk.storage import is_folder
from attomaton.errors import AttomatonError, UsageError
from attomaton.folders.dynamics import classes_of, levels_of, read_dynamics
from attomaton.jobs.classes import data_classes
from attomaton.lab.jobs import Job
from attomaton.lab.kit.cache import Cache, Shared
from attomaton.lab.shared import Lab
from attomaton.lab.shelf import Item, named
from attomaton.lab.view import number
from attomaton.scan_snap.data import SequenceClasses
from attomaton.scan_snap.families import FAMILIES, conditions, family
from attomaton.scan_snap.levels import (
    OPTIONS,
    check_options,
    memory_mb,
    run_level,
    settings_of,
)
from attomaton.scan_snap.levels import UNTIL as LAST
from attomaton.scan_snap.observed import Observed
from attomaton.scan_snap.trajectory import Dynamics

if TYPE_CHECKING:
    from attomaton.scan_snap.theory.phase import Phases

CLASSES, RATE, UNTIL = "syn-small", 1.0, 1e4
DATA, RUN = "data", "run"  # classes of what is open
# All that the theorem asks holds here.
SEEN_FIRST = {"classes": "weak-overlap", "eta_y": "0.5", "eta_z": "3"}
ORDER = ("reduced", "limit", "sampled")  # the quickest first: something is on screen at once
FIRST = ("reduced", "limit")
# Options of `attomaton dynamics`: what a value has to be.
KINDS: dict[str, type] = {
    "until": float, "steps": int, "T": int, "batch": int, "optimizer": str, "start": str,
    "mixing": str, "seeds": int, "seed": int,
}  # fmt: skip
FLAGS = {"T": "--length"}
MOST_MB = 1000  # of one question: all its levels and rates together
MOST_TOKENS, MOST_AT_ONCE = 3e9, 4e6  # drawn by the sampled level in all, and for one step
KEPT, KEPT_MB, FEWEST = 20, 1500, 6  # results that stay

Rates = tuple[float, float]
Option = str | int | float


@dataclass(frozen=True)
class Own:
    """Classes that are no family: those of the opened data, or of an opened run; told apart by the item they are of."""

    item: str
    classes: SequenceClasses = field(repr=False, compare=False)
    said: str = field(repr=False, compare=False)
    words: tuple[str, ...] = field(repr=False, compare=False)  # the command that writes them
    code: str = field(repr=False, compare=False)


@dataclass(frozen=True)
class Asked:
    """One question: classes, levels, one or two pairs of learning rates (η_Y, η_Z), options that were set.

    `own` are the classes where they are no family's.
    """

    classes: str
    levels: tuple[str, ...]
    rates: tuple[Rates, ...]
    options: tuple[tuple[str, Option], ...]
    own: Own | None = None

    def known(self) -> SequenceClasses:
        """The classes themselves."""
        return family(self.classes) if self.own is None else self.own.classes

    def of(self, level: str) -> dict[str, Any]:
        """The options this level has."""
        return {k: v for k, v in self.options if k in OPTIONS.get(level, {})}

    def uses(self, option: str) -> bool:
        """Whether some chosen level has this option."""
        return any(option in OPTIONS.get(level, {}) for level in self.levels)

    def key(self, level: str, rates: Rates) -> str:
        """What tells one result from another."""
        return repr((self.classes, self.own, level, rates, sorted(self.of(level).items())))

    def check(self) -> SequenceClasses:
        """The classes; refuses what no level knows and what would take too long or too much memory."""
        classes = self.known()
        for level in self.levels or ("",):
            check_options(level, self.of(level))
        needed = len(self.rates) * sum(self._megabytes(level, classes) for level in self.levels)
        if needed > MOST_MB:
            raise UsageError(
                f"this would take about {needed:,.0f} MB of memory, and a page may take {MOST_MB:,} MB: ask for "
                "fewer steps, seeds or levels, or run `attomaton dynamics`."
            )
        if "sampled" in self.levels:
            given = settings_of("sampled", self.of("sampled"))
            at_once = given["T"] * given["batch"]
            tokens = at_once * given["steps"] * given["seeds"] * len(self.rates)
            if at_once > MOST_AT_ONCE or tokens > MOST_TOKENS:
                raise UsageError(
                    f"this would draw {tokens:.3g} tokens, {at_once:.3g} at a step; a page may draw "
                    f"{MOST_TOKENS:.0e} and {MOST_AT_ONCE:.0e}: ask for a smaller T, batch, steps or seeds, or run "
                    "`attomaton dynamics`."
                )
        return classes

    def _megabytes(self, level: str, classes: SequenceClasses) -> float:
        given = self.of(level)
        steps = given.get("steps") if level == "limit" else None
        records = {"sampled": 102}.get(level, 201) if steps is None else steps + 1
        rest = {k: v for k, v in given.items() if k == "batch"}
        return memory_mb(level, classes, given.get("seeds", 1), records, **rest)

    def command(self) -> str:
        """The same question on the command line, a line for each pair of rates."""
        used = [(k, v) for k, v in self.options if self.uses(k)]
        more = [word for k, v in used for word in (FLAGS.get(k, f"--{k}"), worded(v))]
        own = () if self.own is None else self.own.words
        name = own[-1] if own else self.classes
        before = [shlex.join(own)] if len(own) > 1 else []
        return "\n".join(before + [
            shlex.join(
                ["attomaton", "dynamics", name, "--level", ",".join(self.levels),
                 "--eta-y", worded(y), "--eta-z", worded(z), *more]
            )
            for y, z in self.rates
        ])  # fmt: skip

    def python(self) -> str:
        """The same question in Python."""
        lines = [
            "from attomaton.scan_snap.levels import run_level",
            "from attomaton.scan_snap.theory.phase import gain_transition, measure_phases",
            f"from attomaton.scan_snap.families import family\n\nclasses = family({self.classes!r})"
            if self.own is None
            else self.own.code,
            f"for eta_y, eta_z in {list(self.rates)!r}:",
            "    print(eta_y, eta_z, 'predicted snap', gain_transition(eta_y, classes.K, classes.M))",
        ]
        for level in self.levels:
            given = "".join(f", {k}={v!r}" for k, v in self.of(level).items())
            lines += [
                f"    run = run_level({level!r}, classes, eta_y, eta_z{given})",
                "    print(run.level, run.entropy[:, -1].mean(), [p.transition for p in measure_phases(run)])",
            ]
        return "\n".join(lines)


def worded(value: object) -> str:
    """A value as it is typed: 1.0 as 1, 0.1 as 0.1.

    >>> worded(1.0), worded(10000.0), worded(0.125), worded("zero"), worded(7)
    ('1', '10000', '0.125', 'zero', '7')
    """
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def named_rates(rates: Rates) -> str:
    """A pair of learning rates, in words."""
    return f"η_Y = {worded(rates[0])}, η_Z = {worded(rates[1])}"


def read_asked(settings: Mapping[str, str]) -> Asked:
    """The question of an address; what is no number there counts as not said.

    >>> read_asked({"eta_y": "2", "levels": "limit,reduced", "T": "x"})
    Asked(classes='syn-small', levels=('reduced', 'limit'), rates=((2.0, 1.0),),
          options=(('until', 10000.0),), own=None)
    """
    said = dict.fromkeys(settings.get("levels", ",".join(FIRST)).split(","))
    levels = [level for level in ORDER if level in said] + [x for x in said if x and x not in ORDER]
    y, z = _rate(settings, "eta_y"), _rate(settings, "eta_z")
    rates = [(y, z)]
    if "beside_eta_y" in settings or "beside_eta_z" in settings:
        rates.append((_rate(settings, "beside_eta_y", y), _rate(settings, "beside_eta_z", z)))
    found = {"until": UNTIL} | {
        k: v for k in KINDS if (v := _value(settings.get(k), KINDS[k])) is not None
    }
    return Asked(
        settings.get("classes") or CLASSES, tuple(levels), tuple(rates), tuple(found.items())
    )


def _rate(settings: Mapping[str, str], name: str, otherwise: float = RATE) -> float:
    found = _value(settings.get(name), float)
    return otherwise if found is None else found


def _value(text: str | None, kind: type) -> Any:
    if not text or kind is str:
        return text or None
    found = number(text)
    if found is None or kind is float:
        return found
    return int(found) if found == int(found) else None


def run_settings(item: Item) -> dict[str, str]:
    """The settings of a run of `attomaton dynamics`; of anything else, none."""
    if item.kind != "run" or not (levels := levels_of(item.path)):
        return {}
    try:
        config = read_toml(item.path / "config.toml")
        classes_of(item.path)
    except AttomatonError:
        return {}
    known = ("classes", "eta_y", "eta_z", *KINDS)
    said = {k: worded(v) for k, v in config.items() if k in known}
    if said.get("classes") not in FAMILIES:
        said["classes"] = RUN
    # Without `--until` the levels go to 10⁶, further than this page does by itself.
    return {"until": worded(LAST), **said, "levels": ",".join(levels)}


def own_classes(lab: Lab, item: Item, asked: str) -> Own | None:
    """Classes that are no family: labels of the opened data (`DATA`), or those a run was made of (`RUN`)."""
    if asked == RUN and item.kind == "run":
        path = (item.path / "classes.toml").resolve()
        code = f"from attomaton.scan_snap.families import read_classes\n\nclasses = read_classes({str(path)!r})"
        return Own(item.id, classes_of(item.path), "", (str(path),), code)
    if asked != DATA:
        return None
    folder = lab.shelf.model_folder(item)
    data = folder if is_folder(folder, "model") else item.path
    reading = item.reading if data == item.path else AS_NAMED
    found = OBSERVED.of(lab).found(item.id, lambda: named(item, data_classes, data, reading))
    place = str(data.resolve())
    words = ("attomaton", "data", "classes", place, *reading.words, "-o", "classes.toml")
    code = (
        "from attomaton.corpus.reading import Reading\nfrom attomaton.jobs.classes import data_classes\n\n"
        f"classes = data_classes({place!r}, {reading!r}).classes"
    )
    return Own(item.id, found.classes, found.said, words, code)


def stored(lab: Lab, item: Item, asked: Asked) -> None:
    """Take what a run of dynamics has recorded in place of computing it again, where its settings are asked for."""
    known = run_settings(item)
    if not known or read_asked(known) != replace(asked, own=None):
        return
    from attomaton.scan_snap.theory.phase import measure_phases

    for level in levels_of(item.path):
        run = read_dynamics(item.path, level)
        RESULTS.of(lab).keep(asked.key(level, asked.rates[0]), Result(run, measure_phases(run)))


# What comes back


@dataclass(frozen=True, eq=False)
class Result:
    """One level's dynamics for one pair of rates, and the phases measured on them."""

    run: Dynamics
    phases: "list[Phases]"

    @property
    def megabytes(self) -> float:
        """What it holds in memory: logits and attention, mostly."""
        return 2 * self.run.z.nbytes / 1e6


def results() -> Cache[str, Result]:
    """The newest results by what was asked; one question has at most six."""
    return Cache(KEPT, size=lambda result: result.megabytes, room=KEPT_MB, fewest=FEWEST)


RESULTS = Shared(results)
OBSERVED = Shared(lambda: Cache[str, Observed](8))


def found(lab: Lab, asked: Asked) -> list[dict[str, Result]]:
    """For each pair of rates the levels that are there; a level counts once every pair has it."""
    kept = RESULTS.of(lab)
    rows = {
        level: [kept.get(asked.key(level, rates)) for rates in asked.rates]
        for level in asked.levels
    }
    return [
        {level: row[i] for level, row in rows.items() if all(row)}  # type: ignore[misc]
        for i in range(len(asked.rates))
    ]


@dataclass(eq=False)
class Waiting:
    """How many pages wait for a job."""

    pages: int = 1


def compute(lab: Lab, asked: Asked) -> Job[Waiting]:
    """Start what is missing, or join the job that is at it; it ends early when no page waits for it any more."""
    lab.may_start()
    classes, kept = asked.check(), RESULTS.of(lab)
    wanted = [(level, rates) for level in asked.levels for rates in asked.rates]

    def work(job: Job[Waiting]) -> None:
        from attomaton.scan_snap.theory.phase import measure_phases

        for done, (level, rates) in enumerate(wanted):
            if job.about.pages < 1:
                return
            job.progress(done, len(wanted), f"{level}, {named_rates(rates)}")
            key = asked.key(level, rates)
            if kept.get(key) is None:
                run = run_level(level, classes, *rates, **asked.of(level))
                kept.keep(key, Result(run, measure_phases(run)))
        job.done = job.total

    mine = Waiting()
    job = lab.jobs.start(f"scan-snap {asked!r}", "Computing", work, mine)
    job.about.pages += job.about is not mine
    return job


@dataclass(frozen=True)
class Predicted:
    """The times and conditions `attomaton dynamics` reports."""

    scanning_end: float
    transition: float
    snapping_start: float
    conditions: Mapping[str, Mapping[str, float | bool]]


def predicted(classes: SequenceClasses, rates: Rates) -> Predicted:
    """What theory says of these classes at these rates."""
    from attomaton.scan_snap.theory.phase import gain_transition, scanning_end, snapping_start

    y, K, M = rates[0], classes.K, classes.M
    end, transition, start = (
        float(time(y, K, M)) for time in (scanning_end, gain_transition, snapping_start)
    )
    return Predicted(end, transition, start, conditions(classes, y))
