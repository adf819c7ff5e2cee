r"""Drawn event logs: people who come back to what they liked, a test bed whose truth is known.

Each user of a catalogue of songs and films has a few favourites. At every event they either turn again to
something of their own past or to something else:

- *again*, with probability `again`: an earlier event $d$ steps back that was item $x$ is taken up with
  probability $\propto a_x\, d^{-r}$. The appeal $a_x$ of songs falls by their number, evenly in $\log a$ from
  `song1` ($e$) to the last song ($1/e$); films have appeal 0, nobody returns to one. $r$ is `recency`.
- *otherwise*, an item by its popularity, ten times as likely if it is a favourite; a film only if not seen yet.

Popularity is Zipf's law in an order of its own, so that being frequent and being returned to are two things.
Time passes in minutes; the rows of all users are mixed, sorted by time, as a log has them.
"""

import csv
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.lazily import pa, pq
from attomaton.base.shapes import Float, Int
from attomaton.disk.storage import check_file, write_whole
from attomaton.errors import UsageError

FAVOURED = 10.0  # how much likelier a favourite is
GAP = 90.0  # minutes between two events of a user, on average

KINDS = (".csv", ".tsv", ".parquet", ".jsonl")  # of files that are written


@dataclass(frozen=True, eq=False)
class Sessions:
    """A drawn event log, one entry per event in the order of time, and the appeal it was drawn with."""

    user: Int[np.ndarray, " events"]
    item: Int[np.ndarray, " events"]
    minute: Int[np.ndarray, " events"]
    names: list[str]
    appeal: Float[np.ndarray, " items"]

    def columns(self) -> dict[str, list[Any]]:
        """The log in words, under the names a reader of event logs looks for."""
        return {
            "sequence": [f"user{u + 1}" for u in self.user],
            "item": [self.names[x] for x in self.item],
            "order": self.minute.tolist(),
        }


def draw_sessions(
    rng: np.random.Generator,
    users: int = 200,
    events: int = 50,
    items: int = 24,
    *,
    again: float = 0.7,
    recency: float = 0.5,
    favourites: int = 5,
) -> Sessions:
    """An event log of `users` with `events` each over `items` items, one third of them films."""
    if users < 1 or events < 2 or items < 3:
        raise UsageError("sessions need at least 1 user, 2 events each and 3 items.")
    films = items // 3
    songs = items - films
    appeal = np.concatenate([np.exp(np.linspace(1, -1, songs)), np.zeros(films)])
    names = [f"song{i + 1}" for i in range(songs)] + [f"film{i + 1}" for i in range(films)]
    popularity = 1 / (1 + rng.permutation(items))
    item = np.empty((users, events), dtype=np.int64)
    for u in range(users):
        taste = popularity.copy()
        taste[rng.choice(items, min(favourites, items), replace=False)] *= FAVOURED
        for t in range(events):
            # Newest first, so that an event's place in the array is its distance.
            past = item[u, :t][::-1]
            pull = appeal[past] / np.arange(1, t + 1) ** recency
            if rng.random() < again and pull.any():
                item[u, t] = past[rng.choice(t, p=pull / pull.sum())]
            else:
                item[u, t] = rng.choice(items, p=taste / taste.sum())
                if not appeal[item[u, t]]:
                    taste[item[u, t]] = 0.0
    minute = np.cumsum(1 + rng.exponential(GAP, (users, events)).astype(np.int64), axis=1)
    order = np.argsort(minute.ravel(), kind="stable")
    user = np.repeat(np.arange(users), events)
    return Sessions(user[order], item.ravel()[order], minute.ravel()[order], names, appeal)


def write_sessions(
    sessions: Sessions, path: str | os.PathLike[str], context: int | None = None
) -> Path:
    """The log as its suffix says: `.csv`, `.tsv`, `.parquet`, or `.jsonl` with a row for each window of `context`.

    Rows are what a reader would cut from the log itself: up to `context` events before each label.
    """
    path = Path(path)
    suffix, columns = path.suffix.lower(), sessions.columns()
    if (suffix == ".jsonl") != (context is not None) or (context is not None and context < 1):
        raise UsageError(
            f"{path}: a .jsonl file holds contexts of N ≥ 1 events (--context N), an event log holds "
            "events and is cut when it is read."
        )
    if suffix not in KINDS:
        known = ", ".join(KINDS)
        raise UsageError(f"{path}: sessions go into a file of kind {known}.")

    def write(work: Path) -> None:
        if suffix == ".parquet":
            pq.write_table(pa.table(columns), work)
            return
        with work.open("w", encoding="utf-8", newline="") as file:
            if context is not None:
                file.writelines(_rows(columns["sequence"], columns["item"], context))
            else:
                delimiter = "\t" if suffix == ".tsv" else ","
                writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
                writer.writerow(columns)
                writer.writerows(zip(*columns.values(), strict=True))

    write_whole(check_file(path), write)
    return path


def _rows(users: list[str], items: list[str], context: int) -> Iterator[str]:
    past: dict[str, list[str]] = {}
    for user, item in zip(users, items, strict=True):
        before = past.setdefault(user, [])
        if before:
            yield json.dumps({"tokens": before[-context:], "next": item}) + "\n"
        before.append(item)
