"""The commands that tell a person what was learned: by a model, from data, and in runs of training."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attomaton.cli import predictor
from attomaton.cli.ask import Fitted, drawn_again, refuse_options
from attomaton.cli.commands import command
from attomaton.cli.console import emit, progress_bar, say
from attomaton.cli.options import Json, argument, at_least, option, token_typed
from attomaton.cli.pictures import Figure, Html, check_pictures, say_written, write_pictures
from attomaton.errors import DataError, UsageError, whole_number

if TYPE_CHECKING:
    from attomaton.corpus.reading import Reading
    from attomaton.folders.model import ModelFolder
    from attomaton.summaries.records import DocumentSummary, Summary

app = typer.Typer()


@command(app, "Ask")
def summary(
    model: Fitted,
    last: Annotated[
        str | None, option("Put one last token under the lens.", callback=token_typed)
    ] = None,
    document: Annotated[str | None, "Put one document under the lens: its number or title."] = None,
    data: Annotated[Path | None, "The text with the documents (default: the fitted one)."] = None,
    split: Annotated[str | None, "Documents: articles (default), paragraphs or lines."] = None,
    top: Annotated[int, "Rows of each table."] = 20,
    max_df: Annotated[float, "Leave out terms in more than this share of the documents."] = 0.5,
    html: Html = None,
    figure: Figure = None,
    json: Json = False,
) -> None:
    """Summarise what was learned, in words and tables.

    Of the whole model, one last token, or one document; of a predictor, which terms pay and what they say.
    """
    from attomaton.disk.formats import plain
    from attomaton.disk.storage import is_folder
    from attomaton.folders.model import ModelFolder
    from attomaton.report.figures.summary import summary_figure
    from attomaton.report.html.summary import summary_page
    from attomaton.report.text.summary import in_words, summary_text

    if last is not None and document is not None:
        raise UsageError("--last and --document ask for two lenses; name one.")
    check_pictures((model, data), figure, html)
    at_least("--top", top, 1)
    if is_folder(model, "predictor"):
        refuse_options(
            "a predictor", document=document, data=data, split=split, html=html, figure=figure
        )
        if last is None:
            predictor.show_learned(model, top, json)
        else:
            predictor.show_order(model, last, json)
        return
    if document is None and (data, split) != (None, None):
        raise UsageError("--data and --split say where documents are: they go with --document.")
    head = {"model": str(model)}
    record: Summary
    with progress_bar("summary"):
        opened = ModelFolder(model)
        if document is not None:
            path, split, record = _document(opened, document, data, split, top, max_df)
            head |= {"data": str(path), "split": split}
        elif last is not None:
            from attomaton.summaries import find_last_token, last_token_lens

            limit = opened.limit()
            token = find_last_token(limit.graph.vocabulary, limit.graph.last_tokens, last)
            record = last_token_lens(limit, token, top, max_df)
        else:
            from attomaton.summaries import model_summary

            record = model_summary(opened.limit(), top)
        how = opened.record.reading
        page = partial(summary_page, record)
        written = write_pictures(partial(summary_figure, record), figure, html, page)
    if how.ordering is not None:
        say(how.ordering.text())
    told = {**head, **plain(record), "reading": how, "in_words": in_words(record)}
    emit(told, summary_text(record), json)
    say_written(*written)


def _document(
    model: "ModelFolder", wanted: str, data: Path | None, split: str | None, top: int, max_df: float
) -> "tuple[Path, str, DocumentSummary]":
    """A text, how it was cut, and the lens on one of its documents, read as the model's own text was read."""
    from attomaton.corpus.documents import read_documents
    from attomaton.corpus.text import EOS
    from attomaton.summaries import document_lens

    path = data or Path(_data_of(model, "say --data"))
    reading = model.record.reading
    fitted = reading.splitting
    if split not in (None, fitted) and fitted != "stream":
        raise UsageError(
            f"--split {split}: this model was fitted on {fitted}, so its documents are {fitted}."
        )
    split = split or ("articles" if fitted == "stream" else fitted)
    documents = read_documents(path, split, reading)
    i = documents.find(wanted)
    limit = model.limit(documents.lasts(i))  # all that is needed of a large model
    if not len(limit.graph.last_tokens):
        limit = model.limit()
    if EOS not in limit.graph.vocabulary:
        documents = read_documents(path, split, reading, line_ends=False)
    record = document_lens(limit, documents, i, top, max_df, reading.context)
    return path, split, record


