"""What folders of ours hold, by name, and deleting exactly that: what somebody else put there is named, never touched.

A finished folder holds what its manifest lists; one that is being filled, or that grows where it lies, holds names that
the makers of its kind write (`disk.kinds`). No link is ever followed: one that lies where a file or folder of ours
should be is somebody else's.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path

from attomaton.disk.kinds import KINDS
from attomaton.disk.ledger import LEDGER
from attomaton.disk.manifest import MANIFEST, listed_names
from attomaton.errors import AttomatonError, UsageError, visible

KIND_FILE = "attomaton.json"  # marks a folder as ours and says what it holds
LOCK_FILE = ".lock"
CONFIG_FILE = "config.json"  # what a work folder is for
MARKS = (KIND_FILE, CONFIG_FILE, LOCK_FILE)  # one of them is in every folder that we may empty
# In no manifest: equal models have equal ones, whenever they were made.
UNLISTED = (KIND_FILE, LOCK_FILE, LEDGER)

LONGEST = 200  # bytes of a name to which something can still be added
CREATE = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY  # a new file, whatever lies there

_TORN = re.compile(r"((?:.*/)?)\.([^/]+)\.[0-9a-f]{16}\.attomaton")  # while `write_whole` writes it
# What safetensors writes before it is renamed; in work folders alone, where nobody else writes.
_TORN_ARRAYS = re.compile(r"((model|checkpoints|corpus)/)?\.tmp[A-Za-z0-9]{6}")
_TORN_BEFORE = re.compile(r"((?:.*/)?)\.([^/]+)\.\d+")  # as earlier versions wrote it


def torn_name(name: str) -> str:
    """A name for a file while it is written: nobody's else, and not to be guessed."""
    if len(os.fsencode(name)) > LONGEST:
        name = "file"
    return f".{name}.{os.urandom(8).hex()}.attomaton"


class _Names:
    """Which names, relative to a folder, are ours."""

    def __init__(self, folder: Path, kind: str | None):
        self.kind = kind  # of a finished folder
        self.growing = found if (found := KINDS.get(kind or "")) and found.grows else None
        try:
            self.listed = set(listed_names(folder))
        except AttomatonError:
            self.listed = set()
        self.folders = {
            name[:i] for name in self.listed for i, letter in enumerate(name) if letter == "/"
        }

    def __contains__(self, name: str) -> bool:
        if name in self.listed or name in self.folders or name in (*UNLISTED, MANIFEST):
            return True
        if (torn := _TORN.fullmatch(name) or _TORN_BEFORE.fullmatch(name)) is not None:
            return torn[1] + torn[2] in self
        if self.growing is not None:
            return self.growing.holds(name)
        if self.kind is not None and self.listed and not _is_tree(name):
            return _is_passing(name) and is_known(name)
        return is_known(name) or _TORN_ARRAYS.fullmatch(name) is not None


def is_known(name: str) -> bool:
    """Whether our commands write a file or folder of this name, which is relative to the folder of a command."""
    top, _, rest = name.partition("/")
    if rest and any(top in kind.inner for kind in KINDS.values()):
        return is_known(rest)
    return name in (*MARKS, MANIFEST, LEDGER) or any(kind.holds(name) for kind in KINDS.values())


def _is_tree(name: str) -> bool:
    """Whether our commands make a folder of this name, which no manifest lists; also in an inner folder of ours."""
    last = name.rpartition("/")[2]
    return is_known(name) and any(
        last in kind.inner or kind.files.get(last) for kind in KINDS.values()
    )


def _is_passing(name: str) -> bool:
    """Whether this is needed for the work alone; a process killed in its last act may leave it in a finished folder."""
    top = name.partition("/")[0]
    scratch = (pattern for kind in KINDS.values() for pattern in kind.scratch)
    return name == CONFIG_FILE or any(fnmatchcase(top, pattern) for pattern in scratch)


def strangers(folder: Path, kind: str | None = None) -> list[str]:
    """What lies in a folder of ours that we did not write, links and special files among it.

    `kind` is that of a finished folder: then what its manifest does not list is not ours, whatever its name.
    """
    names, found = _Names(folder, kind), [""]
    for name, entry in _below(folder):
        plain = entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)
        if (name not in names or not plain) and not name.startswith(f"{found[-1]}/"):
            found.append(name)
    return found[1:]


def planted(folder: Path) -> list[str]:
    """What lies in a folder and is neither a file nor a folder: links, pipes and the like, of which we make none."""
    return [
        name
        for name, entry in _below(folder)
        if not entry.is_dir(follow_symlinks=False) and not entry.is_file(follow_symlinks=False)
    ]


