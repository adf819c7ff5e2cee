"""A run of training from its first step to its last: chunk after chunk, watched, interrupted, taken up again."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from attomaton.base.lazily import jax
from attomaton.base.programs import compiled_program
from attomaton.base.progress import Progress
from attomaton.base.shapes import Int
from attomaton.errors import DataError
from attomaton.mechanics.experiment.arguments import record_steps
from attomaton.mechanics.experiment.steps import SNAPSHOT, Plan, State, build

CHUNKS = 50  # pieces a run is cut into when somebody watches it
KEEP_EVERY = 5.0  # seconds between checkpoints

Arrays = dict[str, np.ndarray]
Watch = Callable[[np.ndarray, Arrays], object]


@runtime_checkable
class Checkpoint(Protocol):
    """Where a run keeps what it has done so far; both are called between steps only."""

    def load(self) -> Arrays | None:
        """What was saved last, or None."""

    def save(self, arrays: Arrays) -> None:
        """Keep these, in place of what was saved before."""


class Course(NamedTuple):
    """How far training got, and what was measured where; `seen` are the scores kept at all `stops`, of one seed."""

    state: State
    steps: np.ndarray
    records: dict[str, np.ndarray]
    seconds: dict[str, float]
    interrupted: bool
    stops: np.ndarray
    seen: np.ndarray | None


def run_course(
    plan: Plan,
    state: State,
    fixed: tuple,
    marks: np.ndarray,
    progress: Progress | None,
    watch: Watch | None,
    checkpoint: Checkpoint | None,
    snapshots: np.ndarray | None = None,
) -> Course:
    """Train to the end, or to a keyboard interrupt, one chunk of steps after the other.

    `snapshots` are steps to stop at besides those of the records.
    """
    with _between_steps() as interrupt:
        watched = any(x is not None for x in (progress, watch, checkpoint))
        # What is followed is looked at early, too, wherever the records lie.
        looked = marks
        if plan.follow is not None:
            looked = np.union1d(marks, record_steps(int(marks[-1]), "log"))
        if snapshots is not None:
            looked = np.union1d(looked, snapshots)
        stops, size = _chunks(looked, watched)
        chunks = _asked(stops, size, marks)
        begin = perf_counter()
        fixed = jax.device_put(fixed)
        program = compiled_program(build, plan, (state, *fixed, chunks[0]))
        compiled = perf_counter()
        parts: list[dict[str, np.ndarray]] = []
        interrupted = False
        saved = None if checkpoint is None else checkpoint.load()
        if saved is not None:
            seen_in = fixed[0][2]
            wide = (
                None
                if seen_in is None
                else len(seen_in.token if seen_in.pair is None else seen_in.pair)
            )
            state, parts = unpacked(saved, state, size, wide)
        kept = perf_counter()
        try:
            for first in range(len(parts) * size, len(stops), size):
                after, values = program(state, *fixed, chunks[first // size])
                values = {name: np.asarray(value) for name, value in values.items()}
                if SNAPSHOT in values:  # of the first seed alone
                    values[SNAPSHOT] = values[SNAPSHOT][:1]
                state = after
                parts.append(values)
                interrupt()
                if watch is not None:
                    watch(*joined(parts, stops, marks))
                if progress is not None:
                    done = min(first + size, len(stops)) - 1
                    said = f"loss {values['loss'][:, -1].mean():.6g}"
                    progress(int(stops[done]), int(stops[-1]), said)
                if checkpoint is not None and perf_counter() - kept > KEEP_EVERY:
                    checkpoint.save(_packed(jax.device_get(state), parts))
                    kept = perf_counter()
        except KeyboardInterrupt:
            if not parts:
                raise
            interrupted = True
            if checkpoint is not None:
                checkpoint.save(_packed(jax.device_get(state), parts))
        state = jax.device_get(state)
        seconds = {"compile": compiled - begin, "run": perf_counter() - compiled}
        steps, records = joined(parts, stops, marks)
        stops = stops[: sum(x["loss"].shape[1] for x in parts)]
        seen = [p[SNAPSHOT][0] for p in parts if snapshots is not None]
        return Course(
            state, steps, records, seconds, interrupted, stops, np.concatenate(seen)[: len(stops)] if seen else None
        )  # fmt: skip


@contextmanager
def _between_steps() -> Iterator[Callable[[], None]]:
    """Let Ctrl-C wait until the function that this yields is called, which raises it.

    Python raises it wherever it stands: inside a callback of the compiler it is lost, inside its threads it may crash
    the process. Whoever has a handler of their own, as the command line has, keeps it.
    """
    came = threading.Event()
    here = threading.current_thread() is threading.main_thread()
    ours = here and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def interrupt() -> None:
        if came.is_set():
            came.clear()
            raise KeyboardInterrupt

    if ours:
        signal.signal(signal.SIGINT, lambda *_: came.set())
    try:
        yield interrupt
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt()  # one that came after the last step


def joined(
    parts: list[Arrays], stops: np.ndarray, marks: np.ndarray
) -> tuple[Int[np.ndarray, " records"], Arrays]:
    """The records of all chunks so far, without stops nobody asked for and the filling of the last chunk."""
    names = [name for name in parts[0] if name != SNAPSHOT]
    records = {name: np.concatenate([p[name] for p in parts], axis=1) for name in names}
    steps = stops[: records["loss"].shape[1]]
    kept = np.flatnonzero(np.isin(steps, marks))
    return steps[kept], {name: value[:, kept] for name, value in records.items()}


def _packed(state: State, parts: list[dict[str, np.ndarray]]) -> Arrays:
    """State and records as named arrays; every chunk's records have the same width."""
    return _named(state) | {f"record/{k}": np.stack([p[k] for p in parts]) for k in parts[0]}


