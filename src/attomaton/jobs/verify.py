"""Every claim put to the test by one call: on its own data, or on a user's; and left behind as a report.

    RUN/summary.json      verdicts, key figures and seconds of all claims
        claims/ID.json    one piece of evidence each: prediction, measurement, control, pictures as data
        panels.parquet    the points of all pictures
        report.html .md   the same for people

A claim's piece is written when it is done, so a verification that was broken off goes on with the next claim.
"""

import math
import os
import shlex
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.lazily import jax
from attomaton.base.progress import Progress, quiet
from attomaton.claims.cases import REALIZABLE, Given, not_applicable
from attomaton.claims.registry import CLAIMS, Claim, find_claims
from attomaton.corpus.datasets import data_file, data_name
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import AS_NAMED, Reading
from attomaton.corpus.windows import Windows
from attomaton.disk.formats import AGAIN, plain, write_columns, write_json, write_text
from attomaton.disk.ledger import command
from attomaton.disk.provenance import environment, provenance
from attomaton.disk.records import as_record, read_record
from attomaton.disk.storage import check_place, resumed_folder, write_whole
from attomaton.engine.tasks import Engine
from attomaton.errors import AttomatonError, DataError, counted
from attomaton.jobs.pieces import Piece, do_pieces
from attomaton.results import Assumption, Checked, Evidence, Quantities, Verdict

Record = dict[str, Any]


def verify_run(
    only: Sequence[str] | None = None,
    quick: bool = True,
    out: Path | str = "runs/verify",
    progress: Progress = quiet,
    data: Path | str | None = None,
    reading: Reading = AS_NAMED,
    engine: Engine | None = None,
    force: bool = False,
) -> Record:
    """Check the claims and leave a folder with the evidence and a report; the summary.

    With `data`, a file read as `reading` says takes the place of the claims' own data wherever they speak of it. The
    `engine` says where claims are checked; on this process, one after the other. What may lie at `out` already, and
    what `force` replaces, says `disk.storage.check_place`.
    """
    ids = find_claims(only)
    place = check_place(out, "verification", (data, reading.tokenizer), force)
    windows = None if data is None else read_windows(data, reading)
    mark = None if windows is None else _remember(windows)
    how = None if windows is None else reading.done(windows)
    config = {
        "claims": ids, "named": bool(only), "quick": quick, "data": mark, "versions": environment(),
    }  # fmt: skip
    with resumed_folder(place, "verify", config) as work:
        folder = work / "claims"
        folder.mkdir(exist_ok=True)
        # Workers may stand elsewhere, and have no standard input of ours.
        source = None if data is None else data_file(data)
        typed = () if data is None else ("--data", str(data), *reading.words)
        asked = _Asked(
            Path(os.path.abspath(folder)), quick, bool(only), source, reading, mark, typed
        )

        def load(piece: Piece) -> Checked | None:
            path = folder / f"{piece.name}.json"
            return read_evidence(path) if path.is_file() else None

        told, _ = do_pieces(
            check_claim, [Piece(name, name) for name in ids], load, ledger=work, engine=engine, common=(asked,),
            failed=lambda record: record.error is not None, progress=progress,
        )  # fmt: skip
        summary = {**_summary(told, quick, data, out), "reading": how}
        _leave(work, told, summary)
    return {**summary, "replaced": place.replaced}


# A user's data

# The one data set this process has read last
_seen: dict[str, tuple[Given | None, Assumption]] = {}


def _remember(windows: Windows) -> str:
    """Keep a user's data for the claims that are checked in this process; what they hold, in a few letters."""
    mark = windows.mark
    if mark not in _seen:
        _seen.clear()
        _seen[mark] = _given(windows)
    return mark


