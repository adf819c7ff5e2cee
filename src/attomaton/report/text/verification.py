"""A verification in words: the verdict in a sentence, numbers to four digits, every claim as plain blocks.

A block has a `kind`: "heading", "text", "formula", "code", "term" (a word and its text), "mark" (a verdict and its
text), "table", "beside" (tables), "panels" (each with the `name` of its files) or "values" (what was measured, at full
precision). The page and the Markdown show the same blocks. A cell of a table is a text, a `Mark`, or a list of texts,
one to a line.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import Any

import numpy as np

from attomaton.errors import cut
from attomaton.report.words import number, seconds_text

Record = Mapping[str, Any]
Block = dict[str, Any]

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


_OUTCOMES = {
    "holds": Mark("good", "✓", "holds"),
    "fails": Mark("bad", "✗", "fails"),
    "not applicable": Mark("open", "○", "not applicable"),
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


def plain(value: Any) -> Any:
    """The value in Python's own types: no NumPy, no enumerations, no tuples; infinities of JSON are numbers again."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(plain(k)): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset | range):
        return [plain(v) for v in value]
    return float(value) if value in ("inf", "-inf") else value


def said(value: Any, brief: bool = False) -> str:
    """A value in few words; a list of numbers as its range, median and count (its range alone where `brief`).

    >>> said([0.25, 1.0, 0.5, 0.125])
    '0.125 to 1, median 0.375 (4 values)'
    """
    if isinstance(value, Mapping):
        value = [f"{name} {said(part, brief)}" for name, part in leaves(value)]
    if isinstance(value, list):
        return _said_list(value, brief)
    if isinstance(value, int | float):
        return number(value)
    return "none" if value is None else str(value)


def _said_list(value: list[Any], brief: bool) -> str:
    flat, shape = _flat(value)
    if not flat:
        return "none"
    if any(isinstance(x, int | float) for x in flat):
        flat = [math.nan if x is None else x for x in flat]  # JSON has no NaN
    if all(isinstance(x, bool) for x in flat) and len(flat) > FEW:
        return f"yes: {sum(flat)} of {shape}"
    if all(isinstance(x, int | float) for x in flat) and len(flat) > FEW:
        return _range(flat, shape, brief)
    shown = [said(x, brief) for x in flat[: 2 * FEW]]
    return ", ".join(shown) + (f", … ({len(flat)} in all)" if len(flat) > len(shown) else "")


def exact(value: Any) -> str:
    """A setting in full: what was rounded could not make the same run again.

    >>> exact([8.0, 0.1, [2, 100]]), exact(20240101)
    ('8, 0.1, (2, 100)', '20240101')
    """
    if isinstance(value, list):
        parts = [f"({exact(x)})" if isinstance(x, list) else exact(x) for x in value]
        return ", ".join(parts) or "none"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return said(value) if value is None or isinstance(value, bool | Mapping) else str(value)


def _flat(value: Sequence[Any]) -> tuple[list[Any], str]:
    """The entries of a list of lists, and its shape in words."""
    shape = [str(len(value))]
    flat = list(value)
    while flat and all(isinstance(x, list) for x in flat):
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
    rows = isinstance(value, list) and value and all(isinstance(x, Mapping) for x in value)
    if rows and len({tuple(x) for x in value}) == 1:
        value = {name: [row[name] for row in value] for name in value[0]}
    if isinstance(value, Mapping) and (value or path):
        for name, part in value.items():
            yield from leaves(part, f"{path} · {name}" if path else str(name))
    elif path:
        yield path, value


def outcome(record: Record) -> str:
    """How the claim ended: its verdict, or "error" where its check did not end."""
    if record.get("error"):
        return ERROR
    verdict = record.get("verdict", ERROR)
    return verdict if verdict in _OUTCOMES else ERROR


def verdict_mark(record: Record) -> Mark:
    """The claim's verdict."""
    return _OUTCOMES[outcome(record)]


def control_mark(record: Record) -> Mark:
    """The control's verdict, judged: only one that fails is good."""
    return _CONTROLS.get(record.get("control", ""), _NOT_RUN) if _was_run(record) else _NOT_RUN


