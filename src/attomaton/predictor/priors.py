r"""Where the scores start from: S_0[q, x] for *every* pair, also for those that training never saw.

A prior is a weighted sum of a few features of (q, x):

    main     log of how often x is the label of a window that holds it, against the same share of all tokens
    bigram   log of how often x follows q, against how often it follows anything, counted on the windows set aside
             (label absent from the context): data the fit does not see, so nothing is counted twice
    kin      cosine of q as a left neighbour and x as a right neighbour, in the space of the leading singular
             vectors of the positive pointwise mutual information of all bigrams: words used alike share evidence
    odds     log of how often x is the label of a window that ends with q and holds x (wins against appearances),
             smoothed by main's share; counted on the windows that are fitted

All of them are 0 where nothing is known. The weights are fitted on validation windows: a convex problem with one
parameter for each feature, and one for log m, which stays behind (the exponent θ is chosen with the scores).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.corpus.windows import Windows
from attomaton.errors import UsageError, nearest
from attomaton.numerics import sum_by
from attomaton.predictor.bags import Bags, blocks
from attomaton.predictor.counts import Counts, counted, looked_up, pair_key

FEATURES = ("main", "bigram", "kin", "odds")
ZERO = "zero"
MAIN_SMOOTHING = 30.0  # appearances that the overall share is worth
BIGRAM_SMOOTHING = 30.0  # continuations that p(x) is worth
ODDS_SMOOTHING = 10.0  # appearances that x's own share is worth
KIN_SMOOTHING = 10.0  # occurrences added to both words of a pair: rare pairs say little
KIN_RANK = 24
NEWTON_STEPS = 50
CHUNK = 1 << 17  # pairs whose cosines are taken at a time


@dataclass(frozen=True, eq=False)
class Main:
    """log share(x) − log share, with share(x) = (wins + a·share)/(appearances + a)."""

    value: Float[np.ndarray, " vocab"]

    def of(self, q: Int[np.ndarray, " n"], x: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The feature of these pairs."""
        return looked_up(self.value, x)


