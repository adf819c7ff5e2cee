"""The data screen: the numbers of `attomaton data inspect`, the rows themselves, what was set aside and why."""

import json
import shlex
from collections import Counter
from urllib.parse import urlencode

import numpy as np
import pytest
from tests.chromium import eventually

from attomaton import example_samples, solve_limit
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import ReadAs, Reading
from attomaton.errors import AttomatonError
from attomaton.folders.model import ModelRecord
from attomaton.lab.data.looked import BINS, KEPT, LOOKED_AT, SHOWN, Looked, look_at
from attomaton.lab.data.of_model import model_code, provenance
from attomaton.lab.data.screen import inspect_code, warnings
from attomaton.lab.shared import Lab
from attomaton.lab.shelf import Shelf
from attomaton.report.text.coverage import in_words

LIST = "[...document.querySelectorAll({})].map(e => e.innerText.trim())"
TOKENS = ".preview tbody tr:nth-child({}) .tok"


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """An event log: returning visitors, one of them with a single event, one word that looks like HTML."""
    rng = np.random.default_rng(0)
    words = ["tea", "cake", "<i>soup</i>", "bread", "7"]
    lines = [f"s{i},{words[x]}" for i in range(12) for x in rng.integers(0, 5, 9)]
    path = tmp_path_factory.mktemp("data") / "log.csv"
    path.write_text("\n".join(["sequence,item", *lines, "alone,tea"]) + "\n")
    return path


@pytest.fixture(scope="module")
def lab(start_lab, events):
    return start_lab(events, "--context", 3)


@pytest.fixture(autouse=True)
def _no_fault_in_the_server(request):
    yield
    if "tab" in request.fixturenames:
        assert "Traceback" not in request.getfixturevalue("lab").log.read_text()


@pytest.fixture(scope="module")
def looked(events):
    from attomaton.corpus.inspect import inspect_windows

    windows = read_windows(events, Reading(context=3))
    return Looked(windows, inspect_windows(windows))


def look(tab, **settings):
    tab.see("/data?" + urlencode(settings))
    tab.wait(
        "document.querySelectorAll('.preview tbody tr').length > 0 && window.did_handshake === true"
    )
    return tab


def texts(tab, selector):
    return tab.value(LIST.format(json.dumps(selector)))


def figures(tab):
    return tab.value(
        "Object.fromEntries([...document.querySelectorAll('.figures > div')].map(d =>"
        " [d.children[1].innerText, d.children[0].innerText]))"
    )


def inspected(call, path, *options):
    code, out, _ = call("data", "inspect", path, *options, "--json")
    assert code == 0
    return json.loads(out)


# The numbers of the command line


@pytest.mark.parametrize("which", ["events", "example"])
def test_the_figures_are_those_of_data_inspect(tab, call, events, tmp_path, which):
    if which == "events":
        record, settings = inspected(call, events, "--context", 3), {}
    else:
        record, settings = inspected(call, Shelf(tmp_path).find("example").path), {"on": "example"}
    look(tab, **settings)
    shown = figures(tab)
    for name, key in (("contexts", "windows"), ("samples", "samples"), ("distinct samples", "distinct_samples"),
                      ("tokens", "vocab"), ("last tokens", "last_tokens")):  # fmt: skip
        assert shown[name] == f"{record[key]:,}"
    assert shown["set aside"] == f"{record['set_aside']['rows']:,}"
    assert shown["tokens in a context"] == f"{record['shortest']}–{record['longest']}"
    assert shown.get("too short") == (str(record["too_short"]) if record["documents"] else None)
    eventually(record["set_aside"]["examples"], texts, tab, ".aside-examples li")
    tab.says(f"{record['set_aside']['rows']:,} set aside: label absent from the context", "main")
    assert not tab.errors


def test_the_frequencies_are_those_of_data_inspect(tab, call, events):
    record = inspected(call, events, "--context", 3)
    look(tab)
    tab.click("[aria-label='Token frequencies'] [aria-label='Show the numbers as a table']")
    rows = tab.wait(
        "(() => { const r = [...document.querySelectorAll('[aria-label=\"Token frequencies\"] tbody tr')];"
        " return r.length && r.map(x => [...x.children].map(c => c.innerText.trim())); })()"
    )
    want = [
        [str(t[k]) for k in ("token", "occurrences", "as_last", "as_label")]
        for t in record["tokens"]
    ]
    assert rows == want


def test_what_to_look_out_for_counts_repeats_and_short_sequences(looked):
    record = looked.record
    all_ = " ".join(text for _, text in warnings(looked, record))
    assert f"{record.set_aside.rows} of {record.windows} contexts" in all_
    assert f"{record.samples - record.distinct_samples} samples repeat another" in all_
    assert "1 sequences are empty or too short" in all_


def test_lengths_count_every_context_once(looked):
    rows = looked.lengths
    assert sum(kept for _, _, kept, _ in rows) == looked.record.samples
    assert sum(aside for *_, aside in rows) == looked.record.set_aside.rows
    assert (rows[0][0], rows[-1][1]) == (1, 3)


