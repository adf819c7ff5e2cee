"""Probe a model, or all its checkpoints, into a folder that can be looked at: record, page, heads on some texts."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Float
from attomaton.corpus.reading import Reading
from attomaton.disk.formats import write_text
from attomaton.disk.ledger import command
from attomaton.disk.manifest import Entry
from attomaton.disk.provenance import package_version, provenance
from attomaton.disk.storage import Place, Replaced, check_place, new_folder
from attomaton.errors import DataError, UsageError, listed, visible
from attomaton.folders.model import open_model, save_model
from attomaton.folders.probe import read_probe, write_texts
from attomaton.jobs.probe import Asked, probe_attention, probed
from attomaton.jobs.snap import snap_models
from attomaton.probe.asking import model_ids
from attomaton.probe.records import Probe
from attomaton.probe.snapping import Snap
from attomaton.probe.texts import Text, attention_on, texts_of
from attomaton.report.figures import canvas
from attomaton.report.figures.probe import probe_figure
from attomaton.report.figures.snap import snap_figure
from attomaton.report.html.probe import probe_page, snap_page
from attomaton.trained.folder import read_trained
from attomaton.trained.forward import Network

TEXTS = 12  # contexts on which every head's attention is kept


def probe_run(
    model: Path | str,
    corpus: Path | str | None,
    out: Path | str,
    reading: Reading | None = None,
    asked: Asked | None = None,
    progress: Progress = quiet,
    force: bool = False,
) -> tuple[Probe, Replaced | None]:
    """Everything the probe says of one model on one corpus, left in a folder; of attention alone, without a corpus."""
    asked, reading = asked or Asked(), reading or Reading()
    place = check_place(out, "probe", (model, corpus, reading.tokenizer), force)
    with new_folder(place, "probe") as work:
        if corpus is None:
            found = probe_attention(model)
        else:
            found, exam, network = probed(model, corpus, reading, asked, progress)
            save_model(exam.limit, work / "model", {"data": str(corpus)})
            if exam.contexts:
                some = slice(0, TEXTS)
                ids = [exam.windows.context(row) for row in exam.rows[some]]
                texts = texts_of(exam.limit, ids)
                write_texts(work, texts, attention_on(network, exam.contexts[some]))
        _tell(work, model, corpus, reading, asked, found)
        _show(work, "probe", found, probe_figure, probe_page)
    return found, place.replaced


def snap_run(
    checkpoints: Sequence[Path | str],
    corpus: Path | str,
    out: Path | str,
    reading: Reading | None = None,
    asked: Asked | None = None,
    progress: Progress = quiet,
    force: bool = False,
) -> tuple[Snap, Replaced | None]:
    """A model over its checkpoints, left in a folder."""
    asked, reading = asked or Asked(), reading or Reading()
    place: Place = check_place(out, "probe", (*checkpoints, corpus, reading.tokenizer), force)
    with new_folder(place, "snap") as work:
        found = snap_models(checkpoints, corpus, reading, asked, progress)
        _tell(work, [str(x) for x in checkpoints], corpus, reading, asked, found)
        _show(work, "snap", found, snap_figure, snap_page)
    return found, place.replaced


def _tell(
    work: Path, model: Any, corpus: Any, reading: Reading, asked: Asked, found: object
) -> None:
    model = model if isinstance(model, list) else str(model)
    said = {"model": model, "text": corpus, **reading.given, **vars(asked)}
    provenance(work, said, found)


def _show(
    work: Path, name: str, found: Any, draw: Callable[[Any], Any], page: Callable[..., str]
) -> None:
    """The page and, where matplotlib is there, its picture."""
    svg = None
    if package_version("matplotlib"):
        drawn = draw(found)
        canvas.save(drawn, work / "figures", name)
        svg = canvas.to_svg(drawn)
    footer = f"attomaton {package_version('attomaton')} · {command()}"
    write_text(work / "index.html", page(found, 20, svg, footer))


def own_text(
    folder: Path | str, words: Sequence[str]
) -> tuple[Text, Float[np.ndarray, "layers heads length"]]:
    """What every head of the model that was probed attends to on other words, beside the automaton.

    The model is read from where it was; where its weights have changed since, it is refused.
    """
    found = read_probe(folder)
    if not isinstance(found, Probe) or found.form is None:
        raise UsageError(
            f"{folder}: no probe of a model, so there is nothing to run words through."
        )
    network, limit = _network(found.model, found.files), open_model(Path(folder) / "model")
    vocabulary = limit.graph.vocabulary
    places = {str(label): i for i, label in enumerate(vocabulary.labels)}
    ids = np.array([places.get(word, -1) for word in words], np.int64)
    own = model_ids(vocabulary, network.words, network.form)
    strange = [w for w, i in zip(words, ids, strict=True) if i < 0 or own[i] < 0]
    if strange:
        some = [visible(x) for x in strange]
        raise UsageError(
            listed("not in the vocabulary of corpus and model:", some, "Use words of both.")
        )
    (text,) = texts_of(limit, [ids])
    return text, attention_on(network, [own[ids]])[0]


@lru_cache(maxsize=1)
def _network(model: str, files: tuple[Entry, ...]) -> Network:
    """The model a probe speaks of, kept for the next words; unless its weights have changed."""
    trained = read_trained(model, "float32")
    before = {x.sha256 for x in files}
    if not before or {x.sha256 for x in trained.files} != before:
        raise DataError(f"{model}: other files than those that were probed; probe it again.")
    return Network(trained)
