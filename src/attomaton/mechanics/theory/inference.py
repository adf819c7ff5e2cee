r"""Orders that a last token's data leave open, inferred by keys and queries from those of other last tokens.

W over one-hot tokens learns each last token by itself. Trained as a product $K Q^\top$ it shares: a token has one row
of keys for all last tokens. So where the graph of the last token relates two tokens of a context in no way, the
difference of their scores $(K_i - K_j) \cdot Q_q$ rests on what other last tokens taught. That is an inference, not
what the data decide, and it is told apart: with the last tokens whose data order the pair, how many samples say so, how
many starts of training agree, and how far the scores are from a tie. Where some start disagrees, where the scores are
close to a tie, or where other last tokens say nothing or the contrary, the order stays undetermined.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.base.face import Shown
from attomaton.base.shapes import Float, Int
from attomaton.corpus.samples import read_context
from attomaton.corpus.vocabulary import Label
from attomaton.errors import UsageError, visible
from attomaton.mechanics.theory.evidence import Reach
from attomaton.mechanics.theory.limit import Limit, expect_limit

FROM_OTHERS = "inferred from other last tokens"
UNDETERMINED = "undetermined"
NEAR = 0.05  # of the difference between ordered tokens: below, two are as good as tied
DECIDED = "The data decide."
NAMED = 3  # other last tokens that a sentence names


@dataclass(frozen=True)
class Order:
    """One token over another, by the scores of keys and queries after a last token whose data leave the two open.

    `difference` is the mean over the starts of training, `relative` the same as a share of the median difference
    between tokens that the data do order: near 0 the two are as good as tied. `agree` are the other last tokens whose
    graphs order the pair this way, `samples` how many samples after other last tokens have the winner as the next token
    and the loser in their context; `against` and `samples_against` the same for the contrary. `basis` is
    "inferred from other last tokens", or "undetermined" with the reason.
    """

    winner: Label
    loser: Label
    difference: float
    relative: float
    starts: int  # with this order
    agree: tuple[Label, ...]
    against: tuple[Label, ...]
    samples: float
    samples_against: float
    basis: str

    @property
    def inferred(self) -> bool:
        """Whether other last tokens decide it."""
        return self.basis == FROM_OTHERS

    def words(self) -> str:
        """All of it in a sentence."""
        said = f"{visible(self.winner)} over {visible(self.loser)}: {self.basis}"
        if self.agree or self.against:
            other = _named(self.against, self.samples_against)
            said += f" (so order it {_named(self.agree, self.samples)}; the other way {other})"
        far = f"{self.relative:.2g} of the usual difference between ordered tokens"
        return f"{said}; scores differ by {self.difference:.3g}, {far}"


def _named(lasts: Sequence[Label], samples: float) -> str:
    names = ", ".join(visible(x) for x in lasts[:NAMED])
    more = f" and {len(lasts) - NAMED} more" if len(lasts) > NAMED else ""
    held = f"{samples:g} sample{'' if samples == 1 else 's'}"
    return f"{names}{more}, {held}" if lasts else "none"


@dataclass(frozen=True, repr=False)
class Inference(Shown):
    """What keys and queries add to the answer of the data for one context.

    `open` are the tokens of the context that nothing in it outranks, one of each tied class: with one of them the data
    decide, and `prediction` is that token. With more, `orders` tell why the one whose score is highest stands over each
    of the others; it is the `prediction` if other last tokens decide all of that, which else is None.

    >>> from attomaton import example_samples, infer, solve_limit, train
    >>> run = train(example_samples(), factorised=True, optimizer="ngd", steps=300)
    >>> infer(solve_limit(example_samples()), run.factors, ["toast", "cake", "bell"]).open
    ('toast',)
    """

    context: tuple[Label, ...]
    open: tuple[Label, ...]
    prediction: Label | None
    orders: tuple[Order, ...]
    starts: int
    rank: int
    note: str

    def _in_short(self) -> str:
        return f"{visible(self.prediction)!r}, {len(self.open)} open: {self.note}"


def infer(
    limit: Limit, factors: Float[np.ndarray, "*starts 2 width rank"], context: Sequence[Label]
) -> Inference:
    """What is inferred about a context where the data of its last token leave an order open.

    `factors` are those of a run of `train(…, factorised=…)` on the limit's samples, of one start or of several.

    >>> from attomaton import example_samples, infer, solve_limit, train
    >>> run = train(example_samples(), factorised=True, optimizer="ngd", steps=300)
    >>> found = infer(solve_limit(example_samples()), run.factors, ["soup", "cake", "bell"])
    >>> found.prediction, found.note
    ('soup', 'The data decide.')
    """
    expect_limit(limit)
    given = np.asarray(factors, float)
    table, vocabulary, graph = limit.embeddings, limit.graph.vocabulary, limit.graph
    width = len(vocabulary) if table is None else table.keys.shape[1]
    if given.ndim not in (3, 4) or given.shape[-3:-1] != (2, width):
        raise UsageError(
            f"factors: keys and queries of this limit have shape (2, {width}, rank), or that for each of several "
            f"starts; given is {given.shape}."
        )
    given = given.reshape(-1, 2, *given.shape[-2:])
    keys, queries = given[:, 0], given[:, 1]
    if table is not None:
        keys, queries = table.keys @ keys, table.queries @ queries
    words = read_context(context)
    q = vocabulary.id_of(words[-1]) if words else None
    known = (vocabulary.id_of(x) for x in dict.fromkeys(words))
    tokens = np.array([i for i in known if i is not None], np.int64)

    def answer(open_: Sequence[int], orders: tuple[Order, ...], note: str) -> Inference:
        named = tuple(vocabulary[i] for i in open_)
        first = named[0] if named and all(order.inferred for order in orders) else None
        return Inference(tuple(words), named, first, orders, len(given), given.shape[-1], note)

    if q is None or not np.isin(q, graph.pair_last):
        return answer((), (), "Nothing was learned about contexts that end in the last token.")
    scores = np.einsum("skr,sr->sk", keys[:, tokens], queries[:, q])  # of each start
    reach = Reach(limit.graph)
    top = _highest(limit, reach, q, tokens, scores.mean(axis=0))
    if len(top) < 2:
        return answer(tokens[top].tolist(), (), DECIDED)
    best, *others = sorted(top.tolist(), key=lambda i: -scores[:, i].mean())
    usual = _usual_difference(limit, keys, queries)
    orders = []
    for i in others:
        apart = scores[:, best] - scores[:, i]
        mean = float(apart.mean())
        w, x = int(tokens[best]), int(tokens[i])
        agree, against = (_ordered_by(limit, reach, q, *pair) for pair in ((w, x), (x, w)))
        relative, starts = mean / usual if usual > 0 else 0.0, int((apart > 0).sum())
        orders.append(
            Order(
                vocabulary[w], vocabulary[x], mean, relative, starts, agree, against,
                _samples(limit, q, w, x), _samples(limit, q, x, w),
                _basis(len(agree), len(against), relative, starts == len(apart)),
            )
        )  # fmt: skip
    orders.sort(key=lambda order: order.difference)
    rest = (
        FROM_OTHERS if all(order.inferred for order in orders) else "some of it stays undetermined"
    )
    note = f"The data leave the order open; {rest}."
    return answer(tokens[[best, *others]].tolist(), tuple(orders), note)


def _basis(agree: int, against: int, relative: float, same: bool) -> str:
    """Whether an order is inferred, or why it is not."""
    if not agree and not against:
        return f"{UNDETERMINED}, no other last token orders the pair"
    if agree <= against:
        return f"{UNDETERMINED}, other last tokens say the contrary"
    if not same:
        return f"{UNDETERMINED}, starts of training disagree"
    return FROM_OTHERS if relative >= NEAR else f"{UNDETERMINED}, as good as a tie"


def _highest(
    limit: Limit,
    reach: Reach,
    q: int,
    tokens: Int[np.ndarray, " tokens"],
    score: Float[np.ndarray, " tokens"],
) -> Int[np.ndarray, " highest"]:
    """Places of the tokens that none of them outranks after q, of each tied class the one of the highest score."""
    pair = limit.graph.pairs(np.full(len(tokens), q), tokens)
    seen = np.flatnonzero(pair >= 0)
    component = limit.graph.component[pair[seen]]
    above = reach(*(x.ravel() for x in np.meshgrid(component, component, indexing="ij")))
    led = above.reshape(len(seen), len(seen))
    kept: dict[int, int] = {}
    for i in seen[~led.any(axis=0)].tolist():
        c = int(limit.graph.component[pair[i]])
        if c not in kept or score[i] > score[kept[c]]:
            kept[c] = i
    return np.array(sorted([*kept.values(), *np.flatnonzero(pair < 0).tolist()]), np.int64)


def _usual_difference(
    limit: Limit, keys: Float[np.ndarray, "starts K r"], queries: Float[np.ndarray, "starts K r"]
) -> float:
    """The median difference, over starts and strict priorities, between the scores of tokens that the data order."""
    graph = limit.graph
    strict = graph.strict
    last = graph.pair_last[graph.edge_from[strict]]
    above, below = (graph.pair_token[x[strict]] for x in (graph.edge_from, graph.edge_to))
    apart = [
        np.einsum("er,er->e", k[above] - k[below], q[last])
        for k, q in zip(keys, queries, strict=True)
    ]
    return float(np.median(apart)) if len(last) else 0.0


def _ordered_by(limit: Limit, reach: Reach, q: int, above: int, below: int) -> tuple[Label, ...]:
    """The other last tokens whose graphs lead from one token to the other, and not back."""
    graph = limit.graph
    lasts = [graph.pair_last[graph.pair_token == x] for x in (above, below)]
    common = np.setdiff1d(np.intersect1d(*lasts), [q])
    a, b = (graph.component[graph.pairs(common, np.full(len(common), x))] for x in (above, below))
    found = common[reach(a, b)]
    return tuple(graph.vocabulary[int(k)] for k in found)


def _samples(limit: Limit, q: int, above: int, below: int) -> float:
    """The weight of the samples after other last tokens that one token wins with the other in their context."""
    samples = limit.samples
    of = samples.sample_of[samples.token == below]
    return float(samples.weight[of[(samples.label[of] == above) & (samples.last[of] != q)]].sum())
