"""Everything that takes bytes or words from outside, each with what is done with the answer.

A reader that accepts a damaged file has to be able to work with it: so every one of them goes on to what a user would
do next. What it draws (options, words of a context) comes from the generator it is handed.
"""

from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

from attomaton.corpus import documents, inspect, readers
from attomaton.corpus.parts import Parts, read_part
from attomaton.corpus.reading import Reading
from attomaton.corpus.text import SPLITS, read_stream
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.disk.formats import read_json, read_matrix, to_json
from attomaton.disk.storage import is_folder
from attomaton.errors import AttomatonError
from attomaton.folders import details, look
from attomaton.folders import sweep as sweeps_folder
from attomaton.folders.differ import folders as differ
from attomaton.folders.model import ModelFolder, finished_part, open_model
from attomaton.jobs import reproduce, verify
from attomaton.jobs import sweep as sweeps
from attomaton.jobs import train as runs
from attomaton.jobs import tune as tunings
from attomaton.lab import opened, shelf
from attomaton.lab.claims import panels as claims_panels
from attomaton.lab.claims import records as claims_records
from attomaton.lab.data import of_model as data_of_model
from attomaton.lab.kit import contexts
from attomaton.lab.scan_snap import runs as scan_snap_runs
from attomaton.lab.sweep import map as sweep_map
from attomaton.lab.training import runs as training_runs
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.experiment.course import joined, unpacked
from attomaton.mechanics.experiment.steps import Plan, first_state
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.limit import merge_summaries, solve_limit
from attomaton.mechanics.theory.view import graph_view
from attomaton.predictor.model import Predictor
from attomaton.predictor.priors import parse_prior
from attomaton.report.figures import verification as verification_figures
from attomaton.report.text import verification as verification_text
from attomaton.scan_snap.families import conditions, read_classes
from attomaton.summaries.model import model_summary
from faults import seeds
from faults.inputs import Reader


def _text(folder: Path, rng: Random) -> None:
    path = folder / "a.txt"
    how: dict[str, Any] = {
        "context": rng.choice((1, 2, 5, 2**40)),
        "split": rng.choice(SPLITS),
        "tokenizer": rng.choice(("words", "lower", "chars")),
    }
    windows = readers.read_windows(path, Reading(**how))
    inspect.inspect_windows(windows)
    inspect.length_counts(windows, 10)
    to_json(list(windows.vocabulary.labels)).encode()
    if rng.random() < 0.3:
        known = Vocabulary(range(20)) if rng.random() < 0.5 else windows.vocabulary
        readers.read_windows(path, Reading(**how), known)


def _documents(folder: Path, rng: Random) -> None:
    path = folder / "a.txt"
    read_stream(path)
    apart = rng.random() < 0.3
    split = rng.choice(documents.SPLITS[1:] if apart else documents.SPLITS)
    how = Reading(split=split if apart else None)
    found = documents.read_documents(path, split, how, line_ends=rng.random() < 0.5)
    _ = found.terms, found.lasts(0), found.find(found.titles[-1])


def _rows(folder: Path, rng: Random) -> None:
    windows = readers.read_windows(folder / "a.jsonl")
    verify._given(windows)
    to_json(list(windows.vocabulary.labels)).encode()
    inspect.inspect_windows(windows)
    if rng.random() < 0.1:
        limit = solve_limit(windows.samples())
        to_json(limit.summary())


def _events(kind: str, folder: Path, rng: Random) -> None:
    path = folder / f"a{kind}"
    windows = readers.read_windows(path, Reading(context=rng.choice((1, 3))))
    inspect.inspect_windows(windows)
    to_json(list(windows.vocabulary.labels)).encode()


def _sequences(name: str, folder: Path, rng: Random) -> None:
    """Logs known by their suffix or by how they begin; and lines, as one event each."""
    path = folder / name
    events = name.endswith("spmf") and rng.random() < 0.2
    how = Reading(context=rng.choice((1, 3)), format="events" if events else None)
    windows = readers.read_windows(path, how)
    to_json(how.done(windows))
    inspect.inspect_windows(windows)
    to_json(list(windows.vocabulary.labels)).encode()
    if rng.random() < 0.3:
        readers.read_windows(path, how, windows.vocabulary)


def _delimited(folder: Path, rng: Random) -> None:
    delimiter = rng.choice((None, ";", ";", ",", "tab"))
    how = Reading(context=2, format="csv", delimiter=delimiter)
    windows = readers.read_windows(folder / "log", how)
    inspect.inspect_windows(windows)


def _tokenizer(folder: Path, rng: Random) -> None:
    name = rng.choice(("words.json", "pairs.json", "shares.json"))
    windows = readers.read_windows(
        folder / "a.txt", Reading(context=3, tokenizer=str(folder / name))
    )
    to_json(list(windows.vocabulary.labels)).encode()


