"""Runs of training side by side: what each learned, when, and where they differ from the exact limit."""

import json

import numpy as np
import pytest

from attomaton.claims.comparison import Point, Trained, compare
from attomaton.corpus.example import example_samples
from attomaton.corpus.windows import samples_from_sequences
from attomaton.disk.formats import read_arrays, read_json
from attomaton.errors import DataError, UsageError
from attomaton.jobs.compare import compare_runs
from attomaton.jobs.train import train_beside_theory, train_run
from attomaton.mechanics.experiment.arguments import first_parameters
from attomaton.mechanics.experiment.model import attention_of
from attomaton.mechanics.synthetic import draw_samples
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.numerics import named_rng
from attomaton.report.figures.comparison import comparison_figure
from attomaton.report.text.comparison import comparison_text, in_words


def mixed():
    """0 and 1 tie and outrank 2 and 3, after the last token 3: edges 0→1, 1→0 and four strict ones."""
    return solve_limit(samples_from_sequences([[0, 1, 2, 3]] * 3 + [[0, 1, 3]], [0, 0, 0, 1]))


def layer(name, score, learned):
    return Trained(name, "gradient descent", 10, np.array(score), np.array(learned, np.int32))


def test_a_case_solved_by_hand():
    limit = mixed()
    graph = limit.graph
    ends = [
        (int(graph.pair_token[graph.edge_from[i]]), int(graph.pair_token[graph.edge_to[i]]))
        for i in np.flatnonzero(graph.strict)
    ]
    assert ends == [(0, 2), (0, 3), (1, 3)]
    assert limit.finite.score[0] - limit.finite.score[1] == pytest.approx(np.log(3))
    good = layer("good", [5.0, 5.0 - np.log(3), 0.0, 0.0], [4, 2, 2])
    # 3 above 0, and 1 above all: 0 → 3 is wrong, the context 0 1 2 3 is answered by 1.
    bad = layer("bad", [1.0, 3.0, 0.0, 2.0], [3, -1, 7])
    found = compare(limit, [good, bad], "data")
    assert (found.priorities, found.samples, found.tied) == (3, 4, 1)
    assert (found.disputed, found.wrong, found.different) == (1, 0, 4)
    (dispute,) = found.disputes
    assert (dispute.last, dispute.winner, dispute.loser, dispute.weight) == (3, 0, 3, 3.0)
    assert dispute.margins == [5.0, -1.0]
    assert dispute.learned == [2, None]
    one, two = found.layers
    assert (one.right, one.half, one.all, one.answers) == (3, 2, 4, 4)
    assert (two.right, two.half, two.all, two.answers) == (2, 7, None, 0)
    assert one.curve == [Point(2, 2 / 3), Point(4, 1.0), Point(10, 1.0)]
    assert one.odds_worst == pytest.approx(0, abs=1e-12)
    assert two.odds_worst == pytest.approx(np.log(3) + 2)
    assert [(x.context, x.exact, x.given) for x in found.answers] == [
        ([0, 1, 2, 3], [0], [0, 1]),
        ([0, 1, 3], [0], [0, 1]),
    ]
    assert [x.learned[0] for x in found.late] == [4, 2, 2]
    assert one.order == pytest.approx(1)
    assert two.order == pytest.approx(-1)  # of the two that both learned
    assert "2 to 3 are right; about 1 the runs disagree" in in_words(found)
    table = [line for line in comparison_text(found).splitlines() if not line.endswith(".")]
    assert max(map(len, table)) <= 80
    assert comparison_figure(found).axes[0].get_lines()[0].get_ydata()[-1] == 1


def test_a_single_wrong_order_is_seen():
    limit = solve_limit(draw_samples(named_rng("compare", 0), 7, 20, 4))
    learned = np.zeros(int(limit.graph.strict.sum()), np.int32)
    exact = limit.svm.score * 50 + limit.finite.score
    found = compare(limit, [layer("exact", exact, learned)], "")
    assert (found.wrong, found.different) == (0, 0)
    assert found.layers[0].odds_worst in (None, pytest.approx(0, abs=1e-9))
    strict = np.flatnonzero(limit.graph.strict)
    a, b = limit.graph.edge_from[strict[0]], limit.graph.edge_to[strict[0]]
    planted = exact.copy()
    planted[a] = planted[b] - 1
    found = compare(limit, [layer("exact", exact, learned), layer("planted", planted, learned)], "")
    assert found.disputed >= 1
    token = limit.graph.pair_token
    assert (token[a], token[b]) in {(x.winner, x.loser) for x in found.disputes}
    assert found.layers[1].right < found.priorities


