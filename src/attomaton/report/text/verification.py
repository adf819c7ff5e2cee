"""A verification in words: the verdict in a sentence, numbers to four digits, every claim as plain blocks.

The page, the Markdown and the lab show the same blocks.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from attomaton.errors import cut
from attomaton.report.words import number, seconds_text
from attomaton.results import Checked, Panel, Quantities, Verdict

TITLE = "Theory against training"
HOW_TO_READ = (
    "Predictions come from theory code alone, measurements from training code alone. A claim stands when the two agree "
    "within the stated tolerance, and when its control, the same measurement against a prediction that must be wrong, "
    "fails."
)
COLUMNS = ["claim", "verdict", "measured", "control", "seconds"]  # of the table of claims
TAKEN = ("claims", "made-by")  # names of the page's other sections
ERROR = "error"
FEW = 3  # numbers of a list that are shown one by one
NAMED = 5  # claims that a sentence names; more are counted
TELLING = 2  # figures of a claim that stand in the table of claims


@dataclass(frozen=True)
class Mark:
    """A verdict that needs no colour: a symbol and words; `kind` is "good", "bad" or "open"."""

    kind: str
    symbol: str
    words: str

    def __str__(self) -> str:
        return f"{self.symbol} {self.words}"


Cell = str | Mark | list[str]  # of a table: a text, a verdict, or texts, one to a line


@dataclass(frozen=True)
class Table:
    """Rows under headings."""

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    name: str = ""


@dataclass(frozen=True)
class Block:
    """One piece of what is said about a claim, of the given `kind`.

    "heading", "text", "formula" and "code" have a `text`; "term" is its `name` and a text, "mark" a verdict and a
    text; "tables" stand beside each other; "panels" have the `name` that their files begin with; "values" are what
    was measured, at full precision.
    """

    kind: str
    text: str = ""
    name: str = ""
    mark: Mark | None = None
    tables: Sequence[Table] = ()
    panels: Mapping[str, Panel] = field(default_factory=dict)  # by the name of their files
    values: Mapping[str, Quantities] = field(default_factory=dict)


@dataclass(frozen=True)
class Header:
    """What made a verification."""

    command: str = ""
    quick: bool | None = None
    date: str = ""
    device: str = ""
    data: str = ""
    versions: Mapping[str, str | None] = field(default_factory=dict)
    seconds: float | None = None


_OUTCOMES = {
    "holds": Mark("good", "✓", "holds"),
    "fails": Mark("bad", "✗", "fails"),
    "not applicable": Mark("open", "○", "not applicable"),
    "skipped": Mark("open", "–", "skipped"),
    "inconclusive": Mark("open", "?", "inconclusive"),
    ERROR: Mark("bad", "!", "error"),
}
_CONTROLS = {
    "fails": Mark("good", "✓", "fails, as it must"),
    "holds": Mark("bad", "✗", "holds, but must fail"),
    "not applicable": Mark("open", "○", "not applicable"),
    "inconclusive": Mark("bad", "?", "inconclusive, but must fail"),
}
_NOT_RUN = Mark("open", "○", "not run")
MET, BROKEN = Mark("good", "✓", "met"), Mark("bad", "✗", "broken")


def said(value: Any, brief: bool = False) -> str:
    """A value in few words; a list of numbers as its range, median and count (its range alone where `brief`).

    >>> said([0.25, 1.0, 0.5, 0.125])
    '0.125 to 1, median 0.375 (4 values)'
    """
    if isinstance(value, Mapping):
        value = [f"{name} {said(part, brief)}" for name, part in leaves(value)]
    if isinstance(value, list | tuple):
        return _said_list(value, brief)
    if isinstance(value, int | float):
        return number(value)
    return "none" if value is None else str(value)


def _said_list(value: Sequence[Any], brief: bool) -> str:
    flat, shape = _flat(value)
    if not flat:
        return "none"
    if any(isinstance(x, int | float) for x in flat):
        flat = [math.nan if x is None else x for x in flat]  # JSON has no NaN
    if all(isinstance(x, int | float) for x in flat) and len(flat) > FEW:
        yes = all(isinstance(x, bool) for x in flat)
        return f"yes: {sum(flat)} of {shape}" if yes else _range(flat, shape, brief)
    shown = [said(x, brief) for x in flat[: 2 * FEW]]
    return ", ".join(shown) + (f", … ({len(flat)} in all)" if len(flat) > len(shown) else "")


def exact(value: Any) -> str:
    """A setting in full: what was rounded could not make the same run again.

    >>> exact([8.0, 0.1, [2, 100]]), exact(20240101)
    ('8, 0.1, (2, 100)', '20240101')
    """
    if isinstance(value, list | tuple):
        parts = [f"({exact(x)})" if isinstance(x, list | tuple) else exact(x) for x in value]
        return ", ".join(parts) or "none"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return said(value) if value is None or isinstance(value, bool | Mapping) else str(value)


def _flat(value: Sequence[Any]) -> tuple[list[Any], str]:
    """The entries of a list of lists, and its shape in words."""
    shape = [str(len(value))]
    flat = list(value)
    while flat and all(isinstance(x, list | tuple) for x in flat):
        inner = {len(x) for x in flat}
        shape.append(str(inner.pop()) if len(inner) == 1 else "…")
        flat = [x for part in flat for x in part]
    return flat, " × ".join(shape) if "…" not in shape else str(len(flat))


def _range(flat: list[Any], shape: str, brief: bool) -> str:
    """Least, most and median of many numbers; those that are none are counted."""
    known = [x for x in flat if not (isinstance(x, float) and math.isnan(x))]
    if not known:
        return f"NaN (all {shape})"
    lost = f", {len(flat) - len(known)} NaN" if len(known) < len(flat) else ""
    low, high = min(known), max(known)
    if low == high:
        return number(low) + ("" if brief else f" ({shape}{lost})" if lost else f" (all {shape})")
    middle = "" if brief else f", median {number(median(known))} ({shape} values{lost})"
    return f"{number(low)} to {number(high)}{middle}"


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested dictionaries under joined names; a list of like rows gives one list for each column."""
    rows = isinstance(value, list | tuple) and value and all(isinstance(x, Mapping) for x in value)
    if rows and len({tuple(x) for x in value}) == 1:
        value = {name: [row[name] for row in value] for name in value[0]}
    if isinstance(value, Mapping) and (value or path):
        for name, part in value.items():
            yield from leaves(part, f"{path} · {name}" if path else str(name))
    elif path:
        yield path, value


