"""The command that tells a person what was learned: of a model, a last token or a document."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attomaton.cli import predictor
from attomaton.cli.ask import Fitted, refuse_options
from attomaton.cli.commands import command
from attomaton.cli.console import emit, progress_bar, say
from attomaton.cli.options import Json, at_least, option, token_typed
from attomaton.cli.pictures import Figure, Html, check_pictures, say_written, write_pictures
from attomaton.errors import DataError, UsageError

if TYPE_CHECKING:
    from attomaton.folders.model import ModelFolder
    from attomaton.mechanics.theory.limit import Limit
    from attomaton.summaries.records import DocumentSummary, LastTokenSummary, Summary

app = typer.Typer()


@command(app, "Ask")
def summary(
    model: Fitted,
    last: Annotated[
        str | None, option("Put one last token under the lens.", callback=token_typed)
    ] = None,
    document: Annotated[
        str | None, option("Put one document under the lens: its number or title.")
    ] = None,
    data: Annotated[
        Path | None, option("The text with the documents (default: the fitted one).")
    ] = None,
    split: Annotated[
        str | None, option("Documents: articles (default), paragraphs or lines.")
    ] = None,
    top: Annotated[int, option("Rows of each table.")] = 20,
    max_df: Annotated[
        float, option("Leave out terms in more than this share of the documents.")
    ] = 0.5,
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
    head = {"model": str(model)}
    record: Summary
    with progress_bar("summary"):
        opened = ModelFolder(model)
        if document is not None:
            path, split, record = _document(opened, document, data, split, top, max_df)
            head |= {"data": str(path), "split": split}
        elif last is not None:
            record = _last_token(opened.limit(), last, top, max_df)
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


def _last_token(limit: "Limit", last: str, top: int, max_df: float) -> "LastTokenSummary":
    from attomaton.summaries import find_last_token, last_token_lens

    token = find_last_token(limit.graph.vocabulary, limit.graph.last_tokens, last)
    return last_token_lens(limit, token, top, max_df)


def _document(
    model: "ModelFolder", wanted: str, data: Path | None, split: str | None, top: int, max_df: float
) -> "tuple[Path, str, DocumentSummary]":
    """A text, how it was cut, and the lens on one of its documents, read as the model's own text was read."""
    from attomaton.corpus.documents import read_documents
    from attomaton.corpus.text import EOS
    from attomaton.summaries import document_lens

    if data is None and model.record.data is None:
        raise DataError(f"{model.folder}: does not say which data it was fitted to; say --data.")
    path = data or Path(str(model.record.data))
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
