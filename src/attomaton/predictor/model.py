"""A tuned predictor: distributions over the context or the whole vocabulary, each explained term by term.

On disk it is a folder:

    predictor.json       the settings chosen, the whole grid with validation figures, certificates, provenance
    vocabulary.json      token labels, their place is their id
    pairs.safetensors    the learned corrections S − S_0: token and value, last token by last token
    prior.safetensors    the tables of the prior's features
    ngrams.safetensors   n-gram counts, recency and gate: the back-off and the baselines
    stage.safetensors    the convex stage on top, where it pays: weights, longer n-grams, its gate
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.face import Shown
from attomaton.base.shapes import Float, Int
from attomaton.corpus.reading import Reading
from attomaton.corpus.samples import read_context
from attomaton.corpus.vocabulary import Label, Vocabulary
from attomaton.disk.formats import (
    AGAIN,
    expect_arrays,
    read_arrays,
    read_json,
    write_arrays,
    write_json,
)
from attomaton.disk.records import absent, as_record
from attomaton.disk.storage import check_folder, check_place, new_folder
from attomaton.errors import DataError, counted, whole_number
from attomaton.mechanics.theory.automaton import NOT_A_TOKEN, SUGGESTED, Unknown, expect_generator
from attomaton.numerics import heaviest, rising, row_pointer
from attomaton.predictor.backoff import FAR, Gate, Mixture, reach
from attomaton.predictor.bags import Bags, bag_of
from attomaton.predictor.baselines import Baselines
from attomaton.predictor.counts import Counts, pair_key
from attomaton.predictor.ngrams import Best, NGrams
from attomaton.predictor.priors import Bigram, Feature, Kin, Main, Odds, Prior, parse_prior
from attomaton.predictor.reasons import Behind, Reasons, Term, taken_as
from attomaton.predictor.stage.gate import added, window_features
from attomaton.predictor.stage.gate import reach as reach_of
from attomaton.predictor.stage.looking import Look
from attomaton.predictor.stage.model import SCORE, ConvexStage
from attomaton.predictor.stage.reasons import FactsBehind
from attomaton.predictor.stage.terms import ngram_steps

STAGE_FILE = "stage.safetensors"


@dataclass(frozen=True)
class _Chosen:
    theta: float
    prior: str


@dataclass(frozen=True)
class _Settings:
    mu: float
    frequency: bool
    theta: float
    mix: tuple[float, float]
    discounts: tuple[float, float]


@dataclass(frozen=True)
class _Gate:
    overall: float


@dataclass(frozen=True)
class _Stage:
    reason: str  # why there is none


@dataclass(frozen=True)
class _Kept:
    """What is needed of `predictor.json` to predict."""

    reading: Reading
    chosen: _Chosen
    baselines: _Settings
    gate: _Gate
    stage: _Stage | None = absent()  # folders of version 2 know nothing of one


class Seen(NamedTuple):
    """Distributions, and what the stage saw on the way: its terms, its look at the bags, the terms of its gate."""

    mixture: Mixture
    terms: Mapping[str, Float[np.ndarray, " incidences"]]
    look: Look | None
    gate: Mapping[str, Float[np.ndarray, " bags"]]


@dataclass(frozen=True, eq=False, repr=False)
class Predictor(Shown):
    """p(x | X, q) ∝ m_x^θ exp(S_0[q, x] + correction[q, x]) inside the context; an n-gram and a gate outside.

    With a `stage` that is the tuned score, and the stage's log-odds, n-grams and gate take their place.
    Made by `tune`, opened from a folder by `Predictor.open`.

    >>> from attomaton import as_windows, tune
    >>> text = "the cat and the dog and the cat saw the dog".split()
    >>> seen, held_out = as_windows([text * 3], context=6), as_windows([text[3:] + text], context=6)
    >>> predictor = tune(seen, held_out, priors=["zero"], lambdas=[1.0], thetas=[1.0])
    >>> predictor
    Predictor(5 tokens, 20 pairs, theta 1, prior zero)
    >>> predictor.predict(["the", "cat", "saw", "the"])
    'dog'
    """

    vocabulary: Vocabulary
    theta: float
    prior: Prior
    corrections: Counts  # by pair key
    baselines: Baselines
    gate: Gate
    record: dict[str, Any]
    stage: ConvexStage | None = None

    def _in_short(self) -> str:
        groups = "" if self.stage is None else f", stage {'+'.join(self.stage.weight) or SCORE}"
        return (
            f"{counted(len(self.vocabulary), 'token')}, {counted(len(self.corrections.key), 'pair')}, "
            f"theta {self.theta:g}, prior {self.prior.name}{groups}"
        )

    def tuned(self, bags: Bags) -> Float[np.ndarray, " incidences"]:
        """The tuned score of every token of these bags."""
        learned = self.corrections.of(pair_key(len(self.vocabulary), bags.query, bags.token))
        return self.theta * np.log(bags.count) + self.prior.scores(bags.query, bags.token) + learned

    def log_weights(self, bags: Bags) -> Float[np.ndarray, " incidences"]:
        """The score of every token of these bags, with the stage; their softmax is the in-context distribution."""
        tuned = self.tuned(bags)
        return tuned if self.stage is None else self.stage.log_odds(self.stage.look(bags, tuned))

    def mixture(self, bags: Bags, places: int = 1) -> Mixture:
        """The distribution over everything, with so many of the n-grams' first choices."""
        return self.seen(bags, places).mixture

    def seen(self, bags: Bags, places: int = 1) -> "Seen":
        """The same, with what the stage saw on the way to it."""
        best = self.first_outside(bags, places)
        if self.stage is None:
            r = reach(bags, self.baselines.ngrams)
            share = bags.shares(self.tuned(bags))
            return Seen(Mixture(share, self.gate.of(bags, r), r, best), {}, None, {})
        look = self.stage.look(bags, self.tuned(bags))
        terms = self.stage.terms(look)
        log_odds = np.asarray(sum(terms.values()))
        features = window_features(look, log_odds, self.stage.tables, best, self.gate)
        gate = self.stage.gate.terms(features)
        g, r = added(gate), reach_of(look, len(self.vocabulary))
        return Seen(Mixture(bags.shares(log_odds), g, r, best), terms, look, gate)

    def first_outside(
        self, bags: Bags, places: int, rows: Int[np.ndarray, " rows"] | None = None
    ) -> Best:
        """The first choices, after these bags (all of them without `rows`), of the n-grams that speak outside."""
        if self.stage is None:
            last = bags.last if rows is None else bags.last[rows]
            return self.baselines.ngrams.best_bigrams(last, places)
        histories = self.stage.tables.histories(bags)
        return self.stage.tables.ngrams.best(histories if rows is None else histories[rows], places)

    def order_outside(self, bags: Bags) -> list[int]:
        """The order of the n-grams that speak outside each context: without a stage 2, or 1 where nothing followed."""
        if self.stage is not None:
            return [self.stage.tables.ngrams.order] * len(bags)
        return np.where(self.baselines.ngrams.followed(bags.last), 2, 1).tolist()

    def by_ngrams(self, bags: Bags, x: Int[np.ndarray, " bags"]) -> Float[np.ndarray, " bags"]:
        """The p of one token after each bag by the n-grams that speak outside the context."""
        if self.stage is None:
            return self.baselines.ngrams.bigram(bags.last, x)
        rows, ngrams = np.arange(len(bags)), self.stage.tables.ngrams
        return np.asarray(ngrams.probabilities(self.stage.tables.histories(bags), rows, x)[-1])

    def predict_proba(
        self, context: Sequence[Label], backoff: bool = True
    ) -> dict[Label | None, float]:
        """The next token's distribution.

        With `backoff` over the whole vocabulary, the words of the context, and None for any word never seen; without
        it over the tokens of the context only.
        """
        bags, words = self._bag(context)
        if not backoff:
            p = bags.shares(self.log_weights(bags))
            return dict(zip(words, p.tolist(), strict=True))
        found = self.mixture(bags)
        spread = self._spread(found, bags)
        answer: dict[Label | None, float] = dict(
            zip([*self.vocabulary.labels, None], spread.tolist(), strict=True)
        )
        answer.update(zip(words, (found.gate[0] * found.share).tolist(), strict=True))
        return answer

    def _spread(self, found: Mixture, bags: Bags) -> Float[np.ndarray, " vocab_and_one"]:
        """What tokens outside this context share of the rest."""
        K, ngrams = len(self.vocabulary), self.baselines.ngrams
        spread = (
            ngrams.bigram(np.full(K + 1, bags.last[0]), np.arange(K + 1))
            if self.stage is None
            else self.stage.tables.ngrams.spread(self.stage.tables.histories(bags)[0])
        )
        spread[bags.token[bags.token < K]] = 0.0
        return spread * ((1.0 - float(found.gate[0])) / spread.sum())

    def predict(self, context: Sequence[Label], backoff: bool = True) -> Label:
        """The most probable next token."""
        p = self.predict_proba(context, backoff)
        return max((x for x in p if x is not None), key=lambda x: p[x])

    def sample(
        self,
        context: Sequence[Label],
        rng: np.random.Generator,
        length: int = 1,
        backoff: bool = True,
    ) -> list[Label]:
        """A continuation drawn token by token; *any word never seen* is no word and is not drawn."""
        whole_number("length", length, least=1)
        expect_generator(rng)
        words = self.looked_at(context)
        begin = len(words)
        for _ in range(length):
            found = self.predict_proba(words, backoff)
            found.pop(None, None)
            p = np.array(list(found.values()))
            words.append(list(found)[rng.choice(len(p), p=p / p.sum())])  # type: ignore[arg-type]
        return words[begin:]

    def explain(self, context: Sequence[Label], backoff: bool = True, outside: int = 5) -> Reasons:
        """The answer of `predict` with every term of every score inside the context, the most probable first.

        `outside` is how many tokens outside the context are shown.
        """
        whole_number("outside", outside, least=0)
        bags, words = self._bag(context)
        seen = self.seen(bags)
        found, context = seen.mixture, self.looked_at(context)
        spread = self._spread(found, bags) if backoff else np.zeros(len(self.vocabulary) + 1)
        p = self._first_two(found, bags, words, spread, backoff)
        first, named = list(p), [*self.vocabulary.labels, None]
        terms = dict(zip(words, self.terms(bags, seen, np.arange(len(words)), words), strict=True))
        gate = float(found.gate[0]) if backoff else None
        against = None
        if len(first) > 1:
            at = dict(zip(words, bags.token.tolist(), strict=True))
            ids = np.array([at.get(x, self.vocabulary.id_of(x)) for x in first])
            behind = self.behind(bags, seen, ids[None])
            own = [terms.get(x) for x in first]
            against = behind.contrast(0, first, list(p.values()), own, gate, context)
        unknown = self.unknown(context)
        return Reasons(
            tuple(context),
            first[0],
            p[first[0]],
            first[0] in words,
            backoff,
            gate,
            tuple(sorted(terms.values(), key=lambda term: -term.p)),
            tuple((named[i], float(spread[i])) for i in _largest(spread, outside)),
            unknown,
            taken_as(unknown),
            self.order_outside(bags)[0],
            against,
            {name: float(value[0]) for name, value in seen.gate.items()} if backoff else {},
        )

    def _first_two(
        self,
        found: Mixture,
        bags: Bags,
        words: list[Label],
        spread: Float[np.ndarray, " vocab_and_one"],
        backoff: bool,
    ) -> dict[Label, float]:
        """The two most probable tokens that have a name; of equals those that `predict` would take."""
        K = len(self.vocabulary)
        p = np.zeros(max(K, int(bags.token.max()) + 1))
        p[:K] = spread[:K]
        p[bags.token] = found.share * (found.gate[0] if backoff else 1.0)
        word = dict(zip(bags.token.tolist(), words, strict=True))
        return {(word[i] if i in word else self.vocabulary[i]): float(p[i]) for i in _largest(p, 2)}

    def terms(
        self, bags: Bags, seen: "Seen", at: Int[np.ndarray, " n"], words: Sequence[Label]
    ) -> list[Term]:
        """The terms of some incidences, whose tokens are these words."""
        q, x, count = bags.query[at], bags.token[at], bags.count[at]
        key, prior = pair_key(len(self.vocabulary), q, x), self.prior.terms(q, x)
        count_term, learned = self.theta * np.log(count), self.corrections.of(key)
        known, share = self.corrections.place(key) >= 0, seen.mixture.share[at]
        stage = {name: value[at] for name, value in seen.terms.items() if name != SCORE}
        return [
            Term(
                word, int(count[i]), float(count_term[i]),
                {name: float(value[i]) for name, value in prior.items()}, float(learned[i]),
                bool(known[i]), float(share[i]), 1.0 if self.stage is None else self.stage.slope,
                {name: float(value[i]) for name, value in stage.items()},
            )
            for i, word in enumerate(words)
        ]  # fmt: skip

    def behind(self, bags: Bags, seen: "Seen", two: Int[np.ndarray, "bags 2"]) -> Behind:
        """What stands behind the log-odds of two tokens, given by id, after each of these bags."""
        row, x = np.repeat(np.arange(len(bags)), 2), two.ravel()
        if self.stage is None or seen.look is None:
            steps = np.log(self.baselines.ngrams.bigram(bags.last[row], x))[None]
            return Behind(two, ("2-gram",), steps, None)
        tables = self.stage.tables
        histories = tables.histories(bags)
        steps = ngram_steps(tables.ngrams.of_each_order(histories, row, x), row)
        orders = (f"{n}-gram" for n in range(1, len(steps)))
        names = (*orders, "lower orders where a history is new")
        return Behind(two, names, steps, FactsBehind(bags, row, x, tables))

    def unknown(self, context: Sequence[Label]) -> tuple[Unknown, ...]:
        """Tokens of a context that training never saw, with the nearest it did (looked up for the first few)."""
        new = [x for x in dict.fromkeys(self.looked_at(context)) if x not in self.vocabulary]
        nearest = self.vocabulary.nearest
        return tuple(
            Unknown(x, nearest(x) if i < SUGGESTED else None, NOT_A_TOKEN)
            for i, x in enumerate(new)
        )

    def looked_at(self, context: Sequence[Label]) -> list[Label]:
        """The tokens of a context that the predictor looks at."""
        labels = read_context(context)
        if not labels:
            raise DataError("the context is empty; a prediction needs at least one token.")
        T = self.record["reading"].get("context")  # rows of a JSONL file are of any length
        return labels[-(T or 0) :]

    def _bag(self, context: Sequence[Label]) -> tuple[Bags, list[Label]]:
        """A context as a bag, and its tokens in words."""
        labels = self.looked_at(context)
        ids = self.ids_of(labels)
        bags = bag_of(ids)
        word = dict(zip(ids.tolist(), labels, strict=True))
        return bags, [word[int(x)] for x in bags.token]

    def ids_of(self, labels: Sequence[Label]) -> Int[np.ndarray, " tokens"]:
        """The tokens of a context as ids; words never seen get ids behind the vocabulary, in their order."""
        new: dict[Label, int] = {}
        ids = self.vocabulary.ids_of(labels)
        for i in np.flatnonzero(ids < 0).tolist():
            ids[i] = new.setdefault(labels[i], len(self.vocabulary) + len(new))
        return ids

    # On disk

    def save(self, folder: Path | str, force: bool = False) -> None:
        """Write the predictor as a folder.

        An earlier predictor there is replaced, another folder of ours by `force` alone, anything else never.
        """
        with new_folder(check_place(folder, "predictor", force=force), "tune") as work:
            self.write(work)

    def write(self, work: Path) -> None:
        """Write its files into a folder that is being filled."""
        K, ngrams = len(self.vocabulary), self.baselines.ngrams
        last, token = np.divmod(self.corrections.key, K)
        write_json(work / "predictor.json", self.record)
        write_json(work / "vocabulary.json", list(self.vocabulary.labels))
        write_arrays(
            work / "pairs.safetensors",
            {
                "start": row_pointer(np.bincount(last, minlength=K)),
                "token": token.astype(np.int32),
                "correction": self.corrections.count,
            },
        )
        write_arrays(work / "prior.safetensors", _feature_arrays(self.prior))
        if self.stage is not None:
            write_arrays(work / STAGE_FILE, self.stage.arrays())
        write_arrays(
            work / "ngrams.safetensors",
            {
                "one": ngrams.one,
                "two_key": ngrams.two.key,
                "two_count": ngrams.two.count,
                "three_key": ngrams.three.key,
                "three_count": ngrams.three.count,
                "recency": self.baselines.recency,
                "inside": self.gate.inside,
                "gate": self.gate.weight,
                "gate_held": np.array(self.gate.held),
            },
        )

    @classmethod
    def open(cls, folder: Path | str) -> "Predictor":
        """A predictor as it was saved."""
        folder = check_folder(folder, "predictor")
        record = read_json(path := folder / "predictor.json")
        kept = as_record(_Kept, record, path)
        chosen, settings = kept.chosen, kept.baselines
        if min(chosen.theta, settings.theta, settings.mu) < 0:
            raise DataError(f"{path}: settings that no tuning chooses; {AGAIN}.")
        labels = read_json(folder / "vocabulary.json")
        vocabulary = Vocabulary.from_record(labels, folder / "vocabulary.json")
        K = len(vocabulary)
        a = read_arrays(path := folder / "ngrams.safetensors")
        vector = ("f", (K,))
        expect_arrays(
            path,
            a,
            {
                "one": vector,
                "inside": vector,
                "recency": ("f", (None,)),
                "gate": ("f", (3,)),
                "gate_held": ("f", (2,)),
            },
        )
        a.setdefault("gate_held", np.array([-FAR, FAR]))  # folders of earlier versions have none
        if not len(a["recency"]) or min(a["one"].min(), a["recency"].min()) < 0:
            raise DataError(f"{path}: counts and shares are 0 or more; {AGAIN}.")
        ngrams = NGrams(
            K, a["one"], _read_counts(path, a, "two", K**2), _read_counts(path, a, "three", K**3),
            settings.discounts,
        )  # fmt: skip
        stage = None
        if kept.stage is not None and not kept.stage.reason:
            path = folder / STAGE_FILE
            stage = ConvexStage.from_arrays(path, read_arrays(path), K)
        return cls(
            vocabulary,
            chosen.theta,
            _read_prior(folder / "prior.safetensors", chosen, K),
            _read_corrections(folder / "pairs.safetensors", K),
            Baselines(
                ngrams, a["recency"], settings.mu, settings.frequency, settings.theta, settings.mix
            ),
            Gate(a["inside"], kept.gate.overall, a["gate"], tuple(a["gate_held"].tolist())),
            record,
            stage,
        )


