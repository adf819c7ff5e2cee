"""Families of classes, classes from files, and the conditions of theorem S1."""

from pathlib import Path

import numpy as np
import pytest

from attomaton.errors import AssumptionError, DataError, UsageError
from attomaton.scan_snap import families
from attomaton.scan_snap.data import sequence_classes
from attomaton.scan_snap.families import (
    EXAMPLE,
    FAMILIES,
    conditions,
    correlation,
    family,
    random_overlap,
    read_classes,
    single_common,
    symmetric,
    syn_medium,
    syn_small,
)  # fmt: skip


def test_syn_small_is_the_published_table():
    classes = syn_small()
    # The authors' log prints 0.0645 for common tokens and 0.0065 … 0.0645 for distinct ones.
    np.testing.assert_allclose(classes.P[0, :10], 1 / 15.5)
    np.testing.assert_allclose(classes.P[1, 20:30], np.linspace(0.1, 1, 10) / 15.5)
    assert (classes.P[0, 20:] == 0).all()
    assert np.flatnonzero(classes.common).tolist() == list(range(10))
    assert classes.distinct.sum(axis=1).tolist() == [10, 10]


def test_syn_medium_has_two_next_tokens_for_each_query():
    classes = syn_medium(3)
    assert classes.query_of.tolist() == [70, 70, 71, 71, 72, 72]
    assert classes.next_of.tolist() == list(range(73, 79))
    assert len(classes.context_tokens) == 70


def test_symmetric_classes_differ_by_names_only():
    classes = symmetric(4, 3, 2, 0.4)
    np.testing.assert_allclose(classes.P[:, :2], 0.2)
    own = np.sort(np.where(classes.distinct, classes.P, 0), axis=1)
    np.testing.assert_allclose(own, np.tile(own[0], (4, 1)))
    assert len(classes.queries) == 1
    assert len(symmetric(4, 3, 2, 0.4, queries=2).queries) == 2


def test_single_common_token_weighs_what_is_asked():
    classes = single_common(2, 3, [0.2, 0.5])
    assert classes.common.sum() == 1
    np.testing.assert_allclose(classes.P[:, 0], [0.2, 0.5])


@pytest.mark.parametrize("overlap", [0.0, 0.3, 0.9])
def test_overlap_is_exact(overlap):
    classes = random_overlap(np.random.default_rng(0), 3, 4, overlap)
    np.testing.assert_allclose(classes.P[:, classes.common].sum(axis=1), overlap, atol=1e-15)


def test_names_give_families():
    assert {name: family(name).M for name in FAMILIES} == {
        "syn-small": 34, "syn-medium-1": 33, "syn-medium-3": 79, "syn-medium-5": 125,
        "syn-medium-10": 240, "symmetric": 22, "single-common": 20, "weak-overlap": 21,
    }  # fmt: skip
    with pytest.raises(UsageError, match="did you mean 'syn-small'"):
        family("syn-smal")


@pytest.mark.parametrize(
    "call",
    [
        lambda: syn_medium(0),
        lambda: symmetric(common_weight=1.0),
        lambda: symmetric(classes=2, queries=3),
        lambda: single_common(weight=0.0),
        lambda: single_common(classes=2, weight=[0.1, 0.2, 0.3]),
        lambda: random_overlap(np.random.default_rng(0), 2, 3, 1.0),
        lambda: random_overlap(np.random.default_rng(0), 2, 0, 0.5),
    ],
)
def test_families_that_make_no_sense(call):
    with pytest.raises(UsageError):
        call()


def test_correlation_by_hand():
    # f_1 = (1, 1, 0)/√2 and f_2 = (0, 1, 1)/√2: (I + E)⁻¹ = (1/0.75) [[1, −0.5], [−0.5, 1]]
    two = sequence_classes([[0.5, 0.5, 0, 0, 0, 0], [0, 0.5, 0.5, 0, 0, 0]], [3, 3], [4, 5])
    found = correlation(two)
    np.testing.assert_allclose(found.E, [[0, 0.5], [0.5, 0]], atol=1e-15)
    np.testing.assert_allclose(found.E_prime, np.array([[-1, 2], [2, -1]]) / 3, atol=1e-14)
    assert found.lambda_1 == pytest.approx(0.5)


