"""What the lens shows, as the records of `attomaton summary`: of a model, one of its last tokens, or a document."""

import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from attomaton.base.progress import Progress
from attomaton.corpus.documents import SPLITS, Documents, read_documents
from attomaton.corpus.files import format_of
from attomaton.corpus.terms import MAX_DF
from attomaton.corpus.text import EOS
from attomaton.errors import AttomatonError, DataError, UsageError
from attomaton.folders.model import Part
from attomaton.lab.kit.cache import Cache, Shared
from attomaton.lab.opened import Opened
from attomaton.lab.shared import Lab
from attomaton.summaries import (
    document_lens,
    last_token_lens,
    model_summary,
)
from attomaton.summaries.document import (
    DocumentWindows,
    ReadWord,
    document_text,
    document_windows,
)
from attomaton.summaries.last_token import LastTokens
from attomaton.summaries.records import DocumentSummary, LastTokenSummary, Summary

TOP = 20  # rows of each table, as on the command line
KEPT = 64  # records that stay in memory
READ = 4  # documents whose words do
COMPARED = 2  # models whose last tokens do
CUT = 8  # texts, each cut into documents in one way
READERS = 2  # parts of a model that are read at once
LARGE = 1_000_000  # pairs from which what the lens compares takes seconds to read


@dataclass(frozen=True)
class Subject:
    """What is under the lens: a last token, a document (by number or title), or, with neither, the whole model."""

    last: str = ""
    document: str = ""
    split: str = ""
    top: int = TOP
    max_df: float = MAX_DF

    def checked(self) -> "Subject":
        """The same, if the command line would take it."""
        if self.last and self.document:
            raise UsageError("--last and --document ask for two lenses; name one.")
        if self.top < 1:
            raise UsageError(f"--top must be at least 1, not {self.top}.")
        if not 0 < self.max_df <= 1:
            raise UsageError(
                f"max_df is a share of the documents above 0 and up to 1, not {self.max_df}."
            )
        return self


@dataclass(frozen=True, eq=False)
class ReadDocument:
    """A document as text: its words with the answers to them, and the windows these are about."""

    windows: DocumentWindows
    words: list[ReadWord]


class Records:
    """The newest records and the documents of a lab; one text is read once for all pages."""

    def __init__(self) -> None:
        self._records = Cache[tuple[Path, Subject], Summary](KEPT)
        self._texts = Cache[tuple[Path, Subject], ReadDocument](READ)
        self._documents = Cache[tuple[Path, str], Documents](CUT)
        self._lasts = Cache[Path, LastTokens](COMPARED)

    def find(self, model: Opened, subject: Subject) -> Summary | None:
        """The record of a subject, if it was made before."""
        return self._records.get((model.folder, subject))

    def make(self, model: Opened, subject: Subject, progress: Progress) -> bool:
        """Make and keep the record of a subject; seconds for a large model, so from a job only."""
        progress(0, 2, "reading")
        if subject.document:
            documents = self.documents(model, subject.split)
            i, context = documents.find(subject.document), model.record.reading.context
            # All that is needed of a large model.
            limit = model.model.limit(documents.lasts(i), samples=False, weights=True)
            if not len(limit.graph.last_tokens):
                limit = model.whole
            windows = document_windows(limit, documents, i, context)
            progress(1, 2, "weighing words")
            made: Summary = document_lens(
                windows.limit, documents, i, subject.top, subject.max_df, context, windows
            )
            read = ReadDocument(windows, document_text(windows))
            self._texts.keep((model.folder, subject), read)
        elif subject.last:
            every = self.last_tokens(model)
            progress(1, 2, "comparing last tokens")
            made = last_token_record(model, subject, every)
        else:
            whole = model.whole
            progress(1, 2, "counting")
            made = model_summary(whole, subject.top)
        self._records.keep((model.folder, subject), made)
        return True

    def text(self, model: Opened, subject: Subject) -> "ReadDocument | None":
        """The words of a document whose record was made."""
        return self._texts.get((model.folder, subject))

    def last_tokens(self, model: Opened) -> LastTokens:
        """All last tokens of a model, for the lens on one of them; read once."""
        return self._lasts.found(model.folder, lambda: _last_tokens(model))

    def documents(self, model: Opened, split: str) -> Documents:
        """The documents of the text a model was fitted on."""
        return self._documents.found((model.folder, split), lambda: _read(model, split))


RECORDS = Shared(Records)


def read_ahead(lab: Lab) -> None:
    """Read what the lens wants of a large model that the lab was started with, before anybody asks for it."""
    item = lab.shelf.find(lab.first)
    with suppress(AttomatonError, OSError):  # whoever looks at it is told
        model = lab.fitted(item) if item.kind == "model" else None
        if model is not None and model.record.summary.pairs >= LARGE:
            records = RECORDS.of(lab)
            records.last_tokens(model).text()
            split = first_split(model, records)
            records.documents(model, split).terms  # noqa: B018  (counted here, kept there)


def last_token_record(
    model: Opened, subject: Subject, every: LastTokens | None = None
) -> LastTokenSummary:
    """The lens on a last token, as `attomaton summary --last` has it.

    Without the others, from its own samples alone: at once, but right only where others do not matter.
    """
    limit, last = model.limit(subject.last), model.last_id(subject.last)
    return last_token_lens(limit, last, subject.top, subject.max_df, every)