@command(app, "Ask")
def coverage(
    source: Annotated[Path, argument("Data file, or folder written by `attomaton fit`.")],
    reading: "Reading",
    new: Annotated[
        Path | None, "File of new contexts to judge (default: the last tenth of the data)."
    ] = None,
    clustered: Annotated[
        bool, option("Of a model: read its data again, for errors by sequence.", "--clustered")
    ] = False,
    bootstrap: Annotated[
        int | None, "Also draw the sequences again so many times, as `attomaton bootstrap` does."
    ] = None,
    top: Annotated[int, "Rows of each table."] = 20,
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
    from attomaton.jobs.bootstrap import MOST_RESAMPLES
    from attomaton.report.figures.coverage import coverage_figure
    from attomaton.report.html.summary import coverage_page
    from attomaton.report.text.coverage import coverage_text, in_words
    from attomaton.summaries.coverage import cover, cover_parts

    at_least("--top", top, 1)
    if out is not None:
        check_file(out, (".csv", ".parquet"), (source, new))
    check_pictures((source, new), figure, html)
    if bootstrap is not None:  # it comes last, and the rest may take long
        whole_number("--bootstrap", bootstrap, least=1, most=MOST_RESAMPLES)
    with progress_bar("coverage") as progress:
        model = ModelFolder(source) if source.is_dir() else None
        if model is not None:
            reading = reading.over(model.record.reading)
        elif clustered:
            raise UsageError(f"{source}: --clustered is for a model; of data it is the rule.")
        data = source if model is None or bootstrap is None else _data_of(model)
        judged = None if new is None else read_windows(new, reading)
        how: Any = {"top": top, "progress": progress}
        if model is None:
            found, odds = cover(read_windows(source, reading), judged, **how)
        elif clustered:
            again = read_windows(_data_of(model), reading, model.vocabulary)
            found, odds = cover(model.limit(), judged, windows=again, **how)
        else:
            total = len(model.record.parts)
            found, odds = cover_parts(model.limits(), judged, total=total, **how)
        if out is not None:
            _write(odds, out)
        page = partial(coverage_page, found, top)
        written = write_pictures(partial(coverage_figure, found), figure, html, page)
    told = {"source": str(source), "new_contexts": None if new is None else str(new)}
    text = coverage_text(found, top)
    if bootstrap is not None:
        resampled, words = drawn_again(data, reading, bootstrap)
        told, text = {**told, "bootstrap": plain(resampled)}, f"{text}\n\n{words}"
    emit({**told, **plain(found), "in_words": in_words(found)}, text, json)
    say_written(out, *written)


def _data_of(model: "ModelFolder", otherwise: str = "name the data in place of the model") -> str:
    """The data a model was fitted to."""
    from attomaton.disk.spool import NAME

    data = model.record.data
    if data is None or data == NAME:
        why = "does not say which data it was fitted to"
        if data is not None:
            why = f"was fitted to {NAME}, which cannot be read again"
        raise DataError(f"{model.folder}: {why}; {otherwise}.")
    return data


def _write(odds: Any, out: Path) -> None:
    """All log-odds as a table."""
    from attomaton.disk.formats import write_text
    from attomaton.disk.storage import write_whole

    if out.suffix.lower() == ".csv":
        from attomaton.report.text.spreadsheets import csv_text

        rows = zip(*(column.to_pylist() for column in odds.columns), strict=True)
        write_whole(out, write_text, csv_text(odds.column_names, rows))
    else:
        import pyarrow.parquet as pq

        write_whole(out, lambda path: pq.write_table(odds, path))


@command(app, "Training")
def compare(
    runs: Annotated[list[Path], argument("Folders written by `attomaton train`.")],
    data: Annotated[Path | None, "The data or model (default: what they were trained on)."] = None,
    top: Annotated[int, "Rows of each table."] = 10,
    html: Html = None,
    figure: Figure = None,
    json: Json = False,
) -> None:
    """Compare what runs of training have learned, and when.

    Which priorities of the exact limit each has right, in which order it learned them, where the runs disagree, which
    answers differ from the automaton's, how far the odds of tied tokens are off. All runs must be of the same data.
    """
    from attomaton.disk.formats import plain
    from attomaton.jobs.compare import compare_runs
    from attomaton.report.figures.comparison import comparison_figure
    from attomaton.report.html.summary import sections_page
    from attomaton.report.text.comparison import TITLE, comparison_text, in_words, sections

    check_pictures((*runs, data), figure, html)
    at_least("--top", top, 1)
    with progress_bar("compare"):
        record = compare_runs(runs, data, top)
        caption = "The share of strict priorities that are right from this step on, as far as it was looked at."
        written = write_pictures(
            lambda: comparison_figure(record), figure, html,
            lambda svg, footer: sections_page(TITLE, in_words(record), sections(record), svg, caption, footer),
        )  # fmt: skip
    emit({**plain(record), "in_words": in_words(record)}, comparison_text(record), json)
    say_written(*written)