@dataclass(frozen=True, eq=False)
class Bigram:
    """log (c(q, x) + μ p(x))/(c(q) + μ) − log p(x), with p(x) the share of x (½ added) in the same counts."""

    K: int
    counts: Counts

    def of(self, q: Int[np.ndarray, " n"], x: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The feature of these pairs."""
        first, second = self._margins
        p = looked_up(second, x, 0.5) / second.sum()
        c, n = self.counts.of(pair_key(self.K, q, x)), looked_up(first, q, 0.0)
        return np.log(c / p + BIGRAM_SMOOTHING) - np.log(n + BIGRAM_SMOOTHING)

    @cached_property
    def _margins(self) -> tuple[Float[np.ndarray, " vocab"], Float[np.ndarray, " vocab"]]:
        q, x = np.divmod(self.counts.key, self.K)
        count = self.counts.count
        return sum_by(q, count, self.K), sum_by(x, count, self.K) + 0.5


@dataclass(frozen=True, eq=False)
class Kin:
    """The cosine of `left[q]` and `right[x]`, rows of length 1 (or 0 for words without neighbours)."""

    left: Float[np.ndarray, "vocab rank"]
    right: Float[np.ndarray, "vocab rank"]

    def of(self, q: Int[np.ndarray, " n"], x: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The feature of these pairs."""
        K = len(self.left)
        cosine = np.zeros(len(q))
        known = np.flatnonzero((q >= 0) & (q < K) & (x >= 0) & (x < K))
        for begin in range(0, len(known), CHUNK):
            at = known[begin : begin + CHUNK]
            cosine[at] = np.einsum("ij,ij->i", self.left[q[at]], self.right[x[at]])
        return cosine


@dataclass(frozen=True, eq=False)
class Odds:
    """log (wins(q, x) + a·share(x))/(appearances(q, x) + a) − log share."""

    main: Main
    K: int
    wins: Counts
    appearances: Counts
    share: float

    def of(self, q: Int[np.ndarray, " n"], x: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The feature of these pairs."""
        key = pair_key(self.K, q, x)
        start = ODDS_SMOOTHING * np.exp(self.main.of(q, x))
        won = self.wins.of(key) / self.share
        return np.log((won + start) / (self.appearances.of(key) + ODDS_SMOOTHING))


Feature = Main | Bigram | Kin | Odds


@dataclass(frozen=True, eq=False)
class Prior:
    """S_0 = Σ weight · feature; without features, 0."""

    features: dict[str, Feature]
    weight: dict[str, float]

    @property
    def name(self) -> str:
        """Its features, joined by +."""
        return "+".join(self.features) or ZERO

    def scores(self, q: Int[np.ndarray, " n"], x: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """S_0 of these pairs."""
        return sum(self.terms(q, x).values(), np.zeros(len(q)))

    def terms(
        self, q: Int[np.ndarray, " n"], x: Int[np.ndarray, " n"]
    ) -> dict[str, Float[np.ndarray, " n"]]:
        """What each feature contributes."""
        return {name: self.weight[name] * f.of(q, x) for name, f in self.features.items()}


def parse_prior(name: str) -> tuple[str, ...]:
    """The features a prior's name asks for.

    >>> parse_prior("main+kin"), parse_prior("zero")
    (('main', 'kin'), ())
    """
    if name == ZERO:
        return ()
    parts = name.split("+")
    unknown = [part for part in parts if part not in FEATURES]
    if unknown or len(set(parts)) < len(parts):
        wrong = unknown[0] if unknown else name
        raise UsageError(
            f"prior {name!r}: {wrong!r} is not one of {ZERO}, {', '.join(FEATURES)}, or several of "
            f"these joined by +{nearest(wrong, (ZERO, *FEATURES))}"
        )
    return tuple(f for f in FEATURES if f in parts)


def measure_features(windows: Windows, names: Sequence[str]) -> dict[str, Feature]:
    """The tables of these features, from the windows of a training corpus."""
    found: dict[str, Feature] = {}
    rows = np.flatnonzero(windows.realizable)
    K = len(windows.vocabulary)
    if {"main", "odds"} & set(names):
        wins = np.bincount(windows.label[rows], windows.weight[rows], K)
        appearances, pairs = _appearances(windows, rows, "odds" in names)
        share = wins.sum() / appearances.sum()
        smooth = (wins + MAIN_SMOOTHING * share) / (appearances + MAIN_SMOOTHING)
        main = Main(np.log(smooth / share))
        found["main"] = main
        if pairs is not None:
            won = counted(
                pair_key(K, windows.last[rows], windows.label[rows]), windows.weight[rows]
            )
            found["odds"] = Odds(main, K, won, pairs, float(share))
    if "bigram" in names:
        aside = np.flatnonzero(~windows.realizable)
        key = pair_key(K, windows.last[aside], windows.label[aside])
        found["bigram"] = Bigram(K, counted(key, windows.weight[aside]))
    if "kin" in names:
        found["kin"] = _kin(counted(pair_key(K, windows.last, windows.label), windows.weight), K)
    return {name: found[name] for name in names}


def _appearances(
    windows: Windows, rows: Int[np.ndarray, " rows"], pairs: bool
) -> tuple[Float[np.ndarray, " vocab"], Counts | None]:
    """How many of these windows hold each token; with `pairs`, each pair of last token and token too."""
    K = len(windows.vocabulary)
    total = np.zeros(K)
    keys, counts = [], []
    for part in windows.parts() if pairs else [rows]:
        for bags in blocks(windows, part):
            weight = bags.weight[bags.owner]
            total += np.bincount(bags.token, weight, K)
            if pairs:
                some = counted(pair_key(K, bags.query, bags.token), weight)
                keys.append(some.key)
                counts.append(some.count)
    if not pairs:
        return total, None
    return total, counted(np.concatenate(keys), np.concatenate(counts))


def _kin(bigrams: Counts, K: int) -> Kin:
    """Leading singular vectors of max(0, log c(q, x) N/((c(q) + s)(c(x) + s))), each row scaled to length 1."""
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import svds

    q, x = np.divmod(bigrams.key, K)
    first, second = (np.bincount(at, bigrams.count, K) + KIN_SMOOTHING for at in (q, x))
    information = np.log(bigrams.count * bigrams.count.sum() / (first[q] * second[x]))
    kept = information > 0
    rank = min(KIN_RANK, K - 1)
    if rank < 1 or not kept.any():
        return Kin(np.zeros((K, 1)), np.zeros((K, 1)))
    matrix = csr_array((information[kept], (q[kept], x[kept])), shape=(K, K))
    # A start that is the same everywhere: the answer is, up to signs that cancel in the cosine.
    start = np.random.default_rng(0).standard_normal(K)
    U, size, V = svds(matrix, k=rank, v0=start)
    return Kin(_unit_rows(U * np.sqrt(size)), _unit_rows(V.T * np.sqrt(size)))


def _unit_rows(rows: Float[np.ndarray, "vocab rank"]) -> Float[np.ndarray, "vocab rank"]:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    # Words without neighbours have rows of rounding noise, which must not become directions.
    noise = length < 1e-8 * length.max(initial=0.0)
    return np.where(noise, 0.0, rows / np.where(noise, 1.0, length)).astype(np.float32)


def fit_prior(features: dict[str, Feature], bags: Bags) -> Prior:
    """The features with the weights that suit these (realizable) bags best, log m beside them."""
    if not features:
        return Prior({}, {})
    F = np.stack(
        [np.log(bags.count), *(f.of(bags.query, bags.token) for f in features.values())], axis=1
    )
    weight = _best_weights(F, bags)
    return Prior(features, dict(zip(features, weight[1:].tolist(), strict=True)))


def _best_weights(
    F: Float[np.ndarray, "incidences features"], bags: Bags
) -> Float[np.ndarray, " features"]:
    """Newton's method for the mean log-loss of softmax(F w), with a ridge that is worth one window.

    A few windows that a feature tells apart without fault would else make it as sure as can be.
    """
    ridge = 1.0 / float(bags.weight.sum())
    share = bags.weight / bags.weight.sum()
    at = np.zeros(F.shape[1])

    def loss(w: Float[np.ndarray, " features"]) -> float:
        p = bags.shares(F @ w)[bags.label_at]
        return float(-share @ np.log(np.maximum(p, 1e-300)) + 0.5 * ridge * w @ w)

    value = loss(at)
    for _ in range(NEWTON_STEPS):
        p = bags.shares(F @ at) * share[bags.owner]
        slope = p @ F - share @ F[bags.label_at] + ridge * at
        mean = np.stack([bags.sums(p * column) for column in F.T], axis=1) / share[:, None]
        curvature = (F.T * p) @ F - (mean.T * share) @ mean + ridge * np.eye(len(at))
        if np.abs(slope).max() < 1e-9:
            break
        step = np.linalg.solve(curvature, slope)
        length = 1.0
        while (new := loss(at - length * step)) > value + 1e-12 and length > 1e-6:
            length /= 2
        at, value = at - length * step, new
    return at