def own_files(folder: Path, kind: str) -> list[str]:
    """The files of a folder of this kind that belong into its manifest, by their relative names."""
    names = _Names(folder, kind if kind in KINDS and KINDS[kind].grows else None)
    return [
        name
        for name, entry in _below(folder)
        if entry.is_file(follow_symlinks=False)
        and name in names
        and name not in (*UNLISTED, MANIFEST)
        and not any(torn.fullmatch(name) for torn in (_TORN, _TORN_BEFORE, _TORN_ARRAYS))
    ]


def _below(folder: Path, above: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything below a folder by its relative name, a folder before what it holds."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        yield above + entry.name, entry
        if entry.is_dir(follow_symlinks=False):
            yield from _below(Path(entry.path), f"{above}{entry.name}/")


def named(names: Sequence[str], most: int = 5) -> str:
    """The first few names, for a message."""
    return ", ".join(visible(x) for x in names[:most]) + (", …" if len(names) > most else "")


def is_real_folder(path: Path) -> bool:
    """Whether this is a folder, and no link to one."""
    return (status := status_of(path)) is not None and stat.S_ISDIR(status.st_mode)


def is_real_file(path: Path) -> bool:
    """Whether this is a regular file, and no link to one."""
    return (status := status_of(path)) is not None and stat.S_ISREG(status.st_mode)


def status_of(path: Path) -> os.stat_result | None:
    """What lies at a place, links as themselves; None where nothing does."""
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def refused(path: Path, said: str = "cannot write there") -> Iterator[None]:
    """A block that looks at a place or writes there: what the system refuses is said of that place."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path}: {said} ({error.strerror}).") from error


def is_ours_to_empty(folder: Path) -> bool:
    """Whether a folder is a real one that we made, or an empty one."""
    if not is_real_folder(folder):
        return False
    return any(is_real_file(folder / name) for name in MARKS) or not os.listdir(folder)


def finished_pieces(work: Path) -> set[Path]:
    """The pieces of unfinished work that are finished."""
    patterns = {pattern for kind in KINDS.values() for pattern in kind.pieces}
    return {path for pattern in patterns for path in work.glob(pattern)}


def erase(folder: Path, kind: str | None = None, keep_lock: bool = False) -> None:
    """Delete what is ours in a folder (`kind`: a finished one), and then the folder, unless its lock is kept.

    What is not ours stays, and so does the folder then: `OSError`. What says that it is finished, or what it is for,
    goes first, so that nobody takes up what a kill leaves; the lock goes last: what is left can be told as ours.
    """
    names = _Names(folder, kind)
    handle = open_folder(folder)
    try:
        with suppress(OSError):  # it is there already, or the disk is full
            os.close(os.open(LOCK_FILE, CREATE, 0o666, dir_fd=handle))
        _unlink(handle, KIND_FILE, CONFIG_FILE)
        _empty(handle, "", names, {MANIFEST, LOCK_FILE})
        _unlink(handle, MANIFEST)
        if not keep_lock:
            _unlink(handle, LOCK_FILE)
    finally:
        os.close(handle)
    if not keep_lock:
        os.rmdir(folder)


def _unlink(handle: int, *names: str) -> None:
    for name in names:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=handle)


def erase_matching(folder: Path, patterns: Sequence[str]) -> None:
    """Delete what is ours at the top of a folder and matches one of the patterns."""
    names = _Names(folder, None)
    handle = open_folder(folder)
    try:
        found = os.listdir(handle)
        spared = {x for x in found if not any(fnmatchcase(x, pattern) for pattern in patterns)}
        _empty(handle, "", names, spared)
    finally:
        os.close(handle)


def clear_torn(folder: Path, work: bool = False) -> None:
    """Delete files that killed processes were writing; in a `work` folder also those that only there are ours."""
    for name, entry in list(_below(folder)):
        torn = _TORN.fullmatch(name) or (work and _TORN_BEFORE.fullmatch(name))
        ours = is_known(torn[1] + torn[2]) if torn else work and _TORN_ARRAYS.fullmatch(name)
        if ours and entry.is_file(follow_symlinks=False):
            Path(entry.path).unlink(missing_ok=True)


def _empty(handle: int, above: str, names: _Names, spare: set[str]) -> None:
    """Delete what is ours below an open folder; by handles, so that nobody can put a link in the way."""
    for name in sorted(set(os.listdir(handle)) - spare):
        whole = above + name
        mode = os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
        if whole not in names:
            continue
        if stat.S_ISREG(mode):
            os.unlink(name, dir_fd=handle)
        elif stat.S_ISDIR(mode):
            inner = open_folder(name, handle)
            try:
                _empty(inner, f"{whole}/", names, set())
            finally:
                os.close(inner)
            try:
                os.rmdir(name, dir_fd=handle)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise


def open_folder(path: Path | str, beside: int | None = None) -> int:
    """A handle of a folder that is one, and no link to one."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=beside)