def _matrix(folder: Path, rng: Random) -> None:
    for name in ("E.npy", "F.npy"):
        check_embeddings(read_matrix(folder / name, "embeddings"))


def _classes(folder: Path, rng: Random) -> None:
    conditions(read_classes(folder / "c.toml"), 0.5)


def _model(folder: Path, rng: Random) -> None:
    model = folder / "model"
    record = ModelFolder(model).record
    data_of_model.provenance(record)
    if rng.random() < 0.3:
        _in_the_lab(model, rng)
        return
    one = rng.random() < 0.5
    word = rng.choice((*seeds.TOKENS, 7, 0, 1, "unknown"))
    limit = open_model(model, [word] if one else None)
    words = limit.graph.vocabulary
    automaton = Automaton(limit)
    context = [*(words[i] for i in range(min(4, len(words)))), "unknown", word]
    automaton.explain(context).record()
    automaton.predict_proba(context, 2.0)
    for last in limit.graph.last_tokens[:3].tolist():
        graph_view(limit, last)
    if not one:
        to_json(limit.summary())
        ModelFolder(model).last_tokens()
        to_json(model_summary(limit, 3)).encode()


def _in_the_lab(model: Path, rng: Random) -> None:
    seen = opened.Opened(model)
    last = seen.heaviest()
    seen.search("t")
    limit = seen.limit(last)
    context = contexts.first_context(limit, last)
    contexts.companions(limit, last)
    contexts.continued(seen, context, 0, 2)
    graph_view(limit, seen.last_id(last))
    told = seen.record.summary
    [f"{n:,}" for n in (told.windows, told.samples, told.dropped, told.vocab, told.tokens)]


def _predictor(folder: Path, rng: Random) -> None:
    found = Predictor.open(folder / "predictor")
    context = rng.choices(("the", "cat", "sat", "on", "mat", "unknown", 7), k=4)
    found.predict(context)
    found.predict_proba(context, backoff=False)
    found.explain(context)
    bags, _ = found._bag(context)
    for baseline in found.baselines.in_context.values():
        baseline(bags)
    found.baselines.ngrams.best_trigrams(bags.before, bags.last, 2)


def _training(folder: Path, rng: Random) -> None:
    path = folder / "run"
    item = shelf._folder(path)
    _use_training(training_runs.read_run(item))


def _use_training(run: training_runs.TrainingRun) -> None:
    to_json(run.records)
    _ = run.unfinished, run.ended
    if training_runs.BROKEN not in run.status:
        run.finals()
    run.code()


def _dynamics(folder: Path, rng: Random) -> None:
    scan_snap_runs.read_asked(scan_snap_runs.run_settings(shelf._folder(folder / "run")))


def _verification(folder: Path, rng: Random) -> None:
    path = folder / "run"
    found = claims_records.Evidence().of_folder(path)
    for record in found:
        claims_records.table_row(record)
        verification_text.blocks(record, "slug")
        for panel in record.panels:
            verification_figures.panel_table(panel)
            heat = panel.heat is not None
            (claims_panels.heat_of if heat else claims_panels.lines_of)(panel)
    claims_records.shown(found, "holds", "t")
    verification_text.headline(found)
    claims_records.folder_code(path)


def _published(folder: Path, rng: Random) -> None:
    reproduce.run_figure(folder / "run")


def _sweep(folder: Path, rng: Random) -> None:
    found = sweeps_folder.read_sweep(folder / "sweep")
    _ = found.missing
    axes = sweep_map.read_axes(found, {"value": rng.choice(sweeps_folder.MEASURED)})
    sweep_map.drawn(found, axes, 0)
    to_json(found.rows)


def _checkpoint(folder: Path, rng: Random) -> None:
    path = folder / "checkpoint.safetensors"
    reproduce.Checkpoint(folder).load("checkpoint")
    saved = runs._Kept(path).load()
    plan = Plan("adam", "identity", "log", None, None, shared=True, beta1=0.9, beta2=0.999)
    first = first_state(plan, np.zeros((2, 3)))
    if saved is not None:
        state, parts = unpacked(saved, first, 5)
        joined(parts, np.arange(10), np.arange(10))
        _ = state.params + state.moments[0], np.asarray(state.failed).tolist()


def _parts(folder: Path, rng: Random) -> None:
    words = Vocabulary.from_record(read_json(folder / "vocabulary.json"), folder)
    table = Parts.read(folder / "parts.json")
    for part in table.parts[:2]:
        read_part(folder, part.number, words, table)