def _largest(values: Float[np.ndarray, " n"], many: int) -> list[int]:
    """The places of the largest positive values, of equals the first."""
    return [i for i in heaviest(values, many).tolist() if values[i] > 0]


def _feature_arrays(prior: Prior) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {"weight": np.array(list(prior.weight.values()))}
    for f in prior.features.values():
        match f:
            case Main():
                arrays["main"] = f.value
            case Bigram():
                arrays |= {"bigram_key": f.counts.key, "bigram_count": f.counts.count}
            case Kin():
                arrays |= {"kin_left": f.left, "kin_right": f.right}
            case Odds():
                arrays |= {
                    "odds_main": f.main.value,
                    "wins_key": f.wins.key,
                    "wins_count": f.wins.count,
                    "appearances_key": f.appearances.key,
                    "appearances_count": f.appearances.count,
                    "share": np.array([f.share]),
                }
    return arrays


def _read_counts(path: Path, a: dict[str, np.ndarray], name: str, end: int) -> Counts:
    """Counts of keys below `end`, none of them negative."""
    key, count = f"{name}_key", f"{name}_count"
    expect_arrays(path, a, {key: ("i", (None,))})
    expect_arrays(path, a, {count: ("f", a[key].shape)})
    found = Counts(a[key].astype(np.int64), a[count])
    _check_keys(path, found.key, end)
    if (found.count < 0).any():
        raise DataError(f"{path}: counts of {name!r} are 0 or more; {AGAIN}.")
    return found


