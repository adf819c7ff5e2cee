"""The hand-solved cases in `tests/cases`: every answer to 1e-9."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import samples_from_sequences
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.theory.limit import Limit, solve_limit

CASES = sorted((Path(__file__).parents[1] / "cases").glob("*.json"))

# Quadratic programs of a few variables: residuals of 1e-11 leave 1e-9 with room to spare.
EXACT = 1e-9


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def number(x: float | str) -> float:
    """A number, or a formula such as "log(3)/2" as one writes it by hand."""
    scope = {"__builtins__": {}, "log": math.log, "sqrt": math.sqrt}
    return float(eval(x, scope)) if isinstance(x, str) else float(x)


def solve(case: dict, *, count_repeats: bool = True, flip: bool = False) -> Limit:
    rows = [row["tokens"] for row in case["samples"]]
    labels = [row["next"] for row in case["samples"]]
    if not count_repeats:
        rows = [list(dict.fromkeys(row[::-1]))[::-1] for row in rows]  # the last token stays last
    if flip:
        labels = [next((x for x in row if x != y), y) for row, y in zip(rows, labels, strict=True)]
    weights = [float(row.get("weight", 1)) for row in case["samples"]]
    samples = samples_from_sequences(rows, labels, weights, Vocabulary(case["tokens"]))
    E = case.get("embeddings")
    return solve_limit(samples, None if E is None else check_embeddings(E, len(case["tokens"])))


def answers(limit: Limit, case: dict) -> tuple[list[float], list[float]]:
    """All numbers of a case, found and expected, in one order."""
    expected = case["expected"]
    found = [limit.finite.loss_floor, limit.svm.norm, limit.finite.norm]
    hand = [expected["loss_floor"], expected["svm_norm"], expected["finite_norm"]]
    for graph in expected["graphs"]:
        part = limit.graph.pairs_of(graph["last"])
        found += [*limit.svm.score[part], *limit.finite.log_pi[part]]
        hand += [*graph["svm"], *graph["log_pi"]]
    if "W_svm" in expected:
        found += [*limit.dense(limit.svm.coefficient).ravel()]
        hand += [x for row in expected["W_svm"] for x in row]
    return found, [number(x) for x in hand]


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_hand_solved(path):
    case = read(path)
    limit = solve(case)
    found, hand = answers(limit, case)
    np.testing.assert_allclose(found, hand, rtol=0, atol=EXACT)
    graphs = case["expected"]["graphs"]
    assert limit.graph.last_tokens.tolist() == [graph["last"] for graph in graphs]
    for graph in graphs:
        pairs = limit.graph.pairs_of(graph["last"])
        tokens, component = limit.graph.pair_token[pairs], limit.graph.component[pairs]
        parts = [
            {"level": int(limit.graph.level[c]), "tokens": tokens[component == c].tolist()}
            for c in np.unique(component)
        ]
        assert parts == graph["components"]


def test_every_case_of_the_theory_is_there():
    stems = {path.stem for path in CASES}
    assert {"chain", "cycle", "multiplicity", "mixed"} <= stems
    assert all(len(read(path)["description"]) > 40 for path in CASES)


@pytest.mark.parametrize("stem", ["multiplicity", "three-in-a-cycle", "two-bags"])
def test_control_ignoring_repeats_gives_other_odds(stem):
    case = read(next(path for path in CASES if path.stem == stem))
    found, hand = answers(solve(case, count_repeats=False), case)
    assert np.abs(np.subtract(found, hand)).max() > 0.1


@pytest.mark.parametrize("stem", ["chain", "cycle", "diamond", "skew-embeddings"])
def test_control_other_labels_give_other_answers(stem):
    case = read(next(path for path in CASES if path.stem == stem))
    found, hand = answers(solve(case, flip=True), case)
    assert np.abs(np.subtract(found, hand)).max() > 0.1
