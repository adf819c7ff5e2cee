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
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from attomaton.corpus.files import SUFFIXES as FORMAT_OF
from attomaton.corpus.files import suffix_of
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import AS_NAMED, OPTIONS, Reading
from attomaton.corpus.windows import Windows
from attomaton.disk.formats import to_json, write_json
from attomaton.disk.records import read_record
from attomaton.disk.storage import KIND_FILE, read_mark, write_whole
from attomaton.errors import AttomatonError, DataError, UsageError
from attomaton.folders.look import is_marked, ours

SUFFIXES = (*FORMAT_OF, ".txt")
TOKENISERS = ("words", "lower", "chars")
MOST_BYTES = 64 << 20  # of one upload
EXAMPLE = "example"
_ID = re.compile(r"[0-9a-f]{16}|example")


@dataclass(frozen=True)
class Item:
    """One thing on the shelf; `kind` is data, model, run, sweep, verification or predictor."""

    id: str
    kind: str
    title: str
    path: Path
    reading: Reading = AS_NAMED

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


class Shelf:
    """All items: the example, what was opened at the start, what was pasted, what lies in the workspace."""

    def __init__(self, workspace: Path):
        self.workspace = workspace
        self._opened: dict[str, Item] = {EXAMPLE: _example()}

    def open(self, path: Path | str, reading: Reading = AS_NAMED) -> Item:
        """Put a file or one of our folders on the shelf; only the command line calls this."""
        path = Path(path)
        if not path.exists():
            raise DataError(f"{path}: no such file or folder.")
        if not path.is_dir() and not path.is_file():
            raise DataError(f"{path}: not a plain file; copy what it gives into one.")
        item = _folder(path) if path.is_dir() else _file(path, reading)
        self._opened[item.id] = item
        return item

    def add(self, name: str, content: bytes, reading: Mapping[str, Any]) -> Item:
        """Keep pasted or uploaded data, if they can be read; the same bytes read the same way are one item."""
        if len(content) > MOST_BYTES:
            raise UsageError(
                f"{len(content) >> 20} MB at once are too many: at most {MOST_BYTES >> 20} MB."
            )
        suffix = suffix_of(Path(name))  # what is compressed is known by its bytes
        suffix = suffix if suffix in SUFFIXES else ".txt"
        title = (
            "".join(c for c in Path(name.replace("\\", "/")).name if c.isprintable())[:80] or "data"
        )
        asked = _checked(reading)
        mark = sha256(content + to_json([suffix, asked], indent=None).encode()).hexdigest()[:16]
        folder = self.workspace / "data"
        folder.mkdir(parents=True, exist_ok=True)
        item = Item(mark, "data", title, folder / f"{mark}{suffix}", asked)
        fresh = not item.path.exists()
        write_whole(item.path, lambda path: path.write_bytes(content))
        try:
            item.windows()
        except AttomatonError:
            if fresh:
                item.path.unlink()
            raise
        kept = _Kept(title, suffix, asked)
        write_whole(folder / f"{mark}.json", lambda path: write_json(path, kept))
        return item

    def find(self, id: str) -> Item:
        """The item of an id."""
        if _ID.fullmatch(id):
            for item in self.items():
                if item.id == id:
                    return item
        raise UsageError("nothing is open under this address; choose something on the start page.")

    def items(self) -> list[Item]:
        """Everything that can be opened now; what was opened at the start comes first."""
        found = {
            item.id: item
            for item in [*reversed(self._opened.values()), *self._kept(), *self._folders()]
        }
        return list(found.values())

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
            if not path.is_file():
                continue  # a pipe would be waited for
            try:
                kept = read_record(path, _Kept)
                asked = _allowed(kept.reading)
            except AttomatonError:
                continue  # not ours
            file = path.with_suffix(kept.suffix if kept.suffix in SUFFIXES else ".txt")
            if _ID.fullmatch(path.stem) and file.is_file() and not file.is_symlink():
                yield Item(path.stem, "data", kept.title, file, asked)

    def _folders(self) -> Iterator[Item]:
        """Folders of ours below the workspace, but for the models of data that are on the shelf themselves."""
        own, place = self.workspace / "models", self.workspace
        for root in {place, place.parent} if place.name == "lab" else {place}:
            for path in ours(root):
                if is_marked(path) and path.parent != own and not path.name.startswith("."):
                    with suppress(AttomatonError):
                        yield _folder(path)


def folder_id(path: Path) -> str:
    """The id of a folder on the shelf."""
    return sha256(str(path.resolve()).encode()).hexdigest()[:16]


def named(item: Item, call: Any, *arguments: Any, **options: Any) -> Any:
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


def _folder(path: Path) -> Item:
    if not is_marked(path):
        raise DataError(f"{path}: not a folder of attomaton (no {KIND_FILE} in it).")
    return Item(
        folder_id(path),
        read_mark(path).kind,
        path.name if path.name != "model" else f"{path.parent.name}/model",
        path,
    )


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
