"""What a probe found, as frozen records: every number of the report stands in one of them."""

from dataclasses import dataclass

from attomaton.disk.manifest import Entry
from attomaton.trained.form import Form


@dataclass(frozen=True)
class Share:
    """A share of cases with its 95 % interval; cases after one last token count as one cluster."""

    value: float
    low: float
    high: float
    cases: int
    clusters: int


@dataclass(frozen=True)
class Band:
    """The share of those cases that some measure puts together."""

    name: str
    share: Share


@dataclass(frozen=True)
class Correlation:
    """How the model's log-odds follow Luce's on tied tokens: rank correlation, and the slope of a straight line."""

    pairs: int
    rank: float
    rank_low: float
    rank_high: float
    slope: float
    slope_low: float
    slope_high: float


@dataclass(frozen=True)
class Wrong:
    """An order that the model has the other way round: its log-odds of `above` against `below`, and where."""

    last: str
    above: str
    below: str
    odds: float
    samples: float
    tokens: tuple[str, ...]


@dataclass(frozen=True)
class Behaviour:
    """The model's orders against the exact graph, in one kind of contexts.

    `real` contexts are windows of the corpus in which the automaton retrieves the first of the two tokens, `outranked`
    those in which it retrieves a third one, so that training never had to order the two; `minimal` ones hold nothing
    but the two and the last token.

    `agreement` counts strict orders that the model shares. Controls: `other_last` holds the same answers against the
    graph of another last token, `shuffled` against the graph of labels drawn from their own contexts (or, where these
    tie everything, against a graph whose tokens are permuted), `untrained` asks copies with fresh weights. `bigrams`
    is how often counts of what follows the last token alone give the order, `beyond` the model's agreement where they
    do not.
    """

    contexts: str
    agreement: Share
    other_last: Share | None
    shuffled: Share | None
    untrained: Share | None
    bigrams: Share
    beyond: Share | None
    by_frequency: tuple[Band, ...]
    by_margin: tuple[Band, ...]
    by_evidence: tuple[Band, ...]
    ties: Correlation | None
    ties_untrained: Correlation | None
    wrong: tuple[Wrong, ...]


@dataclass(frozen=True)
class Estimate:
    """A mean over contexts with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Head:
    """One head on given text.

    `largest` is the mass on the largest key, `entropy` the entropy over the logarithm of the number of keys, `margin`
    the tenth, median and ninetieth percentile of the gap between the two highest scores (None without scores).
    `previous`, `first`, `same` and `induction` are masses on the key before, on the first key, on earlier keys of the
    same token, and on keys that stand behind one. `retrieved` is the mass on what the automaton retrieves, `hits` how
    often the largest key is among it (None where no graph was given).
    """

    layer: int
    head: int
    largest: Estimate
    entropy: Estimate
    margin: tuple[float, float, float] | None
    previous: Estimate
    first: Estimate
    same: Estimate | None
    induction: Estimate | None
    retrieved: Estimate | None
    hits: Estimate | None


@dataclass(frozen=True)
class Offset:
    """Agreement of first-layer scores where both keys lie so many places back: of the best head, and of the sum."""

    offset: int
    best: float
    sum: float


@dataclass(frozen=True)
class FirstLayer:
    """Whether query–key scores of tokens in layer 0, norms folded in, order them as the graph does.

    `heads` holds the agreement of each head, `sum` that of the sum of their scores; `verdict` says who carries the
    order; `offsets` is a curve where positions are turns. `untrained` is the sum's agreement in fresh copies.
    """

    heads: tuple[Share, ...]
    sum: Share
    untrained: Share | None
    verdict: str
    offsets: tuple[Offset, ...]


@dataclass(frozen=True)
class Probe:
    """A probe of one model on one corpus."""

    model: str
    corpus: str
    form: Form | None
    parameters: int | None
    files: tuple[Entry, ...]
    context: int
    windows: int
    unknown_tokens: int
    last_tokens: int
    strict_orders: int
    seed: int
    behaviour: tuple[Behaviour, ...]
    first_layer: FirstLayer | None
    heads: tuple[Head, ...]
    even: Head | None  # what attention spread evenly would score on the same text
    contexts: int  # that the heads were looked at on
    one_pass: bool  # of a large model: whether orders were asked in these contexts alone
    notes: tuple[str, ...]
