"""The command line as its users meet it: results, files, messages, exit codes."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import typer
from safetensors.numpy import load_file

from attomaton.claims.registry import CLAIMS, figures
from attomaton.cli import main as cli
from attomaton.cli.commands import Command
from attomaton.corpus.reading import OPTIONS


@pytest.fixture
def chain(tmp_path):
    """The chain: 0 outranks 1 outranks 2."""
    path = tmp_path / "chain.jsonl"
    path.write_text('{"tokens": [0, 1, 2], "next": 0}\n{"tokens": [1, 2], "next": 1}\n')
    return path


def unit_rows(rng, K, d):
    E = rng.normal(size=(K, d))
    return E / np.linalg.norm(E, axis=1, keepdims=True)


# What comes out


def test_fit_prints_every_promised_key_and_writes_dense_matrices(call, chain, tmp_path):
    code, out, _ = call("fit", chain, "-o", tmp_path / "M", "--dense", "--json")
    record = json.loads(out)
    assert code == 0, out
    promised = """tokens vocab windows samples dropped last_tokens pairs edges components
        cyclic_components pairs_in_cyclic largest_component cyclic_samples loss_floor certificates
        seconds peak_memory_mb schema_version"""
    assert set(promised.split()) <= set(record)
    arrays = load_file(tmp_path / "M" / "arrays.safetensors")
    # e_xᵀ W e_k with standard basis vectors is W[x, k]; the hand-solved row is (1, 0, −1).
    expected = np.zeros((3, 3))
    expected[:, 2] = [1, 0, -1]
    np.testing.assert_allclose(arrays["W_svm"], expected, atol=1e-9)
    np.testing.assert_array_equal(arrays["W_fin"], 0)


def test_fit_with_embeddings_takes_integer_tokens_and_keeps_every_row(call, chain, tmp_path):
    E = unit_rows(np.random.default_rng(0), 5, 7)
    np.save(tmp_path / "E.npy", E)
    code, out, _ = call(
        "fit", chain, "-o", tmp_path / "M", "--embeddings", tmp_path / "E.npy", "--dense", "--json"
    )
    assert code == 0, out
    assert json.loads(out)["vocab"] == 5
    W = load_file(tmp_path / "M" / "arrays.safetensors")["W_svm"]
    assert W.shape == (7, 7)
    margins = [(E[i] - E[j]) @ W @ E[2] for i, j in [(0, 1), (0, 2), (1, 2)]]
    assert min(margins) >= 1 - 1e-9


def test_train_equals_plain_gradient_descent(call, tmp_path):
    rng = np.random.default_rng(3)
    K, d, eta, steps = 5, 6, 0.3, 200
    rows = [[int(x) for x in rng.integers(0, K, 4)] for _ in range(7)]
    nexts = [int(rng.choice(row)) for row in rows]
    data = tmp_path / "d.jsonl"
    data.write_text(
        "".join(
            json.dumps({"tokens": r, "next": y}) + "\n" for r, y in zip(rows, nexts, strict=True)
        )
    )
    E, W = unit_rows(rng, K, d), rng.normal(size=(d, d)) / 3
    np.save(tmp_path / "E.npy", E)
    np.save(tmp_path / "W0.npy", W)
    code, out, _ = call(
        "train", data, "-o", tmp_path / "R", "--embeddings", tmp_path / "E.npy",
        "--init", tmp_path / "W0.npy", "--lr", eta, "--steps", steps, "--json",
    )  # fmt: skip
    assert code == 0, out
    C = np.linalg.pinv(E).T
    for _ in range(steps):
        G = np.zeros_like(W)
        for row, y in zip(rows, nexts, strict=True):
            X, q = E[row], E[row[-1]]
            a = np.exp(X @ W @ q)
            a /= a.sum()
            u = X @ C[y]
            G -= X.T @ (a * (u - a @ u))[:, None] @ q[None] / (a @ u) / len(rows)
        W = W - eta * G
    np.testing.assert_allclose(load_file(tmp_path / "R" / "state.safetensors")["W"], W, atol=1e-9)
    metrics = pq.read_table(tmp_path / "R" / "metrics.parquet")
    assert {"seed", "step", "loss", "loss_gap", "norm", "cosine_svm", "cosine_outside",
            "distance_fin", "mass_retrieved"} <= set(metrics.column_names)  # fmt: skip


def test_train_without_embeddings_writes_W_over_the_vocabulary(call, chain, tmp_path):
    code, out, _ = call("train", chain, "-o", tmp_path / "R", "--seeds", 2, "--steps", 50, "--json")
    state = load_file(tmp_path / "R" / "state.safetensors")
    assert code == 0, out
    assert state["W"].shape == (2, 3, 3)
    assert json.loads(out)["status"] == ["finished", "finished"]
    names = {p.name for p in (tmp_path / "R").iterdir()}
    assert {"config.toml", "command.txt", "env.json", "summary.json", "status.json"} <= names


@pytest.mark.parametrize("embedded", [True, False])
def test_other_heads_are_held_against_their_local_direction(call, tmp_path, embedded):
    data = tmp_path / "d.jsonl"
    call("data", "synth", "-o", data, "--kind", "cyclic", "-n", 8, "--seed", 4)
    options = ["--head", "tied", "--loss", "squared", "--optimizer", "ngd", "--lr", 0.1]
    if embedded:
        np.save(tmp_path / "E.npy", unit_rows(np.random.default_rng(1), 6, 8))
        options += ["--embeddings", tmp_path / "E.npy"]
    code, out, _ = call(
        "train",
        data,
        "-o",
        tmp_path / "R",
        *options,
        "--init",
        "uniform",
        "--steps",
        2000,
        "--json",
    )
    final = json.loads(out)["final"][0]
    assert code == 0
    assert final["cosine_local"] > 0.97
    assert final["cosine_svm"] < final["cosine_local"]


def test_predict_explain_and_graph_speak_of_the_same_model(call, chain, tmp_path):
    call("fit", chain, "-o", tmp_path / "M")
    code, out, _ = call("predict", tmp_path / "M", "1", "2", "--json", "--sample", 3)
    record = json.loads(out)
    assert (code, record["prediction"]) == (0, 1)
    assert record["continuation"] == [
        1
    ]  # never a last token: nothing was learned about what follows
    assert record["continuation_ends"] == "never a last token: 1"
    code, out, _ = call("explain", tmp_path / "M", "0", "1", "2", "--json")
    fates = {f["token"]: f for f in json.loads(out)["fates"]}
    assert fates[0]["probability"] == 1.0
    assert fates[2]["reason"] == "outranked"
    assert fates[2]["path"][0]["evidence"][0]["next"] == fates[2]["path"][0]["winner"]
    code, out, _ = call("graph", tmp_path / "M", "--last", "2", "--json")
    view = json.loads(out)
    assert [c["tokens"] for c in view["components"]] == [[0], [1], [2]]
    for form, mark in (("graphml", "<graphml"), ("dot", "digraph"), ("text", "level 0")):
        assert mark in call("graph", tmp_path / "M", "--last", "2", "--format", form)[1]


MARKS = {
    "txt": b"level 0",
    "json": b"{",
    "graphml": b"<?xml",
    "dot": b"digraph",
    "svg": b"<?xml",
    "png": b"\x89PNG",
}


def test_a_graph_is_written_as_the_suffix_of_its_file_says(call, chain, tmp_path):
    call("fit", chain, "-o", tmp_path / "M")
    for suffix, mark in MARKS.items():
        out = tmp_path / f"g.{suffix.upper() if suffix == 'svg' else suffix}"
        code, _, err = call("graph", tmp_path / "M", "--last", "2", "-o", out)
        assert (code, mark in out.read_bytes()[:200]) == (0, True), err
    json.loads((tmp_path / "g.json").read_text())


@pytest.mark.parametrize(
    ("name", "form", "said"),
    [
        ("g.svg", "dot", "--format dot does not go into a .svg file"),
        ("g.txt", "json", "--format json does not go into a .txt file"),
        ("g.pdf", None, "name a file .txt, .svg, .png, .json, .graphml, .dot, or say --format"),
        ("g", None, "the suffix says no format"),
        ("g.gif", "png", "is written as .png"),
    ],
)
def test_a_graph_goes_into_no_file_of_another_format(call, chain, tmp_path, name, form, said):
    call("fit", chain, "-o", tmp_path / "M")
    options = [] if form is None else ["--format", form]
    code, _, err = call("graph", tmp_path / "M", "--last", "2", "-o", tmp_path / name, *options)
    assert (code, said in err) == (2, True), err
    assert not (tmp_path / name).exists()


def test_a_soft_radius_is_softer_than_the_limit(call, chain, tmp_path):
    call("fit", chain, "-o", tmp_path / "M")
    p = {}
    for radius in ("0", "3", "inf"):
        out = call("predict", tmp_path / "M", "0", "1", "2", "--radius", radius, "--json")[1]
        p[radius] = {r["token"]: r["p"] for r in json.loads(out)["probabilities"]}[0]
    assert p["0"] == pytest.approx(1 / 3)
    assert p["0"] < p["3"] < p["inf"] == 1.0


def test_events_and_synthetic_data_can_be_fitted(call, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("user,what,when\na,x,1\na,y,2\na,x,3\nb,y,1\nb,x,2\nb,y,3\n")
    columns = ["--context", 2, "--sequence", "user", "--item", "what", "--order", "when"]
    code, out, _ = call("fit", log, "-o", tmp_path / "M", *columns, "--json")
    assert (code, json.loads(out)["samples"], json.loads(out)["dropped"]) == (0, 2, 2)
    for kind in ("general", "acyclic", "cyclic", "fully-cyclic", "planted"):
        target = tmp_path / f"{kind}.jsonl"
        assert call("data", "synth", "-o", target, "--kind", kind, "-n", 12)[0] == 0
        code, out, _ = call("data", "inspect", target, "--json")
        assert (code, json.loads(out)["set_aside"]["rows"]) == (0, 0)
    for kind, meant in (("plantd", "planted"), ("session", "sessions")):
        code, _, err = call("data", "synth", "-o", tmp_path / "no.jsonl", "--kind", kind)
        assert (code, f"did you mean '{meant}'?" in err) == (2, True), err


def test_doctor_finds_this_machine_well(call):
    code, out, _ = call("doctor", "--json")
    assert (code, json.loads(out)["ok"]) == (0, True)


# What goes wrong: one message that names the place, the exit code, nothing half-written


def bad(call, tmp_path, *arguments):
    before = sorted(p.name for p in tmp_path.iterdir())
    code, out, err = call(*arguments)
    assert out == ""
    assert "Traceback" not in err
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    return code, err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "empty"),
        ('{"tokens": [0, 1], "next": 0}\n{"tokens": [0, 1,\n', "line 2"),
        ('{"tokens": [0, 1], "next": 7}\n', "none of the 1 contexts contains its own label"),
        ('{"tokens": [0, 1], "next": 0, "weight": -1}\n', "line 1"),
        ('{"tokens": [0, 1], "next": 0, "weight": 0}\n', "line 1"),
        ('{"tokens": [], "next": 0}\n', "line 1"),
        ('{"tokens": [0], "nxet": 0}\n', "next"),
    ],
)
def test_bad_rows(call, tmp_path, content, says):
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    code, err = bad(call, tmp_path, "fit", path, "-o", tmp_path / "M")
    assert code == 3
    assert says in err


def test_unknown_file_and_missing_context(call, tmp_path):
    code, err = bad(call, tmp_path, "fit", tmp_path / "absent.jsonl", "-o", tmp_path / "M")
    assert (code, "absent.jsonl" in err) == (3, True)
    (tmp_path / "t.txt").write_text("a b a")
    code, err = bad(call, tmp_path, "fit", tmp_path / "t.txt", "-o", tmp_path / "M")
    assert (code, "--context" in err) == (2, True)
    code, err = bad(call, tmp_path, "fit", tmp_path / "t.txt", "--context", 9, "-o", tmp_path / "M")
    assert (code, "shorter context" in err) == (3, True)


def matrix(**cells):
    E = np.eye(3)
    for value in cells.values():
        E[1, 1] = value
    return E


@pytest.mark.parametrize(
    ("E", "says"),
    [
        (matrix(x=np.nan), "(1, 1)"),
        (matrix(x=np.inf), "(1, 1)"),
        (np.ones((3, 3), complex), "cannot be read as .npy"),
        (np.full((3, 3), 1e200), "lengths between"),
        (np.eye(2), "tokens are 0 … 1"),
        (np.zeros(3), "matrix"),
    ],
)
def test_bad_embeddings(call, chain, tmp_path, E, says):
    np.save(tmp_path / "E.npy", E)
    arguments = ["-o", tmp_path / "M", "--embeddings", tmp_path / "E.npy"]
    code, err = bad(call, tmp_path, "fit", chain, *arguments)
    assert code == 3
    assert says in err


@pytest.mark.parametrize("E", [np.ones((3, 3)), np.random.default_rng(0).normal(size=(4, 3))])
def test_dependent_embeddings_have_a_limit(call, chain, tmp_path, E):
    np.save(tmp_path / "E.npy", E)
    arguments = ["-o", tmp_path / "M", "--embeddings", tmp_path / "E.npy"]
    assert call("fit", chain, *arguments)[0] == 0


@pytest.mark.parametrize(
    ("W0", "says", "exit_code"),
    [
        (matrix(x=np.nan), "(1, 1)", 3),
        (np.eye(2), "3×3", 2),
        (np.full((3, 3), 1e308), "overflows", 3),
    ],
)
def test_bad_starts(call, chain, tmp_path, W0, says, exit_code):
    np.save(tmp_path / "W0.npy", W0)
    code, err = bad(
        call, tmp_path, "train", chain, "-o", tmp_path / "R", "--init", tmp_path / "W0.npy"
    )
    assert (code, says in err) == (exit_code, True), err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--lr", "-1"], "lr=-1"),
        (["--steps", "0"], "steps=0"),
        (["--optimizer", "gdd"], "gd"),
        (["--head", "tied"], "cross-entropy"),
        (["--init", "absent.npy"], "absent.npy"),
        (["--seeds", "0"], "seeds=0"),
    ],
)
def test_bad_training_options(call, chain, tmp_path, options, says):
    code, err = bad(call, tmp_path, "train", chain, "-o", tmp_path / "R", *options)
    assert code in (2, 3), err
    assert says in err


def test_large_finite_starts_are_fine(call, chain, tmp_path):
    W0 = np.zeros((3, 3))
    W0[2, 2] = 1e6
    np.save(tmp_path / "W0.npy", W0)
    code, out, _ = call(
        "train", chain, "-o", tmp_path / "R", "--init", tmp_path / "W0.npy", "--steps", 5, "--json"
    )
    assert code == 0, out
    assert np.isfinite(json.loads(out)["final"][0]["loss"])


def test_a_foreign_folder_is_left_alone_and_an_own_one_replaced(call, chain, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    code, err = bad(call, tmp_path, "fit", chain, "-o", tmp_path / "mine")
    assert (code, "not written by attomaton" in err) == (2, True)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"
    assert call("fit", chain, "-o", tmp_path / "M")[0] == 0
    assert call("fit", chain, "-o", tmp_path / "M", "--dense")[0] == 0
    assert "W_svm" in load_file(tmp_path / "M" / "arrays.safetensors")


def test_models_that_are_not_models(call, tmp_path):
    code, err = bad(call, tmp_path, "predict", tmp_path / "absent", "a")
    assert (code, "no such model" in err) == (3, True)
    (tmp_path / "x").mkdir()
    code, err = bad(call, tmp_path, "predict", tmp_path / "x", "a")
    assert (code, "not a model" in err) == (3, True)


def test_errors_are_json_where_json_is_asked_for(call, tmp_path):
    code, out, err = call("fit", tmp_path / "absent.jsonl", "-o", tmp_path / "M", "--json")
    error = json.loads(out)["error"]
    assert (code, error["exit_code"], error["type"]) == (3, 3, "DataError")
    assert error["message"] in err


def test_unknown_preset_last_token_and_format(call, chain, tmp_path):
    call("fit", chain, "-o", tmp_path / "M")
    code, err = bad(call, tmp_path, "reproduce", "mechanics-globl")
    assert (code, "mechanics-global" in err) == (2, True)
    code, err = bad(call, tmp_path, "graph", tmp_path / "M", "--last", "zzz")
    assert (code, "'zzz'" in err) == (2, True)
    code, err = bad(call, tmp_path, "graph", tmp_path / "M", "--last", "2", "--format", "gif")
    assert (code, "gif" in err) == (2, True)


# How it starts


HEAVY = ("jax", "matplotlib", "sklearn")


def modules_after(*arguments, among=HEAVY):
    code = (
        "import sys\nfrom attomaton.cli import main as cli\nsys.argv = ['attomaton', *sys.argv[1:]]\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    pass\n"
        f"print(*[m for m in {among!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr.splitlines()[-1].split()


def test_fit_predict_explain_and_graph_start_without_jax(chain, tmp_path):
    assert modules_after("fit", chain, "-o", tmp_path / "M") == []
    assert modules_after("predict", tmp_path / "M", "1", "2") == []
    assert modules_after("explain", tmp_path / "M", "1", "2") == []
    assert modules_after("graph", tmp_path / "M", "--last", "2") == []
    assert modules_after("train", chain, "-o", tmp_path / "R", "--steps", 3) == ["jax"]  # a control


def test_predict_starts_without_scipy(tmp_path):
    rows = [(["a", "b", "q"], "a"), (["a", "b", "q"], "b"), (["a", "b", "b", "q"], "a")]
    text = "".join(json.dumps({"tokens": x, "next": y}) + "\n" for x, y in rows)
    (tmp_path / "d.jsonl").write_text(text)
    among = (*HEAVY, "scipy")
    fitted = modules_after("fit", tmp_path / "d.jsonl", "-o", tmp_path / "M", among=among)
    assert fitted == ["scipy"]  # a control
    assert modules_after("predict", tmp_path / "M", "a", "b", "q", among=among) == []


def test_a_plain_command_is_read_without_pydantic(chain, tmp_path):
    assert modules_after("fit", chain, "-o", tmp_path / "M", among=("pydantic",)) == []
    among = ("pydantic", "scipy")
    assert modules_after("predict", tmp_path / "M", "1", "2", "--top", 3, among=among) == []
    assert modules_after("graph", tmp_path / "M", "--last", "2", among=among[:1]) == []
    assert modules_after("runs", "ls", tmp_path, among=among[:1]) == []


def test_a_command_built_alone_is_that_of_the_whole_program():
    whole, alone = typer.main.get_command(cli.app).commands, set()
    for name in whole:
        commands = typer.main.get_command(cli._asked([name, "x"])).commands
        assert list(commands) in ([name], list(whole))
        told = [x[name].get_help(typer.Context(x[name], info_name=name)) for x in (commands, whole)]
        assert told[0] == told[1]
        alone |= {name} if len(commands) == 1 else set()
    assert {"fit", "predict", "explain"} <= alone
    assert cli._asked([]) is cli._asked(["--help"]) is cli._asked(["nothing"]) is cli.app


WORDS = ("1", "-1", "007", "1_0", "２", "1.5", "é\udc80", "-", ".", "no/such", "", " ", "a\n")


def test_what_is_plain_is_read_as_the_library_would(tmp_path):
    def outcome(process):
        try:
            found = process(ctx, value)
        except typer.BadParameter.__mro__[1] as error:
            return type(error), error.format_message()
        found = list(found) if isinstance(found, tuple) else found
        return type(found), found

    taken = set()
    for name, command in typer.main.get_command(cli.app).commands.items():
        ctx = typer.Context(command, info_name=name)
        for p in command.params if isinstance(command, Command) else ():
            many = p.multiple or p.nargs < 0
            for word in (*WORDS, str(tmp_path), None, p.default):
                value = (word,) if isinstance(word, str) and many else word
                ours = outcome(p.process_value)
                assert ours == outcome(partial(type(p).process_value, p)), (name, p.name, value)
                taken.add(ours[0])
    assert {str, int, type(tmp_path), list} <= taken


def test_the_installed_command_answers():
    command = Path(sys.executable).with_name("attomaton")
    done = subprocess.run([command, "--help"], capture_output=True, text=True, check=True)
    assert "exactly, on" in done.stdout


# Numbers nobody would type

MANY = str(2**70)


@pytest.mark.parametrize(
    "line",
    [
        "data synth -o x.jsonl --seed -1",
        f"train DATA -o r --steps {MANY}",
        f"train DATA -o r --steps 2 --every {MANY}",
        f"train DATA -o r --steps 2 --every {'9' * 5000}",
        "train DATA -o r --steps 2 --every ²",
        f"train DATA -o r --steps 2 --seeds {MANY}",
        f"train DATA -o r --steps 2 --optimizer sgd --batch-size {MANY}",
        f"dynamics syn-small --level sampled --steps {MANY} -o r",
        f"dynamics syn-small --level sampled --steps 2 --seeds {MANY} -o r",
        f"dynamics syn-small --level sampled --steps 2 --batch {MANY} -o r",
        f"dynamics syn-small --level sampled --steps 2 -T {MANY} -o r",
        f"dynamics syn-small --level limit --steps {MANY} -o r",
        "dynamics syn-small --level reduced --eta-y 1e-320 -o r",
        "fit DATA -o m --memory nan",
        "fit DATA -o m --memory inf",
        "fit DATA -o m --memory 0",
        f"predict m a --sample {MANY}",
        "predict m a --sample 2 --seed -1",
    ],
)
def test_numbers_beyond_reason_are_refused(line, call, chain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = call(*line.replace("DATA", str(chain)).split())
    assert (code, "Internal" in err) == (2, False), err
    assert len(err) < 400


def test_too_little_memory_is_no_fault_of_ours(call, monkeypatch):
    from attomaton.jobs import doctor

    monkeypatch.setattr(doctor, "examine", lambda: (_ for _ in ()).throw(MemoryError("8 EB")))
    code, _, err = call("doctor")
    assert code == 1
    assert err.startswith("OutOfMemory: there is not enough memory for this (MemoryError: 8 EB).")
    assert "Try less at a time" in err
    exhausted = RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes")
    monkeypatch.setattr(doctor, "examine", lambda: (_ for _ in ()).throw(exhausted))
    assert call("doctor", "--json")[0] == 1


def test_what_a_model_does_not_know_is_named_with_the_nearest(call, tmp_path):
    (tmp_path / "d.jsonl").write_text(
        '{"tokens": ["tea", "soup", "bell"], "next": "tea"}\n{"tokens": ["soup", "bell"], "next": "soup"}\n',
        encoding="utf-8",
    )
    call("fit", tmp_path / "d.jsonl", "-o", tmp_path / "m")
    code, out, _ = call("predict", tmp_path / "m", "teq", "soup", "bell", "--json")
    record = json.loads(out)
    assert (code, record["prediction"], record["unseen"]) == (6, "soup", [])
    assert record["unknown"] == [{"token": "teq", "nearest": "tea", "why": "not in the vocabulary"}]
    assert [x["token"] for x in record["probabilities"]] == ["soup", "bell"]
    code, out, _ = call("predict", tmp_path / "m", "tea", "soup", "bell", "--sample", 3)
    assert code == 0
    assert "tea soup bell → tea\nends there, never a last token: tea" in out
    for command in ("predict", "explain"):
        code, out, _ = call(command, tmp_path / "m", "tea", "bel")
        assert (code, "no prediction" in out, "did you mean ‘bell’?" in out) == (6, True, True)
        assert call(command, tmp_path / "m", "tea", "bell")[0] == 0
    for command in ("graph", "summary"):
        code, _, err = call(command, tmp_path / "m", "--last", "bel")
        assert (code, "did you mean 'bell'?" in err) == (2, True)


def test_the_version_is_told(call):
    import attomaton

    assert call("--version") == (0, f"attomaton {attomaton.__version__}\n", "")


@pytest.mark.parametrize("words", [["-n", 2**63], ["-K", 10**30], ["-n", 10**6, "-T", 10**6]])
def test_data_beyond_memory_are_not_drawn(call, tmp_path, words):
    code, _, err = call("data", "synth", "-o", tmp_path / "a.jsonl", *words)
    assert (code, "at most 100,000,000" in err) == (2, True), err
    assert not (tmp_path / "a.jsonl").exists()


@pytest.mark.parametrize("words", [["runs", "ls", "\0x"], ["summary", "a\0"], ["tune", "\0"]])
def test_zero_bytes_are_refused(call, words):
    code, _, err = call(*words)
    assert (code, "zero byte" in err) == (2, True), err


# Help and options


def test_help_lists_every_command_in_one_of_its_groups(call):
    _, out, _ = call("--help")
    commands = typer.main.get_command(cli.app).commands
    groups = {c.rich_help_panel for c in commands.values()}
    assert groups == set(cli.GROUPS)
    assert [line[:-1] for line in out.splitlines() if line.removesuffix(":") in groups] == list(
        cli.GROUPS
    )
    told = [
        line.split()[0]
        for line in out.splitlines()
        if line.startswith("  ") and "-" not in line.split()[0]
    ]
    assert set(commands) <= set(told)
    assert "..." not in out.split("Data:")[1]  # no sentence is cut off


@pytest.mark.parametrize(("command", "names"), [("verify", CLAIMS), ("reproduce", figures())])
def test_help_lists_claims_and_presets_by_name_and_title(call, command, names):
    listed = typer.main.get_command(cli.app).commands[command].rows()
    assert list(listed) == [(name, claim.title) for name, claim in names.items()]
    _, out, _ = call(command, "--help")
    assert all(f"\n  {name} " in out for name in names)


@pytest.mark.parametrize("command", ["fit", "train", "tune", "score", "verify", "lab"])
def test_every_command_that_reads_a_file_has_all_options_of_reading(command):
    params = {p.name for p in typer.main.get_command(cli.app).commands[command].params}
    assert set(OPTIONS) <= params
    assert "reading" not in params


@pytest.mark.parametrize(
    "words",
    [["fit", "chain.jsonl", "-o", "--json"], ["demo", "--out", "--force"], ["summary", "m", "--figure", "--json"],
     ["fit", "chain.jsonl", "-o", "m", "--embeddings", "--dense"]],
)  # fmt: skip
def test_a_path_that_looks_like_an_option_is_refused(call, chain, monkeypatch, words):
    monkeypatch.chdir(chain.parent)
    code, _, err = call(*words)
    assert code == 2
    assert "looks like an option, not a path" in err.replace("\n", " ")
    assert sorted(p.name for p in Path().iterdir()) == ["chain.jsonl"]


def test_a_path_that_begins_with_dashes_can_be_named(call, chain, monkeypatch):
    monkeypatch.chdir(chain.parent)
    assert call("fit", chain, "-o", "./--json")[0] == 0
    assert Path("--json/model.json").is_file()


def test_demo_says_that_it_cannot_write_before_it_trains(call, chain, monkeypatch):
    monkeypatch.setattr(
        "attomaton.jobs.demo.train_beside_theory", lambda *a, **k: pytest.fail("trained")
    )
    code, _, err = call("demo", "-o", chain / "run")
    assert code == 2
    assert "cannot write there" in err


def test_a_general_head_is_drawn_by_seed_and_kept_with_the_run(call, tmp_path):
    data = tmp_path / "d.jsonl"
    call("data", "synth", "-o", data, "--kind", "acyclic", "-n", 8, "--seed", 4)
    E = unit_rows(np.random.default_rng(1), 6, 8)
    np.save(tmp_path / "E.npy", E)
    options = ["--embeddings", tmp_path / "E.npy", "--head", "general", "--loss", "squared-score"]
    options += ["--optimizer", "ngd", "--lr", 0.1, "--steps", 40, "--seeds", 2, "--init", "uniform"]
    found = {}
    for name, more in {"a": [], "b": [], "c": ["--seed", 1]}.items():
        code, out, err = call("train", data, "-o", tmp_path / name, *options, *more, "--json")
        assert code == 0, err
        assert {"cosine_svm", "cosine_local"} <= set(json.loads(out)["final"][0])
        found[name] = load_file(tmp_path / name / "state.safetensors")
    C = found["a"]["C"]
    assert (C @ E.T).argmax(axis=1).tolist() == list(range(6))
    assert found["a"]["W"].shape == (2, 8, 8)
    assert np.array_equal(C, found["b"]["C"])
    assert np.array_equal(found["a"]["W"], found["b"]["W"])
    assert not np.array_equal(C, found["c"]["C"])