def applies(record: Record) -> bool:
    """The claim speaks about the data it was given."""
    return outcome(record) != "not applicable"


def _was_run(record: Record) -> bool:
    return applies(record) and outcome(record) != ERROR


def stands(record: Record) -> bool:
    """The claim holds and its control fails."""
    return verdict_mark(record).kind == control_mark(record).kind == "good"


def overall(records: Sequence[Record]) -> Mark:
    """The verdict on everything: good where every claim that applies stands, and one does."""
    judged = [r for r in records if applies(r)]
    if not judged:
        return Mark("open", "○", "nothing was tested")
    return _OUTCOMES["holds" if all(map(stands, judged)) else "fails"]


def headline(records: Sequence[Record]) -> str:
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
        names = [cut(r["claim"], 40) for r in records if outcome(r) == kind]
        if names:
            parts.append(f"{_names(names)} {one if len(names) == 1 else many}.")
    for r in loose:
        ended = "holds" if r.get("control") == "holds" else "does not fail"
        parts.append(
            f"The control of {cut(r['claim'], 40)} {ended}, so its agreement proves nothing."
        )
    return " ".join(parts) or "No claim was checked."


_ENDED = {
    "fails": ("fails", "fail"),
    "inconclusive": ("is inconclusive", "are inconclusive"),
    "not applicable": ("is not applicable", "are not applicable"),
    ERROR: ("ended in an error", "ended in errors"),
}


def _names(names: Sequence[str]) -> str:
    if len(names) > NAMED:
        return str(len(names))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def slugs(records: Sequence[Record]) -> list[str]:
    """One name for each record that may stand in a link or a file name; no two are alike."""
    found: list[str] = []
    for record in records:
        base = re.sub(r"[^a-z0-9]+", "-", str(record["claim"]).lower()).strip("-") or "claim"
        name, again = base, 2
        while name in (*found, *TAKEN):
            name, again = f"{base}-{again}", again + 1
        found.append(name)
    return found


def heading(record: Record) -> str:
    """The claim's name and title."""
    title = record.get("title")
    return f"{record['claim']}: {title}" if title else str(record["claim"])


def telling(record: Record) -> list[str]:
    """The first figures of a claim, those with a prediction before the others; or why there are none."""
    if not _was_run(record):
        why = str(record.get("error") or record.get("reason") or "").strip()
        return [cut(why.splitlines()[-1], 160)] if why else []
    predicted = dict(leaves(record.get("prediction", {})))
    measured = list(leaves(record.get("measured", {})))
    measured.sort(key=lambda one: one[0] not in predicted)
    return [
        f"{name}: {said(value, brief=True)}"
        + (f" (theory: {said(predicted[name], brief=True)})" if name in predicted else "")
        for name, value in measured[:TELLING]
    ]


def control_telling(record: Record) -> list[str]:
    """The control's first figure."""
    first = next(leaves(record.get("control_measured", {})), None)
    return [f"{first[0]}: {said(first[1], brief=True)}"] if first and _was_run(record) else []


def facts(records: Sequence[Record], header: Record) -> str:
    """What was run, when and where, in one line."""
    parts = []
    if "quick" in header:
        parts.append("quick run" if header["quick"] else "full run")
    parts += [str(header[name]) for name in ("mode", "date", "device") if header.get(name)]
    parts += [f"data: {header['data']}"] if header.get("data") else []
    spent = sum(r.get("seconds") or 0.0 for r in records)
    return " · ".join([*parts, f"checked in {seconds_text(spent)} s"])


def made_by(header: Record) -> list[list[str]]:
    """Everything the header says, as rows."""
    return [[name, exact(value)] for name, value in leaves(header)]


