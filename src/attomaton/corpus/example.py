"""The embedded example: an evening at a café's counter, small enough to read row by row.

A row of `example.jsonl` lists what waits at the counter; its last token is what just happened, and
`next` is what the waiter turns to.

- `bell` (the kitchen calls) is *hard*: espresso before soup before toast before cake, never the
  other way round. Tea goes before cake too but has never met the other three: their order is
  open.
- `phone` (it rings) is *soft*: phone or dishes, at odds of 3 : 1. Counts matter: with two calls it
  is 6 : 1, with two piles of dishes 3 : 2.
- `guest` (somebody comes in) is *mixed*: the guest, an open order and a bill are tied at odds of
  2 : 2 : 1, and all three outrank dishes and floor.

In two rows the waiter turns to something that was not waiting; such rows are set aside.
"""

from pathlib import Path

from attomaton.corpus.readers import read_samples
from attomaton.corpus.samples import Samples


def example_samples() -> Samples:
    """The samples of the embedded example.

    >>> s = example_samples()
    >>> int(s.rows.sum()), s.set_aside.rows, len(s.vocabulary)
    (39, 2, 12)
    """
    return read_samples(Path(__file__).with_name("example.jsonl"))
