"""Probe a trained model: read it, fit its corpus exactly, ask, and compare."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int

from attomaton.base.progress import Progress, quiet
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading
from attomaton.corpus.windows import Windows
from attomaton.errors import DataError, UsageError, counted, whole_number
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.mechanics.theory.many import answer_many
from attomaton.numerics import named_rng, ragged_indices
from attomaton.probe.asking import model_ids, real_contexts
from attomaton.probe.behaviour import asked_of, behaviour, questions
from attomaton.probe.first_layer import first_layer
from attomaton.probe.heads import even_head, heads_of, heads_of_attention
from attomaton.probe.records import Probe
from attomaton.trained.attention import read_attention
from attomaton.trained.folder import TOKENS, Trained, read_trained
from attomaton.trained.forward import Network
from attomaton.trained.fresh import untrained

SMALL = 20_000_000  # parameters up to which three fresh copies are asked, not one
CONTEXT = 32


@dataclass(frozen=True)
class Asked:
    """How much of a corpus a model is asked about."""

    pairs: int = 2000  # strict orders, and ties
    contexts: int = 200  # that heads are looked at on
    last_tokens: int = 100  # the most frequent ones, whose graphs are solved
    seed: int = 0
    precision: str = "float32"

    def __post_init__(self) -> None:
        for name in ("pairs", "contexts", "last_tokens"):
            whole_number(name, getattr(self, name), least=1, most=1_000_000)
        whole_number("seed", self.seed, least=0)


def probe_model(
    model: Path | str,
    corpus: Path | str,
    reading: Reading | None = None,
    asked: Asked | None = None,
    progress: Progress = quiet,
) -> Probe:
    """Everything the probe says of one model on one corpus.

    A plain text is cut into contexts of `reading.context` tokens (32 unless said), by the model's own tokenizer unless
    another is named.
    """
    asked = asked or Asked()
    trained = read_trained(model, asked.precision)
    windows = read_windows(corpus, as_read(Path(model), trained, corpus, reading or Reading()))
    ids = model_ids(windows.vocabulary, trained.words, trained.form)
    usable = usable_windows(windows, ids, trained.form.longest)
    rows = frequent_rows(windows, usable, asked.last_tokens)
    progress(0, 1, "exact graph of the corpus")
    limit = solve_limit(windows.samples(rows))
    network = Network(trained)
    fresh = [Network(untrained(trained, i)) for i in range(3 if trained.parameters < SMALL else 1)]
    put = questions(windows, limit, rows, usable, ids, asked.pairs, asked.seed)
    found = []
    for kind in ("real", "minimal"):
        odds = asked_of(network, put, windows, ids, kind, progress)
        copies = [asked_of(x, put, windows, ids, kind, progress, "untrained: ") for x in fresh]
        found.append(behaviour(put, windows, ids, kind, odds, copies, asked.seed))
    length = int(windows.length[usable].max())
    first = first_layer(network, put.strict, ids, length, fresh)
    contexts, retrieved = head_contexts(windows, limit, usable, ids, asked)
    heads = heads_of(network, contexts, retrieved, progress) if contexts else ()
    even = even_head(np.array(contexts), retrieved) if contexts else None
    unknown = int((ids < 0).sum())
    return Probe(
        str(model), str(corpus), trained.form, trained.parameters, trained.files, length, int(usable.sum()), unknown,
        len(limit.graph.last_tokens), len(put.strict), asked.seed, tuple(found), first, heads, even, len(contexts),
        _notes(windows, usable, unknown),
    )  # fmt: skip


def probe_attention(path: Path | str) -> Probe:
    """What can be said of attention alone, which another program computed: the table of heads."""
    found = read_attention(path)
    if found.tokens.shape[1] < 2:
        raise DataError(f"{path}: contexts of one token have nothing to attend to.")
    heads = heads_of_attention(found.tokens, found.attention, found.scores)
    even = even_head(found.tokens, None)
    n, length = found.tokens.shape
    note = "Attention alone was given: orders, odds and scores of the first layer need the model."
    return Probe(
        str(path), "", None, None, (), length, n, 0, 0, 0, 0, (), None, heads, even, n, (note,)
    )


def as_read(model: Path, trained: Trained, corpus: Path | str, reading: Reading) -> Reading:
    """How the corpus is read: by the model's tokenizer and in contexts the model can take, unless said otherwise."""
    text = reading.format == "text" or (
        reading.format is None
        and Path(corpus).suffix.lower() not in (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
    )
    if reading.context is None and not str(corpus).lower().endswith((".jsonl", ".ndjson")):
        reading = replace(reading, context=min(CONTEXT, trained.form.longest))
    if reading.context is not None and reading.context > trained.form.longest:
        raise UsageError(
            f"--context {reading.context}: the model has positions for {trained.form.longest:,} tokens."
        )
    if text and reading.tokenizer is None and trained.words is not None:
        reading = replace(reading, tokenizer=str(model / TOKENS))
    return reading


def usable_windows(
    windows: Windows, ids: Int[np.ndarray, " vocab"], longest: int
) -> Bool[np.ndarray, " windows"]:
    """The windows all of whose tokens the model knows, and which it can read."""
    strange = np.concatenate([[0], np.cumsum(ids[windows.ids] < 0)])
    inside = strange[windows.left + windows.length] == strange[windows.left]
    usable = inside & (windows.length <= longest) & (ids[windows.label] >= 0)
    if not (usable & windows.realizable).any():
        raise DataError(
            f"{windows.origin}: the model knows all tokens of none of its {counted(len(windows), 'context')} that "
            "hold their label. Use the model's own tokenizer, or longer contexts."
        )
    return usable


def frequent_rows(windows: Windows, usable: np.ndarray, most: int) -> Int[np.ndarray, " rows"]:
    """The realizable windows of the most frequent last tokens."""
    rows = np.flatnonzero(usable & windows.realizable)
    many = np.bincount(windows.last[rows], minlength=len(windows.vocabulary))
    kept = np.argsort(-many, kind="stable")[:most]
    return rows[np.isin(windows.last[rows], kept)]


def head_contexts(
    windows: Windows, limit: Limit, usable: np.ndarray, ids: np.ndarray, asked: Asked
) -> tuple[list[np.ndarray], Bool[np.ndarray, "contexts length"]]:
    """Contexts of full length that end with a last token of the graph, and the keys the automaton retrieves there."""
    length = int(windows.length[usable].max())
    there = usable & (windows.length == length) & np.isin(windows.last, limit.graph.last_tokens)
    rows = np.flatnonzero(there)
    if length < 2 or not len(rows):
        return [], np.zeros((0, length), bool)
    rng = named_rng("probe heads", asked.seed)
    rows = np.sort(rng.choice(rows, min(asked.contexts, len(rows)), replace=False))
    return real_contexts(windows, rows, ids), _retrieved(windows, limit, rows, length)


def _retrieved(
    windows: Windows, limit: Limit, rows: np.ndarray, length: int
) -> Bool[np.ndarray, "contexts length"]:
    """Which keys hold a token that the automaton retrieves; none where the data do not determine it."""
    at = ragged_indices(windows.left[rows].astype(np.int64), windows.length[rows].astype(np.int64))
    tokens = windows.ids[at].astype(np.int64)
    said = answer_many(limit, tokens, windows.length[rows].astype(np.int64))
    sure = said.verdict == 0
    K = np.int64(len(windows.vocabulary))
    won = said.kept[sure[said.owner[said.kept]]]
    key = said.owner[won] * K + said.token[won]
    here = np.repeat(np.arange(len(rows)), length) * K + tokens
    return np.isin(here, key).reshape(len(rows), length)


def _notes(windows: Windows, usable: np.ndarray, unknown: int) -> tuple[str, ...]:
    notes = []
    if unknown:
        left = int((~usable).sum())
        notes.append(
            f"The model does not know {counted(unknown, 'token')} of the corpus; "
            f"{counted(left, 'context')} were left out."
        )
    return tuple(notes)