def outcome(record: Checked) -> str:
    """How the claim ended: its verdict, or "error" where its check did not end."""
    return ERROR if record.error else record.verdict.value


def verdict_mark(record: Checked) -> Mark:
    """The claim's verdict."""
    return _OUTCOMES[outcome(record)]


def control_mark(record: Checked) -> Mark:
    """The control's verdict, judged: only one that fails is good."""
    return _CONTROLS[record.control] if _was_run(record) else _NOT_RUN


def applies(record: Checked) -> bool:
    """The claim was put to the test: it speaks about the data it was given, and was not skipped."""
    return outcome(record) not in ("not applicable", "skipped")


def _was_run(record: Checked) -> bool:
    return applies(record) and outcome(record) != ERROR


def stands(record: Checked) -> bool:
    """The claim holds and its control fails."""
    return verdict_mark(record).kind == control_mark(record).kind == "good"


def overall(records: Sequence[Checked]) -> Mark:
    """The verdict on everything: good where every claim that applies stands, and one does."""
    judged = [r for r in records if applies(r)]
    if not judged:
        return Mark("open", "○", "nothing was tested")
    return _OUTCOMES["holds" if all(map(stands, judged)) else "fails"]


def headline(records: Sequence[Checked]) -> str:
    """The verdict on everything, in a few sentences."""
    judged = [r for r in records if applies(r)]
    run = [r for r in judged if _was_run(r)]
    loose = [r for r in run if control_mark(r).kind != "good"]
    parts = []
    if judged:
        holding, n = sum(outcome(r) == "holds" for r in judged), len(judged)
        which = "" if n == len(records) else " that applies" if n == 1 else " that apply"
        first = f"{holding} of {n} {f'claim{which} holds' if n == 1 else f'claims{which} hold'}"
        if run and not loose:
            every = "every control" if len(run) == n else "every control that ran"
            first += f", {'its control' if n == 1 else every} fails"
        parts.append(first + ".")
    for kind, (one, many) in _ENDED.items():
        names = [cut(r.claim, 40) for r in records if outcome(r) == kind]
        if names:
            parts.append(f"{_names(names)} {one if len(names) == 1 else many}.")
    for r in loose:
        ended = "holds" if r.control is Verdict.HOLDS else "does not fail"
        parts.append(f"The control of {cut(r.claim, 40)} {ended}, so its agreement proves nothing.")
    return " ".join(parts) or "No claim was checked."


_ENDED = {
    "fails": ("fails", "fail"),
    "inconclusive": ("is inconclusive", "are inconclusive"),
    "not applicable": ("is not applicable", "are not applicable"),
    "skipped": ("was skipped", "were skipped"),
    ERROR: ("ended in an error", "ended in errors"),
}


def _names(names: Sequence[str]) -> str:
    if len(names) > NAMED:
        return str(len(names))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def slugs(records: Sequence[Checked]) -> list[str]:
    """One name for each record that may stand in a link or a file name; no two are alike."""
    found: list[str] = []
    for record in records:
        base = re.sub(r"[^a-z0-9]+", "-", record.claim.lower()).strip("-") or "claim"
        name, again = base, 2
        while name in (*found, *TAKEN):
            name, again = f"{base}-{again}", again + 1
        found.append(name)
    return found


def heading(record: Checked) -> str:
    """The claim's name and title."""
    return f"{record.claim}: {record.title}" if record.title else record.claim


