"""The scrubber over recorded time: what depends on the time is sent once, and the browser moves it by itself."""

from dataclasses import dataclass

from attomaton.disk.formats import plain
from attomaton.lab.kit.charts import POINTS
from attomaton.lab.kit.player import Player
from attomaton.report.words import evenly

BYTES = 2_000_000  # of the attention of one side


@dataclass(frozen=True)
class Side:
    """What one pair of rates shows at every place of the scrubber, and the elements that show it, by their ids.

    `attention` is packed, one row a place. The marker of the heat map stands at `columns`, those of the curves at
    `points`, from 0 to 1.
    """

    attention: str
    columns: tuple[float, ...]
    points: tuple[float, ...]
    bars: int
    title: int
    heat: int
    curves: tuple[int, ...]


@dataclass(frozen=True)
class Recorded:
    """All that the browser needs: which classes, the numbers of the records where it stops, their times, all sides."""

    classes: str = ""
    records: tuple[int, ...] = (0,)
    moments: tuple[str, ...] = ("",)
    sides: tuple[Side, ...] = ()


class Scrubber(Player, component="scrubber.js"):
    """Button, slider and time; tells of `settle`, with the number of the record, once it rests."""

    def __init__(self) -> None:
        super().__init__()
        self.show(Recorded(), 0)

    def show(self, recorded: Recorded, start: int) -> None:
        """Move something else, from the place `start` on; of the same classes, with as many places, from its own."""
        self._props["recorded"], self._props["start"] = plain(recorded), start
        self.update()


def stops(times: int, tokens: int) -> list[int]:
    """The records where the scrubber stops: all, or as many as may be sent.

    >>> len(stops(201, 200)), len(stops(10_000, 10)), len(stops(10_000, 1000))
    (201, 2000, 500)
    """
    return evenly(times, max(2, min(POINTS, BYTES // (4 * tokens))))