def blocks(record: Record, slug: str) -> list[Block]:
    """One claim, from its statement to the command that checks it again."""
    parts = [_text(record["statement"])] if record.get("statement") else []
    if record.get("formula"):
        parts.append(
            {"kind": "formula", "text": record["formula"], "name": f"formula of {record['claim']}"}
        )
    if record.get("error"):
        parts.append(_text("The check ended in an error; nothing is known about the claim."))
        parts.append(_code(record["error"], f"error of {record['claim']}"))
    panels = [
        {"name": f"{slug}-{i}", "panel": p} for i, p in enumerate(record.get("panels", ()), 1)
    ]
    return [
        *parts,
        *_assumptions(record),
        *_measurement(record),
        *([{"kind": "panels", "panels": panels}] if panels else []),
        *_control(record),
        *_again(record),
    ]  # fmt: skip


def _text(text: str) -> Block:
    return {"kind": "text", "text": text}


def _heading(text: str) -> Block:
    return {"kind": "heading", "text": text}


def _code(text: str, name: str) -> Block:
    return {"kind": "code", "text": text, "name": name}


def _table(header: list[str], rows: list[list[Any]], name: str) -> Block:
    return {"kind": "table", "header": header, "rows": rows, "name": name}


def _assumptions(record: Record) -> list[Block]:
    rows = [
        [a["name"], MET if a["holds"] else BROKEN, a.get("found", "")]
        for a in record.get("assumptions", ())
    ]
    name, header = f"assumptions of {record['claim']}", ["condition", "on these data", "found"]
    return [_heading("Assumptions"), _table(header, rows, name)] if rows else []


def _measurement(record: Record) -> list[Block]:
    """Prediction beside measurement, then what counts as agreement, and why."""
    predicted = dict(leaves(record.get("prediction", {})))
    measured = dict(leaves(record.get("measured", {})))
    columns = {"theory predicts": predicted, "training measured": measured}
    both = [name for name in measured if name in predicted]
    rest = [
        _columns({title: column}, alone, f"{title} of {record['claim']}")
        for title, column in columns.items()
        if (alone := [name for name in column if name not in both])
    ]
    parts: list[Block] = [_heading("Prediction and measurement")] if both or rest else []
    if both:
        parts.append(_columns(columns, both, f"prediction and measurement of {record['claim']}"))
    if rest:
        parts.append({"kind": "beside", "tables": rest})
    why = "Why this tolerance" if _was_run(record) else "Why it was not tested"
    for term, key in (("Tolerance", "tolerance"), (why, "reason")):
        if record.get(key):
            parts.append({"kind": "term", "term": term, "text": record[key]})
    return parts


def _columns(columns: Mapping[str, Mapping[str, Any]], names: Sequence[str], name: str) -> Block:
    """A table with one row for each name and one column for each dictionary."""
    rows = [
        [row, *(said(column[row]) if row in column else "" for column in columns.values())]
        for row in names
    ]
    return _table(["quantity", *columns], rows, name)


def _control(record: Record) -> list[Block]:
    """The control's verdict and figures, beside the claim's own where they have the same name."""
    figures = dict(leaves(record.get("control_measured", {})))
    if not figures and not _was_run(record):
        return []
    text = "The same measurement, against a prediction that must be wrong."
    parts = [_heading("Control"), {"kind": "mark", "mark": control_mark(record), "text": text}]
    if figures:
        own = {n: v for n, v in leaves(record.get("measured", {})) if n in figures}
        columns = {"control": figures, "claim": own} if own else {"control": figures}
        parts.append(_columns(columns, list(figures), f"control of {record['claim']}"))
    return parts


def _again(record: Record) -> list[Block]:
    """What checks the claim once more, and every value this check found."""
    parts: list[Block] = []
    if record.get("command"):
        parts.append(_code(record["command"], f"command for {record['claim']}"))
    settings = [f"{name} = {exact(value)}" for name, value in leaves(record.get("settings", {}))]
    if settings:
        parts.append({"kind": "term", "term": "Settings", "text": "; ".join(settings)})
    if took := seconds_text(record.get("seconds")):
        parts.append(_text(f"It took {took} s."))
    kept = ("prediction", "measured", "control_measured")
    values = {key: record[key] for key in kept if record.get(key)}
    if values:
        parts.append({"kind": "values", "values": values, "name": f"values of {record['claim']}"})
    return [_heading("Check it again"), *parts] if parts else []