def telling(record: Checked) -> list[str]:
    """The first figures of a claim, those with a prediction before the others; or why there are none."""
    if not _was_run(record):
        why = (record.error or record.reason).strip()
        return [cut(why.splitlines()[-1], 160)] if why else []
    predicted = dict(leaves(record.prediction))
    measured = list(leaves(record.measured))
    measured.sort(key=lambda one: one[0] not in predicted)
    return [
        f"{name}: {said(value, brief=True)}"
        + (f" (theory: {said(predicted[name], brief=True)})" if name in predicted else "")
        for name, value in measured[:TELLING]
    ]


def control_telling(record: Checked) -> list[str]:
    """The control's first figure."""
    first = next(leaves(record.control_measured), None)
    return [f"{first[0]}: {said(first[1], brief=True)}"] if first and _was_run(record) else []


def facts(records: Sequence[Checked], header: Header) -> str:
    """What was run, when and where, in one line."""
    parts = [] if header.quick is None else ["quick run" if header.quick else "full run"]
    parts += [part for part in (header.date, header.device) if part]
    parts += [f"data: {header.data}"] if header.data else []
    spent = sum(r.seconds for r in records)
    return " · ".join([*parts, f"checked in {seconds_text(spent)} s"])


def made_by(header: Header) -> list[list[str]]:
    """Everything the header says, as rows."""
    said = {name: value for name, value in asdict(header).items() if value not in (None, "")}
    return [[name, exact(value)] for name, value in leaves(said)]


def blocks(record: Checked, slug: str) -> list[Block]:
    """One claim, from its statement to the command that checks it again."""
    known = "The check ended in an error; nothing is known about the claim." * bool(record.error)
    said = [
        Block("text", record.statement),
        Block("term", record.paper, "In the paper"),
        Block("formula", record.formula, f"formula of {record.claim}"),
        Block("text", known),
        Block("code", record.error or "", f"error of {record.claim}"),
    ]
    panels = {f"{slug}-{i}": panel for i, panel in enumerate(record.panels, 1)}
    return [
        *(block for block in said if block.text),
        *_assumptions(record),
        *_measurement(record),
        *([Block("panels", panels=panels)] if panels else []),
        *_control(record),
        *_again(record),
    ]


def _assumptions(record: Checked) -> list[Block]:
    rows: list[list[Cell]] = [
        [a.name, MET if a.holds else BROKEN, a.found] for a in record.assumptions
    ]
    header = ["condition", "on these data", "found"]
    table = Table(header, rows, f"assumptions of {record.claim}")
    return [Block("heading", "Assumptions"), Block("tables", tables=[table])] if rows else []


def _measurement(record: Checked) -> list[Block]:
    """Prediction beside measurement, then what counts as agreement, and why."""
    predicted, measured = dict(leaves(record.prediction)), dict(leaves(record.measured))
    columns = {"theory predicts": predicted, "training measured": measured}
    both = [name for name in measured if name in predicted]
    rest = [
        _columns({title: column}, alone, f"{title} of {record.claim}")
        for title, column in columns.items()
        if (alone := [name for name in column if name not in both])
    ]
    parts = [Block("heading", "Prediction and measurement")] if both or rest else []
    if both:
        whole = _columns(columns, both, f"prediction and measurement of {record.claim}")
        parts.append(Block("tables", tables=[whole]))
    if rest:
        parts.append(Block("tables", tables=rest))
    why = "Why this tolerance" if _was_run(record) else "Why it was not tested"
    terms = (("Tolerance", record.tolerance), (why, record.reason))
    return parts + [Block("term", text, term) for term, text in terms if text]


def _columns(columns: Mapping[str, Mapping[str, Any]], names: Sequence[str], name: str) -> Table:
    """A table with one row for each name and one column for each dictionary."""
    rows = [
        [row, *(said(column[row]) if row in column else "" for column in columns.values())]
        for row in names
    ]
    return Table(["quantity", *columns], rows, name)


def _control(record: Checked) -> list[Block]:
    """The control's verdict and figures, beside the claim's own where they have the same name."""
    figures = dict(leaves(record.control_measured))
    if not figures and not _was_run(record):
        return []
    text = "The same measurement, against a prediction that must be wrong."
    parts = [Block("heading", "Control"), Block("mark", text, mark=control_mark(record))]
    if figures:
        own = {n: v for n, v in leaves(record.measured) if n in figures}
        columns = {"control": figures, "claim": own} if own else {"control": figures}
        table = _columns(columns, list(figures), f"control of {record.claim}")
        parts.append(Block("tables", tables=[table]))
    return parts


def _again(record: Checked) -> list[Block]:
    """What checks the claim once more, and every value this check found."""
    if not record.command:
        return []
    parts = [Block("code", record.command, f"command for {record.claim}")]
    settings = [f"{name} = {exact(value)}" for name, value in leaves(record.settings)]
    if settings:
        parts.append(Block("term", "; ".join(settings), "Settings"))
    parts.append(Block("text", f"It took {seconds_text(record.seconds)} s."))
    kept = ("prediction", "measured", "control_measured")
    if values := {key: found for key in kept if (found := getattr(record, key))}:
        parts.append(Block("values", name=f"values of {record.claim}", values=values))
    return [Block("heading", "Check it again"), *parts]