def _read_corrections(path: Path, K: int) -> Counts:
    a = read_arrays(path)
    expect_arrays(path, a, {"start": ("i", (K + 1,)), "token": ("i", (None,))})
    expect_arrays(path, a, {"correction": ("f", a["token"].shape)})
    length = np.diff(a["start"])
    if a["start"][0] != 0 or (length < 0).any() or a["start"][-1] != len(a["token"]):
        raise DataError(f"{path}: its arrays do not fit together; {AGAIN}.")
    key = np.repeat(np.arange(K), length) * K + a["token"]
    _check_keys(path, key, K**2)
    return Counts(key, a["correction"])


def _check_keys(path: Path, key: np.ndarray, end: int) -> None:
    """Refuse keys that are not ascending from 0 or more to below `end`."""
    if len(key) and (key[0] < 0 or int(key[-1]) >= end or not rising(key)):
        raise DataError(f"{path}: its keys are out of order or out of range; {AGAIN}.")


def _read_prior(path: Path, chosen: _Chosen, K: int) -> Prior:
    a, vector = read_arrays(path), ("f", (K,))

    def feature(name: str) -> Feature:
        if name == "main":
            expect_arrays(path, a, {"main": vector})
            return Main(a["main"])
        if name == "bigram":
            return Bigram(K, _read_counts(path, a, "bigram", K**2))
        if name == "kin":
            expect_arrays(path, a, {"kin_left": ("f", (K, None))})
            expect_arrays(path, a, {"kin_right": ("f", a["kin_left"].shape)})
            return Kin(a["kin_left"], a["kin_right"])
        expect_arrays(path, a, {"odds_main": vector, "share": ("f", (1,))})
        if not a["share"][0] > 0:
            raise DataError(f"{path}: share is more than 0; {AGAIN}.")
        wins, appearances = (_read_counts(path, a, x, K**2) for x in ("wins", "appearances"))
        return Odds(Main(a["odds_main"]), K, wins, appearances, float(a["share"][0]))

    names = parse_prior(chosen.prior)
    expect_arrays(path, a, {"weight": ("f", (len(names),))})
    weight = dict(zip(names, a["weight"].tolist(), strict=True))
    return Prior({name: feature(name) for name in names}, weight)
