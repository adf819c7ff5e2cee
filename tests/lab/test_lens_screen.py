"""The lens screen: the numbers of `attomaton summary`, links that lead on, a search, and the same by command."""

import contextlib
import io
import json
import re
import shlex
import urllib.parse
from dataclasses import replace

import pytest
from tests.chromium import eventually
from tests.lab.conftest import enter

from attomaton.corpus.documents import read_documents
from attomaton.corpus.reading import Reading
from attomaton.disk.formats import plain
from attomaton.disk.records import as_record
from attomaton.errors import DataError, UsageError
from attomaton.lab.kit.words import on_a_page
from attomaton.lab.lens.choices import Choices
from attomaton.lab.lens.records import (
    Records,
    Subject,
    code,
    document_name,
    first_split,
    page,
    page_name,
    splits,
    text_path,
)
from attomaton.lab.opened import Opened
from attomaton.lab.view import View
from attomaton.report.text.summary import in_words, sections, title
from attomaton.summaries.document import window_words
from attomaton.summaries.records import DocumentSummary, LastTokenSummary, ModelSummary

TEXT = """ = Tea = 
 the cup and the pot and the <b>cup</b> and the tea 
 = Sea <i>here</i> = 
 a boat on the sea and a boat on the lake and the sea and the boat 
 = Tea again = 
 the cup and the tea and the cup and a pot 
"""

# Every table of the page as rows of text, without the icons between.
TABLES = """[...document.querySelectorAll('.lens .linked')].map(t => [...t.querySelectorAll('tbody tr')].map(r =>
  [...r.querySelectorAll('td')].map(d => { const c = d.cloneNode(true);
  c.querySelectorAll('i').forEach(e => e.remove()); return c.textContent.replace(/\\s+/g, ' ').trim(); })))"""
