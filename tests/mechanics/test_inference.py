"""Orders that a last token's data leave open: inferred from other last tokens, or left open."""

import json

import numpy as np
import pytest

from attomaton import infer, samples_from_sequences, solve_limit, train
from attomaton.claims.factorised import right, unrelated
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.errors import UsageError
from attomaton.mechanics.synthetic import draw_ordered
from attomaton.mechanics.theory.inference import DECIDED, FROM_OTHERS, UNDETERMINED

SHARED = [(["a", "b", "p"], "a"), (["a", "b", "r"], "a"), (["a", "q"], "a"), (["b", "q"], "b")]
HOW = {"factorised": True, "optimizer": "ngd", "steps": 1000, "seeds": 3}


def asked(rows, context, **how):
    samples = samples_from_sequences([x for x, _ in rows], [y for _, y in rows])
    run = train(samples, **{**HOW, **how})
    return infer(solve_limit(samples), run.factors, context), run


def test_an_order_that_other_last_tokens_agree_on_is_inferred():
    # After q nothing tells a from b: both only beat q. After p and r, a beats b.
    found, run = asked(SHARED, ["b", "a", "q"])
    assert (found.open, found.prediction) == (("a", "b"), "a")
    assert FROM_OTHERS in found.note
    (order,) = found.orders
    assert (order.winner, order.loser, order.agree, order.against) == ("a", "b", ("p", "r"), ())
    assert (order.samples, order.samples_against, order.starts) == (2.0, 0.0, 3)
    assert order.basis == FROM_OTHERS
    # Columns of W are last tokens: a, b, p, r, q are numbered as they appear.
    apart = run.W[:, 0, 4] - run.W[:, 1, 4]
    assert order.difference == pytest.approx(apart.mean())
    edges = [(0, 1, 2), (0, 2, 2), (0, 1, 3), (0, 3, 3), (0, 4, 4), (1, 4, 4)]
    usual = np.median([run.W[:, i, k] - run.W[:, j, k] for i, j, k in edges])
    assert order.relative == pytest.approx(apart.mean() / usual)
    assert (
        "a over b: inferred from other last tokens (so order it p, r, 2 samples; the other way none)"
        in order.words()
    )


def test_what_the_data_decide_is_not_inferred():
    found, _ = asked(SHARED, ["a", "b", "p"])
    assert (found.open, found.prediction, found.orders, found.note) == (("a",), "a", (), DECIDED)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([*SHARED[2:], (["c", "p"], "c")], "no other last token orders the pair"),
        ([(["a", "b", "p"], "b"), *SHARED[1:]], "other last tokens say the contrary"),
    ],
    ids=["nobody", "one each way"],
)
def test_an_order_that_others_do_not_decide_stays_undetermined(rows, why):
    found, _ = asked(rows, ["a", "b", "q"])
    assert found.prediction is None
    assert [x.basis for x in found.orders] == [f"{UNDETERMINED}, {why}"]


def test_starts_that_disagree_and_ties_stay_undetermined():
    found, run = asked(SHARED, ["a", "b", "q"])
    limit = solve_limit(samples_from_sequences(*zip(*SHARED, strict=True)))
    turned = run.factors.copy()
    turned[0, 0, [0, 1]] = turned[0, 0, [1, 0]]  # the keys of a and b of one start
    (order,) = infer(limit, turned, ["a", "b", "q"]).orders
    assert (order.starts, order.basis) == (2, f"{UNDETERMINED}, starts of training disagree")
    level = run.factors[0].copy()
    level[0, 1] = 0.999 * level[0, 0]
    (order,) = infer(limit, level, ["a", "b", "q"]).orders
    assert order.basis == f"{UNDETERMINED}, as good as a tie"
    assert found.orders[0].basis == FROM_OTHERS  # the control


def test_a_token_that_no_context_holds_stays_undetermined():
    contexts, labels = zip(*SHARED, strict=True)
    samples = samples_from_sequences(contexts, labels, None, Vocabulary("abprqz"))
    factors = train(samples, **HOW).factors
    found = infer(solve_limit(samples), factors, ["z", "a", "p"])
    assert (found.prediction, set(found.open)) == (None, {"a", "z"})
    assert found.orders[0].basis == f"{UNDETERMINED}, no other last token orders the pair"


def test_nothing_is_inferred_after_a_token_that_never_was_last():
    found, run = asked(SHARED, ["b", "a"])
    assert (found.prediction, found.open, found.orders) == (None, (), ())
    assert "Nothing was learned" in found.note
    limit = solve_limit(samples_from_sequences(*zip(*SHARED, strict=True)))
    with pytest.raises(UsageError, match=r"shape \(2, 5, rank\)"):
        infer(limit, run.factors[:, :, :4], ["a", "q"])


def test_inferred_orders_are_those_that_were_planted():
    """Pairs that a last token's graph leaves unrelated, asked one by one; and all of them by W, as the claim counts."""
    rights = []
    for seed in range(3):
        samples, place = draw_ordered(np.random.default_rng(seed), 8, 16, 4, shared=True)
        limit, run = solve_limit(samples), train(samples, **{**HOW, "seeds": 1, "steps": 4000})
        open_ = unrelated(samples)
        for k, i, j in np.argwhere(open_):
            found = infer(limit, run.factors, [int(i), int(j), int(k)])
            for order in found.orders:
                if {order.winner, order.loser} == {i, j} and order.inferred:
                    rights.append(place[k, order.winner] < place[k, order.loser])
        ordered, asked = right(run.W[0], place, open_)
        assert ordered / asked > 0.6
    assert len(rights) > 30
    assert np.mean(rights) > 0.8


def test_the_command_line_tells_the_two_apart(call, tmp_path):
    data, model = tmp_path / "data.jsonl", tmp_path / "M"
    data.write_text("\n".join(json.dumps({"tokens": x, "next": y}) for x, y in SHARED))
    assert call("fit", data, "-o", model)[0] == 0
    run = ["train", model, "-o", tmp_path / "R", "--optimizer", "ngd", "--steps", 1000]
    assert call(*run, "--factorised")[0] == 0
    for command in ("predict", "explain"):
        code, out, _ = call(command, model, "a", "b", "q", "--run", tmp_path / "R", "--json")
        said = json.loads(out)["inference"]
        assert (code, said["prediction"], said["orders"][0]["basis"]) == (0, "a", FROM_OTHERS)
        out = call(command, model, "a", "b", "q", "--run", tmp_path / "R")[1]
        assert "by keys and queries of rank 5 (1 start): 'a' comes." in out
        assert "a over b: inferred from other last tokens (so order it p, r, 2 samples;" in out
        assert "inference" not in json.loads(call(command, model, "a", "b", "q", "--json")[1])
    # A run of W itself infers nothing, and one on other data is refused.
    assert call(*run[:3], tmp_path / "P", "--steps", 5)[0] == 0
    code, _, err = call("explain", model, "a", "q", "--run", tmp_path / "P")
    assert code == 2
    assert "stays undetermined" in err
    data.write_text(data.read_text() + '\n{"tokens": ["a", "b", "q"], "next": "b"}')
    assert call("train", data, "-o", tmp_path / "O", "--factorised", "--steps", 5)[0] == 0
    code, _, err = call("predict", model, "a", "q", "--run", tmp_path / "O")
    assert code != 0
    assert "was trained on other data" in err