def _named(state: State) -> Arrays:
    """A state as named arrays."""
    named = {name: np.asarray(getattr(state, name)) for name in ("params", "step", "failed")}
    if not isinstance(state.followed, tuple):
        named["followed"] = np.asarray(state.followed)
    return named | {f"moment/{i}": np.asarray(m) for i, m in enumerate(state.moments)}


def unpacked(
    saved: Arrays, first: State, size: int, seen: int | None = None
) -> tuple[State, list[dict[str, np.ndarray]]]:
    """What `_packed` was given; `first` is the state of a run that begins, `size` the width of a chunk's records.

    `seen` is how many scores a snapshot holds, None where none are kept.
    """
    wanted = _named(first)
    fits = [
        name in saved and saved[name].shape == x.shape and saved[name].dtype == x.dtype
        for name, x in wanted.items()
    ]
    records = {k.removeprefix("record/"): v for k, v in saved.items() if k.startswith("record/")}
    chunks = records["loss"].shape[:1] if "loss" in records else ()
    shapes = dict.fromkeys({"loss", *records} - {SNAPSHOT}, (*chunks, len(first.step), size))
    if seen is not None:  # of one seed
        shapes[SNAPSHOT] = (*chunks, 1, size, seen)
    if not all(fits) or shapes != {k: v.shape for k, v in records.items()}:
        raise DataError(
            "the checkpoint does not fit this run: it is damaged. Run the same again to start anew."
        )
    moments = tuple(saved[f"moment/{i}"] for i in range(len(first.moments)))
    parts = [{k: v[i] for k, v in records.items()} for i in range(*chunks)]
    followed = saved["followed"] if "followed" in wanted else ()
    return State(saved["params"], moments, saved["step"], saved["failed"], followed), parts


def _chunks(
    marks: Int[np.ndarray, " records"], watched: bool
) -> tuple[Int[np.ndarray, " stops"], int]:
    """Where to stop and record, and how many stops make one call of the compiled program.

    Unwatched, everything is one call. Watched, it is cut into about `CHUNKS` calls, with stops
    added where records lie further apart than that (they are dropped again at the end).
    """
    if not watched:
        return marks, len(marks)
    stops = np.union1d(marks, np.linspace(0, marks[-1], CHUNKS + 1).astype(np.int64))
    return stops, -(-len(stops) // CHUNKS)


def _asked(
    stops: Int[np.ndarray, " stops"], size: int, marks: Int[np.ndarray, " records"]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each call of the program the steps to its stops, and at which of them records are asked for.

    Elsewhere only how it goes is looked at. The last call is filled up with stops without a step.
    """
    fill = -len(stops) % size
    lengths = np.diff(stops, prepend=0, append=np.full(fill, stops[-1]))
    wanted = np.append(np.isin(stops, marks), np.zeros(fill, bool))
    return [(lengths[i : i + size], wanted[i : i + size]) for i in range(0, len(lengths), size)]
