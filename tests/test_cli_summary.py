"""`attomaton summary` as its users meet it."""

import json
import re
import shlex
from pathlib import Path

import pytest

TEXT = """ = Tea = 
 the cup and the pot and the cup and the tea 
 = Sea = 
 a boat on the sea and a boat on the lake and the sea 
"""


@pytest.fixture
def model(call, tmp_path):
    data = tmp_path / "told.txt"
    data.write_text(TEXT)
    code, _, err = call("fit", data, "--context", 8, "-o", tmp_path / "M")
    assert code == 0, err
    return tmp_path / "M"


def test_a_model_in_json_and_in_words(call, model):
    code, out, _ = call("summary", model, "--top", 3, "--json")
    record = json.loads(out)
    assert code == 0
    assert record["schema_version"] == 1
    assert record["subject"] == "model"
    assert {"counts", "last_token_kinds", "predictions", "levels", "priorities", "token_priorities",
            "components", "last_tokens", "in_words"} <= set(record)  # fmt: skip
    assert len(record["priorities"]) == 3
    code, text, _ = call("summary", model)
    assert code == 0
    assert record["in_words"] in text


def test_the_lenses_in_json(call, model):
    code, out, _ = call("summary", model, "--last", "and", "--json")
    record = json.loads(out)
    assert (code, record["subject"], record["last"]) == (0, "last token", "and")
    assert {"levels", "terms", "disagreement", "strongest_edges", "outrank_it", "outranked_by_it",
            "similar", "points", "in_words"} <= set(record)  # fmt: skip
    for wanted in ("1", "sea"):
        code, out, _ = call("summary", model, "--document", wanted, "--json")
        record = json.loads(out)
        assert (code, record["title"], record["documents"]) == (0, "Sea", 2)
    code, out, _ = call("summary", model, "--document", 0, "--split", "lines", "--json")
    assert json.loads(out)["documents"] == 4


def test_a_document_without_a_window_has_its_page_too(call, model, tmp_path):
    page = tmp_path / "page.html"
    code, out, err = call("summary", model, "--document", 0, "--split", "lines", "--html", page)
    assert code == 0, err
    assert "no window holds its label" in out
    assert "<svg" in page.read_text()


def test_a_document_needs_only_its_part_of_the_model(call, tmp_path):
    from attomaton.corpus.documents import read_documents
    from attomaton.disk.formats import plain
    from attomaton.folders.model import open_model
    from attomaton.summaries import document_lens

    data, model = tmp_path / "told.txt", tmp_path / "M"
    data.write_text(TEXT.rstrip())  # the last line holds no <eos>, but its first word follows one
    call("fit", data, "--context", 16, "-o", model)
    for split in ("articles", "lines"):
        documents = read_documents(data, split)
        last = len(documents) - 1
        whole = plain(document_lens(open_model(model), documents, last))
        _, out, _ = call("summary", model, "--document", last, "--split", split, "--json")
        record = json.loads(out)
        assert {k: record[k] for k in whole} == json.loads(json.dumps(whole))


def test_documents_are_those_the_model_was_fitted_on(call, tmp_path):
    data = tmp_path / "lines.txt"
    data.write_text(TEXT)
    call(
        "fit",
        data,
        "--context",
        8,
        "--split",
        "lines",
        "--tokenizer",
        "lower",
        "-o",
        tmp_path / "L",
    )
    code, out, _ = call("summary", tmp_path / "L", "--document", 3, "--json")
    record = json.loads(out)
    assert (code, record["split"], record["documents"]) == (0, "lines", 4)
    assert record["predictions"]["windows"] == 13  # every word of the line but the first
    code, _, err = call("summary", tmp_path / "L", "--document", 1, "--split", "articles")
    assert (code, "fitted on lines" in err) == (2, True)


def test_a_text_of_unknown_words(call, model, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text(" = = \n = Other = \n" + "uno due tre uno due tre uno due tre\n" * 2)
    code, out, err = call("summary", model, "--document", 0, "--data", other, "--json")
    assert code == 0, err
    assert json.loads(out)["predictions"]["realizable"] > 0


def test_page_and_figure_are_written(call, model, tmp_path):
    page, figure = tmp_path / "page.html", tmp_path / "figure.svg"
    code, _, err = call("summary", model, "--last", "the", "--html", page, "--figure", figure)
    assert code == 0
    assert "written" in err
    assert page.read_text().startswith("<!doctype html>")
    assert "attomaton summary" in page.read_text()
    assert "<svg" in figure.read_text()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--last", "teh"], 2, "'teh' is not a token of this model; did you mean 'the'?"),
        (["--last", "=", "--document", "0"], 2, "name one"),
        (["--document", "Teas"], 2, "did you mean 'Tea'?"),
        (["--document", "0", "--data", "gone.txt"], 3, "gone.txt: cannot be read"),
        (["--document", "0", "--split", "chapters"], 2, "chapters"),
        (["--split", "lines"], 2, "go with --document"),
        (["--last", "and", "--data", "gone.txt"], 2, "go with --document"),
        (["--top", "0"], 2, "at least 1"),
        (["--last", "and", "--max-df", "2"], 2, "max_df"),
        (["--html", "page.pdf"], 2, "written as .html"),
    ],
)
def test_faults_are_named(call, model, options, code, message):
    found, _, err = call("summary", model, *options)
    assert (found, message in err) == (code, True), err


def test_the_page_of_the_docs_shows_what_comes_out(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[1] / "docs" / "summary.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    Path("told.txt").write_text(text)
    blocks = re.findall(r"```console\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        commands = re.findall(r"^\$ attomaton (.*)$", block, flags=re.MULTILINE)
        for command in commands:
            code, out, err = call(*shlex.split(command))
            assert code == 0, err
        shown = block.rpartition("$ attomaton")[2].partition("\n")[2]
        assert out.startswith(shown.removesuffix("\n…\n"))
