"""`attomaton verify`: the registry, verdicts and exit codes, resuming after a kill, and a user's own data."""

import io
import json
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.killed import killed_after

from attomaton.claims.registry import CLAIMS, find_claims
from attomaton.disk.formats import read_json, read_table
from attomaton.errors import SolverError, UsageError
from attomaton.jobs import verify
from attomaton.results import Evidence, Line, Panel, Verdict

FAST = "scan-snap-fig3,scan-snap-fig8,scan-snap-fig9"
GOOD = Evidence(
    Verdict.HOLDS, Verdict.FAILS, "exact", {"gap": [0.0, 1.0]}, {"gap": 2.0},
    panels=(Panel("A", "x", "y", [Line([1.0, 2.0], [3.0, 4.0], "theory")]),),
)  # fmt: skip


@pytest.fixture
def ended(monkeypatch):
    """Let every claim end as told, by id; all others end well."""

    def plant(**ends):
        for name, claim in CLAIMS.items():

            def run(name=name, **arguments):
                end = ends.get(name.replace("-", "_"), GOOD)
                if isinstance(end, Exception):
                    raise end
                return end

            monkeypatch.setitem(CLAIMS, name, replace(claim, run=run))

    return plant


def test_every_claim_has_a_check_that_takes_its_arguments():
    from inspect import signature

    for name, claim in CLAIMS.items():
        check = signature(claim.run if claim.figure is None else claim.figure.make)
        free = any(p.kind is p.VAR_KEYWORD for p in check.parameters.values())
        for arguments in (claim.quick, claim.full, claim.data or {}):
            assert free or set(arguments) <= set(check.parameters), name
        assert (claim.data is None) == bool(claim.why), name
        assert claim.data is None or "given" in check.parameters, name


def test_the_list_of_claims_says_what_each_one_is():
    for name, claim in CLAIMS.items():
        assert claim.name == name
        assert claim.title
        assert claim.statement.endswith(".")
    assert len({claim.title for claim in CLAIMS.values()}) == len(CLAIMS)
    papers = {name: claim.paper for name, claim in CLAIMS.items()}
    assert [papers[x] for x in ("T1", "T5", "S1")] == ["Theorem 2", "Section 5", ""]
    assert papers["mechanics-fig11"] == papers["scan-snap-fig11"] == "Figure 11"