def test_correlation_falls_when_attention_leaves_the_common_tokens():
    classes = syn_small()
    away = np.where(classes.common, -2.0, 0.0) * np.ones((2, 1))
    assert correlation(classes, away).lambda_1 < correlation(classes).lambda_1


def test_classes_with_one_law_have_no_inverse():
    same = sequence_classes([[0.5, 0.5, 0, 0, 0]] * 2, [2, 2], [3, 4])
    with pytest.raises(AssumptionError, match="linearly dependent"):
        correlation(same)


def test_conditions_of_s1():
    good = conditions(random_overlap(np.random.default_rng(0), 3, 40, 0.1), 0.5)
    assert all(c["holds"] for c in good.values())
    bad = conditions(syn_medium(10), 1.0)
    assert [c["holds"] for c in bad.values()] == [False, False, False, True]
    assert bad["large vocabulary"]["found"] == pytest.approx(240 / 400)
    assert not conditions(syn_small(), 0.01)["eta_y above M^-0.99"]["holds"]


GOOD = """
normalise = true
[[class]]
query = "q"
next = "a"
tokens = {the = 2, cat = 1, dog = 1}
[[class]]
query = "q"
next = "b"
tokens = {the = 1, fox = 3}
"""


def test_classes_from_a_file(tmp_path):
    path = tmp_path / "classes.toml"
    path.write_text(GOOD)
    classes = read_classes(path)
    assert classes.names == ("the", "cat", "dog", "fox", "q", "a", "b")
    np.testing.assert_allclose(classes.P[:, :4], [[0.5, 0.25, 0.25, 0], [0.25, 0, 0, 0.75]])
    assert classes.query_of.tolist() == [4, 4]
    assert classes.next_of.tolist() == [5, 6]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("normalise = true", ""), "weights add up to 4, not 1"),
        (("cat = 1", "cat = -1"), "weight -1 of 'cat'"),
        (("cat = 1", "cat = nan"), "weight nan of 'cat'"),
        (("cat = 1", 'cat = "1"'), "weight '1' of 'cat'"),
        (("the = 1, fox = 3", "the = 0"), "all weights are 0"),
        (("tokens = {the = 1, fox = 3}", "tokens = 3"), "tokens = 3: a table"),
        (("tokens = {the = 1, fox = 3}", "tokens = {}"), "a table of words"),
        (("tokens = {the = 1, fox = 3}", ""), "class 1: tokens is missing"),
        (('query = "q"\nnext = "b"', 'qeury = "q"\nnext = "b"'), "did you mean 'query'"),
        (("normalise = true", "normalize = true"), "did you mean 'normalise'"),
        (("normalise = true", "normalise = 1"), "true or false"),
        (('next = "b"', 'next = "a"'), "next token 'a' belongs to 2 classes"),
        (('next = "b"', "next = 3"), "next = 3: a word"),
        (("fox", "q"), "query 'q' is also a context token"),
        (("[[class]]", "class ="), "not TOML"),
    ],
)
def test_faults_in_a_file(tmp_path, change, message):
    path = tmp_path / "classes.toml"
    path.write_text(GOOD.replace(*change))
    with pytest.raises(DataError, match=message):
        read_classes(path)


def test_what_a_file_looks_like_is_shown_and_can_be_read(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "scan_snap.md"
    assert f"```toml\n{EXAMPLE}```" in page.read_text(encoding="utf-8")
    path = tmp_path / "classes.toml"
    path.write_text(EXAMPLE)
    assert read_classes(path).names == ("the", "cat", "fox", "q", "a", "b")
    for wrong in ("[[class]]\nquery = 1", "no toml"):
        path.write_text(wrong)
        with pytest.raises(DataError) as caught:
            read_classes(path)
        assert str(caught.value).endswith(f"A file of classes reads:\n{EXAMPLE}")


def test_a_file_without_classes_or_no_file(tmp_path):
    path = tmp_path / "empty.toml"
    path.write_text("")
    with pytest.raises(DataError, match="no classes"):
        read_classes(path)
    path.write_text('class = ["x"]')
    with pytest.raises(DataError, match="class 0: not a table"):
        read_classes(path)
    with pytest.raises(DataError, match="No such file"):
        read_classes(tmp_path / "missing.toml")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="not TOML"):
        read_classes(path)


def test_the_ladder_is_the_same_for_all_classes():
    assert families._ladder(2, 3).tolist() == [[0.1, 0.55, 1.0]] * 2
