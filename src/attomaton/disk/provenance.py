"""What every folder says of how it was made: settings, command, versions; and where runs go by default."""

import platform
import sys
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from attomaton.disk.formats import plain, to_json, write_json, write_text
from attomaton.disk.ledger import command
from attomaton.disk.locks import is_locked
from attomaton.disk.storage import LOCK_FILE, free_place


def provenance(folder: Path, config: object, summary: object) -> None:
    """Write what was asked, by which command, under which versions, and what came out: records or tables."""
    write_text(folder / "config.toml", to_toml(config))
    write_text(folder / "command.txt", command() + "\n")
    write_json(folder / "env.json", environment())
    write_json(folder / "summary.json", summary)


def to_toml(config: object) -> str:
    """Flat settings as TOML; what is not set is left out.

    >>> print(to_toml({"lr": 0.1, "name": "a", "seeds": None, "flag": True}), end="")
    lr = 0.1
    name = "a"
    flag = true
    """
    # TOML's strings, numbers, booleans and flat lists are written just as JSON's.
    lines = [f"{k} = {to_json(v, indent=None)}" for k, v in plain(config).items() if v is not None]
    return "\n".join(lines) + "\n"


def run_folder(name: str, config: object, root: Path | str = "runs") -> Path:
    """A fresh place for a run: time, name and a hash of the settings; counted up where it is taken."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    return free_place(Path(root) / f"{stamp}-{name}-{_tag(config)}")


def unfinished_run(name: str, config: object, root: Path | str = "runs") -> Path | None:
    """The place of the newest run with this name and these settings that was broken off, if there is one."""
    for work in sorted(Path(root).glob(f".*-{name}-{_tag(config)}.partial"), reverse=True):
        place = work.name.removeprefix(".").removesuffix(".partial")
        same = place.partition("-")[2] == f"{name}-{_tag(config)}"
        if same and not is_locked(work / LOCK_FILE):
            return work.with_name(place)
    return None


def _tag(config: object) -> str:
    return sha256(to_json(config).encode()).hexdigest()[:6]


def environment() -> dict[str, str | None]:
    """Versions that decide what numbers come out."""
    return {
        "attomaton": package_version("attomaton"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        **{name: package_version(name) for name in ("numpy", "scipy", "piqp", "jax", "jaxlib")},
    }


def package_version(name: str) -> str | None:
    """The installed version of a package, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def peak_memory_mb() -> float:
    """The most memory this process has held so far, in megabytes."""
    import resource

    # Linux counts kilobytes, macOS bytes.
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
