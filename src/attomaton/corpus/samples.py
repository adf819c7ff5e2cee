"""Samples as bags of tokens: last token, label, distinct tokens with counts, weight.

A self-attention layer without positions sees a context as a bag, so that is what is kept. Identical
samples are merged into one with the sum of their weights; samples whose label does not occur in
their context (the theorems do not speak about them) are set aside and counted, never lost silently.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attomaton.base.face import Tabular
from attomaton.base.lazily import pa
from attomaton.base.shapes import Float, Int
from attomaton.corpus.vocabulary import Label, Vocabulary
from attomaton.errors import DataError, UsageError, counted, listed
from attomaton.numerics import order_by, ragged_indices, row_pointer, scramble, unique_inverse

TOKENS = "a sequence of tokens"
LIGHTEST, HEAVIEST = 1e-150, 1e150  # weights between which float64 holds every sum and ratio
CHUNK = 1 << 21  # incidences sorted at a time: bounds the memory of building bags


@dataclass(frozen=True)
class SetAside:
    """Raw rows left out because their label is absent from their context."""

    rows: int = 0
    weight: float = 0.0
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Samples(Tabular):
    """A weighted set of distinct samples, sorted by last token, then label.

    The distinct tokens of sample `i` are `token[start[i]:start[i + 1]]`, ascending, with their
    multiplicities in `count`. `rows[i]` raw rows were merged into it; `source[i]` is the first of them. As a table it
    has one row for each: `last`, `next`, `tokens` and `counts` (lists), `weight`, `rows`.

    >>> from attomaton import samples_from_sequences
    >>> samples = samples_from_sequences([["tea", "bell"], ["tea", "bell"], ["soup", "tea", "bell"]], ["tea"] * 3)
    >>> samples
    Samples(3 samples, 2 distinct, 3 tokens, 1 last token)
    >>> samples.to_arrow().column("tokens").to_pylist()
    [['tea', 'bell'], ['tea', 'bell', 'soup']]
    """

    vocabulary: Vocabulary
    last: Int[np.ndarray, " samples"]
    label: Int[np.ndarray, " samples"]
    weight: Float[np.ndarray, " samples"]
    start: Int[np.ndarray, " samples_and_one"]
    token: Int[np.ndarray, " incidences"]
    count: Int[np.ndarray, " incidences"]
    rows: Int[np.ndarray, " samples"]
    source: Int[np.ndarray, " samples"]
    set_aside: SetAside = field(default_factory=SetAside)
    tokens: int = 0  # tokens read, repeats included
    windows: int = 0  # contexts looked at: the rows here plus the ones set aside

    def __len__(self) -> int:
        return len(self.last)

    @property
    def size(self) -> Int[np.ndarray, " samples"]:
        """How many distinct tokens each sample holds."""
        return np.diff(self.start)

    @property
    def sample_of(self) -> Int[np.ndarray, " incidences"]:
        """The sample each incidence belongs to."""
        return np.repeat(np.arange(len(self)), self.size)

    @property
    def total_weight(self) -> float:
        """The n of the papers' 1/n: the sum of all weights."""
        return float(self.weight.sum())

    def pair_index(self) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " incidences"]]:
        """The pairs (last token, token) that occur, as sorted keys `last · K + token`, and the pair of each incidence.

        This is the numbering of pairs used everywhere: in graphs, in training, on disk.
        """
        key = self.last[self.sample_of].astype(np.int64) * len(self.vocabulary) + self.token
        return unique_inverse(key)

    def _in_short(self) -> str:
        rows, here, aside = int(self.rows.sum()), len(self), self.set_aside.rows
        found = [
            counted(rows, "sample"),
            f"{here:,} distinct" if here < rows else "",
            counted(len(self.vocabulary), "token"),
            counted(len(np.unique(self.last)), "last token"),
            f"{aside:,} set aside" if aside else "",
        ]
        return ", ".join(filter(None, found))

    def to_arrow(self) -> Any:
        """One row for each distinct sample, its tokens in words, as a `pyarrow.Table`."""
        start = pa.array(self.start)
        words = self.vocabulary.column(self.token).dictionary_decode()
        return pa.table(
            {
                "last": self.vocabulary.column(self.last),
                "next": self.vocabulary.column(self.label),
                "tokens": pa.LargeListArray.from_arrays(start, words),
                "counts": pa.LargeListArray.from_arrays(start, pa.array(self.count)),
                "weight": self.weight,
                "rows": self.rows,
            }
        )

    def bag(self, i: int) -> dict[Label, int]:
        """The tokens of sample `i` with their counts, in words."""
        part = slice(self.start[i], self.start[i + 1])
        return {
            self.vocabulary[t]: int(m)
            for t, m in zip(self.token[part], self.count[part], strict=True)
        }

    def take(self, chosen: Int[np.ndarray, " chosen"]) -> "Samples":
        """The samples with these indices, in this order."""
        at = ragged_indices(self.start[chosen], self.size[chosen])
        own = {x: getattr(self, x)[chosen] for x in ("last", "label", "weight", "rows", "source")}
        start = row_pointer(self.size[chosen])
        return replace(self, **own, start=start, token=self.token[at], count=self.count[at])


