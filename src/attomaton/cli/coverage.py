"""The command that says how far data carry what was learned from them."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attomaton.cli.commands import command
from attomaton.cli.console import emit, progress_bar
from attomaton.cli.options import Json, argument, at_least, option
from attomaton.cli.pictures import Figure, Html, check_pictures, say_written, write_pictures
from attomaton.errors import DataError, UsageError

if TYPE_CHECKING:
    from attomaton.corpus.reading import Reading
    from attomaton.folders.model import ModelFolder
    from attomaton.jobs.bootstrap import Bootstrap

app = typer.Typer()


@command(app, "Ask")
def coverage(
    source: Annotated[Path, argument("Data file, or folder written by `attomaton fit`.")],
    reading: "Reading",
    new: Annotated[
        Path | None, option("File of new contexts to judge (default: the last tenth of the data).")
    ] = None,
    clustered: Annotated[
        bool, option("Of a model: read its data again, for errors by sequence.", "--clustered")
    ] = False,
    bootstrap: Annotated[
        int | None,
        option("Also draw the sequences again so many times, as `attomaton bootstrap` does."),
    ] = None,
    top: Annotated[int, option("Rows of each table.")] = 20,
    out: Annotated[
        Path | None, option("Also write all log-odds: a .csv or .parquet file.", "-o", "--out")
    ] = None,
    html: Html = None,
    figure: Figure = None,
    json: Json = False,
) -> None:
    """Say how sure it all is, and what to collect next.

    Who was never compared, orders that rest on one sample, standard errors of odds, and new contexts.
    """
    from attomaton.corpus.readers import read_windows
    from attomaton.disk.formats import plain
    from attomaton.disk.storage import check_file
    from attomaton.folders.model import ModelFolder
    from attomaton.report.figures.coverage import coverage_figure
    from attomaton.report.html.summary import coverage_page
    from attomaton.report.text.coverage import coverage_text, in_words
    from attomaton.summaries.coverage import cover, cover_parts

    at_least("--top", top, 1)
    if out is not None:
        check_file(out, (".csv", ".parquet"), (source, new))
    check_pictures((source, new), figure, html)
    with progress_bar("coverage") as progress:
        if source.is_dir():
            model = ModelFolder(source)
            reading = reading.over(model.record.reading)
            judged = None if new is None else read_windows(new, reading)
            if clustered:
                again = read_windows(_data_of(model), reading, model.vocabulary)
                found, odds = cover(
                    model.limit(), judged, windows=again, top=top, progress=progress
                )
            else:
                total = len(model.record.parts)
                found, odds = cover_parts(
                    model.limits(), judged, top=top, total=total, progress=progress
                )
        elif clustered:
            raise UsageError(f"{source}: --clustered is for a model; of data it is the rule.")
        else:
            judged = None if new is None else read_windows(new, reading)
            windows = read_windows(source, reading)
            found, odds = cover(windows, judged, top=top, progress=progress)
        if out is not None:
            _write(odds, out)
        page = partial(coverage_page, found, top)
        written = write_pictures(partial(coverage_figure, found), figure, html, page)
    told = {"source": str(source), "new_contexts": None if new is None else str(new)}
    text = coverage_text(found, top)
    if bootstrap is not None:
        resampled, words = _drawn_again(source, reading, bootstrap)
        told, text = {**told, "bootstrap": plain(resampled)}, f"{text}\n\n{words}"
    emit({**told, **plain(found), "in_words": in_words(found)}, text, json)
    say_written(out, *written)


def _drawn_again(source: Path, reading: "Reading", resamples: int) -> "tuple[Bootstrap, str]":
    """A bootstrap of the data, or of those a model was fitted to, in a run folder of its own."""
    from attomaton.disk.provenance import run_folder, unfinished_run
    from attomaton.folders.model import ModelFolder
    from attomaton.jobs.bootstrap import bootstrap_run
    from attomaton.report.text.stability import stability_text

    data = _data_of(ModelFolder(source)) if source.is_dir() else source
    asked = {"data": str(data), "resamples": resamples, "seed": 0}
    place = unfinished_run("bootstrap", asked) or run_folder("bootstrap", asked)
    with progress_bar("bootstrap") as progress:
        found = bootstrap_run(data, place, resamples=resamples, reading=reading, progress=progress)
    return found, f"{stability_text(found.stability)}\nrun in {found.run}"


def _data_of(model: "ModelFolder") -> str:
    if model.record.data is None:
        raise DataError(f"{model.folder}: does not say which data it was fitted to.")
    return model.record.data


def _write(odds: Any, out: Path) -> None:
    """All log-odds as a table."""
    from attomaton.disk.formats import write_text
    from attomaton.disk.storage import write_whole

    if out.suffix.lower() == ".csv":
        from attomaton.report.text.spreadsheets import csv_text

        rows = zip(*(column.to_pylist() for column in odds.columns), strict=True)
        text = csv_text(odds.column_names, rows)
        write_whole(out, lambda path: write_text(path, text))
    else:
        import pyarrow.parquet as pq

        write_whole(out, lambda path: pq.write_table(odds, path))
