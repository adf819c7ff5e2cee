"""Probe a trained model: read it, fit its corpus exactly, ask, and compare."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from attomaton.base.lazily import jax
from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Bool, Int
from attomaton.corpus.datasets import data_file
from attomaton.corpus.files import format_of
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading
from attomaton.corpus.windows import Windows
from attomaton.errors import DataError, UsageError, counted, whole_number
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.mechanics.theory.many import answer_many
from attomaton.numerics import named_rng, ragged_indices
from attomaton.probe.asking import answers, batch_size, model_ids, real_contexts
from attomaton.probe.behaviour import Known, Odds, Questions, asked_of, behaviour, questions
from attomaton.probe.first_layer import first_layer, right_in_sum
from attomaton.probe.heads import even_head, heads_of, heads_of_attention, looked_at
from attomaton.probe.orders import shuffled_graph
from attomaton.probe.records import Head, Probe
from attomaton.trained.attention import read_attention
from attomaton.trained.folder import TOKENS, Trained, read_trained
from attomaton.trained.forward import Keep, Network, compile_for, nothing
from attomaton.trained.fresh import untrained

# Parameters below which three fresh copies are asked, not one, and orders in contexts of their own; larger models are
# asked in the contexts their heads are looked at on, so that each is gone through once.
SMALL = 20_000_000
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
    return probed(model, corpus, reading or Reading(), asked or Asked(), progress)[0]


def probed(
    model: Path | str, corpus: Path | str, reading: Reading, asked: Asked, progress: Progress
) -> tuple[Probe, "Exam", Network]:
    """The same, with what was asked and the model it was asked of."""
    # While the model is read and the graph is solved, JAX is started, the model goes where it computes, the first copy
    # is drawn, and programs are compiled.
    with ThreadPoolExecutor() as beside:
        beside.submit(_start_jax)
        trained = read_trained(model, asked.precision)
        many = 1 if trained.parameters >= SMALL else 3
        sent, drawn = beside.submit(Network, trained), beside.submit(untrained, trained, 0)

        def compiled(size: int, length: int, keep: Keep) -> None:
            compile_for(trained, size, length, keep)
            if jax.default_backend() != "cpu":  # which loads a program when it is first run
                none = np.zeros((size, length), np.int64)
                sent.result().logits_at(none, none[:, 0], keep)

        likely = _likely(model, trained, corpus, reading, asked)
        early = [beside.submit(compiled, *x) for x in likely]
        exam = prepared(Path(model), trained, corpus, reading, asked, progress)
        network = sent.result()
        for program in early:
            program.result()

        def copy(i: int, progress: Progress = quiet) -> tuple[list[Odds], np.ndarray]:
            fresh = untrained(trained, i) if i else drawn.result()
            return asked_copy(Network(fresh), exam, progress)

        chance = beside.submit(_chance, exam)
        # Where processors compute, one after the other: a large model is in memory twice, not more.
        apart = jax.default_backend() != "cpu"
        begun = beside.map(copy, range(many)) if apart else iter(())
        heads, odds = examined(network, exam, progress=progress)
        copies = list(begun) if apart else [copy(i, progress) for i in range(many)]
        even = chance.result()
    told = [
        behaviour(x, exam.windows, own, [x[i] for x, _ in copies], asked.seed)
        for i, (x, own) in enumerate(zip(exam.questions, odds, strict=True))
    ]
    ids, real = exam.ids, exam.questions[0].strict.orders
    first = first_layer(network, real, ids, exam.length, [right for _, right in copies])
    unknown = int((ids < 0).sum())
    found = Probe(
        str(model), str(corpus), trained.form, trained.parameters, trained.files, exam.length,
        int(exam.usable.sum()), unknown, len(exam.limit.graph.last_tokens), len(real), asked.seed,
        tuple(x for x in told if x is not None), first, heads, even, len(exam.contexts), exam.one_pass,
        _notes(exam.usable, unknown),
    )  # fmt: skip
    return found, exam, network


def _start_jax() -> None:
    """Import it, and start the device it computes on."""
    jax.default_backend()


def _chance(exam: "Exam") -> Head | None:
    """What attention spread evenly scores where the heads are looked at."""
    return even_head(np.array(exam.contexts), exam.retrieved) if exam.contexts else None


def _likely(
    model: Path | str, trained: Trained, corpus: Path | str, reading: Reading, asked: Asked
) -> list[tuple[int, int, Keep]]:
    """The programs a large model will most likely be gone through by: all contexts of a text have one length."""
    length = as_read(Path(model), trained, corpus, reading).context
    if trained.parameters < SMALL or length is None:
        return []
    size, few = min(asked.contexts, batch_size(trained.form, length)), batch_size(trained.form, 3)
    return [(size, length, looked_at), (size, length, nothing), (few, 3, nothing)]


@dataclass(frozen=True, eq=False)
class Exam:
    """What models of one form are asked about a corpus: questions by kind, and contexts to look at the heads on."""

    windows: Windows
    ids: Int[np.ndarray, " vocab"]  # of the model, by token of the corpus
    usable: Bool[np.ndarray, " windows"]
    limit: Limit
    questions: tuple[Questions, ...]
    rows: Int[np.ndarray, " contexts"]  # windows that heads are looked at on, ascending
    contexts: list[np.ndarray]
    retrieved: Bool[np.ndarray, "contexts length"]
    length: int
    one_pass: bool  # whether orders are asked in the contexts of the heads alone


def prepared(
    folder: Path,
    trained: Trained,
    corpus: Path | str,
    reading: Reading,
    asked: Asked,
    progress: Progress = quiet,
) -> Exam:
    """Read the corpus as the model does, solve its graph, and draw what is asked."""
    windows = read_windows(corpus, as_read(folder, trained, corpus, reading))
    ids = model_ids(windows.vocabulary, trained.words, trained.form)
    usable = usable_windows(windows, ids, trained.form.longest)
    rows = frequent_rows(windows, usable, asked.last_tokens)
    progress(0, 1, "exact graph of the corpus")
    rng = named_rng("probe", asked.seed)
    with ThreadPoolExecutor(1) as beside:
        mixed = beside.submit(shuffled_graph, windows, rows, rng)
        limit = solve_limit(windows.samples(rows))
        false = mixed.result()
    length = int(windows.length[usable].max())
    seen, retrieved = head_contexts(windows, limit, usable, length, asked)
    one_pass = trained.parameters >= SMALL and len(seen) > 0
    pool = seen if one_pass else None
    put = questions(windows, limit, false, usable, ids, asked.pairs, rng, pool)
    contexts = real_contexts(windows, seen, ids)
    return Exam(windows, ids, usable, limit, put, seen, contexts, retrieved, length, one_pass)


def examined(
    network: Network,
    exam: Exam,
    only: Sequence[str] = ("strict", "ties", "shuffled"),
    progress: Progress = quiet,
) -> tuple[tuple[Head, ...], list[Odds]]:
    """The heads of a model, and its odds by kind of questions."""
    shape = (len(exam.contexts), network.form.vocab)
    logits = np.zeros(shape, network.weights.U.dtype) if exam.one_pass else None
    heads = (
        heads_of(network, exam.contexts, exam.retrieved, progress, logits) if exam.contexts else ()
    )
    known = None if logits is None else Known(exam.rows, logits)
    odds = [
        asked_of(network, x, exam.windows, exam.ids, progress, "", only, known)
        for x in exam.questions
    ]
    return heads, odds


def asked_copy(
    fresh: Network, exam: Exam, progress: Progress = quiet
) -> tuple[list[Odds], Bool[np.ndarray, " orders"]]:
    """The odds of an untrained copy by kind of questions, and the orders its first layer has right in sum."""
    known = answered(fresh, exam, progress) if exam.one_pass else None
    odds = [
        asked_of(
            fresh, x, exam.windows, exam.ids, progress, "untrained: ", ("strict", "ties"), known
        )
        for x in exam.questions
    ]
    real = exam.questions[0].strict.orders
    return odds, right_in_sum(fresh, real, exam.ids, exam.length)


def answered(network: Network, exam: Exam, progress: Progress = quiet) -> Known:
    """Logits behind the contexts of the heads: each is gone through once, whatever is asked there."""
    logits = np.zeros((len(exam.contexts), network.form.vocab), network.weights.U.dtype)
    for batch in answers(network, exam.contexts, progress=progress, note="untrained: contexts"):
        logits[batch.at] = batch.logits
    return Known(exam.rows, logits)


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
        str(path),
        "",
        None,
        None,
        (),
        length,
        n,
        0,
        0,
        0,
        0,
        (),
        None,
        heads,
        even,
        n,
        False,
        (note,),
    )


def as_read(model: Path, trained: Trained, corpus: Path | str, reading: Reading) -> Reading:
    """How the corpus is read: by the model's tokenizer and in contexts the model can take, unless said otherwise."""
    kind = format_of(data_file(corpus), reading.format)
    if reading.context is None and kind != "jsonl":
        reading = replace(reading, context=min(CONTEXT, trained.form.longest))
    if reading.context is not None and reading.context > trained.form.longest:
        raise UsageError(
            f"--context {reading.context}: the model has positions for {trained.form.longest:,} tokens."
        )
    if kind == "text" and reading.tokenizer is None and trained.words is not None:
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
    windows: Windows, limit: Limit, usable: np.ndarray, length: int, asked: Asked
) -> tuple[Int[np.ndarray, " contexts"], Bool[np.ndarray, "contexts length"]]:
    """Windows of full length that end with a last token of the graph, and the keys the automaton retrieves there."""
    there = usable & (windows.length == length) & np.isin(windows.last, limit.graph.last_tokens)
    rows = np.flatnonzero(there)
    if length < 2 or not len(rows):
        return rows[:0], np.zeros((0, length), bool)
    rng = named_rng("probe heads", asked.seed)
    rows = np.sort(rng.choice(rows, min(asked.contexts, len(rows)), replace=False))
    return rows, _retrieved(windows, limit, rows, length)


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


def _notes(usable: np.ndarray, unknown: int) -> tuple[str, ...]:
    if not unknown:
        return ()
    left = counted(int((~usable).sum()), "context")
    said = (
        f"The model does not know {counted(unknown, 'token')} of the corpus; {left} were left out."
    )
    return (said,)
