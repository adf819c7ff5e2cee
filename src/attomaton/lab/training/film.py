"""A run as the browser plays it: the scores of some tokens after one last token, and where theory says they end.

Everything is sent once; the browser computes attention from scores and counts, c·eˢ over their sum, and draws.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.disk.formats import read_json
from attomaton.disk.storage import is_folder
from attomaton.errors import DataError, UsageError
from attomaton.folders.model import ModelFolder
from attomaton.folders.run import Kept, kept_of, read_snapshots
from attomaton.jobs.train import limit_to_reach
from attomaton.lab.graph.data import TokenGraph
from attomaton.lab.kit.player import packed
from attomaton.lab.training.runs import TrainingRun, asked_for
from attomaton.mechanics.experiment.snapshots import Snapshots
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.limit import Limit
from attomaton.numerics import ragged_softmax, row_pointer
from attomaton.report.graphs import readable
from attomaton.report.words import evenly

NODES, EDGES = 14, 40  # of the graph that is drawn
CONTEXTS = 24  # whose attention is drawn
CANDIDATES = 400  # contexts, the heaviest, among which those are chosen
POINTS = 400  # of a curve


@dataclass(frozen=True)
class Token:
    """A token whose score is sent; one that is drawn in the graph has its level and component there."""

    name: str
    level: int | None = None
    component: int = -1


@dataclass(frozen=True)
class Edge:
    """One token before another by their numbers: a strict order, or a tie whose log-odds end at `odds`."""

    above: int
    below: int
    tied: bool
    odds: float = 0.0


@dataclass(frozen=True)
class Context:
    """The distinct tokens of a context with their counts, what came next, and the attention that theory ends with."""

    tokens: tuple[int, ...]
    counts: tuple[int, ...]
    label: int
    rows: int
    end: tuple[float, ...]


@dataclass(frozen=True)
class Curve:
    """What was recorded on the way, of every seed, and the value that theory ends with."""

    steps: tuple[int, ...]
    values: tuple[tuple[float | None, ...], ...]
    end: float | None


@dataclass(frozen=True)
class Film:
    """All that the browser needs; `scores` are packed, one row a snapshot, one column a token."""

    last: str
    steps: tuple[int, ...]
    scores: str
    tokens: tuple[Token, ...]
    edges: tuple[Edge, ...]
    contexts: tuple[Context, ...]
    loss: Curve
    cosine: Curve
    folded: str  # how much is not drawn


@dataclass(frozen=True, eq=False)
class Watchable:
    """A run with snapshots, and the last tokens they are of, the heaviest first."""

    run: TrainingRun
    snapshots: Snapshots
    vocabulary: Vocabulary
    lasts: tuple[int, ...]
    kept: Kept

    def names(self) -> dict[str, str]:
        """The last tokens as an address names them, and as they are shown."""
        words = [self.vocabulary[q] for q in self.lasts]
        shown = readable(words)
        return {str(q): shown[word] for q, word in zip(self.lasts, words, strict=True)}


def watchable(run: TrainingRun) -> Watchable | None:
    """What can be played of a run; None where it kept no snapshots."""
    found = read_snapshots(run.path)
    if found is None or not len(found.steps):
        return None
    path = run.path / "vocabulary.json"
    if path.is_file():
        labels = read_json(path)
        if not isinstance(labels, list):
            raise DataError(f"{path}: a list of labels is needed.")
        vocabulary = Vocabulary(labels)
    else:  # a demo has its model beside it
        vocabulary = ModelFolder(run.path / "model").vocabulary
    if len(found.last) and max(found.last.max(), found.token.max()) >= len(vocabulary):
        raise DataError(f"{run.path}: its snapshots are of other tokens than its vocabulary.")
    lasts, size = np.unique(found.last, return_counts=True)
    order = lasts[np.argsort(-size, kind="stable")]
    return Watchable(run, found, vocabulary, tuple(order.tolist()), kept_of(found))


def limit_after(seen: Watchable, last: int) -> Limit:
    """The limit that a run was measured against, of one last token."""
    run, own = seen.run, seen.run.path / "model"
    place = str(own) if is_folder(own, "model") else asked_for(run.config).data
    if is_folder(place, "model"):
        limit = ModelFolder(Path(place)).limit([seen.vocabulary[last]])
    elif Path(place).is_file():
        asked = asked_for(run.config)
        vectors = (asked.embeddings, asked.vocabulary, asked.dimension)
        limit = limit_to_reach(place, vectors, asked.settings.seed, asked.reading)[0]
    else:
        raise UsageError(
            f"{place}, on which this run was trained, is no longer there: its graph cannot be drawn."
        )
    if limit.graph.vocabulary.labels != seen.vocabulary.labels:
        raise UsageError(
            "the data have changed since this run: its snapshots are of other tokens. Train anew to watch it."
        )
    return limit


def film(seen: Watchable, limit: Limit, last: int) -> Film:
    """What is played of one last token."""
    columns = np.flatnonzero(seen.snapshots.last == last)
    scores = seen.snapshots.scores[:, columns]
    graph = TokenGraph(limit, last)
    place = np.searchsorted(seen.snapshots.token[columns], graph.token)
    known = place < len(columns)
    known[known] = seen.snapshots.token[columns][place[known]] == graph.token[known]
    place = np.where(known, place, -1)
    # All tokens of a small graph, else those that came next most often.
    order = np.lexsort((-graph.present, -graph.net.as_next))
    drawn = graph.order[np.isin(graph.order, order[known[order]][:NODES])]
    contexts = _contexts(graph, scores, place)
    used = list(dict.fromkeys([*drawn.tolist(), *(i for c in contexts for i in c.tokens)]))
    number = {i: n for n, i in enumerate(used)}
    tokens, edges = _picture(graph, drawn, used, number)
    records, config = seen.run.records, seen.run.config
    floor = None
    if config.get("loss", "log") == "log":
        floor = seen.run.outcome.loss_floor
        if floor is None and "loss_gap" in records:  # a demo keeps no summary of it
            floor = float(records["loss"][0, 0] - records["loss_gap"][0, 0])
    others = len(graph) - len(drawn)
    folded = f"{others:,} of {len(graph):,} tokens are folded away. " if others else ""
    if len(contexts) == CONTEXTS:
        many = f"{len(graph.samples):,} distinct samples"
        folded += f"Shown are the {CONTEXTS} contexts whose attention moves most, of {many}."
    return Film(
        seen.names()[str(last)],
        tuple(seen.snapshots.steps.tolist()),
        packed(scores[:, place[np.array(used, int)]]),
        tokens,
        edges,
        tuple(
            Context(tuple(number[i] for i in c.tokens), c.counts, number[c.label], c.rows, c.end)
            for c in contexts
        ),
        _curve(records, "loss", floor),
        _curve(records, "cosine_svm", 1.0),
        folded.strip(),
    )


def _contexts(
    graph: TokenGraph, scores: Float[np.ndarray, "snapshots kept"], place: Int[np.ndarray, " nodes"]
) -> list[Context]:
    """The contexts whose attention moves most, weighed by how often they came; tokens by their number in the graph."""
    samples, automaton = graph.samples, Automaton(graph.limit)
    bags: dict[tuple[tuple[int, ...], tuple[int, ...]], dict[int, float]] = {}
    rows: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    for i in np.argsort(-samples.weight, kind="stable").tolist():
        inside = slice(samples.start[i], samples.start[i + 1])
        tokens = np.searchsorted(graph.token, samples.token[inside])
        key = (tuple(tokens.tolist()), tuple(samples.count[inside].tolist()))
        full = key not in bags and len(bags) == CANDIDATES
        if full or len(tokens) < 2 or (place[tokens] < 0).any():
            continue
        labels, label = bags.setdefault(key, {}), int(graph.labels[i])
        labels[label] = labels.get(label, 0.0) + float(samples.weight[i])
        rows[key] = rows.get(key, 0) + int(samples.rows[i])
    if not bags:
        return []
    flat = np.concatenate([np.array(tokens) for tokens, _ in bags])
    counts = np.concatenate([np.array(counts) for _, counts in bags])
    owner = np.repeat(np.arange(len(bags)), [len(tokens) for tokens, _ in bags])
    start = row_pointer(np.bincount(owner, minlength=len(bags)))
    first, last = (
        ragged_softmax(np.log(counts) + scores[at][place[flat]], start) for at in (0, -1)
    )
    moved = np.bincount(owner, np.abs(last - first), len(bags))
    weight = np.array([sum(labels.values()) for labels in bags.values()])
    chosen = np.argsort(-moved * weight, kind="stable")[:CONTEXTS]
    keys, words, found = list(bags), graph.word, []
    after = graph.limit.graph.vocabulary[graph.last]
    for c in chosen.tolist():
        tokens, count = keys[c]
        bag = [words[t] for t, n in zip(tokens, count, strict=True) for _ in range(n)]
        if after in bag:  # the last token stands at the end
            bag.remove(after)
        answer = automaton.predict_proba([*bag, after])
        end = tuple(round(float(answer.get(words[t], 0.0)), 9) for t in tokens)
        labels = bags[keys[c]]
        found.append(
            Context(tokens, count, max(labels, key=labels.__getitem__), rows[keys[c]], end)
        )
    return found


def _picture(
    graph: TokenGraph, drawn: Int[np.ndarray, " drawn"], used: list[int], number: Mapping[int, int]
) -> tuple[tuple[Token, ...], tuple[Edge, ...]]:
    """Tokens, and the heaviest edges between those that are drawn: of ties one for both directions."""
    net = graph.net
    some = net.between(drawn, np.arange(len(net.weight)))
    found: dict[tuple[int, int], Edge] = {}
    for e in net.heaviest(some).tolist():
        a, b = int(net.source[e]), int(net.target[e])
        tied = bool(net.component[a] == net.component[b])
        a, b = (min(a, b), max(a, b)) if tied else (a, b)
        odds = float(graph.log_pi[a] - graph.log_pi[b]) if tied else 0.0
        found.setdefault((a, b), Edge(number[a], number[b], tied, odds))
    levels = {int(i): int(net.level[i]) for i in drawn}
    tokens = tuple(
        Token(graph.name[i], levels.get(i), int(net.component[i]) if i in levels else -1)
        for i in used
    )
    return tokens, tuple(found.values())[:EDGES]


def _curve(records: Mapping[str, np.ndarray], name: str, end: float | None) -> Curve:
    """One record of all seeds, thinned."""
    if name not in records:
        return Curve((), (), end)
    at = evenly(len(records["steps"]), POINTS)
    values = tuple(
        tuple(float(row[i]) if np.isfinite(row[i]) else None for i in at) for row in records[name]
    )
    return Curve(tuple(int(records["steps"][i]) for i in at), values, end)