def _given(windows: Windows) -> tuple[Given | None, Assumption]:
    """The data as claims take them (None where the theorems speak about none of it), and what breaks Assumption 2."""
    bad = np.flatnonzero(~windows.realizable)
    total, kept = len(windows), len(windows) - len(bad)
    if not len(bad):
        found = f"all {counted(total, 'sample')}"
    else:
        named = windows.set_aside.examples
        more = f"; … and {len(bad) - 5} more" if len(bad) > 5 else ""
        tested = f"the others ({kept}) are tested" if kept else "nothing is left to test"
        found = f"{len(bad)} of {total} samples lack it and are set aside, {tested}: {'; '.join(named)}{more}"
    realizable = Assumption(REALIZABLE, not len(bad), found)
    return (Given(windows.samples(), realizable) if kept else None), realizable


# One claim


@dataclass(frozen=True)
class _Asked:
    """What is asked of every claim, wherever it is checked, and the folder for its piece."""

    folder: Path
    quick: bool
    named: bool  # by the user, so that long ones are not left out
    data: Path | None
    reading: Reading
    mark: str | None  # what the data hold
    typed: tuple[str, ...]  # what names the data on the command line

    def given(self) -> tuple[Given | None, Assumption | None]:
        """The user's data, read here if they were not yet, and what breaks Assumption 2; None of each without data."""
        if self.mark is None:
            return None, None
        if (
            self.mark not in _seen
            and _remember(read_windows(str(self.data), self.reading)) != self.mark
        ):
            raise DataError(f"{self.data}: was changed while it was being verified; start again.")
        return _seen[self.mark]


def check_claim(asked: _Asked, name: str) -> Checked:
    """Check one claim, wherever this is, and write its piece; what is read of it."""
    given, realizable = asked.given()
    begin, error = time.perf_counter(), None
    try:
        evidence = _evidence(CLAIMS[name], asked, given, realizable)
    except AttomatonError as fault:
        error = f"{type(fault).__name__}: {fault}"
    except Exception:  # a fault of ours in one claim must not lose the others
        error = traceback.format_exc()
    if error is not None:
        evidence = Evidence(Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE, "", {}, {})
    full = () if asked.quick else ("--full",)
    checked = Checked(
        **vars(CLAIMS[name].named(evidence)),
        seconds=time.perf_counter() - begin,
        command=shlex.join(("attomaton", "verify", "--only", name, *full, *asked.typed)),
        error=error,
    )
    # What ended in an error is tried again by the next process; all else is done.
    if error is None:
        write_whole(asked.folder / f"{name}.json", write_json, checked)
    return as_record(Checked, plain(checked), name)


def _evidence(
    claim: Claim, asked: _Asked, given: Given | None, realizable: Assumption | None
) -> Evidence:
    if realizable is not None:
        if claim.data is None:
            why = Assumption("speaks about data like these", False, f"this claim {claim.why}")
            return not_applicable(why)
        if given is None:
            return not_applicable(realizable)
        if not given.cases:
            why = Assumption(
                "there is something to learn", False, "every context holds one distinct token only"
            )
            return not_applicable(realizable, why)
        return claim.run(**claim.data, given=given)
    if claim.long and asked.quick and not asked.named:
        reason = f"takes minutes; attomaton verify --only {claim.name}, or --full, runs it"
        return Evidence(Verdict.SKIPPED, Verdict.SKIPPED, "", {}, {}, reason=reason)
    small = asked.quick or (claim.long and jax.default_backend() != "gpu")
    return claim.run(**(claim.quick if small else claim.full))


# What was left behind


def read_evidence(path: Path) -> Checked:
    """The evidence of one claim, as a verification left it."""
    record = read_record(path, Checked)
    for panel in record.panels:
        sizes = [
            {len(x) for x in (line.x, line.y, line.low, line.high, line.error) if x is not None}
            for line in panel.lines
        ]
        if panel.heat is not None:
            rows = {len(row) for row in panel.heat}
            sizes.append(rows if panel.xticks is None else rows | {len(panel.xticks)})
            sizes.append({len(x) for x in (panel.heat, panel.yticks) if x is not None})
        if max(map(len, sizes), default=0) > 1:
            raise DataError(f"{path}: a picture's lists are of unlike lengths; {AGAIN}.")
    return record


# What is left behind