def check_weights(
    weight: Float[np.ndarray, " n"],
    heading: str = "Weights must be positive and finite:",
    cure: str = "Drop or mend these samples.",
) -> None:
    """Refuse weights that are not positive, in these words, and those whose sums or ratios no number holds."""
    between = f"Weights must lie between {LIGHTEST:g} and {HEAVIEST:g}; sums and ratios of others overflow:"
    rescale = "Rescale all weights by one factor (only their ratios matter) or drop these samples."
    for fine, said, mend in (
        (np.isfinite(weight) & (weight > 0), heading, cure),
        ((weight >= LIGHTEST) & (weight <= HEAVIEST), between, rescale),
    ):
        if faults := [f"sample {i}: weight {weight[i]:g}" for i in np.flatnonzero(~fine)]:
            raise DataError(listed(said, faults, mend))


def plain_label(x: object) -> Label:
    """A token label as a plain `str` or `int`, whatever array or tensor it came from."""
    if isinstance(x, str):
        return str(x)
    if isinstance(x, (int, np.integer)) and not isinstance(x, bool):
        if abs(int(x)) >> 63:
            raise DataError(f"token {x!r:.40} has more than 64 bits; write it as a string.")
        return int(x)
    if isinstance(x, (float, np.floating)) and float(x).is_integer():
        return int(x)
    if getattr(x, "ndim", None) == 0 and callable(item := getattr(x, "item", None)):
        return plain_label(item())  # an array or tensor that holds one value
    raise DataError(f"token {x!r:.60} is neither a string nor an integer.")


def read_context(context: object, name: str = "context") -> list[Label]:
    """One context as plain labels; anything but a sequence of tokens is refused.

    >>> read_context(("a", 3)), read_context(np.array([1.0, 2.0]))
    (['a', 3], [1, 2])
    """
    if getattr(context, "ndim", 1) != 1:
        raise DataError(
            f"{name}: found an array of {context.ndim} dimensions; a sequence of tokens is needed."  # type: ignore[attr-defined]
        )
    found = list_of(context, name)
    if {*map(type, found)} <= {str}:  # quickly, of long data
        return found
    labels: list[Label] = []
    faults = []
    for i, x in enumerate(found):
        try:
            labels.append(plain_label(x))
        except DataError as fault:
            long = ", more than 64 bits" if "64 bits" in str(fault) else ""
            faults.append(f"token {i}: {x!r:.60}{long}")
    if faults:
        heading = f"{name}: {counted(len(faults), 'token')} neither string nor integer:"
        raise DataError(listed(heading, faults, "Name each token by a string or an integer."))
    return labels


def list_of(x: Any, name: str, needed: str = TOKENS) -> list[Any]:
    """What a list, an array, a tensor or a column holds; what has no order or no parts is refused, strings too.

    >>> list_of(np.array([1, 2]), "labels"), list_of(iter("ab"), "labels")
    ([1, 2], ['a', 'b'])
    """
    if isinstance(x, (str, bytes)):
        such = f", such as [{x!r:.60}]" if needed == TOKENS else ""
        raise DataError(
            f"{name}: found the {type(x).__name__} {x!r:.60}; {needed} is needed{such}."
        )
    if isinstance(x, (Mapping, Set)):
        raise DataError(f"{name}: found a {type(x).__name__}; {needed} is needed.")
    if isinstance(x, np.ndarray) and x.ndim:
        return list(x) if x.ndim > 1 else x.tolist()
    try:
        return list(x)
    except TypeError:
        raise DataError(f"{name}: found {x!r:.60}; {needed} is needed.") from None


def numbers_of(x: Any, name: str) -> Float[np.ndarray, "*shape"]:
    """Weights as numbers; `name` is what they are called."""
    try:
        found = np.asarray(x)
        if found.dtype.kind in "US" or any(isinstance(v, (str, bytes)) for v in found.flat[:1]):
            raise TypeError  # "1.5" is a word
        return found.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} holds something that is no number.") from None