def test_many_lengths_share_bins(tmp_path):
    path = tmp_path / "long.jsonl"
    rows = [{"tokens": ["x"] * n, "next": "x"} for n in range(1, 301)]
    path.write_text("\n".join(map(json.dumps, rows)))
    found = Looked(read_windows(path), None)
    assert len(found.lengths) <= BINS
    assert sum(kept for _, _, kept, _ in found.lengths) == 300
    assert found.lengths[-1][1] == 300
    last = found.row(299)
    assert (len(last["context"]), last["hidden"]) == (SHOWN, 300 - SHOWN)


def test_the_memory_is_an_upper_bound_of_the_bags(looked):
    s = looked.windows.samples()
    arrays = (s.last, s.label, s.weight, s.start, s.token, s.count, s.rows, s.source)
    assert sum(x.nbytes for x in arrays) <= looked.memory + 8  # one more pointer than samples


def test_steps_from_last_to_next_are_counted_as_they_are(looked):
    w = looked.windows
    want = Counter(
        (w.vocabulary[w.last[i]], w.vocabulary[w.label[i]])
        for i in range(len(w))
        if w.realizable[i]
    )
    assert {(a, b): n for a, b, n, _ in looked.nexts()} == want
    tea = w.vocabulary.id_of("tea")
    assert {(a, b): n for a, b, n, _ in looked.nexts(tea)} == {
        k: n for k, n in want.items() if k[0] == "tea"
    }
    assert [n for _, _, n, _ in looked.nexts()] == sorted(want.values(), reverse=True)


# The rows themselves


def test_the_preview_turns_through_the_whole_file(tab, looked):
    look(tab)
    n = len(looked.windows)
    eventually(f"rows 1–20 of {n}", tab.text, ".where")
    first = looked.row(0)
    eventually([w for w, _ in first["context"]] + [first["next"][0]], texts, tab, TOKENS.format(1))
    eventually(
        f"id {first['context'][0][1]}",
        tab.value,
        f"document.querySelector('{TOKENS.format(1)}').title",
    )
    tab.click_text("Rows after", "button")
    tab.wait("location.search.includes('row=20')")
    tab.wait(f"document.querySelector('.where').innerText === 'rows 21–40 of {n}'")
    row = looked.row(20)
    eventually([w for w, _ in row["context"]] + [row["next"][0]], texts, tab, TOKENS.format(1))
    tab.click_text("Last rows", "button")
    tab.wait(f"document.querySelector('.where').innerText.endsWith('–{n} of {n}')")
    tab.see(tab.value("location.pathname + location.search"))
    tab.wait(f"document.querySelector('.where')?.innerText.endsWith('–{n} of {n}')")
    assert tab.value("document.querySelector('main i:not(.q-icon)')") is None


def test_rows_that_end_in_a_token_and_their_steps(tab, looked):
    look(tab)
    tab.type("input[aria-label='last token']", "tea")
    tab.press("Enter")
    tea = looked.windows.vocabulary.id_of("tea")
    n = int((looked.windows.last == tea).sum())
    tab.wait(f"document.querySelector('.where').innerText.endsWith('of {n}')")
    tab.wait("location.search.includes('last=tea')")
    tab.wait(
        "document.querySelector('[aria-label=\"From the last token to the next\"]').innerText.includes('after ‘tea’')"
    )
    eventually({"tea"}, lambda: set(texts(tab, ".nexts tbody td:first-child")))
    eventually(
        [k for _, _, k, _ in looked.nexts(tea)],
        lambda: [int(x) for x in texts(tab, ".nexts tbody td:nth-child(3)")],
    )


def test_set_aside_rows_say_so_and_can_be_seen_alone(tab, looked):
    look(tab, aside=1, ids=1)
    n = looked.record.set_aside.rows
    assert tab.text(".where").endswith(f"of {n}")
    shown = texts(tab, ".preview tbody tr td:last-child")
    assert all("set aside: label absent from the context" in x for x in shown)
    i = int(looked.rows(aside=True)[0])
    eventually(
        str(looked.row(i)["context"][0][1]), lambda: texts(tab, f"{TOKENS.format(1)} sub")[0]
    )


def test_a_last_token_that_never_is_one_gets_a_suggestion(tab, looked):
    with pytest.raises(AttomatonError) as error:
        looked.last_id("teaa")
    assert "did you mean 'tea'?" in str(error.value)
    look(tab, last="tea")
    tab.type(".preview input", "teaa")
    tab.press("Enter")
    said = tab.wait("document.querySelector('.preview .problem')?.innerText")
    assert str(error.value) in said
    # What was there before is no answer to this.
    tab.wait("document.querySelector('.where').innerText === 'no such row'")
    assert not tab.value("document.querySelectorAll('.preview .tok, .nexts tbody tr').length")
    tab.type(".preview input", "tea")
    tab.press("Enter")
    tab.wait(
        "!document.querySelector('.preview .problem') && !!document.querySelector('.preview .tok')"
    )


def test_a_row_that_is_none_is_the_first(tab):
    for row in ("-5", "x", "nan", "inf", "1e99"):
        look(tab, row=row)
        assert tab.text(".where").startswith("rows 1–20 of")


