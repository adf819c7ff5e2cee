"""What nobody said of a file and was found out: its format, its columns; always with the reason, always told.

A guess is written as the option that would say the same, so that whoever disagrees knows what to type.
"""

import logging
import shlex
from dataclasses import dataclass
from itertools import groupby

from attomaton.errors import visible

# Columns as programs of process mining write them: sequence, item, times by their worth. An event that has a beginning
# and an end goes by its end, as in these programs.
FAMILIES = {
    "an XES log": ("case:concept:name", "concept:name", ("time:timestamp",)),
    "Disco and its kin": (
        "Case ID", "Activity",
        ("Complete Timestamp", "Timestamp", "End Timestamp", "Start Timestamp", "Time", "Date"),
    ),
    "Celonis": ("_CASE_KEY", "ACTIVITY_EN", ("EVENTTIME", "EVENTTIMESTAMP", "TIMESTAMP")),
    "Celonis, in plain words": ("CASE_KEY", "ACTIVITY", ("EVENTTIME", "EVENTTIMESTAMP", "TIMESTAMP")),
}  # fmt: skip

_log = logging.getLogger("attomaton")


@dataclass(frozen=True)
class Guess:
    """An option that nobody gave, what it was taken to be, and why."""

    option: str
    value: str
    why: str

    def text(self) -> str:
        """As one would type it.

        >>> Guess("sequence", "Case ID", "").text()
        "--sequence 'Case ID'"
        """
        return f"--{self.option} {visible(shlex.quote(self.value))}"


def guesses_text(guesses: tuple[Guess, ...]) -> list[str]:
    """All of them in words, those with one reason together."""
    return [
        f"taken as if you had said {' '.join(g.text() for g in some)}: {why}"
        for why, some in groupby(guesses, lambda g: g.why)
    ]


def tell(place: object, guesses: tuple[Guess, ...]) -> None:
    """Say to whoever listens what was guessed about a file."""
    for said in guesses_text(guesses):
        _log.info("%s: %s.", place, said)


def family_columns(asked: dict[str, str | None], found: list[str]) -> tuple[Guess, ...]:
    """The columns of a log by a program of process mining, for the roles that were given no column.

    Both the sequence and the item have to be there by a family's names, or by what was asked.

    >>> [g.value for g in family_columns(dict.fromkeys(("sequence", "item", "order")), ["Activity", "Case ID"])]
    ['Case ID', 'Activity']
    """
    for program, (sequence, item, times) in FAMILIES.items():
        names = {
            "sequence": asked["sequence"] or named_like(sequence, found),
            "item": asked["item"] or named_like(item, found),
        }
        if None in names.values():
            continue
        order = next((x for t in times if (x := named_like(t, found))), None)
        names["order"] = asked["order"] or ("order" if "order" in found else order)
        why = f"columns are called as in {program}"
        return tuple(
            Guess(role, name, why)
            for role, name in names.items()
            if name is not None and asked[role] is None and name != role
        )
    return ()


def named_like(wanted: str, found: list[str]) -> str | None:
    """The one column of this name, however its words are joined and whatever its letters' case."""
    if wanted in found:
        return wanted
    alike = [x for x in found if bare(x) == bare(wanted)]
    return alike[0] if len(alike) == 1 else None


def bare(name: str) -> str:
    """A column's name without what joins its words.

    >>> bare("Case ID"), bare("case_id"), bare("case:concept:name")
    ('caseid', 'caseid', 'case:concept:name')
    """
    return "".join(c for c in name.casefold() if c.isalnum() or c == ":")
