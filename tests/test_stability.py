"""What would change: the commands `simulate`, `mix` and `diff`."""

import json

import pytest

from attomaton import (
    Automaton,
    build_graph,
    draw_samples,
    open_model,
    samples_from_sequences,
    save_model,
    solve_limit,
)
from attomaton.folders.differ.models import model_difference
from attomaton.numerics import named_rng


@pytest.fixture
def tea(tmp_path):
    """A model of two tokens, cake with odds 1/4 against tea after either."""
    rows = [["tea", "cake"], ["tea", "cake"], ["cake", "tea"], ["cake", "tea"]]
    samples = samples_from_sequences(rows, ["tea", "cake"] * 2, [4, 1, 4, 1])
    save_model(solve_limit(samples), tmp_path / "tea")
    return tmp_path / "tea"


def test_trajectories_are_told_beside_theory(call, tea, tmp_path):
    figure = tmp_path / "a.svg"
    words = ("simulate", tea, "tea", "cake", "--trajectories", 200, "--steps", 400)
    code, out, err = call(*words, "--trajectory", "--figure", figure)
    assert code == 0, err
    assert "the context grows" in out
    assert "-0.75" in out
    assert "trajectory 1: " in out
    assert "Fading beside" in figure.read_text()
    code, out, _ = call(*words, "--json")
    record = json.loads(out)
    assert record["fading"][0]["predicted"] == pytest.approx(-0.75)
    assert record["tokens"][0]["token"] == "tea"
    assert len(record["trajectory"]) == 400
    assert record["times"][-1] == 400
    assert len(record["predicted"]) == len(record["collapsed"]) == len(record["times"])


def test_a_window_says_so_and_has_no_theory(call, tea):
    code, out, _ = call("simulate", tea, "tea", "cake", "--window", 5, "--steps", 300)
    assert code == 0
    assert "the context is the last 5" in out
    assert "by theory\n" in out
    assert "slope" not in out


def test_unknown_tokens_of_a_prompt_are_marked(call, tea):
    code, out, _ = call("simulate", tea, "teq", "tea", "cake", "--steps", 10)
    assert code == 6
    assert "did you mean ‘tea’" in out
    code, _, err = call("simulate", tea, "tea", "teq")
    assert code == 3
    assert "no prediction" in err
    assert call("simulate", tea, "tea", "--steps", 0)[0] == 2


@pytest.fixture
def corpora(tmp_path):
    """Two files of contexts: A has tea over cake, B has cake over tea, once."""
    a, b = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    a.write_text('{"tokens": ["tea", "cake", "bell"], "next": "tea", "weight": 3}\n')
    b.write_text('{"tokens": ["cake", "tea", "jam", "bell"], "next": "cake"}\n')
    return a, b


def test_mixed_corpora_show_the_way_back(call, corpora, tmp_path):
    a, b = corpora
    code, out, err = call(
        "mix", a, b, "--figure", tmp_path / "m.svg", "--html", tmp_path / "m.html"
    )
    assert (code, err) == (0, "")
    assert "0 only in A, 1 (jam) only in B" in out
    assert "cake over tea (1 in B)" in out
    assert "“bell”" in (tmp_path / "m.svg").read_text()
    assert "The way back".lower() in (tmp_path / "m.html").read_text()


def test_models_and_files_are_mixed_alike(call, corpora, tmp_path):
    for file in corpora:
        assert call("fit", file, "-o", tmp_path / file.stem)[0] == 0
    models = tuple(tmp_path / file.stem for file in corpora)
    told = []
    for pair in (corpora, models, (corpora[0], models[1])):
        record = json.loads(call("mix", *pair, "--json")[1])
        for name, path in zip("ab", pair, strict=True):
            assert record[name].pop("name") == str(path)
        told.append(record)
    assert told[0] == told[1] == told[2]
    assert told[0]["a"]["orders"]["turn"] == told[0]["b"]["orders"]["turn"] == 1
    code, _, err = call("mix", *models, "--context", 4)
    assert code == 2
    assert "read already" in err