def test_claims_are_named_where_python_drops_docstrings():
    """`python -OO` has none: titles must not come from them."""
    code = (
        "from attomaton.claims.registry import CLAIMS\n"
        "print(sum(bool(c.title and c.statement) for c in CLAIMS.values()) == len(CLAIMS))"
    )
    done = subprocess.run(
        [sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"


@pytest.mark.parametrize(
    ("ends", "verdict", "code"),
    [
        ({}, "holds", 0),
        ({"T2": replace(GOOD, verdict=Verdict.FAILS)}, "fails", 4),
        ({"T2": replace(GOOD, verdict=Verdict.INCONCLUSIVE)}, "fails", 4),
        ({"T2": replace(GOOD, control=Verdict.HOLDS)}, "fails", 4),
        ({"T2": SolverError("no certified answer")}, "fails", 4),
        ({"T2": ZeroDivisionError("a fault of ours")}, "fails", 4),
        (
            {"T2": replace(GOOD, verdict=Verdict.NOT_APPLICABLE, control=Verdict.NOT_APPLICABLE)},
            "holds",
            0,
        ),
    ],
)
def test_one_red_claim_makes_the_whole_red(ended, call, tmp_path, ends, verdict, code):
    ended(**ends)
    found, out, _ = call("verify", "--only", "T1,T2,T3", "-o", tmp_path / "run", "--json")
    summary = json.loads(out)
    assert found == code
    assert summary["verdict"] == verdict
    assert summary["red"] == (["T2"] if code else [])
    # However one ends, the others are there.
    assert [c["claim"] for c in summary["claims"]] == ["T1", "T2", "T3"]
    assert read_json(tmp_path / "run" / "claims" / "T3.json")["verdict"] == "holds"


def test_the_folder_holds_evidence_report_and_points(ended, tmp_path):
    ended()
    summary = verify.verify_run(["T1"], out=tmp_path / "run")
    folder = tmp_path / "run"
    record = read_json(folder / "claims" / "T1.json")
    assert record["command"] == "attomaton verify --only T1"
    assert record["measured"] == {"gap": [0.0, 1.0]}
    assert record["paper"] == summary["claims"][0]["paper"] == "Theorem 2"
    for name in ("report.html", "report.md"):
        assert "Theorem 2" in (folder / name).read_text(encoding="utf-8")
    assert summary["claims"][0]["figures"] == {"gap": "0 … 1"}
    points = read_table(folder / "panels.parquet")
    assert points["y"].to_pylist() == [3.0, 4.0]
    assert "Gradient descent finds" in (folder / "report.html").read_text(encoding="utf-8")
    assert "Gradient descent finds" in (folder / "report.md").read_text(encoding="utf-8")
    assert read_json(folder / "summary.json")["verdict"] == "holds"


def test_unknown_claims_are_named_with_a_suggestion():
    with pytest.raises(UsageError, match=r"no claim 'T9'.*no claim 'scan-snap-fig31'"):
        find_claims(["T1", "T9", "scan-snap-fig31"])
    assert find_claims(["s3", "t1"]) == ["T1", "S3"]


def test_figures_that_are_formulas_by_the_command_line(call, tmp_path):
    code, out, _ = call("verify", "--only", FAST, "-o", tmp_path / "run")
    assert code == 0
    assert out.count("holds") == 4
    assert "3 holds" in out


def test_long_figures_are_left_out_of_a_quick_verification(ended, tmp_path):
    ended()
    summary = verify.verify_run(quick=True, out=tmp_path / "run")
    left = {c["claim"]: c["reason"] for c in summary["claims"] if c["verdict"] == "skipped"}
    assert summary["counts"]["not applicable"] == 0
    assert set(left) == {"scan-snap-fig7", "scan-snap-fig10"}
    assert all("--only" in reason for reason in left.values())
    assert summary["verdict"] == "holds"


def test_reading_options_need_a_file(call, tmp_path):
    code, _, err = call("verify", "--context", "3", "-o", tmp_path / "run")
    assert code == 2
    assert "--data" in err


def test_a_killed_verification_goes_on_with_the_next_claim(tmp_path):
    run = tmp_path / "run"
    partial = tmp_path / ".run.partial" / "claims"
    words = ["verify", "--only", "T2,T3", "-o", str(run)]
    driver = f"import sys\nfrom attomaton.__main__ import main\nsys.argv[1:] = {words}\nmain()\n"
    killing = killed_after(1, "attomaton.disk.ledger", "Ledger", "done") + driver
    killed = subprocess.run([sys.executable, "-c", killing], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (partial / "T2.json").exists()
    assert not run.exists()
    kept = (partial / "T2.json").read_bytes()
    again = [sys.executable, "-m", "attomaton", *words]
    done = subprocess.run(again, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert read_json(run / "claims" / "T2.json") == json.loads(kept)
    assert {p.stem for p in (run / "claims").iterdir()} == {"T2", "T3"}


# A user's data

BROKEN = """{"tokens": ["tea", "cake", "bell"], "next": "tea"}

{"tokens": ["cake", "bell"], "next": "soup"}
{"tokens": ["cake", "tea", "bell"], "next": "cake"}
{"tokens": ["cake", "cake", "bell"], "next": "cake"}
{"tokens": ["phone", "bell"], "next": "tea"}
"""


def test_a_users_data_are_put_through_every_claim_that_applies(call, tmp_path):
    path = tmp_path / "orders.jsonl"
    path.write_text(BROKEN, encoding="utf-8")
    code, out, err = call("verify", "--data", path, "-o", tmp_path / "run", "--json")
    summary = json.loads(out)
    assert code == 0, (err, summary["red"])
    verdicts = {c["claim"]: c["verdict"] for c in summary["claims"]}
    more = ("no-critical-point", "active-subspace", "step-bound", "general-losses")
    for name in ("luce", "convexity", "loss-floor", "T1", "T2", "T4", *more):
        assert verdicts[name] == "holds", name
    # One last token with a tie and an outranked token: neither acyclic nor one component.
    assert verdicts["T3"] == verdicts["S1"] == verdicts["mechanics-global"] == "not applicable"
    said = {b["what"]: b["claims"] for b in summary["broken_assumptions"]}
    (broken,) = [k for k in said if k.startswith("Assumption 2")]
    assert "2 of 5 samples" in broken
    assert "line 3: label 'soup', tokens ['cake', 'bell']" in broken
    assert "line 6: label 'tea'" in broken
    assert "T1" in said[broken]


def test_data_without_a_realizable_sample_are_a_report_and_not_a_crash(call, tmp_path):
    path = tmp_path / "none.jsonl"
    path.write_text('{"tokens": ["a", "b"], "next": "c"}\n', encoding="utf-8")
    code, out, _ = call("verify", "--data", path, "-o", tmp_path / "run")
    assert code == 3
    assert "1 of 1 samples lack it" in out
    assert "nothing is left to test: line 1: label 'c', tokens ['a', 'b']" in out
    assert Path(tmp_path / "run" / "report.html").is_file()


def test_data_with_nothing_to_choose_are_not_applicable(call, tmp_path):
    path = tmp_path / "alone.jsonl"
    path.write_text('{"tokens": ["a", "a"], "next": "a"}\n', encoding="utf-8")
    code, out, _ = call("verify", "--data", path, "--only", "T1,luce", "-o", tmp_path / "run")
    assert code == 3
    assert "one distinct token" in out


def test_positions_name_what_breaks_in_a_text(call, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat and the dog and the cat saw the dog\n" * 3, encoding="utf-8")
    arguments = ("--data", path, "--context", 4, "--only", "T2", "-o", tmp_path / "run")
    code, out, _ = call("verify", *arguments)
    assert code == 0
    assert "position 4: label 'dog'" in out


def test_the_command_of_a_claim_says_how_the_data_were_read(call, tmp_path, monkeypatch):
    text = "the cat and the dog and the cat saw the dog\n" * 3
    path = tmp_path / "my text.txt"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    for data in (str(path), "-"):
        typed = ["verify", "--only", "luce", "--data", data, "--context", "4"]
        assert call(*typed, "-o", tmp_path / "run")[0] == 0
        record = read_json(tmp_path / "run" / "claims" / "luce.json")
        assert shlex.split(record["command"]) == ["attomaton", *typed]


# reproduce --all


def test_all_presets_in_one_go_each_in_a_folder_of_its_own(call, monkeypatch, tmp_path):
    from attomaton.jobs import reproduce

    few = {k: CLAIMS[k] for k in ("scan-snap-fig3", "scan-snap-fig9")}
    monkeypatch.setattr(reproduce, "figures", lambda: few)
    assert call("reproduce", "--all", "--seeds", 0, "-o", tmp_path / "all")[0] == 2
    assert not (tmp_path / "all").exists()
    code, out, _ = call("reproduce", "--all", "-o", tmp_path / "all")
    assert code == 0
    assert out.count("holds") == 2
    assert read_json(tmp_path / "all" / "scan-snap-fig9" / "summary.json")["verdict"] == "holds"


def test_presets_that_are_there_are_not_made_again_by_all(call, monkeypatch, tmp_path):
    from attomaton.jobs import reproduce

    few = {k: CLAIMS[k] for k in ("scan-snap-fig3", "scan-snap-fig9")}
    monkeypatch.setattr(reproduce, "figures", lambda: few)
    asked = ("reproduce", "--all", "-o", tmp_path / "all", "--json")
    # Broken off behind the first: what is finished stays, the rest is made.
    assert call("reproduce", "scan-snap-fig3", "-o", tmp_path / "all" / "scan-snap-fig3")[0] == 0
    first = json.loads(call(*asked)[1])["presets"]
    assert [row["found"] for row in first] == [True, False]
    assert [row["found"] for row in json.loads(call(*asked)[1])["presets"]] == [True, True]
    again = json.loads(call(*asked, "--force")[1])["presets"]
    assert [row["found"] for row in again] == [False, False]
    assert all(row["verdict"] == "holds" for row in (*first, *again))


def test_one_preset_that_fails_is_said_and_the_others_go_on(call, monkeypatch, tmp_path):
    from attomaton.jobs import reproduce

    few = {k: CLAIMS[k] for k in ("scan-snap-fig3", "scan-snap-fig9")}

    def nowhere(**options):
        raise SolverError("no certified answer")

    claim = few["scan-snap-fig3"]
    few["scan-snap-fig3"] = replace(claim, figure=replace(claim.figure, make=nowhere))
    monkeypatch.setattr(reproduce, "figures", lambda: few)
    code, out, _ = call("reproduce", "--all", "-o", tmp_path / "all", "--json")
    assert code == 4
    assert [r["verdict"] for r in json.loads(out)["presets"]] == ["error", "holds"]


def test_all_and_a_name_are_too_much(call, tmp_path):
    for arguments in ([], ["mechanics-global", "--all"]):
        code, _, err = call("reproduce", *arguments, "-o", tmp_path / "x")
        assert code == 2
        assert "--all" in err


def test_figures_of_maps_are_kept_like_all_others(tmp_path, call):
    code, _, err = call("verify", "--quick", "--only", "joma-fig2,joma-fig3", "-o", tmp_path / "v")
    assert code == 0, err
    for name in ("joma-fig2", "joma-fig3"):
        panels = json.loads((tmp_path / "v/claims" / f"{name}.json").read_text())["panels"]
        maps = [x for x in panels if x.get("heat")]
        assert maps
        assert all(len(x["xticks"]) == len(x["heat"][0]) for x in maps)
