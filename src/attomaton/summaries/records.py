"""What was learned, as frozen records: of a whole model, one last token, one document, and of what they are made."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from attomaton.corpus.vocabulary import Label
from attomaton.disk.records import absent
from attomaton.mechanics.theory.limit import Summary as LimitSummary

Point = TypeVar("Point")

# How windows end


@dataclass(frozen=True)
class Ending:
    """How much ends in one way: the weight, and its share of all windows and of those that hold their label."""

    outcome: str
    weight: float
    share_of_windows: float | None
    share_of_realizable: float | None


@dataclass(frozen=True)
class Bin:
    """The share of windows whose label is mixed with others and gets a probability in this range."""

    from_: float
    to: float
    soft: float | None


@dataclass(frozen=True)
class LabelProbability:
    """The probability of the label, where it is in the context."""

    mean: float | None
    mean_where_soft: float | None
    bins: Sequence[Bin]


@dataclass(frozen=True)
class Predictions:
    """Many windows through the automaton."""

    windows: float
    realizable: float
    realizable_share: float | None
    outcomes: Sequence[Ending]
    right: float | None
    label_probability: LabelProbability


# Tokens, edges and levels


@dataclass(frozen=True)
class Next:
    """A token and how often it came next."""

    token: Label
    weight: float


@dataclass(frozen=True)
class Member:
    """A token of a component."""

    token: Label
    log_pi: float
    weight: float
    se: float | None = absent()  # the standard error of log π


@dataclass(frozen=True)
class Leading:
    """A token that leads a level."""

    token: Label
    svm_score: float
    log_pi: float
    weight: float


@dataclass(frozen=True)
class Level:
    """One level of priority: what is on it, and the weight of the samples whose label is."""

    level: int
    components: int
    tied_components: int
    tokens: int
    weight: float
    leading: Sequence[Leading] | None = absent()


@dataclass(frozen=True)
class Component:
    """Tied tokens: whose, how many, how often they came next, and their leaders by log π."""

    last: Label
    size: int
    level: int
    weight: float
    members: Sequence[Member]


@dataclass(frozen=True)
class Edge:
    """The winner came next where the loser was there too, so often, with this margin."""

    last: Label
    winner: Label
    loser: Label
    weight: float
    relation: str
    margin: float
    # The largest probability of the contrary left open, of a strict one
    contrary: float | None = absent()


@dataclass(frozen=True)
class ShownEdge:
    """An edge that a document shows, with what the model holds of it."""

    last: Label
    winner: Label
    loser: Label
    weight: int
    model_weight: float
    relation: str
    margin: float | None


@dataclass(frozen=True)
class TokenPriority:
    """A token over another whatever the last token, and with how many it is above, tied and below."""

    winner: Label
    loser: Label
    weight: float
    last_tokens: int
    tied: int
    reversed: int


# TF-IDF beside attention


@dataclass(frozen=True)
class LastTokenPoint:
    """A token of a last token in two orders: TF-IDF, and what attention learned."""

    token: Label
    count: float
    documents: int
    tfidf: float
    tfidf_place: float
    level: int
    svm_score: float
    log_pi: float
    priority_place: float
    labels: int
    label_share: float
    distinct: bool


@dataclass(frozen=True)
class LastTokenTerm:
    """A key term of a last token; of two words, with the priority of the second."""

    token: Label
    count: float
    documents: int
    tfidf: float
    level: int
    svm_score: float
    log_pi: float
    priority_place: float
    labels: int
    label_share: float
    distinct: bool
    term: str
    words: int


@dataclass(frozen=True)
class DocumentPoint:
    """A word of a document in two orders: TF-IDF, and what attention makes of it on average."""

    token: Label
    count: float
    documents: int
    tfidf: float
    tfidf_place: float
    windows: int
    level: float | None
    svm_score: float
    retrieved: float
    labels: int
    label_share: float
    distinct: bool
    priority_place: float


@dataclass(frozen=True)
class DocumentTerm:
    """A key term of a document, and what attention makes of it in the windows that hold it."""

    term: str
    words: int
    count: float
    documents: int
    tfidf: float
    windows: int
    level: float | None
    svm_score: float | None
    retrieved: float | None
    labels: int
    label_share: float | None
    distinct: bool


@dataclass(frozen=True)
class Disagreement(Generic[Point]):
    """Where two orders differ: the widest difference first, of what the first-named has in its better half."""

    rank_correlation: float
    text_over_attention: Sequence[Point]
    attention_over_text: Sequence[Point]


# What is alike


@dataclass(frozen=True)
class LikeLast:
    """A last token like another: by W_svm, by W_fin, by TF-IDF, and how many tokens were seen with both."""

    last: Label
    svm_cosine: float
    finite_cosine: float
    tfidf_cosine: float
    shared: float


@dataclass(frozen=True)
class Similar:
    """Last tokens like one, by what attention learned and by TF-IDF."""

    attention_by: str
    by_attention: Sequence[LikeLast]
    by_text: Sequence[LikeLast]


@dataclass(frozen=True)
class SimilarDocument:
    """A document like another, and the terms that bring it near."""

    document: int
    title: str
    tfidf_cosine: float
    shared_terms: int
    nearest_by: Sequence[str]


# The three subjects


@dataclass(frozen=True)
class KindShare:
    """How many last tokens are of one kind."""

    kind: str
    last_tokens: int
    share: float
    weight: float
    weight_share: float


@dataclass(frozen=True)
class LastTokenRow:
    """A last token in one line."""

    last: Label
    weight: float
    share: float
    kind: str
    tokens: int
    components: int
    levels: int
    hard_share: float
    next: Sequence[Next]


@dataclass(frozen=True)
class ModelSummary:
    """What a whole model learned."""

    subject: Literal["model"]
    counts: LimitSummary
    last_token_kinds: Sequence[KindShare]
    predictions: Predictions
    levels: Sequence[Level]
    priorities: Sequence[Edge]
    token_priorities: Sequence[TokenPriority]
    components: Sequence[Component]
    last_tokens: Sequence[LastTokenRow]


@dataclass(frozen=True)
class LastTokenSummary:
    """What was learned for one last token."""

    subject: Literal["last token"]
    last: Label
    weight: float
    weight_share: float
    kind: str
    tokens: int
    components: int
    edges: int
    distinct_tokens: int
    next: Sequence[Next]
    predictions: Predictions
    levels: Sequence[Level]
    max_df: float
    terms: Sequence[LastTokenTerm]
    disagreement: Disagreement[LastTokenPoint]
    strongest_edges: Sequence[Edge]
    outrank_it: Sequence[Edge]
    outranked_by_it: Sequence[Edge]
    similar: Similar
    points: Sequence[LastTokenPoint]


@dataclass(frozen=True)
class DecidedOn:
    """How many windows are decided on a level (None: never seen), and how many of them rightly."""

    level: int | None
    windows: int
    right: int


@dataclass(frozen=True)
class DocumentSummary:
    """What a model makes of one document."""

    subject: Literal["document"]
    document: int
    title: str
    documents: int
    words: int
    distinct_words: int
    context: int
    predictions: Predictions
    levels: Sequence[DecidedOn]
    max_df: float
    terms: Sequence[DocumentTerm]
    disagreement: Disagreement[DocumentPoint]
    strongest_edges: Sequence[ShownEdge]
    similar: Sequence[SimilarDocument]
    points: Sequence[DocumentPoint]


Summary = ModelSummary | LastTokenSummary | DocumentSummary
