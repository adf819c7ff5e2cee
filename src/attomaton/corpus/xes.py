"""XES, the exchange format of process mining: an XML file of traces with events, read as a table with one event a row.

    <log><trace>  <string key="concept:name" value="case 7"/>
                  <event> <string key="concept:name" value="pay"/> <date key="time:timestamp" value="…"/> </event>
    </trace></log>

Attributes of an event are columns by their key, those of a trace by `case:` and their key, as everywhere in process
mining. The file is walked twice, never held: once for the names of columns, once for the columns that are needed. A
document type, with which a small file could grow without bound or ask for other files, is refused.
"""

from array import array
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np

from attomaton.base.lazily import pa
from attomaton.corpus.tables import LONGEST
from attomaton.corpus.text import BLOCK
from attomaton.disk.doors import check_memory, data_stream
from attomaton.errors import DataError, visible

CASE, TIME = "case:concept:name", "time:timestamp"
DEEPEST = 200  # elements inside each other
MOST_KEYS = 10_000  # different attributes
MOST_KINDS = 1000  # different sets of attributes that are held at a time
CHECKED = 1 << 14  # events after which memory is looked at
LOG, TRACE, EVENT = 1, 2, 3  # how deep these elements lie

Event = dict[str, str]


def xes_table(path: Path, choose: Callable[[list[str]], Collection[str]]) -> tuple[Any, list[str]]:
    """The chosen columns of an XES log, as texts; and the names of all columns.

    Times that some events lack are no column to go by: such a log stays in its own order.
    """
    keys = _Keys()
    _walk(path, keys)
    keys.count()
    if not keys.events:
        raise DataError("no events: the log has none.")
    above = dict.fromkeys([CASE, *keys.above])
    names = [*above, *(k for k in keys.seen if k not in above)]
    offered = [k for k in names if k != TIME or keys.seen[TIME] == keys.events]
    columns = _Columns(path, sorted(set(choose(offered))), above)
    _walk(path, columns)
    return pa.table({k: columns.column(k) for k in columns.wanted}), names


class _Keys:
    """The attributes there are, and how many events have each."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        # Events not counted yet, by the attributes they have
        self.kinds: dict[tuple[str, ...], int] = {}
        self.above: dict[str, None] = {}  # of traces
        self.events = 0

    def event(self, own: Event) -> None:
        self.events += 1
        kind = tuple(own)
        if kind not in self.kinds:
            _check_keys(dict.fromkeys((*self.seen, *kind)))
            self.seen |= {key: 0 for key in kind if key not in self.seen}
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if len(self.kinds) > MOST_KINDS:
            self.count()

    def count(self) -> None:
        """Add up what events of each kind have."""
        for kind, many in self.kinds.items():
            for key in kind:
                self.seen[key] += many
        self.kinds.clear()

    def trace(self, own: Event) -> None:
        self.above |= dict.fromkeys(f"case:{k}" for k in own)
        _check_keys(self.above)


class _Columns:
    """The values of some columns, each text kept once; those of a trace stand at each of its events."""

    def __init__(self, path: Path, wanted: list[str], above: Collection[str]):
        self.path, self.wanted = path, wanted
        self.above = [k for k in wanted if k in above]
        self.own = [k for k in wanted if k not in above]
        self.codes = {k: array("i") for k in wanted}
        self.texts: dict[str, dict[str, int]] = {k: {} for k in wanted}
        self.traces, self.events, self.before, self.held = 0, 0, 0, 0

    def event(self, own: Event) -> None:
        self.events += 1
        for key in self.own:
            self.codes[key].append(self._code(key, own.get(key)))
        if not self.events % CHECKED:
            check_memory(self.path, self.held + 16 * len(self.wanted) * self.events)

    def trace(self, own: Event) -> None:
        self.traces += 1
        given = {CASE: f"trace {self.traces}", **{f"case:{k}": v for k, v in own.items()}}
        for key in self.above:
            code = array("i", [self._code(key, given.get(key))])
            self.codes[key].extend(code * (self.events - self.before))
        self.before = self.events

    def _code(self, key: str, value: str | None) -> int:
        if not value:
            return -1
        texts = self.texts[key]
        code = texts.get(value)
        if code is None:
            code = texts[value] = len(texts)
            self.held += 100 + 4 * len(value)
        return code

    def column(self, key: str) -> Any:
        code = np.frombuffer(self.codes[key], dtype=np.int32)
        texts = pa.array(list(self.texts[key]), pa.large_string())
        coded = pa.array(np.maximum(code, 0), mask=code < 0)
        return pa.DictionaryArray.from_arrays(coded, texts).cast(pa.large_string())


def _check_keys(keys: Collection[str]) -> None:
    if len(keys) > MOST_KEYS:
        raise DataError(f"more than {MOST_KEYS:,} different attributes.")


class _Elements:
    """Elements as they begin and end, told as events and traces."""

    def __init__(self, told: _Keys | _Columns):
        self.told, self.depth = told, 0
        self.inside = ["", "", "", ""]  # the names of the elements around, as deep as they matter
        self.trace: Event = {}
        self.event: Event = {}

    def start(self, name: str, given: dict[str, str]) -> None:
        self.depth += 1
        if self.depth == EVENT + 1:  # most of a log
            if "key" in given and "value" in given and self.inside[EVENT] == "event":
                self.event[given["key"]] = given["value"]
                _check_keys(self.event)
        elif self.depth <= EVENT:
            self._outer(name.rpartition(" ")[2], given)  # behind its namespace
        elif self.depth > DEEPEST:
            raise DataError(f"more than {DEEPEST} elements inside each other.")

    def _outer(self, name: str, given: dict[str, str]) -> None:
        self.inside[self.depth] = name
        if self.depth == LOG and name != "log":
            raise DataError(f"no XES log: it begins with <{visible(name, 40)}>, not with <log>.")
        if self.depth == TRACE:
            self.trace = {}
            if name == "event":
                raise DataError("an event outside every trace: nobody knows what it belongs to.")
        elif self.depth == EVENT and name == "event":
            self.event = {}
        elif self.depth == EVENT and "key" in given and "value" in given:
            self.trace[given["key"]] = given["value"]
            _check_keys(self.trace)

    def end(self, name: str) -> None:
        if self.depth <= EVENT and self.inside[TRACE] == "trace":
            if self.depth == TRACE:
                self.told.trace(self.trace)
            elif self.depth == EVENT and self.inside[EVENT] == "event":
                self.told.event(self.event)
        self.depth -= 1

    def refuse(self, *declared: object) -> None:
        raise DataError("a document type (<!DOCTYPE …>), which no XES log has; remove it.")


def _walk(path: Path, told: _Keys | _Columns) -> None:
    """Tell of all traces of a file, one after the other."""
    parser, handler = expat.ParserCreate(namespace_separator=" "), _Elements(told)
    parser.StartElementHandler = handler.start
    parser.EndElementHandler = handler.end
    parser.StartDoctypeDeclHandler = handler.refuse
    parser.EntityDeclHandler = handler.refuse
    fed = 0
    try:
        with data_stream(path) as file:
            while block := file.read(BLOCK):
                parser.Parse(block)
                fed += len(block)
                if fed - max(parser.CurrentByteIndex, 0) > LONGEST:
                    raise DataError(f"an element of more than {LONGEST:,} bytes.")
        if not fed:
            raise DataError("no events: the file is empty.")
        parser.Parse(b"", True)
    except (expat.ExpatError, LookupError, ValueError) as fault:
        if isinstance(fault, DataError):
            raise
        raise DataError(f"broken XML ({fault}).") from None