READY = "!!document.querySelector('#in-words')"
# What the page offers as a file, kept where a test can read it.
SAVING = """(() => { window.saved = []; const made = URL.createObjectURL.bind(URL);
  URL.createObjectURL = b => { b.text().then(t => window.saved.push(t)); return made(b); }; })()"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    path = tmp_path_factory.mktemp("told") / "told.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def lab(start_lab, told):
    """A lab on a text with documents; the embedded example is there as well."""
    return start_lab(told, "--context", 8)


@pytest.fixture
def cli(call):
    def summary(*arguments):
        code, out, err = call("summary", *arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    return summary


@pytest.fixture(scope="module")
def model(told, tmp_path_factory):
    from attomaton.jobs.fit import fit_run

    folder = tmp_path_factory.mktemp("fitted") / "M"
    fit_run(told, folder, reading=Reading(context=8))
    return Opened(folder)


def made(model, **about):
    records, subject = Records(), Subject(**about)
    records.make(model, subject, lambda *_: None)
    return subject, records.find(model, subject)


def folder_of(lab, kind):
    """The model the lab has fitted: of the example, or of the text."""
    models = lab.folder / "workspace" / "models"
    return next(p for p in models.iterdir() if (p.name == "example") is (kind == "example"))


def cell(x):
    return f"{x:,}" if isinstance(x, (int, float)) else re.sub(r"\s+", " ", str(x)).strip()


def assert_same(tab, printed):
    tab.wait(READY)
    eventually(printed["in_words"], tab.text, "#in-words")
    kinds = {"model": ModelSummary, "last token": LastTokenSummary, "document": DocumentSummary}
    record = as_record(kinds[printed["subject"]], printed, "summary --json")
    eventually(title(record), tab.text, ".lens .title")
    full = [s for s in sections(record) if s["rows"]]
    tab.wait(f"document.querySelectorAll('.lens .linked').length === {len(full)}")
    shown = tab.value(TABLES)
    for there, section in zip(shown, full, strict=True):
        assert there == [[cell(x) for x in row] for row in section["rows"]], section["heading"]


def test_a_model_and_a_last_token_show_the_numbers_of_the_command_line(tab, lab, cli):
    tab.see("/lens?on=example")
    tab.wait(READY)
    assert_same(tab, cli(folder_of(lab, "example")))
    tab.see("/lens?on=example&last=guest")
    assert_same(tab, cli(folder_of(lab, "example"), "--last", "guest"))
    assert not tab.errors


def test_a_document_shows_the_numbers_of_the_command_line(tab, lab, cli, told):
    tab.see("/lens?doc=1")
    tab.wait(READY)
    assert_same(tab, cli(folder_of(lab, "text"), "--document", 1))
    tab.see("/lens?doc=2&split=lines&top=3&max_df=0.9")
    options = ["--split", "lines", "--top", 3, "--max-df", 0.9]
    assert_same(tab, cli(folder_of(lab, "text"), "--document", 2, *options))
    eventually(0, tab.value, "document.querySelectorAll('main b, main i:not(.q-icon)').length")
    assert tab.value("document.documentElement.scrollWidth") <= 1400
    assert not tab.errors


def test_every_token_leads_to_its_lens_and_to_its_place_in_the_graph(tab):
    tab.see("/lens?last=and")
    tab.wait(READY)
    found = tab.value(
        "[...document.querySelectorAll('.linked-part')].map(p => [p.querySelector('a:not(.linked-place)')?.getAttribute"
        "('href') ?? '', p.querySelector('.linked-place')?.getAttribute('href') ?? '', p.innerText])"
    )
    queries = [
        [dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(x).query)) for x in row[:2]]
        for row in found
    ]
    assert all(x[0].startswith("./lens?") or not x[0] for x in found)
    assert all(x[1].startswith("./graph?") for x in found)
    strongest = [q for q, x in zip(queries, found, strict=True) if x[2].startswith("the")]
    assert {q[0].get("last") for q in strongest} == {"the"}
    assert {"last": "and", "chosen": "the"}.items() <= strongest[0][1].items()
    tab.click(".linked-part a[href*='last=the']:not(.linked-place)")
    tab.wait(
        "location.pathname.endsWith('/lens') && new URLSearchParams(location.search).get('last') === 'the'"
    )
    tab.wait("document.querySelector('.lens .title')?.innerText.includes('“the”')")


def test_the_search_finds_last_tokens_and_refuses_others_as_the_command_does(tab, lab, call):
    tab.see("/lens")
    tab.wait(READY)
    tab.type("input[aria-label='Search last tokens']", "bo")
    tab.wait("document.querySelectorAll('[aria-label=\"Last tokens\"] a').length === 1")
    eventually("boat", lambda: tab.text("[aria-label='Last tokens'] a").split()[0])
    tab.wait("new URLSearchParams(location.search).get('find') === 'bo'")
    tab.type("input[aria-label='Search last tokens']", "bot")
    tab.press("Enter")
    tab.wait("!!document.querySelector('.lens-choices .problem')")
    code, _, err = call("summary", folder_of(lab, "text"), "--last", "bot")
    assert code == 2
    assert tab.text(".lens-choices .problem .whitespace-pre-wrap") in err
    tab.type("input[aria-label='Search last tokens']", "boat")
    tab.press("Enter")
    tab.wait("new URLSearchParams(location.search).get('last') === 'boat'")
    tab.wait("document.querySelector('.lens .title')?.innerText.includes('“boat”')")


def test_settings_change_the_tables_and_stay_in_the_address(tab, lab, cli, call):
    tab.see("/lens?last=and")
    tab.wait(READY)
    tab.type("input[aria-label='Rows of tables']", "2")
    tab.wait("new URLSearchParams(location.search).get('top') === '2'")
    record = cli(folder_of(lab, "text"), "--last", "and", "--top", 2)
    tab.wait(f"document.querySelector('#in-words') && ({TABLES})[2].length === 2")
    assert_same(tab, record)
    address = tab.value("location.pathname + location.search")
    tab.see(address)
    assert_same(tab, record)
    tab.see("/lens?last=and&top=0")
    tab.wait("!!document.querySelector('.lens .problem')")
    _, _, err = call("summary", folder_of(lab, "text"), "--last", "and", "--top", 0)
    assert tab.text(".lens .problem .whitespace-pre-wrap") in on_a_page(err)
    tab.see("/lens?last=and&top=many&max_df=some&split=words")
    assert_same(tab, cli(folder_of(lab, "text"), "--last", "and"))


def test_documents_are_listed_and_filtered_or_their_absence_explained(tab):
    tab.see("/lens")
    tab.wait("document.querySelectorAll('.lens-documents li').length === 3")
    tab.type("input[aria-label='Filter documents']", "sea")
    tab.wait("document.querySelectorAll('.lens-documents li').length === 1")
    eventually("1 · Sea <i>here</i>", tab.text, ".lens-documents li")
    tab.click(".lens-documents a")
    tab.wait("new URLSearchParams(location.search).get('doc') === '1'")
    tab.wait("document.querySelector('.lens .title')?.innerText.includes('Sea')")
    tab.wait("document.querySelector('.lens-documents [aria-current]')?.innerText.startsWith('1')")
    tab.see("/lens?doc=9")
    tab.wait(
        "document.querySelector('.lens .problem')?.innerText.includes('document 9: there are 0 … 2.')"
    )
    tab.see("/lens?on=example")
    tab.wait(
        "document.body.innerText.includes('No documents: documents are parts of a plain text')"
    )


def test_the_page_is_saved_and_the_command_is_copied(tab, lab, tmp_path, call, monkeypatch):
    tab.see("/lens?last=and")
    tab.wait(READY)
    tab.click("button[aria-label='Copy as command or Python']")
    tab.click_text("Copy as command", ".q-item")
    tab.wait("!!document.querySelector('.copied')")
    words = shlex.split(tab.text(".copied").partition(": ")[2])
    assert words[:2] == ["attomaton", "summary"]
    assert words[3:] == ["--last", "and"]
    tab.value(SAVING)
    tab.click("button[aria-label='Save as page']")
    tab.wait("window.saved.length === 1")
    monkeypatch.chdir(tmp_path)
    code, _, err = call(*words[1:], "--html", "after-and.html")
    assert code == 0, err
    eventually((tmp_path / "after-and.html").read_text(), tab.value, "window.saved[0]")


def test_pictures_have_table_twins_with_the_same_numbers(tab, lab, cli):
    tab.see("/lens?last=and")
    tab.wait(READY)
    record = cli(folder_of(lab, "text"), "--last", "and")
    card = "section[aria-label='TF-IDF against attention']"
    tab.click(f"{card} button[aria-label='Show the numbers as a table']")
    tab.wait(f"!!document.querySelector('{card.replace(chr(39), chr(34))} .twin td')")
    row = tab.value(
        f"[...document.querySelector({json.dumps(card)} + ' .twin tbody tr').cells].map(c => c.innerText)"
    )
    first = record["points"][0]
    assert row[0] == first["token"]
    assert [float(x) for x in row[1:5]] == pytest.approx(
        [first[k] for k in ("tfidf_place", "priority_place", "tfidf", "svm_score")], rel=1e-5
    )
    eventually(3, tab.value, "document.querySelectorAll('.lens canvas').length")


def test_it_fits_a_phone_in_the_dark(lab, browser):
    enter(browser, lab, width=400, dark=True)
    browser.see("/lens?last=and")
    browser.wait(READY)
    assert browser.value("document.documentElement.scrollWidth") <= 400
    browser.see("/lens?on=example")
    browser.wait(READY)
    assert browser.value("document.documentElement.scrollWidth") <= 400
    assert not browser.errors


# Without a browser


@pytest.mark.parametrize(
    "about",
    [{}, {"last": "and", "top": 4}, {"document": "1", "split": "articles", "max_df": 0.9}],
    ids=lambda x: " ".join(x) or "model",
)
def test_the_command_and_the_python_code_give_the_record(model, call, about):
    subject, record = made(model, **about)
    cli, python = code(model, subject)
    done, out, err = call(*shlex.split(cli)[1:], "--json")
    assert done == 0, err
    printed = json.loads(out)
    assert printed.pop("model") == str(model.folder)
    assert "document" not in about or printed.pop("data") == str(text_path(model))
    assert "document" not in about or printed.pop("split") == about["split"]
    assert printed.pop("schema_version") == 1
    assert printed.pop("reading", None) == {"context": 8}
    assert printed.pop("in_words") == in_words(record)
    assert printed == plain(record)
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        names = {}
        exec(python, names)
    told = plain(names["record"])
    assert told.items() <= plain(record).items()
    assert told["subject"] == record.subject


def test_the_saved_page_is_the_one_the_command_writes(model, call, tmp_path, monkeypatch):
    subject, record = made(model, document="2", split="articles")
    cli, _ = code(model, subject)
    monkeypatch.chdir(tmp_path)
    done, _, err = call(*shlex.split(cli)[1:], "--html", page_name(record))
    assert done == 0, err
    assert page(record, cli) == (tmp_path / page_name(record)).read_text()
    assert page_name(record) == "Tea-again.html"
    _, after = made(model, last="and")
    assert page_name(replace(after, last="../../x")) == "after-x.html"


def test_what_cannot_be_looked_at_says_so(model):
    with pytest.raises(
        UsageError, match=r"'bout' is not a token of this model; did you mean 'boat'\?"
    ):
        model.last_id("bout")
    with pytest.raises(UsageError, match="is never a last token"):
        model.last_id("</i>" if "</i>" in model.vocabulary else "Tea")
    with pytest.raises(UsageError, match="name one"):
        Subject(last="a", document="1").checked()
    with pytest.raises(UsageError, match="--top must be at least 1, not 0"):
        Subject(top=0).checked()
    for share in (0.0, 2.0, float("nan")):
        with pytest.raises(UsageError, match="max_df is a share"):
            Subject(max_df=share).checked()


def test_documents_of_a_text_that_is_gone_or_none(model, tmp_path):
    kept = model.record
    try:
        for data, why in (
            (None, "does not say"),
            ("x.jsonl", "plain text"),
            (tmp_path / "no.txt", "is not there"),
        ):
            model.model.record = replace(kept, data=data and str(data))
            with pytest.raises(UsageError, match=why):
                text_path(model)
    finally:
        model.model.record = kept


def test_a_text_without_headings_is_cut_into_what_gives_several_documents(tmp_path):
    from attomaton.jobs.fit import fit_run

    for name, text, split in (
        ("paragraphs", "a b a b\n\nb a b a\n", "paragraphs"),
        ("lines", "a b a b\nb a b a\n", "lines"),
    ):
        file = tmp_path / f"{name}.txt"
        file.write_text(text)
        fit_run(file, tmp_path / name, reading=Reading(context=3))
        opened = Opened(tmp_path / name)
        assert first_split(opened, Records()) == split
        with pytest.raises(DataError, match="no articles found"):
            Records().documents(opened, "articles")
    fit_run(tmp_path / "lines.txt", tmp_path / "apart", reading=Reading(context=3, split="lines"))
    apart = Opened(tmp_path / "apart")
    assert splits(apart) == ("lines",)
    with pytest.raises(UsageError, match="this model was fitted on lines"):
        Records().documents(apart, "articles")
    assert Records().documents(apart, "lines").apart


def test_a_document_called_like_a_number_is_named_by_its_title(tmp_path):
    file = tmp_path / "numbers.txt"
    file.write_text(" = 1 = \n a b a \n = 0 = \n b a b \n")
    documents = read_documents(file)
    assert [documents.find(document_name(documents, i)) for i in (0, 1)] == [0, 1]


def test_how_documents_are_cut_changes_a_document_and_nothing_else(model):
    for settings, before in (({"last": "and"}, True), ({}, True), ({"doc": "1"}, False)):
        view = object.__new__(View)
        view.settings = settings
        choices = Choices(view, model, Records())
        subject = choices.subject
        choices._cut("lines")  # as when a large text has been read, after the page began to look
        assert (choices.subject == subject) is before
        assert choices.split == "lines"


def test_a_document_is_text_with_wrong_answers_marked_and_a_word_shows_its_window(tab, model):
    tab.see("/lens?doc=1&split=articles")
    tab.wait(READY)
    records, subject = Records(), Subject(document="1", split="articles")
    records.make(model, subject, lambda *_: None)
    read = records.text(model, subject)
    words = (
        "[...document.querySelectorAll('[aria-label=\"The document, word by word\"] .text-word')]"
    )
    got = tab.value(f"{words}.map(e => [e.querySelector('s, span').innerText, e.className])")
    assert [x for x, _ in got] == [str(w.word) for w in read.words]
    told = [w.outcome not in (None, "absent") and not w.right for w in read.words]
    assert ["is-wrong" in kind for _, kind in got] == told
    assert any("is-absent" in kind for _, kind in got)
    place = next(i for i, w in enumerate(read.words) if w.outcome in ("hard", "soft"))
    tab.value(f"{words}[{place}].click()")
    shown = "[...document.querySelectorAll('[aria-label=\"What stands before it, with attention on it\"] .text-word')]"
    tab.wait(f"{shown}.length > 0")
    found = tab.value(f"{shown}.map(e => e.querySelector('s, span').innerText)")
    assert found == [*map(str, window_words(read.windows, place)), str(read.words[place].word)]
