"""How a file is to be read, as one record; and how it was read.

Which option goes with which format:

    context                      all but JSONL, whose rows are contexts already
    sequence item order dates    event logs
    delimiter                    event logs in lines (.csv, .tsv)
    split tokenizer              plain text
"""

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol, runtime_checkable

from attomaton.corpus.files import EVENTS, LOGS, SEPARATED, check_content, format_of
from attomaton.corpus.guesses import Guess
from attomaton.corpus.ordering import Ordering
from attomaton.corpus.times import DATES
from attomaton.disk.records import absent
from attomaton.errors import UsageError, one_of, whole_number

SPELLED = {"tab": "\t", "\\t": "\t", "space": " "}  # delimiters that are awkward to type


@runtime_checkable
class Found(Protocol):
    """What was found out while a file was read."""

    @property
    def ordering(self) -> Ordering | None: ...  # noqa: D102

    @property
    def guesses(self) -> tuple[Guess, ...]: ...  # noqa: D102


@dataclass(frozen=True, repr=False)
class Reading:
    """How a file is to be read. The file's suffix says its format, unless `format` does.

    - `.jsonl`, `.ndjson`: one object `{"tokens": [...], "next": ..., "weight": ...}` a line, with
      weight 1 where none is given. The rows are contexts already: `context` has no place here.
    - `.csv`, `.tsv`, `.parquet`: an event log. `sequence`, `item` and `order` name its columns (by
      default they are called just that). Events are sorted by `order` inside their sequence, numbers
      by size and times by time, all of one form; `dates` ("day-first", "month-first") says what
      2/3/2024 is. Without such a column the file's order counts. What was done is in `ordering`, and is
      told to the logger "attomaton". A label's context is the up to `context` events before it in its
      sequence. Integer items stay integers.
      `delimiter` is what stands between the values of a line ("tab" and "space" in words). Columns that are called
      as programs of process mining call them are known without options; what was taken for what is in `guesses`.
    - `.xes`: a log of process mining, read as an event log with columns `case:concept:name`, `concept:name`, …
    - `.spmf`: a sequence a line, `-1` behind each set of items and `-2` at the end.
    - `format="events"`: one event a line, blank lines between sequences.
    - anything else: plain text. `split` says what its documents are ("stream", "lines" or
      "paragraphs", see `attomaton.corpus.text`), `tokenizer` what a token is ("words", "lower", "chars" or
      a file, see `attomaton.corpus.tokenisers`). By default it is one stream of words with `<eos>` for each
      line end, cut into windows of `context` words.

    In JSON, and in what decides whether work can be resumed, stand the options that were given.
    """

    context: int | None = absent()
    format: str | None = absent()  # text, jsonl, csv, tsv, parquet, xes, spmf or events
    sequence: str | None = absent()
    item: str | None = absent()
    order: str | None = absent()
    dates: str | None = absent()
    split: str | None = absent()
    tokenizer: str | os.PathLike[str] | None = absent()  # kept as a text
    delimiter: str | None = absent()

    def __post_init__(self) -> None:
        """Refuse what a program may pass by mistake and a command line cannot."""
        if isinstance(self.tokenizer, os.PathLike):
            object.__setattr__(self, "tokenizer", os.fspath(self.tokenizer))
        for name in OPTIONS[1:]:
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise UsageError(f"{name}={value!r:.60}: a word is needed.")
        if self.context is not None:
            object.__setattr__(self, "context", whole_number("context", self.context))

    def __repr__(self) -> str:
        """Python code that reads a file the same way.

        >>> Reading(context=8, split="lines")
        Reading(context=8, split='lines')
        """
        return f"Reading({', '.join(f'{name}={value!r}' for name, value in self.given.items())})"

    @property
    def given(self) -> dict[str, int | str]:
        """The options that were given, by name."""
        return {name: value for name in OPTIONS if (value := getattr(self, name)) is not None}

    @property
    def words(self) -> list[str]:
        """The same as options of the command line.

        >>> Reading(context=8, split="lines").words
        ['--context', '8', '--split', 'lines']
        """
        return [word for name, value in self.given.items() for word in (f"--{name}", str(value))]

    @property
    def window(self) -> int:
        """The context of a file for which `check` saw that it is there."""
        assert self.context is not None
        return self.context

    @property
    def splitting(self) -> str:
        """What the documents of a text are."""
        return self.split or "stream"

    @property
    def tokenising(self) -> str:
        """What a token of a text is."""
        return os.fspath(self.tokenizer or "words")

    @property
    def columns(self) -> dict[str, str | None]:
        """The columns of an event log by the role they play."""
        return {"sequence": self.sequence, "item": self.item, "order": self.order}

    def over(self, other: "Reading") -> "Reading":
        """These options, and those of the other one where these say nothing."""
        own = self.given
        return Reading(**{x: getattr(self if x in own else other, x) for x in OPTIONS})

    def done(self, found: "Found") -> "ReadAs":
        """What is kept of a file that was read so: these options, its rows' order, and what was guessed."""
        return ReadAs(
            **{x: getattr(self, x) for x in OPTIONS},
            ordering=found.ordering, guesses=found.guesses or None,
        )  # fmt: skip

    def separator(self, kind: str) -> str:
        """What stands between the values of a line."""
        said = self.delimiter
        return SEPARATED[kind] if said is None else SPELLED.get(said, said)

    def check(self, path: Path) -> str:
        """The format of a file that holds what it should, and with which these options make sense."""
        kind = format_of(path, self.format)
        check_content(path, self.format)
        what = f"--format {self.format}"
        if self.format is None:
            what = f"a {path.suffix.lower() or kind} file"
        cutting = [f"--{name}" for name in ("split", "tokenizer") if name in self.given]
        if cutting and kind != "text":
            raise UsageError(
                f"{path}: {', '.join(cutting)} says how to cut plain text, and {what} is cut already."
            )
        if self.split is not None:
            from attomaton.corpus.text import SPLITS

            one_of("split", self.split, SPLITS)
        if self.dates is not None:
            one_of("dates", self.dates, DATES)
        if self.delimiter is not None:
            self._check_delimiter(path, kind)
        named = [f"--{role}" for role, name in self.columns.items() if name is not None]
        if named and kind not in LOGS:
            raise UsageError(
                f"{path}: {', '.join(named)} names a column, and only event logs "
                f"({', '.join(EVENTS)}) have columns."
            )
        if self.dates is not None and kind not in LOGS:
            raise UsageError(
                f"{path}: --dates says how an event log ({', '.join(EVENTS)}) writes its dates."
            )
        if kind == "jsonl":
            if self.context is not None:
                raise UsageError(
                    f"{path}: --context {self.context} has no meaning here, the rows of {what} "
                    "already are contexts. Leave it out."
                )
        elif self.context is None:
            noun = "plain text" if kind == "text" else "an event log"
            raise UsageError(f"{path}: {noun} is cut into contexts of N tokens; say --context N.")
        elif self.context < 1:
            raise UsageError(f"{path}: --context must be at least 1, not {self.context}.")
        return kind

    def _check_delimiter(self, path: Path, kind: str) -> None:
        if kind not in SEPARATED:
            what = f"a {path.suffix.lower()} file" if path.suffix else f"what holds {kind}"
            raise UsageError(
                f"{path}: --delimiter says what separates the values of a table in lines, and {what} "
                "is none. For such a table under another name, say --format csv as well."
            )
        mark = self.separator(kind)
        if len(mark) != 1 or not mark.isascii() or mark in '"\r\n' or mark.isalnum():
            raise UsageError(
                f"--delimiter {self.delimiter!r}: one character is needed, neither letter, digit nor quote, "
                f"or {' or '.join(SPELLED)}."
            )


OPTIONS = tuple(one.name for one in fields(Reading))
AS_NAMED = Reading()  # as the suffix says, no option given


@dataclass(frozen=True, repr=False)
class ReadAs(Reading):
    """How a file was read: as was asked, how rows were put in order, and what was guessed."""

    ordering: Ordering | None = absent()
    guesses: tuple[Guess, ...] | None = absent()