UNTESTED = (Verdict.NOT_APPLICABLE, Verdict.SKIPPED)


def is_red(record: Checked) -> bool:
    """Whether a claim counts against the verification: it fails, decides nothing, or its control does not fail."""
    if record.verdict in UNTESTED:
        return False
    return record.error is not None or not record.stands


def _summary(
    records: list[Checked], quick: bool, data: Path | str | None, out: Path | str
) -> Record:
    counts = {v.value: sum(r.verdict is v for r in records) for v in Verdict}
    red = [r.claim for r in records if is_red(r)]
    none = all(r.verdict in UNTESTED for r in records)
    rows = [
        {
            "claim": r.claim,
            "title": r.title,
            "paper": r.paper,
            "verdict": r.verdict.value,
            "control": r.control.value,
            "figures": key_figures(r.measured),
            "seconds": r.seconds,
            **({"reason": r.reason} if r.verdict in UNTESTED else {}),
            **({"error": r.error} if r.error is not None else {}),
        }
        for r in records
    ]
    broken: dict[str, list[str]] = {}
    for r in records:
        for a in r.assumptions:
            if not a.holds:
                broken.setdefault(f"{a.name}: {a.found}", []).append(r.claim)
    return {
        "verdict": "not applicable" if none else "fails" if red else "holds",
        "counts": counts,
        "red": red,
        "broken_assumptions": [{"what": k, "claims": v} for k, v in broken.items()],
        "quick": quick,
        "data": None if data is None else data_name(data),
        "claims": rows,
        "seconds": sum(r.seconds for r in records),
        "run": str(out),
    }


def key_figures(measured: Quantities, most: int = 2) -> dict[str, str]:
    """The first few measured numbers in short: lists by their least and largest.

    >>> key_figures({"cosine": [0.99, 0.995], "steps": 10, "more": 1})
    {'cosine': '0.99 … 0.995', 'steps': '10'}
    """
    found: dict[str, str] = {}
    for name, value in measured.items():
        if isinstance(value, Mapping):
            said = next((f"{k} {v}" for k, v in key_figures(value, 1).items()), None)
        else:
            said = _short(value)
        if said is not None and len(found) < most:
            found[name] = said
    return found


def _short(value: Any) -> str | None:
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    if not values or not all(isinstance(x, (int, float)) for x in values):
        return None
    low, high = f"{min(values):.4g}", f"{max(values):.4g}"
    return low if low == high else f"{low} … {high}"


def _leave(work: Path, records: list[Checked], summary: Record) -> None:
    from attomaton.report.verification import Header, report_figures, report_markdown, report_page

    header = Header(
        command(),
        summary["quick"],
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        device=", ".join(map(str, jax.devices())),
        data=summary["data"] or "each claim's own",
        versions=environment(),
        seconds=summary["seconds"],
    )
    provenance(work, {k: summary[k] for k in ("quick", "data")}, summary)
    for record in records:
        write_json(work / "claims" / f"{record.claim}.json", record)
    write_columns(work / "panels.parquet", panel_columns(records))
    figures = report_figures(records)
    (work / "figures").mkdir(exist_ok=True)
    for name, svg in figures.items():
        write_text(work / "figures" / name, svg)
    page, text = report_page(records, header, figures), report_markdown(records, header, figures)
    write_text(work / "report.html", page)
    write_text(work / "report.md", text)


def panel_columns(records: Sequence[Checked]) -> dict[str, list[Any]]:
    """The points of all pictures as long columns."""
    columns: dict[str, list[Any]] = {
        k: [] for k in ("claim", "panel", "line", "label", "style", "x", "y")
    }
    for record in records:
        for panel in record.panels:
            for number, line in enumerate(panel.lines):
                head = (record.claim, panel.title, number, line.label or "", line.style)
                for name, value in zip(columns, head, strict=False):
                    columns[name] += [value] * len(line.x)
                columns["x"] += [math.nan if x is None else x for x in line.x]
                columns["y"] += [math.nan if y is None else y for y in line.y]
    return columns
