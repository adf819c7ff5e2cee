"""What the lab can open: data, models, runs, each under an id the server made.

A page only ever names ids. What an id stands for, a file or a folder, is known here alone, so that no path a browser
sends reaches the file system. Data that are pasted or uploaded are kept in the workspace under their own hash:

    WORKSPACE/data/ID.SUFFIX   the bytes as they came
              data/ID.json     title, suffix, how to read them
              models/ID/       their fitted model, as `attomaton fit` writes it
              runs/…           runs started in the page
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from attomaton.corpus.files import SUFFIXES as FORMAT_OF
from attomaton.corpus.files import identity, suffix_of
from attomaton.corpus.looks import Look, look_at_file
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import AS_NAMED, OPTIONS, Reading
from attomaton.corpus.windows import Windows
from attomaton.disk.formats import to_json, write_json
from attomaton.disk.records import read_record
from attomaton.disk.storage import KIND_FILE, read_mark, write_whole
from attomaton.errors import AttomatonError, DataError, UsageError
from attomaton.folders.look import is_marked, ours
from attomaton.lab.labels import Label, Labels
from attomaton.scan_snap.trajectory import LEVELS

SUFFIXES = (*FORMAT_OF, ".txt")
TOKENISERS = ("words", "lower", "chars")
MOST_BYTES = 64 << 20  # of one upload
EXAMPLE = "example"
HOMES = {"sweep": "/sweep", "verification": "/claims", "predictor": "/automaton", "probe": "/probe"}
_ID = re.compile(r"[0-9a-f]{16}|example")


@dataclass(frozen=True)
class Item:
    """One thing on the shelf; `kind` is data, model, run, sweep, verification, probe or predictor.

    Data whose `reading` was only guessed are not `decided`: somebody has to look at it before anything is fitted.
    """

    id: str
    kind: str
    title: str
    path: Path
    reading: Reading = AS_NAMED
    decided: bool = True

    @property
    def home(self) -> str:
        """The screen it opens on: its own, or the first one, where its model is shown."""
        if self.kind == "data" and not self.decided:
            return "/data"
        if self.kind != "run":
            return HOMES.get(self.kind, "/")
        if (self.path / "model" / KIND_FILE).is_file():
            return "/"
        if (self.path / "metrics.parquet").is_file():
            return "/training"
        dynamics = any((self.path / f"{level}.parquet").is_file() for level in LEVELS)
        return "/scan-snap" if dynamics else "/runs"

    def look(self) -> Look:
        """What the file seems to be; what its reading says is not guessed."""
        return cast(Look, named(self, look_at_file, self.path))

    def windows(self) -> Windows:
        """The contexts of a data item; an error names the data by its title, not by where it is kept."""
        if self.kind != "data":
            raise UsageError(f"{self.title} is a {self.kind}, not a data set.")
        return named(self, read_windows, self.path, self.reading)


@dataclass(frozen=True)
class _Kept:
    """What lies beside data that were pasted or uploaded."""

    title: str
    suffix: str
    reading: Reading
    decided: bool = True


class Shelf:
    """All items: the example, what was opened at the start, what was pasted, what lies in the workspace."""

    def __init__(self, workspace: Path):
        self.workspace, self.labels = workspace, Labels(workspace)
        self._opened: dict[str, Item] = {EXAMPLE: _example()}
        self._seen: dict[Path, tuple[object, Item | None]] = {}

    def open(self, path: Path | str, reading: Reading = AS_NAMED) -> Item:
        """Put a file or one of our folders on the shelf; only the command line calls this.

        Where the options do not say how a file is read, the rest is guessed, and waits to be looked at.
        """
        path = Path(path)
        if not path.exists():
            raise DataError(f"{path}: no such file or folder.")
        if not path.is_dir() and not path.is_file():
            raise DataError(f"{path}: not a plain file; copy what it gives into one.")
        item = _folder(path) if path.is_dir() else _file(path, reading)
        if item.kind == "data" and (guessed := look_at_file(path, reading)).wanting:
            item = replace(_file(path, guessed.reading), decided=False)
        self._opened[item.id] = item
        return item

    def receive(self, name: str, content: bytes) -> Item:
        """Keep what was dropped, its reading guessed; rows, which can be read in one way only, are read at once."""
        if not content.strip():
            raise DataError(f"{_title(name)}: there is nothing in it.")
        suffix = _suffix(name, content)
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"dropped{suffix}"
            path.write_bytes(content)
            look = Item("", "data", _title(name), path).look()
        if look.format == "jsonl":
            return self.add(name, content, look.reading.given)
        return self._keep(_title(name), suffix, content, look.reading, decided=False)

    def add(self, name: str, content: bytes, reading: Mapping[str, Any]) -> Item:
        """Keep pasted or uploaded data, if they can be read; the same bytes read the same way are one item."""
        suffix = _suffix(name, content)
        return self._keep(_title(name), suffix, content, _checked(reading), decided=True)

    def read_as(self, item: Item, reading: Mapping[str, Any]) -> Item:
        """The same data read in this way, if they can be; what waited for that makes room."""
        asked = _checked(reading)
        if item.path.parent != self.workspace / "data":
            other = replace(_file(item.path, asked), title=item.title)
            other.windows()
            if not item.decided:
                self._opened.pop(item.id, None)
            elif other.id != item.id:
                other = replace(other, title=self._free(item.title, other.id))
            self._opened[other.id] = other
            return other
        content, waits = item.path.read_bytes(), not item.decided
        other = self._keep(
            item.title, item.path.suffix, content, asked, decided=True, instead=waits
        )
        if waits and item.id != other.id:
            for suffix in (".json", item.path.suffix):
                item.path.with_suffix(suffix).unlink(missing_ok=True)
        return other

    def _keep(
        self,
        title: str,
        suffix: str,
        content: bytes,
        reading: Reading,
        *,
        decided: bool,
        instead: bool = False,
    ) -> Item:
        mark = sha256(content + to_json([suffix, reading], indent=None).encode()).hexdigest()[:16]
        folder = self.workspace / "data"
        folder.mkdir(parents=True, exist_ok=True)
        known = self._record(folder / f"{mark}.json")
        known = known if known is not None and known.path.is_file() else None
        if known is not None and known.title.startswith(title) and (known.decided or not decided):
            return known
        item = Item(mark, "data", title, folder / f"{mark}{suffix}", reading, decided)
        fresh = not item.path.exists()
        write_whole(item.path, lambda path: path.write_bytes(content))
        try:
            if decided:
                item.windows()
        except AttomatonError:
            if fresh:
                item.path.unlink()
            raise
        if not instead:
            item = replace(item, title=self._free(title, mark))
        kept = _Kept(item.title, suffix, reading, decided)
        write_whole(folder / f"{mark}.json", write_json, kept)
        return item

    def _free(self, title: str, id: str) -> str:
        """A title that no other data have."""
        others = {i.title for i in (*self._opened.values(), *self._kept()) if i.id != id}
        names = (title, *(f"{title} ({n})" for n in range(2, len(others) + 3)))
        return next(name for name in names if name not in others)

    def find(self, id: str) -> Item:
        """The item of an id."""
        if _ID.fullmatch(id):
            for item in self.items():
                if item.id == id:
                    return item
        raise UsageError("nothing is open under this address; choose something on the start page.")

    def items(self) -> list[Item]:
        """Everything that can be opened now; what was opened at the start comes first."""
        every = [*reversed(self._opened.values()), *self._kept(), *self._folders()]
        found = {item.id: item for item in every}
        given = self.labels.all()
        named = [replace(x, title=given.get(x.id, Label()).name or x.title) for x in found.values()]
        return told_apart(named)

    def model_folder(self, item: Item) -> Path:
        """Where the model of an item is, or will be once it is fitted."""
        if item.kind == "model":
            return item.path
        if item.kind == "run" and (item.path / "model" / KIND_FILE).is_file():
            return item.path / "model"
        if item.kind == "data":
            return self.workspace / "models" / item.id
        raise UsageError(
            f"{item.title} is a {item.kind} without a model; open the model or its data."
        )

    def _kept(self) -> Iterator[Item]:
        for path in sorted((self.workspace / "data").glob("*.json")):
            item = self._record(path)
            if item is not None and item.path.is_file() and not item.path.is_symlink():
                yield item

    def _record(self, path: Path) -> Item | None:
        """What the record beside data says; each is read once, as long as it stays as it is."""
        if not _ID.fullmatch(path.stem) or not path.is_file():  # a pipe would be waited for
            return None
        state = identity(path)
        if self._seen.get(path, (None, None))[0] != state:
            found = None
            with suppress(AttomatonError):  # not ours
                kept = read_record(path, _Kept)
                file = path.with_suffix(kept.suffix if kept.suffix in SUFFIXES else ".txt")
                asked = _allowed(kept.reading)
                found = Item(path.stem, "data", kept.title, file, asked, kept.decided)
            self._seen[path] = (state, found)
        return self._seen[path][1]

    def _folders(self) -> Iterator[Item]:
        """Folders of ours below the workspace, but for the models of data that are on the shelf themselves."""
        own, place = self.workspace / "models", self.workspace
        for root in {place, place.parent} if place.name == "lab" else {place}:
            for path in ours(root):
                if is_marked(path) and path.parent != own and not path.name.startswith("."):
                    with suppress(AttomatonError):
                        yield _folder(path)


def told_apart(items: list[Item]) -> list[Item]:
    """Items no two of which have one title: to those that share one the folder they lie in is added, or their ids."""
    for part in ("folder", "id"):
        alike: dict[str, list[Item]] = {}
        for item in items:
            alike.setdefault(item.title, []).append(item)
        named = {}
        for title, some in alike.items():
            parents = {item.path.parent.name for item in some}
            for item in some if len(some) > 1 else ():
                if part == "id":
                    named[item.id] = f"{title} · {item.id[:4]}"
                elif len(parents) == len(some):
                    named[item.id] = f"{title} in {item.path.parent.name}"
        items = [replace(item, title=named.get(item.id, item.title)) for item in items]
    return items


def folder_id(path: Path) -> str:
    """The id of a folder on the shelf."""
    return sha256(str(path.resolve()).encode()).hexdigest()[:16]


def named(item: Item, call: Any, /, *arguments: Any, **options: Any) -> Any:
    """Call something that reads an item's file; its errors speak of the item's title."""
    try:
        return call(*arguments, **options)
    except AttomatonError as error:
        raise type(error)(str(error).replace(str(item.path), item.title)) from error


def _example() -> Item:
    with as_file(files("attomaton.corpus") / "example.jsonl") as path:
        return Item(EXAMPLE, "data", "Café counter (example)", Path(path))


def _file(path: Path, reading: Reading) -> Item:
    seen = path.stat()
    key = to_json([str(path.resolve()), seen.st_size, seen.st_mtime_ns, reading], indent=None)
    return Item(sha256(key.encode()).hexdigest()[:16], "data", path.name, path, reading)


def _suffix(name: str, content: bytes) -> str:
    """The suffix under which data are kept; data that are too many are refused."""
    if len(content) > MOST_BYTES:
        raise UsageError(
            f"{len(content) >> 20} MB at once are too many: at most {MOST_BYTES >> 20} MB."
        )
    suffix = suffix_of(Path(name))  # what is compressed is known by its bytes
    return suffix if suffix in SUFFIXES else ".txt"


def _title(name: str) -> str:
    """What uploaded data are called: the last step of a name, without what cannot be seen."""
    found = Path(name.replace("\\", "/")).name
    return "".join(c for c in found if c.isprintable())[:80] or "data"


def _folder(path: Path) -> Item:
    if not is_marked(path):
        raise DataError(f"{path}: not a folder of attomaton (no {KIND_FILE} in it).")
    title = path.name if path.name != "model" else f"{path.parent.name}/model"
    return Item(folder_id(path), read_mark(path).kind, title, path)


def _checked(reading: Mapping[str, Any]) -> Reading:
    """Settings a page may ask for: names of columns, a number, a tokeniser of ours; never a file."""
    given = {k: v for k, v in reading.items() if v not in (None, "")}
    unknown = set(given) - set(OPTIONS)
    if unknown:
        raise UsageError(f"no such setting: {', '.join(sorted(unknown))}.")
    strange = [k for k, v in given.items() if type(v) is not (int if k == "context" else str)]
    if strange:
        raise UsageError(f"{', '.join(strange)}: context is a whole number, all else are words.")
    return _allowed(Reading(**given))


def _allowed(asked: Reading) -> Reading:
    if asked.tokenising not in TOKENISERS:
        raise UsageError(f"tokenizer: one of {', '.join(TOKENISERS)}.")
    return asked