def test_back_goes_to_the_view_before(tab):
    look(tab, last="tea")
    for word in ("cake", "bread"):
        tab.type(".preview input", word)
        tab.press("Enter")
        tab.wait(f"location.search.includes('last={word}')")
    tab.value("history.back()")
    tab.wait(
        "location.search.includes('last=cake') && document.querySelector('.preview input')?.value === 'cake'"
    )
    tab.value("history.back()")
    tab.wait(
        "location.search.includes('last=tea') && document.querySelector('.preview input')?.value === 'tea'"
    )


# Data without a sample, work in the background, models


def test_data_without_a_sample_get_the_message_of_the_command_line_and_are_shown(
    tab, lab, call, tmp_path, monkeypatch
):
    text = b'{"tokens": ["a", "b"], "next": "c"}\n{"tokens": ["b"], "next": "c"}'
    item = Shelf(lab.folder / "workspace").add("bad.jsonl", text, {})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.jsonl").write_bytes(text)
    code, _, err = call("data", "inspect", "bad.jsonl")
    look(tab, on=item.id)
    assert code == 3
    tab.says(err.strip().split(": ", 1)[1], ".problem")
    eventually("rows 1–2 of 2", tab.text, ".where")


def test_reading_is_a_job_and_few_data_sets_stay(tmp_path):
    lab = Lab(tmp_path / "w")
    items = []
    for i in range(KEPT + 1):
        path = tmp_path / f"{i}.txt"
        path.write_text("a b a b c a b " * (i + 2))
        items.append(lab.shelf.open(path, Reading(context=2)))
        job = look_at(lab, items[-1])
        assert job.wait(180.0)
        assert (job.state, job.key) == ("done", f"inspect {items[-1].id}")
        assert isinstance(look_at(lab, items[-1]), Looked)
    assert len(LOOKED_AT.of(lab)) == KEPT
    again = look_at(lab, items[0])  # forgotten, so read again
    assert again.wait(180.0)


def test_the_page_of_a_model_tells_what_its_record_holds(tab, lab, call, events):
    out = lab.folder / "workspace" / "fitted"
    code, said, _ = call("fit", events, "--context", 3, "-o", out, "--json")
    assert code == 0
    summary = json.loads(said)
    item = next(i for i in Shelf(lab.folder / "workspace").items() if i.path == out)
    tab.see(f"/data?on={item.id}&last=tea")
    tab.wait("document.querySelectorAll('.samples tbody tr').length > 0")
    shown = figures(tab)
    assert (shown["samples"], shown["set aside"]) == (
        str(summary["samples"]),
        str(summary["dropped"]),
    )
    eventually(summary["set_aside"]["examples"], texts, tab, ".aside-examples li")
    tab.says("context = 3", ".facts")
    from attomaton import coverage, open_model

    limit = open_model(out, ["tea"])
    samples = limit.samples
    tab.wait("!!document.querySelector('.carry-words')")
    said = in_words(coverage(limit, top=10), cure="")
    eventually(" ".join(said.split()), tab.text, ".carry-words")
    assert "--" not in said  # a page has no options
    weights = [float(x) for x in texts(tab, ".samples tbody td:nth-child(3)")]
    assert weights == sorted(samples.weight.tolist(), reverse=True)[: len(weights)]
    tab.says(f"{len(samples):,} distinct samples end in ‘tea’", "main")
    tab.see(f"/data?on={item.id}&last=nobody")
    assert "'nobody' is not a token of this model" in tab.wait(
        "document.querySelector('.problem')?.innerText"
    )


def test_a_record_without_its_extras_is_shown_as_far_as_it_goes():
    summary = solve_limit(example_samples()).summary()
    assert provenance(ModelRecord(summary, ())) == []
    assert provenance(ModelRecord(summary, (), "x.txt", ReadAs(context=2))) == [
        ("data", "x.txt"),
        ("read with", "context = 2"),
    ]


# What is copied, and how it looks


def test_the_command_and_the_python_give_the_numbers(lab, call, events, capsys, tmp_path):
    item = Lab(tmp_path / "w").shelf.open(events, Reading(context=3))
    cli, python = inspect_code(item)
    record = inspected(call, events, "--context", 3)
    assert json.loads(call(*shlex.split(cli)[1:], "--json")[1]) == record
    exec(python, {})
    assert f"distinct_samples={record['distinct_samples']}" in capsys.readouterr().out


def test_the_code_of_a_model_runs(call, events, tmp_path, capsys):
    call("fit", events, "--context", 3, "-o", tmp_path / "m")
    cli, python = model_code(str(tmp_path / "m"), "tea")
    assert call(*shlex.split(cli)[1:])[0] == 0
    exec(python, {})
    from attomaton import open_model

    assert len(capsys.readouterr().out.splitlines()) == len(
        open_model(tmp_path / "m", ["tea"]).samples
    )


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_narrow_window(tab, dark):
    tab.see("/data?aside=1&ids=1", width=400, dark=dark)
    tab.wait("document.querySelectorAll('canvas').length === 3")
    assert tab.value("document.documentElement.scrollWidth") <= 400
    assert not tab.errors
