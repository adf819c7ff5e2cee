"""Names and tags that people give to items, kept beside them: a folder stays where it is, and so do its links."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from attomaton.disk.formats import write_json
from attomaton.disk.records import read_record
from attomaton.disk.storage import write_whole
from attomaton.errors import AttomatonError, UsageError

LONGEST, MOST = 80, 12  # characters of a name or a tag; tags of one item


@dataclass(frozen=True)
class Label:
    """What an item was called, and its tags."""

    name: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Kept:
    items: Mapping[str, Label] = field(default_factory=dict)


class Labels:
    """The labels of a workspace, in one file."""

    def __init__(self, workspace: Path):
        self._path, self._lock = workspace / "labels.json", Lock()

    def all(self) -> Mapping[str, Label]:
        """The labels there are, by id; a file that is damaged has none."""
        if not self._path.is_file():
            return {}
        try:
            return read_record(self._path, _Kept).items
        except AttomatonError:
            return {}

    def of(self, id: str) -> Label:
        """The label of an item."""
        return self.all().get(id, Label())

    def rename(self, id: str, name: str) -> None:
        """Call an item so; by its own name again, where this is empty."""
        self._put(id, replace(self.of(id), name=_checked(name)))

    def tag(self, id: str, text: str) -> None:
        """Give an item these tags, with commas between them."""
        tags = tuple(dict.fromkeys(filter(None, (_checked(x) for x in text.split(",")))))
        if len(tags) > MOST:
            raise UsageError(f"{len(tags)} tags: {MOST} are the most.")
        self._put(id, replace(self.of(id), tags=tags))

    def forget(self, id: str) -> None:
        """Take the label of an item away."""
        self._put(id, Label())

    def _put(self, id: str, label: Label) -> None:
        with self._lock:
            items = {k: v for k, v in self.all().items() if k != id}
            if label != Label():
                items[id] = label
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, write_json, _Kept(items))


def _checked(text: str) -> str:
    found = " ".join(text.split())
    if len(found) > LONGEST:
        raise UsageError(f"{found[:20]}…: {LONGEST} characters are the most.")
    return found
