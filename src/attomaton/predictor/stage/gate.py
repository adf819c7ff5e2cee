r"""Whether the next token is one of the context's: a logistic regression on what the stage and the n-grams say.

$$P(y) = g\, p(y) \;\; (y \in X), \qquad P(y) = (1 - g)\, \frac{p_n(y)}{1 - r} \;\; (y \notin X), \qquad
  r = \sum_{x \in X} p_n(x),$$

with $p_n$ the longest n-grams (`kneser_ney`) and p the shares of the stage. Every feature is about a window as a whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from attomaton.base.shapes import Bool, Float
from attomaton.predictor.backoff import EDGE, Gate, logit, squashed
from attomaton.predictor.bags import bag_of
from attomaton.predictor.ngrams import Best
from attomaton.predictor.stage.logit import Minimum, logistic
from attomaton.predictor.stage.looking import FREQUENCIES, LONGEST_MATCH, Look, Tables, look_at

RIDGE = 1e-4  # on features of spread 1


def reach(look: Look, K: int) -> Float[np.ndarray, " bags"]:
    """r: how much of the n-grams falls on the tokens of the context; words never seen have no part in it."""
    return np.minimum(look.bags.sums(np.where(look.bags.token < K, look.p, 0.0)), 1.0 - EDGE)


def window_features(
    look: Look,
    log_odds: Float[np.ndarray, " incidences"],
    tables: Tables,
    best: Best,
    by_last: Gate,
) -> dict[str, Float[np.ndarray, " bags"]]:
    """What the gate goes by, each named; `best` holds the n-grams' first choice after each window."""
    bags, K = look.bags, tables.K
    share = bags.shares(log_odds)
    head = bags.start[:-1]
    known = np.where(bags.token < K, 1.0, 0.0)
    r = logit(reach(look, K))
    two = logit(np.minimum(bags.sums(known * look.orders.p[min(1, len(look.orders.p) - 1)]), 1.0))
    g = logit(by_last.share_after(bags.last))
    top = np.maximum.reduceat(log_odds, head)
    evidence = top + np.log(bags.sums(np.exp(log_odds - top[bags.owner])))
    sure = best.p[:, 0]
    inside = bags.hold(np.arange(len(bags)), best.token[:, 0])
    match = np.maximum.reduceat(look.match, head)
    rarity = tables.frequency[tables.known(bags.last)]
    found: dict[str, np.ndarray] = {
        "always": np.ones(len(bags)),
        "share of such windows after the last token": g,
        "n-gram mass on the context": r,
        "bigram mass on the context": two,
        "evidence for tokens of the context": evidence,
        "strongest evidence": top,
        "share of the first choice": np.log(np.maximum.reduceat(share, head)),
        "entropy of the shares": -bags.sums(share * np.log(np.maximum(share, 1e-300))),
        "n-grams on the stage's choice": np.log(bags.sums(share * np.maximum(look.p, 1e-12))),
        "distinct tokens": np.log(np.diff(bags.start)),
        "first choice of the n-grams": np.log(sure),
        "it stands in the context": inside,
        "it stands there, and how sure": logit(sure) * inside,
        "nothing before the last token": bags.before < 0,
        "n-gram mass, squared": r * r,
        "evidence, squared": evidence * evidence,
        "n-gram mass × evidence": r * evidence,
        "n-gram mass × share after the last token": r * g,
        "n-gram mass × a match": r * (match > 0),
        "evidence × a match": evidence * (match > 0),
    }
    found |= {f"longest match {k}": match == k for k in range(1, LONGEST_MATCH + 1)}
    for n in range(2, len(look.orders.seen)):
        found[f"history of {n} tokens seen"] = seen = look.orders.seen[n]
        found[f"n-gram mass × history of {n} tokens seen"] = r * seen
    found |= {f"frequency of the last token {k}": rarity == k for k in range(1, FREQUENCIES + 1)}
    return found


def feature_names(tables: Tables) -> list[str]:
    """The names of the features, in their order: those of a context that nobody has ever seen."""
    look = look_at(bag_of(np.array([tables.K])), np.zeros(1), tables)
    best = Best(np.array([[-1]]), np.array([[0.5]]))
    return list(
        window_features(look, np.zeros(1), tables, best, Gate(np.zeros(0), 0.5, np.zeros(3)))
    )


@dataclass(frozen=True, eq=False)
class WindowGate:
    """g of windows, from features brought to mean 0 and spread 1.

    Each is held between the least and the largest value it was fitted on: among the features are squares and products,
    and beyond what was seen (a context of new words alone) their sum goes anywhere.
    """

    mean: Float[np.ndarray, " features"]
    spread: Float[np.ndarray, " features"]
    weight: Float[np.ndarray, " features"]
    least: Float[np.ndarray, " features"]
    largest: Float[np.ndarray, " features"]

    def terms(
        self, features: dict[str, Float[np.ndarray, " bags"]]
    ) -> dict[str, Float[np.ndarray, " bags"]]:
        """What each feature adds to logit g."""
        scale = self.weight / self.spread
        return {
            name: scale[i] * (np.clip(value, self.least[i], self.largest[i]) - self.mean[i])
            for i, (name, value) in enumerate(features.items())
        }


def added(terms: Mapping[str, Float[np.ndarray, " bags"]]) -> Float[np.ndarray, " bags"]:
    """g from its terms."""
    return squashed(np.sum(list(terms.values()), axis=0))


def fit_window_gate(
    F: Float[np.ndarray, "windows features"],
    hit: Bool[np.ndarray, " windows"],
    weight: Float[np.ndarray, " windows"],
) -> tuple[WindowGate, Minimum]:
    """The gate that suits these windows best; the first feature is 1 for all of them."""
    share = weight / weight.sum()
    mean, spread = share @ F, F.std(axis=0)
    spread = np.where(spread > 1e-9, spread, 1.0)
    mean[0] = 0.0
    found = logistic((F - mean) / spread, hit, share, RIDGE)
    return WindowGate(mean, spread, found.weight, F.min(axis=0), F.max(axis=0)), found