def _tuning(folder: Path, rng: Random) -> None:
    for stage in seeds.STAGES:
        path = folder / f"{stage.name}-0.parquet"
        if path.is_file():
            stage.to_columns(stage.from_columns(tunings.read_piece(path, stage.form)))


def _solved(folder: Path, rng: Random) -> None:
    record = finished_part(folder / "work", 0)
    if record is not None:
        merge_summaries([(record.weight, record.summary)] * 2)


def _workspace(folder: Path, rng: Random) -> None:
    seen = shelf.Shelf(folder)
    for item in seen.items():
        if item.kind == "data" and item.id != shelf.EXAMPLE:
            item.windows()
            _ = item.reading.words
        is_folder(item.path, "model")
    lab = SimpleNamespace(shelf=seen, jobs=SimpleNamespace(find=lambda name: None))
    for run in training_runs.all_runs(lab):  # type: ignore[arg-type]
        _use_training(run)


def _listed(folder: Path, rng: Random) -> None:
    for path in sorted(folder.glob("*")):
        to_json(look.look(path))
        details.details(path)
        differ.difference(path, path)


def _typed(folder: Path, rng: Random) -> None:
    context, plain, grid, names = (
        _said(folder / name) for name in ("context.json", "context.txt", "grid.txt", "names.txt")
    )
    vocabulary = Vocabulary([*seeds.TOKENS, 7])
    for text in (context, plain):
        words = contexts.read_context(text, vocabulary)
        contexts.write_context(words, vocabulary)
        to_json(words).encode()
    asked = sweeps_folder.parse_grid(grid.split())
    cells = sweeps_folder.cells_of(
        asked, ["syn-small"], rng.choice(("reduced", "limit", "sampled"))
    )
    sweeps.memory_needed(sweeps_folder.pieces_of(cells, "reduced"))
    claims, prior, tokenizer, *numbers = [*names.split(" "), "", "", ""]
    for call, said in (
        (claims_records.asked_claims, claims), (parse_prior, prior), (readers.named_tokeniser, tokenizer),
        (lambda x: scan_snap_runs.read_asked({"eta_y": x, "until": x, "levels": x, "seeds": x}), numbers[0]),
    ):  # fmt: skip
        try:
            call(said)  # type: ignore[operator]
        except AttomatonError:
            continue


def _said(path: Path) -> str:
    """A file as the words of a command line, which may hold any byte."""
    return path.read_bytes().decode("utf-8", "surrogateescape") if path.is_file() else ""


READERS = {
    "plain text": Reader(seeds.text, _text, 10),
    "documents": Reader(seeds.text, _documents, 8),
    "rows (.jsonl)": Reader(seeds.rows, _rows, 12),
    "events (.csv)": Reader(seeds.events(".csv"), partial(_events, ".csv"), 6),
    "events (.tsv)": Reader(seeds.events(".tsv"), partial(_events, ".tsv"), 4),
    "events (.parquet)": Reader(seeds.events(".parquet"), partial(_events, ".parquet"), 8),
    "events (.xes)": Reader(seeds.xes("a.xes"), partial(_sequences, "a.xes"), 6),
    "events, no suffix (XES)": Reader(seeds.xes("log"), partial(_sequences, "log"), 3),
    "sequences (.spmf)": Reader(seeds.spmf("a.spmf"), partial(_sequences, "a.spmf"), 6),
    "sequences, no suffix (SPMF)": Reader(seeds.spmf("log"), partial(_sequences, "log"), 3),
    "events (;)": Reader(seeds.delimited, _delimited, 4),
    "tokenizer (.json)": Reader(seeds.tokenizer, _tokenizer, 8),
    "matrix (.npy)": Reader(seeds.matrix, _matrix, 8),
    "classes (.toml)": Reader(seeds.classes, _classes, 8),
    "model": Reader(seeds.model, _model, 16),
    "model, embeddings": Reader(seeds.coupled, _model, 8),
    "predictor": Reader(seeds.predictor, _predictor, 12),
    "run of train": Reader(seeds.training, _training, 8),
    "run of dynamics": Reader(seeds.dynamics, _dynamics, 3),
    "run of verify": Reader(seeds.verification, _verification, 8),
    "sweep": Reader(seeds.sweep, _sweep, 8),
    "checkpoint": Reader(seeds.checkpoint, _checkpoint, 8),
    "corpus in parts": Reader(seeds.parts, _parts, 8),
    "piece of tune": Reader(seeds.tuning, _tuning, 3),
    "solved part": Reader(seeds.parts, _solved, 3),
    "workspace of the lab": Reader(seeds.workspace, _workspace, 4),
    "folders, listed": Reader(seeds.folders, _listed, 8),
    "typed words": Reader(seeds.typed, _typed, 6),
    "run of reproduce": Reader(seeds.published, _published, 0.1),
}
