import re
from html.parser import HTMLParser

import pytest

from attomaton.corpus.documents import read_documents
from attomaton.corpus.readers import read_samples
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.report.figures.canvas import to_svg
from attomaton.report.figures.summary import summary_figure
from attomaton.report.html.summary import summary_page
from attomaton.report.text.summary import in_words, sections, summary_text
from attomaton.summaries import document_lens, last_token_lens, model_summary

TEXT = """ = Tea & <b>cake</b> = 
 the cup and the pot and the cup and $ 5 and $ 6 
 = Sea = 
 a boat on the sea and a boat on the lake and the sea 
"""


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "told.txt"
    path.write_text(TEXT)
    limit = solve_limit(read_samples(path, context=8))
    return {
        "model": model_summary(limit),
        "last token": last_token_lens(limit, limit.graph.vocabulary.id_of("and")),
        "document": document_lens(limit, read_documents(path), 0),
    }


class Words(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.rows, self.headings, self._open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self._open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        if self._open and self._open[-1] in ("td", "th"):
            self.rows[-1].append(data)
        if self._open and self._open[-1] == "h2":
            self.headings.append(data)


@pytest.mark.parametrize("subject", ["model", "last token", "document"])
def test_the_page_shows_every_table_and_the_picture(records, subject):
    record = records[subject]
    html = summary_page(record, to_svg(summary_figure(record)), "attomaton 0 · attomaton summary M")
    seen = Words(html)
    assert seen.headings == [s["heading"] for s in sections(record)]
    # A row for the header and each row of every table that has any.
    expected = sum(1 + len(s["rows"]) for s in sections(record) if s["rows"])
    assert len(seen.rows) == expected
    assert html.count("<svg") == 1
    assert not re.search(r"https?://|<script|<b>", html)
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
    without = summary_page(record)
    assert "<svg" not in without
    assert Words(without).rows == seen.rows


@pytest.mark.parametrize("subject", ["model", "last token", "document"])
def test_sentences_and_tables_say_what_the_record_says(records, subject):
    record = records[subject]
    text, words = summary_text(record), in_words(record)
    assert words in text
    hard = next(r for r in record.predictions.outcomes if r.outcome == "hard")
    assert f"{100 * hard.share_of_realizable:.3g}% are decided by retrieval alone" in words
    for section in sections(record):
        assert section["heading"] in text
        assert {len(row) for row in section["rows"]} <= {len(section["header"])}


def test_key_terms_stand_with_their_numbers(records):
    record = records["last token"]
    table = next(s for s in sections(record) if s["heading"].startswith("Key terms"))
    first = dict(zip(table["header"], table["rows"][0], strict=True))
    term = record.terms[0]
    assert first["term"] == term.term
    assert first["TF-IDF"] == round(term.tfidf, 3)
    assert first["labels"] == term.labels


def test_the_picture_draws_every_level_and_point(records):
    record = records["last token"]
    figure = summary_figure(record)
    left, right = figure.axes
    assert len(left.patches) == len(record.levels)
    points = sum(
        len(line.get_xdata()) for line in right.lines if (line.get_gid() or "").startswith("points")
    )
    assert points == len(record.points)
    shares = [p for p in summary_figure(records["model"]).axes[1].patches if p.get_y() > 0.5]
    assert sum(p.get_width() for p in shares) == pytest.approx(1)
