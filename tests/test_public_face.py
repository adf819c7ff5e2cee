"""What a user of the library meets: names, examples, lines, tables, figures, defaults."""

import ast
import inspect
import json
import subprocess
import sys
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import typer

import attomaton
from attomaton import (
    Automaton,
    Vocabulary,
    as_samples,
    as_windows,
    build_graph,
    example_samples,
    open_model,
    read_samples,
    read_windows,
    samples_from_sequences,
    save_model,
    simulate,
    solve_limit,
    train,
)
from attomaton.base.face import LONGEST
from attomaton.cli import main as cli
from attomaton.errors import DataError, UsageError
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.experiment.arguments import resolved
from attomaton.scan_snap.levels import settings_of

ROOT = Path(attomaton.__file__).parent
NAMES = sorted(set(attomaton.__all__) - {"__version__"})
CLASSES = [name for name in NAMES if inspect.isclass(getattr(attomaton, name))]
NASTY = "<script>alert(1)</script>"


def test_there_are_as_many_names_as_fit_a_page():
    assert 33 <= len(NAMES) <= 45


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_a_docstring_with_an_example(name):
    said = vars(getattr(attomaton, name))["__doc__"] if name in CLASSES else None
    said = said or getattr(attomaton, name).__doc__
    assert said.strip().partition("\n")[0].endswith((".", ":")), "the first line is a sentence"
    assert ">>> " in said, "no example"


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_method_has_a_docstring(name):
    kind = getattr(attomaton, name)
    methods = {
        key: value
        for key, value in inspect.getmembers(kind)
        if not key.startswith("_") and (callable(value) or isinstance(value, property))
    }
    ours = {
        key: x
        for key, x in methods.items()
        if not hasattr(dict, key) and not hasattr(ValueError, key)
    }
    bare = [key for key, value in ours.items() if not inspect.getdoc(value)]
    assert bare == []


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, attomaton; print([x for x in ('numpy', 'jax', 'pandas', 'pyarrow') if x in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_face_loads_no_library_that_draws():
    code = (
        "import sys, attomaton as a\n"
        "s = a.example_samples(); repr(a.solve_limit(s)); s.to_arrow(); s._repr_html_()\n"
        "print([x for x in ('jax', 'matplotlib', 'networkx') if x in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_the_face_and_the_root_find_modules_by_name():
    """What imports by a string is no import to the drawing of the rooms; engines load the work they are handed so."""
    asked = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if getattr(node, "id", getattr(node, "attr", "")) in ("import_module", "__import__")
    }
    assert asked == {"__init__.py", "base/face.py", "base/lazily.py", "engine/processes.py"}
    assert "attomaton" not in (ROOT / "base/lazily.py").read_text()  # libraries of others alone


# Lines


def large():
    rng = np.random.default_rng(0)
    return samples_from_sequences(rng.integers(0, 300, (400, 12)), rng.integers(0, 300, 400))


def faces(samples):
    limit = solve_limit(samples)
    context = samples.vocabulary[samples.last[0]]
    automaton = Automaton(limit)
    yield from (samples, samples.vocabulary, limit, limit.graph, limit.svm, limit.finite, automaton)
    yield automaton.explain([*samples.bag(0), context])
    yield train(samples, steps=3, seeds=5)
    yield as_windows([list(samples.bag(0)) * 2], context=3)


@pytest.mark.parametrize("make", [example_samples, large])
def test_lines_are_short(make):
    for thing in faces(make()):
        line = repr(thing)
        assert line.startswith(f"{type(thing).__name__}(")
        assert len(line) <= LONGEST
        assert "\n" not in line
        assert "array" not in line


def test_lines_of_dynamics_paths_and_predictors_are_short():
    run = simulate("syn-small", until=100.0)
    points = attomaton.norm_path(example_samples(), [1.0])
    for thing in (run, run.classes, *points, check_embeddings(np.eye(500))):
        assert len(repr(thing)) <= LONGEST


def test_lines_hold_no_long_or_steering_label():
    samples = samples_from_sequences([["x" * 5000, "\x1b[31m"]], ["x" * 5000])
    for thing in faces(samples):
        assert len(repr(thing)) <= LONGEST
        assert "\x1b" not in repr(thing)


# Tables


def test_a_notebook_escapes_what_users_wrote():
    samples = samples_from_sequences([[NASTY, "b"], ["b", NASTY]], [NASTY, NASTY])
    shown = 0
    for thing in faces(samples):
        if hasattr(thing, "_repr_html_"):
            page = thing._repr_html_()
            assert "<script" not in page
            assert "<table>" in page
            shown += "&lt;script&gt;" in page
    assert shown >= 4


def test_a_notebook_shows_both_ends_of_a_long_table():
    page = example_samples()._repr_html_()
    assert page.count("<tr>") == 1 + 5 + 1 + 5
    assert "26 rows" in page


def test_samples_are_a_table_of_words():
    samples = example_samples()
    table = samples.to_arrow()
    assert table.num_rows == len(samples)
    for i, row in enumerate(table.to_pylist()):
        assert dict(zip(row["tokens"], row["counts"], strict=True)) == samples.bag(i)
        assert row["next"] == samples.vocabulary[samples.label[i]]
    again = as_samples(table.select(["tokens", "next", "weight"]))
    assert again.total_weight == samples.total_weight


def test_the_table_of_a_limit_holds_its_scores():
    limit = solve_limit(example_samples())
    rows = limit.to_arrow().to_pylist()
    assert [row["svm_score"] for row in rows] == limit.svm.score.tolist()
    first = {row["component"] for row in rows if row["last"] == "guest"}
    assert min(first) == 0


def test_labels_of_both_kinds_stay_apart_in_a_table():
    words = Vocabulary(["3", 3, "x", 4])
    column = words.column(np.array([0, 1, 2, 3])).to_pylist()
    assert column == ["3", "[3]", "x", "4"]
    assert [words.read(text) for text in column] == ["3", 3, "x", 4]
    assert Vocabulary([7, 8]).column(np.array([1, 0])).to_pylist() == [8, 7]


def test_runs_are_tables_of_every_recorded_step():
    run = train(example_samples(), steps=20, every=10, seeds=2)
    table = run.to_arrow().to_pydict()
    assert table["seed"] == [0, 0, 0, 1, 1, 1]
    assert table["step"] == [0, 10, 20] * 2
    assert table["loss"] == run.records["loss"].ravel().tolist()
    path = simulate("syn-small", until=10.0)
    assert path.to_arrow().num_rows == path.entropy.size
    assert path.columns()["entropy"].reshape(path.entropy.shape).tolist() == path.entropy.tolist()


@pytest.mark.skipif(find_spec("pandas") is None, reason="pandas is not installed")
def test_a_table_becomes_a_data_frame():
    samples = example_samples()
    frame = samples.to_pandas()
    assert list(frame["next"]) == samples.to_arrow()["next"].to_pylist()
    assert as_samples(frame[["tokens", "next", "weight"]]).total_weight == samples.total_weight


def test_without_pandas_the_way_out_is_named(monkeypatch):
    monkeypatch.setattr("attomaton.base.face.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install pandas, or use to_arrow"):
        example_samples().to_pandas()


def test_a_networkx_graph_says_who_outranks_whom():
    nx = pytest.importorskip("networkx")
    graph = build_graph(example_samples())
    words = graph.vocabulary
    for k in graph.last_tokens.tolist():
        drawn = graph.to_networkx(words[k])
        tokens = graph.pair_token[graph.pairs_of(k)].tolist()
        assert set(drawn) == {words[x] for x in tokens}
        for i in tokens:
            for j in tokens:
                there, back = (nx.has_path(drawn, words[a], words[b]) for a, b in ((i, j), (j, i)))
                assert graph.outranks(k, i, j) == (there and not back)
    whole = graph.to_networkx()
    assert whole.number_of_edges() == len(graph.edge_from)
    assert ("bell", "soup") in whole
    with pytest.raises(UsageError, match="did you mean 'bell'"):
        graph.to_networkx("bel")


def test_figures_can_be_looked_at_and_saved(tmp_path):
    pytest.importorskip("matplotlib")
    samples = example_samples()
    limit = solve_limit(samples)
    why = Automaton(limit).explain(["cake", "soup", "bell"])
    run = train(samples, steps=20, seeds=2)
    path = simulate("syn-small", until=100.0)
    for i, made in enumerate((limit.plot("bell"), why.plot(), run.plot(), path.plot())):
        assert made._repr_svg_().lstrip().startswith("<?xml")
        made.savefig(tmp_path / f"{i}.png")
    with pytest.raises(UsageError, match="is no last token"):
        limit.plot("cake")


# Contexts from what a program holds

LOG = {
    "user": [1, 2, 1, 2, 1],
    "page": ["home", "cart", "cart", "home", "home"],
    "at": [1, 1, 2, 2, 3],
}


class Frame:
    """A data frame of another library: columns, and Arrow's way of handing them over."""

    def __init__(self, columns):
        self.columns, self.table = list(columns), pa.table(columns)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("kind", [dict, pa.table, Frame])
def test_a_table_of_events_is_read_as_its_file_is(kind, tmp_path):
    rows = ["user,page,at", *(",".join(map(str, row)) for row in zip(*LOG.values(), strict=True))]
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    how = {"context": 2, "sequence": "user", "item": "page", "order": "at"}
    there = read_windows(tmp_path / "log.csv", **how)
    here = as_windows(kind(LOG), **how)
    assert here.to_arrow() == there.to_arrow()
    assert (
        as_samples(kind(LOG), **how).to_arrow()
        == read_samples(tmp_path / "log.csv", **how).to_arrow()
    )


def test_sequences_are_cut_as_an_event_log_is():
    lists = as_windows([["home", "cart", "home"], ["cart", "home"]], context=2)
    events = as_windows(LOG, context=2, sequence="user", item="page", order="at")
    assert lists.to_arrow() == events.to_arrow()


def test_a_table_of_contexts_is_taken_as_it_is():
    columns = {"tokens": [["a", "b"], ["b"]], "next": ["a", "b"], "weight": [2.0, 1.0]}
    expected = as_windows(columns["tokens"], columns["next"], weights=columns["weight"])
    assert (
        as_windows(columns).to_arrow()
        == as_windows(pa.table(columns)).to_arrow()
        == expected.to_arrow()
    )


def test_windows_and_samples_are_given_back():
    windows = as_windows([["a", "b", "a"]], context=2)
    assert as_windows(windows) is windows
    samples = windows.samples()
    assert as_samples(samples) is samples
    assert as_samples(windows).to_arrow() == samples.to_arrow()


@pytest.mark.parametrize(
    ("data", "how", "error", "words"),
    [
        ([["a", "b"]], {}, UsageError, "context=8"),
        ([["a", "b"]], {"context": 0}, UsageError, "context=0"),
        ([["a"]], {"next_tokens": ["a"], "context": 2}, UsageError, "not cut"),
        ([["a", "b"]], {"context": 2, "weights": [1.0]}, UsageError, "weights"),
        ("ab", {"context": 2}, DataError, "list of sequences"),
        ([["a"]], {"context": 2}, DataError, "no window"),
        (LOG, {"context": 2}, DataError, "no column 'sequence'"),
        (LOG, {"context": 2, "sequence": "usr", "item": "page"}, DataError, "did you mean 'user'"),
        ({"tokens": ["ab"], "next": ["a"]}, {}, DataError, "sequence 0"),
        ({"a": [1], "b": [1, 2]}, {"context": 2}, DataError, "table"),
    ],
)
def test_what_is_no_data_is_named(data, how, error, words):
    with pytest.raises(error, match=words):
        as_windows(data, **how)


# Arguments and defaults


def test_embeddings_are_any_matrix_as_in_training():
    samples = samples_from_sequences([[0, 1, 2], [1, 2]], [0, 1])
    E = np.array([[1.0, 0, 0], [1, 2, 0], [0, 1, 1]])
    one, other, listed = (
        solve_limit(samples, embeddings=x) for x in (E, check_embeddings(E), E.tolist())
    )
    assert one.svm.score.tolist() == other.svm.score.tolist() == listed.svm.score.tolist()
    assert train(samples, embeddings=E, steps=2).W.shape == (1, 3, 3)


def test_a_model_needs_no_record(tmp_path):
    limit = solve_limit(example_samples())
    save_model(limit, tmp_path / "model")
    assert open_model(tmp_path / "model").to_arrow() == limit.to_arrow()


def test_what_a_run_used_is_recorded(tmp_path, call):
    run = train(example_samples(), steps=30)
    assert run.settings == resolved(steps=30)
    rates = train(
        samples_from_sequences([[0, 1]], [0]), steps=2, seeds=2, lr=[1, 2], init=np.zeros(2)
    )
    assert rates.settings.lr == (1.0, 2.0)
    assert rates.settings.init == "given"
    (tmp_path / "d.jsonl").write_bytes((ROOT / "corpus" / "example.jsonl").read_bytes())
    code, out, _ = call(
        "train", tmp_path / "d.jsonl", "-o", tmp_path / "r", "--steps", 30, "--json"
    )
    assert code == 0
    wanted = {k: v for k, v in asdict(run.settings).items() if v is not None and k != "init"}
    assert json.loads(out)["settings"] == wanted


def test_defaults_of_dynamics_are_those_of_the_command_line():
    commands = typer.main.get_command(cli.app).commands
    options = {p.name: p for p in commands["dynamics"].params}
    asked = inspect.signature(simulate).parameters
    for name in ("eta_y", "eta_z"):
        assert options[name].default == asked[name].default
    steps = settings_of("sampled", {})["steps"]
    assert f"default: {steps}" in options["steps"].help
    run = simulate("syn-small", until=10.0)
    assert (run.eta_y.tolist(), run.eta_z.tolist()) == ([1.0], [1.0])
