"""Published experiments by name: run, judged, and left behind with their figure and data."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

from attomaton.base.lazily import pq
from attomaton.base.programs import processors_first
from attomaton.base.progress import Progress, quiet
from attomaton.claims.published import Figure, Setting, Settings
from attomaton.claims.registry import Claim, figures
from attomaton.disk.formats import AGAIN, read_json, write_columns, write_json
from attomaton.disk.provenance import environment, provenance, to_toml
from attomaton.disk.records import as_record, read_record
from attomaton.disk.storage import (
    Checkpoint,
    check_folder,
    check_place,
    new_folder,
    resumed_folder,
    seal,
)
from attomaton.engine.choose import open_engine
from attomaton.engine.processes import Processes
from attomaton.engine.tasks import Task
from attomaton.errors import AttomatonError, DataError, UsageError, nearest, whole_number
from attomaton.report.figures.canvas import get_ready, save
from attomaton.report.figures.published import DRAWINGS
from attomaton.results import Verdict

Result = dict[str, Any]
NOT_JUDGED = "What is measured with settings that are not as published; it is not judged."


def find_preset(name: str) -> tuple[Claim, Figure]:
    """The published experiment of this name, or an error that suggests one."""
    known = figures()
    claim = known.get(name)
    if claim is None or claim.figure is None:
        raise UsageError(f"no preset {name!r}{nearest(name, known)} Known: {', '.join(known)}.")
    return claim, claim.figure


def reproduce_run(
    name: str,
    out: Path,
    seeds: int | None = None,
    quick: bool = False,
    progress: Progress = quiet,
    force: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> Result:
    """Run a preset and leave a folder with its summary, data, figure and verdict.

    `settings` are not as published (sizes, step, head, loss: which ones a preset has says its `Figure.settings`).
    Such a run is measured, and not judged: what was published says nothing about it.

    One that takes long and is broken off leaves what it has finished beside the place, and goes on from there when it
    is run again. What may lie at `out` already, and what `force` replaces, says `disk.storage.check_place`.
    """
    claim, figure = find_preset(name)
    said = figure.asked(settings or {})
    if seeds is not None and said.get("seeds", seeds) != seeds:
        raise UsageError(f"seeds={seeds} and seeds={said['seeds']}: say one of them.")
    if "seeds" in said:
        seeds = whole_number("seeds", said.pop("seeds"))
    if seeds is not None and (figure.seeds is None or seeds < 1):
        why = "at least 1 is needed" if figure.seeds else f"{name} has no seeds to vary"
        raise UsageError(f"seeds={seeds}: {why}.")
    if quick and not claim.long:
        known = ", ".join(k for k, c in figures().items() if c.long)
        raise UsageError(f"{name} has no quick version; these have: {known}.")
    config = _asked(name, seeds, quick, said)
    place = check_place(out, "run", force=force)
    folder = resumed_folder(place, "reproduce", config.flat)
    with folder if figure.kept else new_folder(place, "reproduce") as work:
        with _ready_to_draw() as prepare, _several(figure, prepare) as options:
            if figure.kept:
                options |= {"checkpoint": Checkpoint(work / "checkpoints"), "progress": progress}
            if claim.long:
                options["quick"] = quick
            result = _result(figure, config, **options)
        summary = _leave(claim, config, result, work, out)
    return {**summary, "replaced": place.replaced}


def reproduce_all(
    out: Path,
    seeds: int | None = None,
    quick: bool = False,
    progress: Progress = quiet,
    force: bool = False,
) -> Result:
    """Run every preset into a folder of its own below `out`; one that ends in an error does not stop the others.

    `seeds` goes to those that have seeds, `quick` to those that have a quick version. One that is there already, with
    the same settings and versions, is taken as it is unless `force` says otherwise.
    """
    if seeds is not None:
        whole_number("seeds", seeds, least=1)
    known = figures()
    rows: list[Result] = []
    for name, claim in known.items():
        progress(len(rows), len(known), name)
        draws, short = seeds if find_preset(name)[1].seeds else None, quick and claim.long
        ended = None if force else _finished(out / name, _asked(name, draws, short))
        row = {"preset": name, "title": claim.title, "found": ended is not None}
        try:
            if ended is None:
                ended = reproduce_run(name, out / name, draws, short, force=force)
        except AttomatonError as error:
            rows.append({**row, "verdict": "error", "replaced": None, "error": str(error)})
        else:
            rows.append({**row, "verdict": ended["verdict"], "replaced": ended.get("replaced")})
    good = all(row["verdict"] == "holds" for row in rows)
    return {"presets": rows, "verdict": "holds" if good else "fails", "run": str(out)}


@dataclass(frozen=True)
class _Asked:
    """What a run is asked to do; `changed` are the settings that are not as published, seeds apart."""

    preset: str
    seeds: int | None
    quick: bool | None
    settings: Settings
    changed: Settings

    @property
    def flat(self) -> Mapping[str, Setting | None]:
        """As config.toml says it."""
        return {"preset": self.preset, "seeds": self.seeds, "quick": self.quick, **self.settings}


def _asked(name: str, seeds: int | None, quick: bool, said: Settings | None = None) -> _Asked:
    _, figure = find_preset(name)
    usual = {k: v for k, v in figure.settings.items() if k != "seeds"}
    settings = {**usual, **(said or {})}
    changed = {k: v for k, v in settings.items() if v != usual[k]}
    return _Asked(name, seeds or figure.seeds, quick or None, settings, changed)


@dataclass(frozen=True)
class _Told:
    """What is read of a run's summary."""

    preset: str
    verdict: str


