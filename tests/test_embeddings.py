"""Embeddings as users name them: matrices in files, rows for words, vectors drawn in so many dimensions."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from attomaton import NextTokenClassifier, open_model, solve_limit
from attomaton.corpus.readers import read_windows
from attomaton.disk.formats import read_matrix
from attomaton.errors import DataError, UsageError
from attomaton.jobs.embeddings import embeddings_source
from attomaton.mechanics.synthetic import drawn_embeddings

FIVE = np.array([[1, 0, 0], [0, 1, 0], [-0.5, 0.5, 0], [0.5, -0.5, 0], [0, 0, 1.0]])
ORDERS = [(["a", "b", "q"], "a")] * 3 + [(["c", "d", "q"], "c")]  # docs/any_embeddings.md


@pytest.fixture
def orders(tmp_path):
    """Four orders of five words."""
    path = tmp_path / "orders.jsonl"
    path.write_text("".join(json.dumps({"tokens": x, "next": y}) + "\n" for x, y in ORDERS))
    return path


# Files


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i1"])
def test_the_one_matrix_of_a_safetensors_file_is_read_whatever_its_type(tmp_path, kind):
    E = (4 * FIVE).astype(kind)
    save_file({"bias": np.zeros(3), "wte": E}, tmp_path / "one.safetensors")
    (tmp_path / "link.safetensors").symlink_to(tmp_path / "one.safetensors")
    for name in (
        "one.safetensors",
        "link.safetensors",
        "one.safetensors:wte",
        "one.safetensors#wte",
    ):
        found = read_matrix(tmp_path / name, "embeddings")
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, 4 * FIVE)


def test_bfloat16_is_the_upper_half_of_float32(tmp_path):
    E = np.array([[1.0, -2.5], [0.125, 3.0]], np.float32)  # of few enough digits
    half = (E.view(np.uint32) >> 16).astype(np.uint16)
    header = json.dumps({"E": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}).encode()
    path = tmp_path / "E.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + half.tobytes())
    np.testing.assert_array_equal(read_matrix(path, "embeddings"), E)
    path.write_bytes(path.read_bytes()[:-2])  # cut off
    with pytest.raises(DataError, match="cannot be read as safetensors"):
        read_matrix(path, "embeddings")


@pytest.mark.parametrize(
    "name", ["two.safetensors", "two.safetensors:none", "two.safetensors#bias"]
)
def test_one_of_several_matrices_must_be_named(tmp_path, name):
    save_file({"wte": FIVE, "head": FIVE, "bias": np.zeros(3)}, tmp_path / "two.safetensors")
    with pytest.raises(DataError, match=r"(?s)head: 5 × 3.*wte: 5 × 3.*two\.safetensors:NAME"):
        read_matrix(tmp_path / name, "embeddings")


def test_a_pickle_is_no_safetensors_file(tmp_path):
    path = tmp_path / "E.safetensors"
    path.write_bytes(b"\x80\x04\x95" + bytes(100))
    with pytest.raises(DataError, match="cannot be read as safetensors"):
        read_matrix(path, "embeddings")


# Rows for words


@pytest.mark.parametrize("form", ["txt", "list.json", "table.json"])
def test_rows_stand_for_the_words_of_a_vocabulary(call, orders, tmp_path, form):
    words, path = "qabcd", tmp_path / form
    text = {
        "txt": "\n".join(words) + "\n",
        "list.json": json.dumps(list(words)),
        "table.json": json.dumps({word: words.index(word) for word in reversed(words)}),
    }
    path.write_text(text[form])
    save_file({"E": FIVE[[4, 0, 1, 2, 3]]}, tmp_path / "E.safetensors")
    options = [
        "--embeddings",
        tmp_path / "E.safetensors",
        "--vocabulary",
        path,
        "-o",
        tmp_path / "M",
    ]
    code, out, err = call("fit", orders, *options, "--json")
    assert code == 0, err
    said = json.loads(out)
    assert said["loss_floor"] == pytest.approx(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25)))
    assert said["embeddings"].endswith("5 vectors in 3 dimensions")
    assert open_model(tmp_path / "M").graph.vocabulary.labels == tuple(words)


@pytest.mark.parametrize("text", ["a\nb\n", "a\nb\nc\nd\nd\n", "[1.5]", '{"a": 1}'])
def test_a_vocabulary_that_does_not_fit_is_refused(tmp_path, text):
    np.save(tmp_path / "E.npy", FIVE)
    path = tmp_path / ("words.json" if text[0] in "[{" else "words.txt")
    path.write_text(text)
    with pytest.raises(DataError, match=r"one for each row is needed|a list of tokens is needed"):
        embeddings_source(tmp_path / "E.npy", path)


# Drawn


def test_drawn_vectors_have_length_one_and_depend_on_the_seed_alone():
    E = drawn_embeddings(30, 8, seed=3).E
    np.testing.assert_allclose(np.linalg.norm(E, axis=1), 1, rtol=1e-14)
    np.testing.assert_array_equal(E, drawn_embeddings(30, 8, seed=3).E)
    assert np.abs(E - drawn_embeddings(30, 8, seed=4).E).max() > 0.1
    for K, d, seed in [(5, 0, 0), (5, 2, -1), (10**6, 10**5, 0)]:
        with pytest.raises(UsageError, match=r"dimension|seed|drawn"):
            drawn_embeddings(K, d, seed)


@pytest.mark.parametrize("d", [2, 7])  # dependent, independent
def test_fit_draws_for_words_and_keeps_what_it_drew(call, orders, tmp_path, d):
    options = ["--dimension", d, "--seed", 5, "-o", tmp_path / "M", "--dense", "--json"]
    code, out, err = call("fit", orders, *options)
    assert code == 0, err
    said = json.loads(out)
    assert said["embeddings"] == f"drawn: unit vectors in {d} dimensions, seed 5"
    assert (
        said["embeddings"] == json.loads((tmp_path / "M" / "model.json").read_text())["embeddings"]
    )
    windows = read_windows(orders)
    limit = solve_limit(windows.samples(), drawn_embeddings(5, d, 5))
    kept = open_model(tmp_path / "M")
    np.testing.assert_array_equal(kept.embeddings.E, limit.embeddings.E)
    np.testing.assert_allclose(kept.svm.score, limit.svm.score, atol=1e-9)
    W = load_file(tmp_path / "M" / "arrays.safetensors")["W_fin"]
    np.testing.assert_allclose(W, limit.dense(limit.finite.coefficient), atol=1e-9)
    assert said["loss_floor"] == pytest.approx(limit.finite.loss_floor, abs=1e-12)
    for ask in (["predict"], ["explain"]):
        assert call(*ask, tmp_path / "M", "a", "b", "q")[0] == 0
    assert call("runs", "check", tmp_path / "M")[0] == 0


def test_train_draws_as_fit_does(call, orders, tmp_path):
    options = ["--dimension", 3, "--steps", 5, "-o", tmp_path / "R", "--json"]
    code, out, err = call("train", orders, *options)
    assert code == 0, err
    call("fit", orders, "--dimension", 3, "-o", tmp_path / "M")
    said, fitted = json.loads(out), open_model(tmp_path / "M")
    assert said["embeddings"] == "drawn: unit vectors in 3 dimensions, seed 0"
    assert said["loss_floor"] == pytest.approx(fitted.finite.loss_floor, abs=1e-12)
    code, out, _ = call("train", tmp_path / "M", "--steps", 5, "-o", tmp_path / "again", "--json")
    assert json.loads(out)["final"] == said["final"]
    code, _, err = call("train", tmp_path / "M", "--dimension", 3, "-o", tmp_path / "R")
    assert code == 2
    assert "leave out --dimension" in err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--dimension", 2, "--embeddings", "E.npy"], "give one of the two"),
        (["--dimension", 0], "at least 1"),
        (["--seed", 1], "goes with --dimension"),
        (["--vocabulary", "words.txt"], "name that file"),
        (["--dimension", 2, "--estimate"], "orthonormal"),
    ],
)
def test_options_that_do_not_go_together(call, orders, tmp_path, options, says):
    code, _, err = call("fit", orders, "-o", tmp_path / "M", *options)
    assert code == 2
    assert says in err


def test_the_estimator_draws_too():
    X, y = zip(*ORDERS, strict=True)
    model = NextTokenClassifier(dimension=2, random_state=5).fit(list(X), list(y))
    np.testing.assert_array_equal(model.limit_.embeddings.E, drawn_embeddings(5, 2, 5).E)
    same = NextTokenClassifier(dimension=2).fit(list(X), list(y))
    np.testing.assert_array_equal(same.limit_.embeddings.E, drawn_embeddings(5, 2).E)
    with pytest.raises(UsageError, match="one of the two"):
        NextTokenClassifier(dimension=2, embeddings=FIVE).fit(list(X), list(y))
