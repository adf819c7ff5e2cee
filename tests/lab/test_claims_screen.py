"""The claims screen: a verification run in the page, stopped and taken up again, agrees with the command line."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from math import inf

import pytest
from tests.chromium import eventually
from tests.lab.conftest import enter

from attomaton.claims.registry import CLAIMS
from attomaton.corpus.reading import Reading
from attomaton.disk.formats import plain
from attomaton.disk.records import as_record
from attomaton.disk.storage import new_folder
from attomaton.errors import DataError, UsageError
from attomaton.jobs.verify import read_evidence
from attomaton.lab.claims.panels import heat_of, lines_of
from attomaton.lab.claims.records import (
    Evidence,
    asked_claims,
    code,
    ending,
    folder_code,
    is_begun,
    not_run,
    run_folder,
    shown,
    table_row,
)
from attomaton.report.text.verification import blocks
from attomaton.results import Panel, Verdict

QUICK = ["convexity", "T3"]  # claims of seconds
ROWS = """Object.fromEntries([...document.querySelectorAll('.claims-table tbody tr')].map(r =>
  [r.cells[0].innerText, [...r.cells].slice(1, 6).map(c => c.innerText.trim())]))"""
READY = "document.querySelectorAll('.claims-table tbody tr').length > 0"
# What the page offers as a file, kept where a test can read it.
SAVING = """(() => { window.saved = []; const made = URL.createObjectURL.bind(URL);
  URL.createObjectURL = b => { b.text().then(t => window.saved.push(t)); return made(b); }; })()"""


@pytest.fixture(scope="module")
def verified(tmp_path_factory):
    """The same two claims by the command the page gives."""
    folder = tmp_path_factory.mktemp("verified")
    words = shlex.split(code(QUICK)[0])
    assert words[0] == "attomaton"
    command = [sys.executable, "-m", *words]
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)
    return folder / "runs" / "verify"


@pytest.fixture(scope="module")
def verdicts(verified):
    summary = json.loads((verified / "summary.json").read_text())
    return {row["claim"]: row for row in summary["claims"]}


@pytest.fixture(scope="module")
def lab(start_lab):
    """A lab of its own: what is run in one test is there in the next."""
    return start_lab(held=inf)


def see(tab, path):
    tab.see(path)
    tab.wait(READY)


def query(name):
    return f"new URLSearchParams(location.search).get('{name}')"


def test_nothing_is_known_before_anything_was_run(tab):
    see(tab, "/claims")
    rows = tab.value(ROWS)
    assert list(rows) == list(CLAIMS)
    assert {row[0] for row in rows.values()} == {"– not run yet"}
    assert rows["T1"][1].splitlines() == [CLAIMS["T1"].title, "Theorem 2"]
    eventually(
        f"Nothing has been run yet. {len(CLAIMS)} have not been run yet.", tab.text, "#headline"
    )
    eventually(0, tab.value, "document.querySelectorAll('.claims-table .good').length")
    assert not tab.errors


def test_claims_nobody_knows_are_refused_as_the_command_refuses_them(tab, call):
    see(tab, "/claims")
    tab.type("input[aria-label='Claims (empty: all)']", "T9")
    tab.wait("!!document.querySelector('.problem')")
    status, _, err = call("verify", "--only", "T9")
    assert status == 2
    assert tab.text(".problem .whitespace-pre-wrap") in err


def test_a_verification_is_run_stopped_taken_up_and_agrees_with_the_command(tab, lab, verdicts):
    see(tab, "/claims")
    tab.type("input[aria-label='Claims (empty: all)']", "t3,convexity")
    tab.wait(f"{query('only')} === 't3,convexity'")
    lab.hold(0)
    tab.click_text("Verify (quick)", ".q-btn")
    tab.wait("document.querySelector('.job-note')?.innerText.includes('convexity')")
    see(tab, "/claims?only=t3,convexity")  # the job is the lab's, not the page's
    tab.wait("document.querySelector('.job-note')?.innerText.includes('convexity')")
    lab.hold(1)  # after the first
    tab.wait("document.querySelector('.job-note')?.innerText.includes('T3')")
    tab.click_text("Stop", ".q-btn")
    tab.wait("!document.querySelector('.job')")
    lab.hold(inf)
    tab.wait(f"({ROWS}).convexity[0] === '✓ holds'")
    eventually("– not run yet", lambda: tab.value(ROWS)["T3"][0])
    folder = run_folder(lab.folder / "workspace", QUICK)
    assert is_begun(folder)
    first = (folder.with_name(f".{folder.name}.partial") / "claims" / "convexity.json").read_bytes()
    tab.click_text("Go on (quick)", ".q-btn")
    tab.wait(f"({ROWS}).T3[0] === '✓ holds' && !document.querySelector('.job')")
    rows = tab.value(ROWS)
    for name, row in verdicts.items():
        said = [f"{k}: {v}" for k, v in row["figures"].items()]
        assert rows[name][0] == f"✓ {row['verdict']}"
        assert rows[name][2] == "✓ fails, as it must"
        assert row["control"] == "fails"
        assert rows[name][3].split("\n") == said
    assert (folder / "claims" / "convexity.json").read_bytes() == first  # not run twice
    assert tab.text("#headline").startswith("2 of 2 claims hold, every control fails.")
    eventually(2, tab.value, "document.querySelectorAll('.claims-table .claim-mark.good').length")
    assert not tab.errors


def test_one_claim_is_checked_alone(tab, lab):
    see(tab, "/claims")
    lab.hold(0)
    tab.click("button[aria-label='Check T3 alone']")
    tab.wait("!!document.querySelector('.job')")
    lab.hold(inf)
    tab.wait("!document.querySelector('.job')")
    alone = run_folder(lab.folder / "workspace", ["T3"])
    again = json.loads((alone / "claims" / "T3.json").read_text())
    tab.wait(f"({ROWS}).T3[4] === '{round(again['seconds'], 1):g}'")


def test_filters_narrow_the_table_and_stay_in_the_address(tab, lab, verified):
    see(tab, "/claims")
    tab.type("input[aria-label='Search claims']", "convex")
    tab.wait(f"Object.keys({ROWS}).join() === 'convexity' && {query('find')} === 'convex'")
    see(tab, "/claims?verdict=holds")
    eventually(sorted(QUICK), lambda: sorted(tab.value(ROWS)))
    see(tab, "/claims?verdict=not+run&find=attention")
    eventually({"– not run yet"}, lambda: {r[0] for r in tab.value(ROWS).values()})
    see(tab, "/claims?verdict=lovely&claim=nobody")
    eventually(list(CLAIMS), lambda: list(tab.value(ROWS)))
    assert not tab.errors


def test_a_row_opens_its_claim_with_everything_the_report_has(tab, verified):
    see(tab, "/claims")
    tab.click(".claims-table tbody tr:nth-child(2) td")
    tab.wait(f"{query('claim')} === 'convexity'")
    tab.wait("!!document.querySelector('#claim-details canvas')")
    record = read_evidence(verified / "claims" / "convexity.json")
    said = tab.text("#claim-details")
    found = blocks(record, "convexity")
    for block in found:
        if block.kind in ("text", "term", "formula") and not block.text.startswith("It took"):
            assert block.text in said
    tables = [t for b in found for t in b.tables]
    shown_cells = tab.value(
        "[...document.querySelectorAll('.claim-table tbody')].map(t => [...t.rows].map(r =>"
        " [...r.cells].map(c => c.innerText)))"
    )
    wanted = [[[str(x) for x in row] for row in t.rows] for t in tables]
    assert sorted(shown_cells) == sorted(wanted)
    eventually(
        len(record.panels), tab.value, "document.querySelectorAll('#claim-details canvas').length"
    )
    address = tab.value("location.pathname + location.search")
    see(tab, address)
    tab.wait("document.querySelector('#claim-details .title')?.innerText.startsWith('convexity')")
    tab.click(".claims-table tbody tr:nth-child(2) td")
    tab.wait(f"{query('claim')} === null && !document.querySelector('#claim-details .title')")
    assert not tab.errors


def test_a_finished_folder_opens_with_its_report(tab, lab):
    see(tab, "/claims")
    tab.click_text("verify-convexity-T3", ".chip")
    tab.wait(f"Object.keys({ROWS}).join() === 'convexity,T3'")
    folder = run_folder(lab.folder / "workspace", QUICK)
    tab.value(SAVING)
    tab.click_text("Open the report", ".q-btn")
    tab.wait("window.saved.length === 1")
    eventually((folder / "report.html").read_text(), tab.value, "window.saved[0]")
    tab.click("button[aria-label='Copy as command or Python']")
    tab.click_text("Copy as command", ".q-item")
    tab.wait(
        "document.querySelector('.copied')?.innerText.endsWith('verify --quick --only convexity,T3')"
    )
    assert tab.value("!!document.querySelector('button[aria-label^=Check]')") is False


def test_it_fits_a_phone_in_the_dark(lab, browser):
    enter(browser, lab, width=400, dark=True)
    browser.see("/claims?claim=convexity")
    browser.wait("!!document.querySelector('#claim-details canvas')")
    assert browser.value("document.documentElement.scrollWidth") <= 400


# Without a browser


def test_evidence_is_the_newest_of_each_claim(tmp_path, verified):
    runs = tmp_path / "runs"
    for place, seconds in (("verify", 1.0), (".verify-T3.partial", 2.0)):
        (runs / place / "claims").mkdir(parents=True)
        record = json.loads((verified / "claims" / "T3.json").read_text())
        (runs / place / "claims" / "T3.json").write_text(json.dumps({**record, "seconds": seconds}))
        (runs / place / "claims" / "unknown.json").write_text("{}")
    evidence = Evidence()
    found = {r.claim: r for r in evidence.of_lab(tmp_path)}
    assert list(found) == list(CLAIMS)
    assert found["T3"].seconds == 2.0
    assert ending(found["T1"]) == "not run"
    (runs / ".verify-T3.partial" / "claims" / "T3.json").write_text("{")  # half written
    assert ending(Evidence().of_lab(tmp_path)[list(CLAIMS).index("T3")]) == "not run"
    assert [r.claim for r in evidence.of_folder(verified)] == QUICK


def test_a_folder_with_strange_claims_is_refused(tmp_path, verified):
    summary = json.loads((verified / "summary.json").read_text())
    summary["claims"][0]["claim"] = "../../secret"
    with new_folder(tmp_path / "v", "verify") as work:
        (work / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(DataError, match="holds claims nobody knows here"):
        Evidence().of_folder(tmp_path / "v")


def test_evidence_that_was_edited_is_refused(tmp_path, verified):
    shutil.copytree(verified, tmp_path / "v")
    path = tmp_path / "v" / "claims" / "T3.json"
    assert len(Evidence().of_folder(tmp_path / "v")) == len(QUICK)
    path.write_text(path.read_text().replace('"seconds": ', '"seconds": 1'))
    with pytest.raises(DataError, match=r"T3\.json: was changed"):
        Evidence().of_folder(tmp_path / "v")


def test_only_a_claim_that_holds_is_green(verified):
    record = read_evidence(verified / "claims" / "T3.json")
    assert table_row(record).verdict_kind == "good"
    assert table_row(replace(record, verdict=Verdict.FAILS)).verdict_kind == "bad"
    assert table_row(replace(record, verdict=Verdict.NOT_APPLICABLE)).verdict_kind == "open"
    assert table_row(replace(record, verdict=Verdict.INCONCLUSIVE)).verdict_kind == "open"
    assert table_row(replace(record, error="broke")).verdict == "! error"
    assert table_row(replace(record, control=Verdict.HOLDS)).control_kind == "bad"
    assert table_row(not_run("S3")).verdict_kind == "open"
    assert [r.claim for r in shown([record, not_run("S3")], "not run", "gain")] == ["S3"]


def test_names_of_claims_become_folders_of_their_own(tmp_path):
    assert asked_claims(" s1 , luce,") == ["luce", "S1"]
    assert asked_claims(" , ") is None
    with pytest.raises(UsageError, match="no claim 'S9'"):
        asked_claims("S9")
    assert run_folder(tmp_path, None) == tmp_path / "runs" / "verify"
    assert run_folder(tmp_path, ["luce", "S1"]) == tmp_path / "runs" / "verify-luce-S1"
    many = run_folder(tmp_path, list(CLAIMS)[:20]).name
    assert len(many) < 60
    assert many != run_folder(tmp_path, list(CLAIMS)[1:21]).name


def test_the_command_and_the_python_code(tmp_path, monkeypatch, verified):
    assert code(None)[0] == "attomaton verify --quick"
    assert folder_code(verified)[0] == "attomaton verify --quick --only convexity,T3"
    assert folder_code(verified, ["T3"])[0] == "attomaton verify --quick --only T3"
    summary = {
        "quick": False,
        "data": "my data.txt",
        "claims": [{"claim": name} for name in CLAIMS],
    }
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    typed = "attomaton verify --full --data 'my data.txt' --context=3 --split lines"
    (tmp_path / "command.txt").write_text(typed)
    cli, python = folder_code(tmp_path)
    assert shlex.split(cli)[2:] == [
        "--full", "--data", "my data.txt", "--context", "3", "--split", "lines"
    ]  # fmt: skip
    asked = []
    monkeypatch.setattr("attomaton.jobs.verify.verify_run", lambda *a, **k: asked.append((a, k)))
    exec(python, {})
    exec(code(["T3"])[1], {})
    reading = Reading(context=3, split="lines")
    assert asked[0] == ((None,), {"quick": False, "data": "my data.txt", "reading": reading})
    assert asked[1] == ((["T3"],), {"quick": True})


def test_panels_keep_theory_measurement_bands_and_marks_apart():
    lines = [
        {
            "x": [1, 10],
            "y": [2.0, None],
            "label": "$W_{svm}$",
            "style": "measured",
            "error": [0.5, 0.5],
        },
        {"x": [1, 10], "y": [0.0, 4.0], "label": "W", "style": "theory", "ink": "#000000"},
        {"x": [1], "y": [float("inf")], "style": "points"},
    ]
    lines[0]["y"] = [2.0, 3.0]
    marks = [{"x": 3, "label": "peak"}]
    told = {"lines": lines, "xscale": "log", "yscale": "log", "marks": marks}
    made = lines_of(as_record(Panel, plain(told), "panel")).options()
    first, low, high, theory, points = made["series"]
    assert first["name"] == "W_svm"
    assert (low["data"], high["data"]) == ([[1.0, 1.5], [10.0, 2.5]], [[1.0, 2.5], [10.0, 3.5]])
    assert (theory["lineStyle"]["type"], theory["lineStyle"]["color"]) == ("dashed", "$ink")
    assert theory["data"][0] == [1.0, None]
    assert (points["type"], points["data"]) == ("scatter", [[1.0, None]])
    assert [(m["xAxis"], m["name"]) for m in first["markLine"]["data"]] == [(3.0, "peak")]
    heat = heat_of(Panel(heat=[[1.0, 2.0]], high=5.0, colour="entropy")).options()
    assert (heat["visualMap"]["min"], heat["visualMap"]["max"]) == (1.0, 5.0)
    assert heat["visualMap"]["text"][0] == "entropy"
