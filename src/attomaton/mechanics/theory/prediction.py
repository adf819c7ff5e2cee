"""The next token of a context as one record, whatever model was asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isinf, isnan

from attomaton.corpus.vocabulary import Label
from attomaton.mechanics.theory.automaton import Automaton, Unknown, unknown_note
from attomaton.mechanics.theory.inference import Inference
from attomaton.mechanics.theory.information import Interval
from attomaton.results import absent


@dataclass(frozen=True)
class Share:
    """A token and its probability; None stands for all words that were never seen."""

    token: Label | None
    p: float
    low: float | None = absent()  # its 95 % interval, where tied tokens are mixed
    high: float | None = absent()


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What comes next, the likeliest first: by a limit at a `radius`, by a predictor with `backoff` or without.

    `unknown` are the tokens of the context that the model does not know, `unseen` the known ones that were never seen
    with the last token. A `continuation` is drawn where one was asked for.
    """

    context: Sequence[Label]
    radius: float | None = absent()
    backoff: bool | None = absent()
    prediction: Label | None
    probabilities: Sequence[Share]
    known_last: bool | None = absent()
    unknown: Sequence[Unknown]
    unseen: Sequence[Label]
    note: str
    continuation: Sequence[Label] | None = absent()
    continuation_ends: str | None = absent()  # why it is shorter than it was asked for
    inference: Inference | None = absent()  # where keys and queries were asked, too


def limit_prediction(automaton: Automaton, words: Sequence[Label], radius: float) -> Prediction:
    """What the limit of training predicts, at the norm `radius` of W along W_svm."""
    p = automaton.predict_proba(words, radius)
    shares = falling(p)
    if isinf(radius):  # on the way there, odds are those of no fit
        sure = automaton.intervals(words)
        shares = [_sure(x, sure.get(x.token)) if x.token is not None else x for x in shares]
    unknown = automaton.unknown(words)
    return Prediction(
        context=words,
        radius=radius,
        prediction=shares[0].token if shares else None,
        probabilities=shares,
        known_last=p.known_last,
        unknown=unknown,
        unseen=p.unseen,
        note=unknown_note(unknown, bool(shares)),
    )


def _sure(share: Share, interval: Interval | None) -> Share:
    """A share with its interval, where that is known."""
    if interval is None or isnan(interval.se):
        return share
    return replace(share, low=interval.low, high=interval.high)


def falling(p: Mapping[Label, float] | Mapping[Label | None, float]) -> list[Share]:
    """Probabilities by token as shares, the likeliest first."""
    return [Share(x, v) for x, v in sorted(p.items(), key=lambda pair: -pair[1])]
