"""Every rival by name: what it is made of, what it needs, and how its components are fitted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.corpus.windows import Windows
from attomaton.errors import UsageError, one_of
from attomaton.predictor.bags import aligned, thinned
from attomaton.predictor.kneser_ney import fit_kneser_ney
from attomaton.predictor.measured import LeftOut
from attomaton.predictor.rivals.copying import Induction, fit_cache
from attomaton.predictor.rivals.counting import NGram, sort_suffixes
from attomaton.predictor.rivals.judge import MOST, Judged, Rival, fit_rivals, judge
from attomaton.predictor.rivals.neighbours import ENOUGH, fit_items, fit_sessions, sequences
from attomaton.predictor.rivals.neural import EPOCHS, SECONDS, Neural, Trained, fit_neural
from attomaton.predictor.rivals.spreads import Base, Component
from attomaton.predictor.rivals.trees import FOR_TREES, fit_trees

ALL = "all"


@dataclass(frozen=True)
class Kind:
    """One rival: its name, its title in tables, its components, what it is in words, and what it needs."""

    name: str
    title: str
    parts: tuple[str, ...]
    words: str
    package: str | None = None  # that an extra of ours installs
    extra: str = ""
    many_sequences: bool = False


KINDS = (
    Kind("kneser-ney", "Kneser–Ney 5-gram", ("ngram",), "interpolated, three discounts for each order"),
    Kind("longest-suffix", "longest suffix in training", ("suffix", "bigram", "unigram"),
         "what followed the longest suffix of the context that occurs in training, backed off to bigram and unigram"),
    Kind("induction", "induction", ("induction", "unigram"),
         "what followed the longest earlier match of the end of the context, backed off to the unigram"),
    Kind("cache", "cache", ("cache", "unigram"), "the token d places back, by a weight for each d, and the unigram"),
    Kind("cache-mixture", "Kneser–Ney + cache", ("ngram", "cache"), "the 5-gram and the cache, mixed"),
    Kind("mixture", "mixture of all four", ("ngram", "suffix", "induction", "cache"),
         "5-gram, longest suffix, induction and cache, mixed by how long the matches are"),
    Kind("item-knn", "item-kNN", ("items", "unigram"), "items in the same sequences as those of the context",
         many_sequences=True),
    Kind("session-knn", "session-kNN", ("sessions", "unigram"), "what the sequences most like the context hold",
         many_sequences=True),
    Kind("trees", "boosted trees, same information", ("trees",), "candidates by what the layer sees of them",
         "lightgbm", "trees"),
    Kind("trees-order", "boosted trees, with order", ("trees-order",),
         "also by place, longest match and n-grams of all orders", "lightgbm", "trees"),
    Kind("gru", "GRU", ("gru", "unigram"), "a small recurrent network, trained for a while", "torch", "neural"),
    Kind("transformer", "transformer", ("transformer", "unigram"), "two layers of attention, trained for a while",
         "torch", "neural"),
)  # fmt: skip
NAMES = tuple(kind.name for kind in KINDS)


@dataclass(frozen=True, eq=False)
class Field:
    """Rivals that are fitted and ready to be judged."""

    rivals: Sequence[Rival]
    components: Mapping[str, Component]
    left_out: Sequence[LeftOut]

    def judge(self, windows: Windows, progress: Progress = quiet) -> Judged:
        """All of them on windows with the ids they were fitted with."""
        return judge(self.rivals, self.components, windows, progress)

    @property
    def trained(self) -> Mapping[str, Trained]:
        """How far each network was trained, by its title: it is worth no more than that."""
        title = {kind.name: kind.title for kind in KINDS}
        return {title[x]: c.trained for x, c in self.components.items() if isinstance(c, Neural)}

    @property
    def residual(self) -> float:
        """The largest gradient left of any fit of weights, of its scale."""
        return max((max(x.whole.residual, x.inside.residual) for x in self.rivals), default=0.0)


def check_names(names: Sequence[str]) -> None:
    """Refuse what is no rival's name."""
    for name in names:
        one_of("baselines", name, (ALL, *NAMES))


def chosen(
    names: Sequence[str], train: Windows, valid: Windows
) -> tuple[list[Kind], list[LeftOut]]:
    """The rivals of these names; of *all*, those that can be fitted here, and why others cannot."""
    check_names(names)
    wanted, left_out = [], []
    for kind in KINDS:
        if kind.name not in names and ALL not in names:
            continue
        reason = _missing(kind, train, valid)
        if reason and kind.name in names:
            raise UsageError(f"baseline {kind.name}: {reason}.")
        if reason:
            left_out.append(LeftOut(kind.name, reason))
        else:
            wanted.append(kind)
    return wanted, left_out


def _missing(kind: Kind, train: Windows, valid: Windows) -> str:
    if kind.package is not None and find_spec(kind.package) is None:
        return f"needs the package `{kind.package}`: pip install 'attomaton[{kind.extra}]'"
    if kind.extra == "trees" and np.count_nonzero(valid.realizable) < FOR_TREES:
        return f"needs at least {FOR_TREES} validation windows that hold their label"
    if kind.many_sequences and sequences(train) < ENOUGH:
        return f"needs data of at least {ENOUGH} sequences"
    return ""


def fit_field(
    names: Sequence[str],
    train: Windows,
    valid: Windows,
    progress: Progress = quiet,
    seconds: float = SECONDS,
    epochs: float = EPOCHS,
) -> Field:
    """The rivals of these names: counted on `train`, mixed on `valid`.

    Each network is trained for at most so many seconds and epochs.
    """
    kinds, left_out = chosen(names, train, valid)
    valid = aligned(valid, train.vocabulary)
    need = list(dict.fromkeys(part for kind in kinds for part in kind.parts))
    ngrams = cache(lambda: fit_kneser_ney(train))  # counted once, when they are needed
    base = cache(lambda: NGram(ngrams()).unigram)
    fits: dict[str, Callable[[], Component]] = {
        "ngram": lambda: NGram(ngrams()),
        "bigram": lambda: NGram(ngrams().cut(min(2, ngrams().order))),
        "unigram": lambda: Base(base()),
        "suffix": lambda: sort_suffixes(train, base()),
        "induction": lambda: Induction(base()),
        "cache": lambda: fit_cache(valid, thinned(np.arange(len(valid)), MOST), base()),
        "items": lambda: fit_items(train, base()),
        "sessions": lambda: fit_sessions(train, base()),
        "trees": lambda: fit_trees(train, valid, ngrams(), False, progress),
        "trees-order": lambda: fit_trees(train, valid, ngrams(), True, progress),
        "gru": lambda: fit_neural("gru", train, valid, seconds, epochs, progress),
        "transformer": lambda: fit_neural("transformer", train, valid, seconds, epochs, progress),
    }
    components = {}
    for i, part in enumerate(need):
        progress(i, len(need), f"fitting: {part}")
        components[part] = fits[part]()
    rivals = fit_rivals({kind.title: kind.parts for kind in kinds}, components, valid, progress)
    return Field(rivals, components, left_out)