def _last_tokens(model: Opened) -> LastTokens:
    if "whole" in vars(model):  # read already
        return LastTokens.of(model.whole)
    folder = model.model
    folder.files.check()

    def of_part(part: Part) -> LastTokens:
        samples, pairs = folder.scored(part)
        scores = (pairs[name] for name in ("last", "token", "svm_score", "finite_score"))
        return LastTokens.made(samples, *scores)

    # Part by part: what is small enough takes the memory that the one before gave back.
    with ThreadPoolExecutor(READERS) as readers:
        return LastTokens.together(list(readers.map(of_part, folder.record.parts)))


# Documents


def text_path(model: Opened) -> Path:
    """The text a model was fitted on, as its own record names it; an error says why there is none."""
    given = model.record.data
    if not given:
        raise UsageError(
            "this model does not say which text it was fitted on, so it has no documents."
        )
    path = Path(given)
    kind = format_of(path, model.record.reading.format)
    if kind != "text":
        raise UsageError(f"documents are parts of a plain text; this model was fitted on {kind}.")
    if not path.is_file():
        raise UsageError(
            f"{path}: the text this model was fitted on is not there, so its documents cannot be shown."
        )
    return path


def splits(model: Opened) -> tuple[str, ...]:
    """How the text of a model can be cut into documents; one fitted on lines or paragraphs has these alone."""
    fitted = model.record.reading.splitting
    return SPLITS if fitted == "stream" else (fitted,)


def first_split(model: Opened, records: Records) -> str:
    """How to cut a text nobody has cut yet: at headings if there are any, else into the first that gives several."""
    for split in splits(model):
        try:
            found = records.documents(model, split)
        except DataError:
            continue
        if split == "articles" or len(found) > 1:
            return split
    return splits(model)[-1]


def document_name(documents: Documents, i: int) -> str:
    """What finds a document: its number, or its title where another document is called by that number."""
    return str(i) if str(i) not in documents.titles else documents.titles[i]


def _read(model: Opened, split: str) -> Documents:
    fitted = model.record.reading.splitting
    if split not in splits(model) and fitted != "stream":
        raise UsageError(
            f"--split {split}: this model was fitted on {fitted}, so its documents are {fitted}."
        )
    return read_documents(
        text_path(model), split, model.record.reading, line_ends=EOS in model.vocabulary
    )


# The same by hand


def code(model: Opened, subject: Subject) -> tuple[str, str]:
    """The command and the Python code that give a record."""
    folder = str(model.folder.resolve())
    words, python = _about(model, subject, folder)
    if subject.top != TOP:
        words += ["--top", str(subject.top)]
    if subject.max_df != MAX_DF and (subject.last or subject.document):
        words += ["--max-df", str(subject.max_df)]
    return shlex.join(["attomaton", "summary", folder, *words]), f"{python}print(record)"


def _about(model: Opened, subject: Subject, folder: str) -> tuple[list[str], str]:
    """What names the subject on the command line, and the Python code."""
    top, begin = f"top={subject.top}", "from attomaton import open_model\n"
    if subject.last:
        return ["--last", subject.last], (
            f"{begin}from attomaton.summaries import last_token_lens\n"
            f"limit = open_model({folder!r})\n"
            f"last = limit.graph.vocabulary.id_of({model.vocabulary.read(subject.last)!r})\n"
            f"record = last_token_lens(limit, last, {top}, max_df={subject.max_df})\n"
        )
    if not subject.document:
        return [], (
            f"{begin}from attomaton.summaries import model_summary\n"
            f"record = model_summary(open_model({folder!r}), {top})\n"
        )
    text, reading = str(text_path(model).resolve()), model.record.reading
    return ["--document", subject.document, "--data", text, "--split", subject.split], (
        f"{begin}from attomaton.corpus.documents import read_documents\n"
        "from attomaton.corpus.reading import Reading\n"
        "from attomaton.summaries import document_lens\n"
        f"documents = read_documents({text!r}, {subject.split!r}, {reading!r}, "
        f"line_ends={EOS in model.vocabulary})\n"
        f"i = documents.find({subject.document!r})\n"
        f"record = document_lens(open_model({folder!r}), documents, i, {top}, max_df={subject.max_df}, "
        f"context={reading.context!r})\n"
    )


def page_name(record: Summary) -> str:
    """The name of a record's page as a file."""
    match record:
        case LastTokenSummary():
            about = f"after {record.last}"
        case DocumentSummary():
            about = record.title
        case _:
            about = "model"
    plain = re.sub(r"[^\w-]+", "-", about).strip("-")[:60]
    return f"{plain or 'lens'}.html"


def page(record: Summary, command: str) -> str:
    """The page `command --html FILE` writes; the footer says so."""
    from attomaton.disk.provenance import package_version
    from attomaton.report.figures import canvas
    from attomaton.report.figures.summary import summary_figure
    from attomaton.report.html.summary import summary_page

    svg = canvas.to_svg(summary_figure(record)) if package_version("matplotlib") else None
    footer = f"attomaton {package_version('attomaton')} · {command} --html {shlex.quote(page_name(record))}"
    return summary_page(record, svg, footer)
