"""An engine by name, as the command line gives it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from attomaton.engine.processes import Processes, available_cores
from attomaton.engine.tasks import Engine, Here
from attomaton.errors import UsageError, nearest

ENGINES = ("local", "processes", "ray")


def engine_name(name: str | None, workers: int | None, large: bool = False) -> str:
    """The engine that is meant where none is named: processes for several workers and for large work, else this one."""
    if name is not None:
        return name
    if workers is None:
        workers = available_cores() if large else 1
    return "local" if workers == 1 else "processes"


@contextmanager
def open_engine(
    name: str | None = "local",
    workers: int | None = None,
    memory: int | None = None,
    address: str | None = None,
    large: bool = False,
) -> Iterator[Engine]:
    """An engine for as long as the block runs; by no name the one that suits (`engine_name`).

    `workers` defaults to the cores at hand, `memory` bounds the bytes of what runs at a time, `address` names a Ray
    cluster that is there already.
    """
    name = engine_name(name, workers, large)
    if name not in ENGINES:
        raise UsageError(
            f"engine {name!r} is not one of {', '.join(ENGINES)}{nearest(name, ENGINES)}"
        )
    if address is not None and name != "ray":
        raise UsageError(f"an address belongs to the ray engine, not to {name}.")
    engine: Engine
    if name == "processes":
        engine = Processes(workers, memory)
    elif name == "ray":
        from attomaton.engine.cluster import Cluster

        engine = Cluster(workers, memory, address)
    else:
        if workers not in (None, 1):
            raise UsageError(
                "the local engine is one process: for more workers, --engine processes."
            )
        engine = Here()
    with closing(engine):
        yield engine