def test_a_file_is_read_as_the_model_beside_it(call, tmp_path):
    for name, words in (
        ("a", "the cat and the dog and the cat"),
        ("b", "the dog and the cat and the dog"),
    ):
        (tmp_path / f"{name}.txt").write_text(f"{words}\n" * 5)
    a, b, model = tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "model"
    assert call("fit", a, "--context", 4, "-o", model)[0] == 0
    one, two = (
        json.loads(call("mix", *x, "--json")[1]) for x in ((model, b), (a, b, "--context", 4))
    )
    assert one["b"] == two["b"]
    assert one["a"]["orders"] == two["a"]["orders"]


def two_models(folder, seed):
    """Two models of random data over tokens that not all are in both; and their samples."""
    made = []
    for name in "ab":
        rng = named_rng(f"two models, {name}", seed)
        drawn = draw_samples(rng, 5, 25, 4, repeats=True)
        words = rng.permutation(6)[:5].tolist()
        rows = [
            [f"t{words[x]}" for x, m in drawn.bag(i).items() for _ in range(m)]
            for i in range(len(drawn))
        ]
        lasts = [f"t{words[x]}" for x in drawn.last]
        for row, last in zip(rows, lasts, strict=True):
            row.remove(last)
            row.append(last)
        samples = samples_from_sequences(rows, [f"t{words[x]}" for x in drawn.label], drawn.weight)
        save_model(solve_limit(samples), folder / name)
        made.append(samples)
    return folder / "a", folder / "b", made


@pytest.mark.parametrize("seed", range(5))
def test_answers_of_two_models_are_compared_as_one_asks_them(tmp_path, seed):
    a, b, (x, y) = two_models(tmp_path, seed)
    told = model_difference(a, b)
    ask = [Automaton(open_model(folder)) for folder in (a, b)]
    for name, samples in (("of_a", x), ("of_b", y)):
        retrieved = likeliest = unanswered = 0
        same = 0.0
        for i in range(len(samples)):
            bag, last = samples.bag(i), samples.vocabulary[samples.last[i]]
            bag[last] -= 1
            context = [word for word, m in bag.items() for _ in range(m)] + [last]
            one, two = (automaton.predict_proba(context) for automaton in ask)
            if not one or not two:
                unanswered += 1
                continue
            kept = [{word for word, p in q.items() if p > 0} for q in (one, two)]
            retrieved += kept[0] != kept[1]
            same += samples.weight[i] * (kept[0] == kept[1])
            best = [{w for w, p in q.items() if p > max(q.values()) - 1e-9} for q in (one, two)]
            likeliest += not (best[0] & best[1])
        found = told.answers[name]
        assert found.contexts == len(samples)
        assert (found.retrieved, found.unanswered) == (retrieved, unanswered)
        assert found.likeliest >= likeliest
        assert found.same == pytest.approx(same / samples.weight.sum())


@pytest.mark.parametrize("seed", range(5))
def test_orders_that_two_models_rank_otherwise(tmp_path, seed):
    a, b, (x, y) = two_models(tmp_path, seed)
    told = model_difference(a, b, most=1000).orders
    one, two = build_graph(x), build_graph(y)
    expected = {"tied": set(), "apart": set(), "reversed": set()}
    for row in one.to_arrow().to_pylist():
        words = row["last"], row["from"], row["to"]
        k, i, j = map(one.vocabulary.id_of, words)
        other = [two.vocabulary.id_of(w) for w in words]
        if (
            None in other
            or two.pair(other[0], other[1]) is None
            or two.pair(other[0], other[2]) is None
        ):
            continue
        tied = two.tied(*other)
        if one.tied(k, i, j):
            expected["apart"] |= set() if tied else {words}
        elif tied:
            expected["tied"].add(words)
        elif two.to_networkx(words[0]).has_edge(words[2], words[1]):
            expected["reversed"].add(words)
    for name, some in expected.items():
        assert {(e.last, e.winner, e.loser) for e in told[name].examples} == some
        assert told[name].count == len(some)


def test_diff_is_a_command_of_its_own(call, tmp_path):
    a, b, _ = two_models(tmp_path, 0)
    code, out, _ = call("diff", a, b)
    assert code == 0
    assert "orders turned" in out
    assert "contexts of A" in out
    assert json.loads(call("diff", a, b, "--json")[1]) == json.loads(
        call("runs", "diff", a, b, "--json")[1]
    )
    assert "bit for bit" in call("diff", a, a)[1]