def test_answers_are_the_automatons():
    limit = solve_limit(example_samples())
    automaton, samples = Automaton(limit), limit.samples
    word = limit.graph.vocabulary
    wrong = compare(
        limit,
        [layer("x", -limit.svm.score, np.full(int(limit.graph.strict.sum()), -1))],
        "",
        top=100,
    )
    assert wrong.answers
    for answer in wrong.answers:
        context = [*answer.context, answer.last]
        bag = [x for x in answer.context if x != answer.last] + [
            answer.last
        ] * answer.context.count(answer.last)
        said = automaton.predict_proba(bag)
        best = max(said.values())
        assert {x for x, p in said.items() if p > best - 1e-9} == set(answer.exact), context
    assert all(x in word for answer in wrong.answers for x in answer.given)
    assert wrong.samples == samples.rows.sum()


def test_learning_is_followed_as_a_plain_loop_would():
    limit = solve_limit(example_samples())
    samples = limit.samples
    run = train_beside_theory(
        limit, steps=12, every=6, optimizer="sign", lr=0.2, init="uniform", seeds=2
    )
    strict = np.flatnonzero(limit.graph.strict)
    a, b = limit.graph.edge_from[strict], limit.graph.edge_to[strict]
    pair, owner = samples.pair_index()[1], samples.sample_of
    chosen = samples.token == samples.label[owner]
    # With twelve steps every one of them is looked at, though only 0, 6 and 12 are recorded.
    assert run.steps.tolist() == [0, 6, 12]
    for seed, score in enumerate(first_parameters("uniform", [samples], None, 2, 0)):
        since = np.full(len(strict), -1)
        for step in range(13):
            since = np.where(score[a] > score[b], np.where(since < 0, step, since), -1)
            slope = samples.weight[owner] * (attention_of(samples, score) - chosen)
            score = score - 0.2 * np.sign(np.bincount(pair, slope, len(score)))  # noqa: PLW2901
        assert np.array_equal(run.followed[seed], since)
        assert (since > 0).any()
    dense = train_beside_theory(limit, steps=12, every=6, optimizer="muon")
    W = dense.W[0][limit.graph.pair_token, limit.graph.pair_last]
    assert np.array_equal(dense.followed[0] >= 0, W[a] > W[b])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    data = folder / "a.jsonl"
    rng = named_rng("compare", 1)
    lines = [
        {"tokens": [f"w{x}" for x in s], "next": f"w{s[i % 2]}"}
        for i, s in enumerate(rng.integers(0, 5, (30, 4)).tolist())
    ]
    data.write_text("\n".join(map(json.dumps, lines)))
    other = folder / "b.jsonl"
    other.write_text("\n".join(map(json.dumps, lines[1:])))
    train_run(data, folder / "gd", steps=20)
    train_run(data, folder / "muon", steps=20, optimizer="muon", seeds=2, init="uniform")
    train_run(data, folder / "drawn", steps=20, dimension=8)
    train_run(other, folder / "other", steps=20)
    return folder


def test_runs_of_one_data_set_are_compared(runs, call):
    found = compare_runs([runs / "gd", runs / "muon", runs / "drawn"])
    assert [x.name for x in found.layers] == [
        str(runs / "gd"), f"{runs / 'muon'}, seed 0", f"{runs / 'muon'}, seed 1", str(runs / "drawn"),
    ]  # fmt: skip
    final = read_arrays(runs / "gd" / "state.safetensors")
    assert found.layers[0].right == (final["learned"] >= 0).sum()
    for layer in found.layers:
        assert 0 < layer.right <= found.priorities
    code, out, _ = call("compare", runs / "gd", runs / "drawn", "--json", "--html", runs / "c.html")
    told = json.loads(out)
    assert code == 0
    assert told["layers"][0]["right"] == found.layers[0].right
    page = (runs / "c.html").read_text(encoding="utf-8")
    assert "Where the runs disagree" in page
    assert "<svg" in page
    assert (
        comparison_text(compare_runs([runs / "gd"]))
        in call("compare", runs / "gd", "--top", "20")[1]
    )


def test_runs_of_other_data_are_refused_with_both_fingerprints(runs, call):
    a, b = (read_json(runs / x / "summary.json")["data_fingerprint"][:12] for x in ("gd", "other"))
    with pytest.raises(UsageError, match=f"data {a} .*data {b} "):
        compare_runs([runs / "gd", runs / "other"])
    assert call("compare", runs / "gd", runs / "other")[0] == 2
    with pytest.raises(DataError, match=f"data {b} here, {a} there"):
        compare_runs([runs / "gd"], data=runs / "b.jsonl")
    with pytest.raises(DataError, match="no such run folder"):
        compare_runs([runs / "nothing"])
    with pytest.raises(UsageError, match="at least one run"):
        compare_runs([])
    with pytest.raises(UsageError, match="12 are the most"):
        compare_runs([runs / "muon"] * 7)
