"""How good predictors are on a text: log-loss in nats, hits at 1 and 5, reciprocal ranks, all on the same windows.

Differences between two of them are paired over windows. Windows of one sequence lean the same way, so standard errors
come from whole sequences; of few long ones from blocks of consecutive windows. Calibration compares how sure a
predictor is of its first guess with how often that is right.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Float, Int
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import Windows
from attomaton.disk.records import absent
from attomaton.errors import DataError, UsageError
from attomaton.mechanics.theory.limit import Limit, expect_limit
from attomaton.mechanics.theory.many import mixing_scores
from attomaton.predictor.bags import Bags, aligned, aligned_where_known, blocks
from attomaton.predictor.baselines import fit_baselines
from attomaton.predictor.many import not_held
from attomaton.predictor.measured import RANKS, LeftOut, Measured, joined, measure, ranked
from attomaton.predictor.model import Predictor
from attomaton.predictor.ngrams import Best
from attomaton.predictor.rivals.named import Field, fit_field
from attomaton.predictor.rivals.neural import SECONDS, Trained

ERROR_BLOCK = 1000  # consecutive windows whose errors may lean the same way
ENOUGH = 30  # sequences that give a standard error
BINS = 15  # of equal width, for calibration

LogWeights = Callable[[Bags], Float[np.ndarray, " incidences"]]


# Inside the context, on realizable windows


def in_context(windows: Windows, systems: Mapping[str, LogWeights]) -> dict[str, Measured]:
    """Each system on the realizable windows, its weights made shares of each context."""
    rows = np.flatnonzero(windows.realizable)
    if not len(rows):
        raise DataError("none of the windows to score contains its own label.")
    found: dict[str, list[Measured]] = {name: [] for name in systems}
    for bags in blocks(windows, rows):
        for name, log_weights in systems.items():
            found[name].append(measure(bags, bags.shares(log_weights(bags))))
    return {name: joined(parts) for name, parts in found.items()}


def limit_weights(limit: Limit) -> LogWeights:
    """The limit automaton: of the tokens with the highest score of W_svm, log m plus the score of W_fin."""
    K = len(limit.graph.vocabulary)

    def log_weights(bags: Bags) -> Float[np.ndarray, " incidences"]:
        last, token = (np.where(x < K, x, -1) for x in (bags.query, bags.token))
        svm = limit.scores(limit.svm.coefficient, last, token)
        finite = limit.scores(limit.finite.coefficient, last, token)
        return mixing_scores(bags.start, bags.count, svm, finite)

    return log_weights


# Over the whole vocabulary, on all windows


def over_vocabulary(windows: Windows, predictor: Predictor) -> dict[str, Measured]:
    """The predictor with its back-off, and the n-grams it leans on, on every window."""
    ngrams = predictor.baselines.ngrams
    rows = np.arange(len(windows))
    found: dict[str, list[Measured]] = {"predictor": [], "bigram": [], "trigram": []}
    for bags in blocks(windows, rows):
        # Enough of them that RANKS remain when all tokens of a context are taken out.
        best = ngrams.best_bigrams(bags.last, RANKS + int(np.diff(bags.start).max()))
        found["predictor"].append(_backed_off(bags, predictor, best.token.shape[1]))
        p = ngrams.bigram(bags.last, bags.label)
        found["bigram"].append(_against_best(bags, p, best))
        p = ngrams.trigram(bags.before, bags.last, bags.label)
        found["trigram"].append(
            _against_best(bags, p, ngrams.best_trigrams(bags.before, bags.last, RANKS))
        )
    return {name: joined(parts) for name, parts in found.items()}


def _against_best(bags: Bags, p: Float[np.ndarray, " bags"], best: Best) -> Measured:
    hit = best.token[:, :RANKS] == bags.label[:, None]
    return ranked(p, np.where(hit.any(axis=1), hit.argmax(axis=1), RANKS), best.p[:, 0])


def _backed_off(bags: Bags, predictor: Predictor, places: int) -> Measured:
    """P of every label, and how many tokens come before it (ties by id)."""
    K = len(predictor.vocabulary)
    mixture = predictor.mixture(bags, places)
    best, rest = mixture.best, mixture.rest
    inside = mixture.gate[bags.owner] * mixture.share
    there = bags.label_at >= 0
    outside = rest * predictor.by_ngrams(bags, bags.label)
    mine = np.where(there, inside[bags.label_at], outside)
    above = bags.sums(
        _comes_before(inside, bags.token, mine[bags.owner], bags.label[bags.owner]).astype(float)
    )
    row, token, p = not_held(bags, best, np.arange(len(bags)))
    rival = rest[row] * p
    beats = _comes_before(rival, token, mine[row], bags.label[row])
    above = above + np.bincount(row, beats, len(bags))
    # A word never seen and absent from the context is expected only as "some new word": never a hit.
    nameable = there | (bags.label < K)
    sure = np.maximum.reduceat(inside, bags.start[:-1])
    np.maximum.at(sure, row, rival)
    return ranked(mine, np.where(nameable, above, RANKS), sure)


def _comes_before(
    p: Float[np.ndarray, " n"],
    token: Int[np.ndarray, " n"],
    mine: Float[np.ndarray, " n"],
    label: Int[np.ndarray, " n"],
) -> np.ndarray:
    return (p > mine) | ((p == mine) & (token < label))


# Plain data


@dataclass(frozen=True)
class Bin:
    """First guesses that a system was about as sure of: how sure on average, how often right, how many."""

    sure: float
    right: float
    weight: float


@dataclass(frozen=True)
class ScoreRow:
    """One system: its mean figures, their standard errors, and what they are more than those of the first.

    `mrr10` is the mean reciprocal rank of the label, 0 after the tenth. `calibration_error` (ECE) is the mean of
    |how sure − how often right| over the bins of `reliability`, by weight.
    """

    name: str
    impossible: float  # the share of labels that had probability 0
    log_loss: float
    log_loss_error: float
    log_loss_more: float
    log_loss_more_error: float
    top1: float
    top1_error: float
    top1_more: float
    top1_more_error: float
    top5: float
    top5_error: float
    top5_more: float
    top5_more_error: float
    mrr10: float
    mrr10_error: float
    mrr10_more: float
    mrr10_more_error: float
    calibration_error: float
    reliability: Sequence[Bin]


@dataclass(frozen=True)
class ScoreTable:
    """All systems on the same windows; their standard errors rest on so many clusters of windows."""

    windows: int
    weight: float
    compared_with: str
    clusters: int
    clustered_by: str
    rows: Sequence[ScoreRow]


@dataclass(frozen=True)
class Scores:
    """Systems on the windows that hold their label; of a predictor, on all windows too."""

    realizable: ScoreTable
    all: ScoreTable | None = absent()
    left_out: Sequence[LeftOut] | None = absent()  # of the baselines that were asked for by "all"
    trained: Mapping[str, Trained] | None = absent()  # the networks among them
    new_labels: int | None = absent()  # windows whose label training never saw


def score(model: Predictor | Limit, windows: Windows, **beside: Any) -> Scores:
    """How well a predictor or a limit names the next tokens of unseen contexts, beside simpler systems.

    Beside a predictor stand its baselines and, where one is given, a `limit`; beside a limit the unigram or, with the
    windows it was fitted on (`train`) and others to choose their settings on (`valid`), all baselines. With both,
    `baselines` names stronger ones to be fitted (`["all"]`: all that can be; networks for so many `seconds`).
    Log-loss, top-1 and top-5 of each with standard errors, and its difference from the model's own.

    >>> from attomaton import as_windows, solve_limit
    >>> seen, unseen = (as_windows([text.split()], context=4) for text in ("a b a b b a a b a", "b a b a a b"))
    >>> table = score(solve_limit(seen.samples()), unseen).realizable
    >>> [row.name for row in table.rows]
    ['limit', 'unigram']
    """
    if isinstance(model, Predictor):
        return score_predictor(model, windows, **beside)
    expect_limit(model)
    return score_limit(model, windows, **beside)


def score_predictor(
    predictor: Predictor,
    windows: Windows,
    limit: Limit | None = None,
    train: Windows | None = None,
    valid: Windows | None = None,
    baselines: Sequence[str] = (),
    progress: Progress = quiet,
    seconds: float = SECONDS,
) -> Scores:
    """The predictor, the baselines it keeps, those asked for by name, and a limit beside it, where one is given."""
    own = aligned_where_known(windows, predictor.vocabulary)
    rivals = _rivals(baselines, train, valid, predictor.vocabulary, progress, seconds)
    found = in_context(own, {"predictor": predictor.log_weights, **predictor.baselines.in_context})
    whole = over_vocabulary(own, predictor)
    if rivals is not None:
        inside, over_all = rivals.judge(own, progress)
        found, whole = found | inside, whole | over_all
    if limit is not None:
        there = aligned(windows, limit.graph.vocabulary)
        found |= in_context(there, {"limit": limit_weights(limit)})
    return Scores(
        table_of(found, windows, np.flatnonzero(windows.realizable), "predictor"),
        table_of(whole, windows, np.arange(len(windows)), "predictor"),
        **_told(rivals),
        new_labels=int((own.label >= len(predictor.vocabulary)).sum()),
    )


def _rivals(
    names: Sequence[str],
    train: Windows | None,
    valid: Windows | None,
    vocabulary: Vocabulary,
    progress: Progress,
    seconds: float,
) -> Field | None:
    """The baselines of these names, fitted; None where none is asked for."""
    if not names:
        return None
    if train is None or valid is None:
        raise UsageError("baselines are fitted on `train` and mixed on `valid`: give both.")
    train = aligned(train, vocabulary)
    if len(train.vocabulary) > len(vocabulary):
        raise DataError("the windows given as `train` hold tokens that the model never saw.")
    return fit_field(names, train, valid, progress, seconds)


def score_limit(
    limit: Limit,
    windows: Windows,
    train: Windows | None = None,
    valid: Windows | None = None,
    baselines: Sequence[str] = (),
    progress: Progress = quiet,
    seconds: float = SECONDS,
) -> Scores:
    """The limit automaton, beside the unigram; with its training corpus, beside all baselines.

    Their settings are the usual ones, or chosen on `valid`.
    """
    vocabulary = limit.graph.vocabulary if train is None else train.vocabulary
    rivals = _rivals(baselines, train, valid, vocabulary, progress, seconds)
    own = aligned_where_known(windows, limit.graph.vocabulary)
    found = in_context(own, {"limit": limit_weights(limit)})
    systems: dict[str, LogWeights] = {"unigram": lambda bags: np.log(bags.count)}
    if train is not None:
        validation = None if valid is None else aligned(valid, vocabulary)
        systems = dict(fit_baselines(train, validation).in_context)
    found |= in_context(aligned(windows, vocabulary), systems)
    if rivals is not None:
        found |= rivals.judge(aligned(windows, vocabulary), progress).inside
    return Scores(
        table_of(found, windows, np.flatnonzero(windows.realizable), "limit"), **_told(rivals)
    )


def _told(rivals: Field | None) -> dict[str, Any]:
    """What is to be said of the baselines that were asked for."""
    return {} if rivals is None else {"left_out": rivals.left_out, "trained": rivals.trained}


def table_of(
    found: Mapping[str, Measured], windows: Windows, rows: Int[np.ndarray, " rows"], first: str
) -> ScoreTable:
    """What was found on these rows: means, standard errors, and what each has more than `first`, window by window.

    Where some label had probability 0 the log-loss is infinite, `impossible` says how many had, and there is no
    difference to speak of (NaN).
    """
    cluster, clustered_by = clusters_of(windows)
    weight, cluster = windows.weight[rows], cluster[rows]
    table = []
    for name, m in found.items():
        row: dict[str, float] = {}
        for figure in ("log_loss", "top1", "top5", "mrr10"):
            value, mine = (getattr(x, figure.removeprefix("log_")) for x in (m, found[first]))
            row[figure], row[f"{figure}_error"] = mean_and_error(value, weight, cluster)
            both = np.isfinite(value) & np.isfinite(mine)
            more = np.subtract(value, mine, where=both, out=np.full(len(value), np.nan))
            row[f"{figure}_more"], row[f"{figure}_more_error"] = mean_and_error(
                more, weight, cluster
            )
        impossible = float(weight @ ~np.isfinite(m.loss) / weight.sum())
        bins = reliability(m, weight)
        ece = sum(b.weight * abs(b.sure - b.right) for b in bins) / float(weight.sum())
        table.append(ScoreRow(name, impossible, **row, calibration_error=ece, reliability=bins))
    clusters = len(np.unique(cluster))
    return ScoreTable(len(weight), float(weight.sum()), first, clusters, clustered_by, table)


def clusters_of(windows: Windows) -> tuple[Int[np.ndarray, " windows"], str]:
    """Which windows lean the same way, and how that was told.

    Those of one sequence, where there are enough of them; else blocks of consecutive windows (of one sequence).
    """
    sequence = np.zeros(len(windows), dtype=np.int64)
    if windows.starts is not None:
        sequence = windows.sequence_of(windows.source)
    if len(np.unique(sequence)) >= ENOUGH:
        return sequence, "sequences"
    first = np.searchsorted(sequence, sequence)  # windows are in the order of the corpus
    block = (np.arange(len(windows)) - first) // ERROR_BLOCK
    new = (np.diff(block, prepend=0) != 0) | (np.diff(sequence, prepend=sequence[:1]) != 0)
    return np.cumsum(new), f"blocks of {ERROR_BLOCK:,} windows"


def mean_and_error(
    value: Float[np.ndarray, " windows"],
    weight: Float[np.ndarray, " windows"],
    cluster: Int[np.ndarray, " windows"],
) -> tuple[float, float]:
    """The weighted mean and its standard error over clusters of windows (NaN for a single one)."""
    mean = float(weight @ value / weight.sum())
    if not np.isfinite(mean):
        return mean, float("nan")
    n = len(np.unique(cluster))
    if n < 2:
        return mean, float("nan")
    away = np.bincount(cluster, weight * (value - mean))
    return mean, float(np.sqrt(n / (n - 1) * (away**2).sum()) / weight.sum())


def reliability(m: Measured, weight: Float[np.ndarray, " windows"]) -> list[Bin]:
    """First guesses by how sure the system was of them, in bins of equal width; empty ones are left out."""
    at = np.minimum((m.sure * BINS).astype(np.int64), BINS - 1)
    total, sure, right = (np.bincount(at, weight * v, BINS) for v in (1.0, m.sure, m.top1))
    return [Bin(*(float(v) for v in (sure[i] / total[i], right[i] / total[i], total[i])))
            for i in np.flatnonzero(total)]  # fmt: skip