def expect_samples(x: object) -> None:
    """Refuse what was passed where samples are needed, with how to make some."""
    if not isinstance(x, Samples):
        raise UsageError(
            f"samples: {type(x).__name__} is no Samples. Make them with samples_from_sequences(contexts, "
            "next_tokens), or read_samples(file)."
        )


def collect_bags(
    vocabulary: Vocabulary,
    ids: Int[np.ndarray, " tokens"],
    left: Int[np.ndarray, " rows"],
    length: Int[np.ndarray, " rows"],
    label: Int[np.ndarray, " rows"],
    weight: Float[np.ndarray, " rows"],
    source: Int[np.ndarray, " rows"],
    aside: SetAside,
    tokens: int,
    windows: int,
    merge: bool = True,
) -> Samples:
    """Bags of the contexts `ids[left : left + length]`, merged where identical unless told otherwise."""
    last = ids[left + length - 1]
    size, token, count = _bags(ids, left, length, len(vocabulary))
    bags = Samples(
        vocabulary, last.astype(np.int32), label.astype(np.int32), weight, row_pointer(size), token,
        count, np.ones(len(label), np.int64), source.astype(np.int64), aside, tokens, windows,
    )  # fmt: skip
    return merge_samples(bags) if merge else bags.take(np.lexsort((source, label, last)))


def _bags(
    ids: Int[np.ndarray, " tokens"],
    left: Int[np.ndarray, " rows"],
    length: Int[np.ndarray, " rows"],
    K: int,
) -> tuple[
    Int[np.ndarray, " rows"], Int[np.ndarray, " incidences"], Int[np.ndarray, " incidences"]
]:
    """Distinct tokens per row: how many, which (ascending), how often."""
    sizes, tokens, counts = [], [], []
    end = np.cumsum(length)
    cuts = np.searchsorted(end, np.arange(CHUNK, end[-1], CHUNK))
    for rows in np.split(np.arange(len(length)), np.unique(cuts)):
        if not len(rows):
            continue
        row = np.repeat(np.arange(len(rows)), length[rows])
        key = np.sort(row * K + ids[ragged_indices(left[rows], length[rows])])
        first = np.flatnonzero(np.diff(key, prepend=-1))
        sizes.append(np.bincount(key[first] // K, minlength=len(rows)))
        tokens.append((key[first] % K).astype(np.int32))
        counts.append(np.diff(first, append=len(key)).astype(np.int32))
    return np.concatenate(sizes), np.concatenate(tokens), np.concatenate(counts)


def joined(several: Sequence[Samples]) -> Samples:
    """Samples of one vocabulary one after the other, nothing merged."""
    names = ("last", "label", "weight", "token", "count", "rows", "source", "size")
    columns: dict[str, Any] = {x: np.concatenate([getattr(s, x) for s in several]) for x in names}
    return replace(several[0], start=row_pointer(columns.pop("size")), **columns)


def merge_samples(s: Samples) -> Samples:
    """One sample for each (last token, label, bag), weights and rows added up."""
    head, mark = s.last.astype(np.int64) << 32 | s.label, _fingerprint(s)  # ids have 32 bits
    order = np.lexsort((mark, s.size, head))
    # Neighbours are compared token by token: a fingerprint only brings equals together, it never decides.
    alike = np.ones(max(len(order) - 1, 0), bool)
    for x in (head, s.size, mark):
        alike &= np.diff(x[order]) == 0
    here = np.flatnonzero(alike) + 1
    size = s.size[order[here]]
    this, that = (ragged_indices(s.start[order[at]], size) for at in (here, here - 1))
    unlike = (s.token[this] != s.token[that]) | (s.count[this] != s.count[that])
    differs = np.bincount(np.repeat(np.arange(len(here)), size)[unlike], minlength=len(here))
    new = np.ones(len(s), bool)
    new[here[differs == 0]] = False
    first = np.flatnonzero(new)
    kept, source = order[first], np.minimum.reduceat(s.source[order], first)
    final = order_by(s.last[kept], s.label[kept], source)
    sums = {x: np.add.reduceat(getattr(s, x)[order], first)[final] for x in ("weight", "rows")}
    return replace(s.take(kept[final]), **sums, source=source[final])


def _fingerprint(s: Samples) -> Int[np.ndarray, " samples"]:
    """A 64-bit number per bag, equal for equal bags (a sum of scrambled entries, modulo 2⁶⁴)."""
    x = scramble(s.token.astype(np.uint64) << np.uint64(32) | s.count.astype(np.uint64))
    return np.add.reduceat(x, s.start[:-1]).view(np.int64)
