"""What is known about the claims: the evidence of one verification, or the newest of all that were run in the lab."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from attomaton.claims.registry import CLAIMS, find_claims
from attomaton.corpus.reading import AS_NAMED, OPTIONS, Reading
from attomaton.disk.formats import read_text
from attomaton.disk.records import read_record
from attomaton.disk.storage import check_folder
from attomaton.errors import DataError
from attomaton.jobs.verify import key_figures, read_evidence
from attomaton.lab.kit.cache import Cache, Shared
from attomaton.lab.kit.work import Work
from attomaton.report.figures.verification import words
from attomaton.report.text.verification import control_mark, outcome, verdict_mark
from attomaton.results import Checked, Verdict

NOT_RUN = "not run"
ENDINGS = ("holds", "fails", "inconclusive", "not applicable", "skipped", "error", NOT_RUN)
LONGEST = 60  # characters of a folder's name that lists its claims
KEPT = 200  # pieces of evidence in memory
WORK = Work[None]("verification")


@dataclass(frozen=True)
class Row:
    """One row of the table of claims, in words."""

    claim: str
    paper: str
    title: str
    verdict: str
    verdict_kind: str
    control: str
    control_kind: str
    figures: str
    seconds: float | int | None


class Evidence:
    """Evidence as it lies on the disk, read again only where a file has changed."""

    def __init__(self) -> None:
        self._known: Cache[tuple[Path, int], Checked] = Cache(KEPT)

    def of_folder(self, folder: Path) -> list[Checked]:
        """The evidence of one verification, in its order."""
        check_folder(folder, "verification")
        ids = _summary(folder).ids
        unknown = [name for name in ids if name not in CLAIMS]
        if unknown:
            raise DataError(f"{folder}: holds claims nobody knows here: {', '.join(unknown)}.")
        return [self._read(folder / "claims" / f"{name}.json") for name in ids]

    def of_lab(self, workspace: Path) -> list[Checked]:
        """Every claim with its newest evidence, finished or being made; those that were never run say so."""
        patterns = ("verify*/claims/*.json", ".verify*.partial/claims/*.json")
        every = [path for pattern in patterns for path in (workspace / "runs").glob(pattern)]
        newest = {path.stem: path for path in sorted(every, key=_age)}
        return [self._found(newest[name]) if name in newest else not_run(name) for name in CLAIMS]

    def _found(self, path: Path) -> Checked:
        try:
            return self._read(path)
        except DataError:  # its folder was being given its name
            return not_run(path.stem)

    def _read(self, path: Path) -> Checked:
        return self._known.found((path, _age(path)), lambda: read_evidence(path))


EVIDENCE = Shared(Evidence)


def _age(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def not_run(name: str) -> Checked:
    """A claim nobody has put to the test here: without a command that did."""
    claim, none = CLAIMS[name], Verdict.NOT_APPLICABLE
    return Checked(none, none, "", {}, {}, name, claim.title, claim.statement, claim.paper)


def ending(record: Checked) -> str:
    """How a claim ended, one of `ENDINGS`.

    >>> ending(not_run("T1"))
    'not run'
    """
    return outcome(record) if record.command else NOT_RUN


def table_row(record: Checked) -> Row:
    """What the table says of a claim."""
    named = record.claim, record.paper, words(record.title)
    if ending(record) == NOT_RUN:
        return Row(*named, f"– {NOT_RUN} yet", "open", "", "open", "", None)
    verdict, control = verdict_mark(record), control_mark(record)
    figures = "\n".join(f"{k}: {v}" for k, v in key_figures(record.measured).items())
    said, seconds = f"{verdict.symbol} {verdict.words}", round(record.seconds, 1)
    return Row(*named, said, verdict.kind, str(control), control.kind, figures, seconds)


def shown(records: Sequence[Checked], verdict: str, text: str) -> list[Checked]:
    """The records with this ending (any, where it is none of ours) that hold the text."""
    wanted = text.strip().casefold()

    def has(record: Checked) -> bool:
        about = f"{record.claim} {record.paper} {words(record.title)} {record.statement}"
        return wanted in about.casefold()

    return [r for r in records if verdict not in ENDINGS or ending(r) == verdict if has(r)]


def asked_claims(text: str) -> list[str] | None:
    """Claims as they are typed, with commas; None for all of them."""
    wanted = [x.strip() for x in text.split(",") if x.strip()]
    return find_claims(wanted) if wanted else None


def run_folder(workspace: Path, only: Sequence[str] | None) -> Path:
    """Where a verification of these claims is written; its name is made of ids of ours."""
    listed = "-".join(only or ())
    if len(listed) > LONGEST:
        listed = f"{len(only or ())}-{sha256(listed.encode()).hexdigest()[:8]}"
    return workspace / "runs" / (f"verify-{listed}" if listed else "verify")


def is_begun(folder: Path) -> bool:
    """Whether an earlier run was stopped before its end."""
    return folder.with_name(f".{folder.name}.partial").is_dir()


# The same by hand


def code(
    only: Sequence[str] | None,
    quick: bool = True,
    data: str | None = None,
    reading: Reading = AS_NAMED,
) -> tuple[str, str]:
    """The command and the Python code that verify these claims, on their own data or on a file."""
    said = ["attomaton", "verify", "--quick" if quick else "--full"]
    said += ["--only", ",".join(only)] if only else []
    asked = f"{list(only) if only else None}, quick={quick}"
    begin = "from attomaton.jobs.verify import verify_run\n"
    if data is not None:
        said += ["--data", data, *reading.words]
        asked += f", data={data!r}, reading={reading!r}"
        begin = f"from attomaton.corpus.reading import Reading\n{begin}"
    return shlex.join(said), f"{begin}print(verify_run({asked}))"


def folder_code(folder: Path, only: Sequence[str] | None = None) -> tuple[str, str]:
    """The command and the Python code that make a verification again, or some of its claims."""
    summary = _summary(folder)
    ids = only or summary.ids
    try:
        reading = _reading(shlex.split(read_text(folder / "command.txt")))
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{folder}: its command.txt cannot be read ({error}).") from error
    return code(None if ids == list(CLAIMS) else ids, summary.quick, summary.data, reading)


@dataclass(frozen=True)
class _Named:
    claim: str


@dataclass(frozen=True)
class _Summary:
    claims: tuple[_Named, ...]
    quick: bool
    data: str | None

    @property
    def ids(self) -> list[str]:
        return [one.claim for one in self.claims]


def _summary(folder: Path) -> _Summary:
    return read_record(folder / "summary.json", _Summary)


def _reading(command: Sequence[str]) -> Reading:
    """How a command says its data are read."""
    found: dict[str, Any] = {}
    for word, after in zip(command, [*command[1:], ""], strict=False):
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in OPTIONS:
            said = value if equals else after
            found[name] = int(said) if name == "context" else said
    return Reading(**found)