def _finished(folder: Path, config: _Asked) -> Result | None:
    """The summary of a run that was made with these settings under these versions, if there is one."""
    try:
        check_folder(folder, "run")
        same = (folder / "config.toml").read_text(encoding="utf-8") == to_toml(config.flat)
        summary = read_json(folder / "summary.json")
        as_record(_Told, summary, folder / "summary.json")
        return summary if same and read_json(folder / "env.json") == environment() else None
    except (DataError, OSError):
        return None  # it is made anew, or the place is refused with its reason


def _result(figure: Figure, config: _Asked, **options: Any) -> Result:
    """What the experiment returns; where settings are not as published, without a verdict."""
    if figure.seeds:
        options["seeds"] = config.seeds
    result = figure.make(**config.changed, **options)
    if config.changed:
        none = Verdict.NOT_APPLICABLE.value
        rows = [{**x, **dict.fromkeys(x.keys() & {"published"})} for x in result.get("rows", ())]
        changed = ", ".join(f"{name} = {value}" for name, value in config.changed.items())
        result |= {"rows": rows, "verdict": none, "control": none, "changed": changed}
    return result


@contextmanager
def _several(figure: Figure, meanwhile: Callable[[], None]) -> Iterator[dict[str, Any]]:
    """The option of a figure whose parts are made by several processes; once they have started, `meanwhile` is done."""
    if not figure.divided or not processors_first():
        meanwhile()
        yield {}
        return
    with open_engine(None, large=True) as engine:

        def run(work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
            if isinstance(engine, Processes):
                engine.hire(len(tasks))
            meanwhile()
            return engine.run(work, [Task(i, x) for i, x in enumerate(tasks)])

        yield {"run": run}


@contextmanager
def _ready_to_draw() -> Iterator[Callable[[], None]]:
    """What lets what draws and writes be loaded, half a second's work, while something else is waited for."""

    def prepare() -> None:
        with suppress(Exception):  # whoever draws says what is missing
            get_ready()
        with suppress(ImportError):
            pq.write_table  # noqa: B018  # Arrow is loaded when something of it is used

    thread = Thread(target=prepare, daemon=True)

    def begin() -> None:
        if thread.ident is None:
            thread.start()

    try:
        yield begin
    finally:
        if thread.ident is not None:
            thread.join()


def _leave(claim: Claim, config: _Asked, result: Result, work: Path, out: Path) -> Result:
    """Write what came out into the folder; returns the summary."""
    _, figure = find_preset(claim.name)
    left = (*figure.big, "title", *(["published", "tolerance"] if config.changed else []))
    asked = f"{claim.statement} Within: {result.get('tolerance', figure.tolerance)}."
    summary = {
        "preset": claim.name,
        "title": f"{claim.title}, {result['changed']}" if config.changed else claim.title,
        "asked": NOT_JUDGED if config.changed else asked,
        "settings": config.settings,
        **{key: value for key, value in result.items() if key not in left},
        "run": str(out),
    }
    if figure.seeds:
        summary["seeds"] = config.seeds
    # Hours of work are not thrown away because a package is missing.
    undrawn = claim.long and find_spec("matplotlib") is None
    if undrawn:
        summary["figure"] = "not drawn: matplotlib is missing; draw_run draws it later"
    provenance(work, config.flat, summary)
    write_columns(work / "data.parquet", figure.table(result))
    if claim.long:
        write_json(work / "result.json", result)
    if not undrawn:
        save(_drawing(claim.name, result), work / "figures", claim.name)
    return summary


def _drawing(name: str, result: Result) -> Any:
    """The figure of a preset's numbers; settings that are not as published stand under its title."""
    figure = DRAWINGS[name](result)
    if "changed" in result:
        title = figure.get_suptitle()
        (drawn,) = (text for text in figure.texts if text.get_text() == title)
        drawn.set_text(f"{title}\n{result['changed']}")
    return figure


def draw_run(folder: Path | str) -> list[Path]:
    """Draw the figure of a long preset's run folder (again), from the numbers it holds."""
    name, figure = run_figure(folder)
    drawn = save(figure, Path(folder) / "figures", name)
    seal(Path(folder))
    return drawn


def run_figure(folder: Path | str) -> tuple[str, Any]:
    """The preset of a long preset's run folder, and its figure."""
    folder = check_folder(folder, "run")
    preset = read_record(folder / "summary.json", _Told).preset
    (claim, _), result = find_preset(preset), read_json(folder / "result.json")
    try:
        figure = _drawing(claim.name, result)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise DataError(
            f"{folder / 'result.json'}: does not hold the numbers of this figure ({error!r:.100}); {AGAIN}."
        ) from error
    return preset, figure
