"""The stage: by hand, by plain loops, its certificate, sums of terms, where it gains and where nothing can."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize
from scipy.sparse import csr_array

from attomaton.corpus.reading import Reading
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import windows_from_streams
from attomaton.disk.holdings import KIND_FILE
from attomaton.disk.storage import seal
from attomaton.errors import DataError, SolverError
from attomaton.predictor.backoff import FAR, logit
from attomaton.predictor.bags import bag_of, bags_of
from attomaton.predictor.evidence import behind
from attomaton.predictor.learned import learned, order_after
from attomaton.predictor.model import Predictor
from attomaton.predictor.scoring import measure, over_vocabulary
from attomaton.predictor.stage import fit as fitting
from attomaton.predictor.stage.ablation import NONE, WHOLE, control, leave_each_out
from attomaton.predictor.stage.fit import cut_by_time, design_of, some_windows
from attomaton.predictor.stage.logit import Problem, logistic
from attomaton.predictor.stage.looking import look_at, matches
from attomaton.predictor.stage.model import SCORE
from attomaton.predictor.stage.terms import GROUPS
from attomaton.predictor.tune import tune
from attomaton.report.figures.reasons import bars as figure_bars
from attomaton.report.text.learned import learned_text, order_text
from attomaton.report.text.reasons import gate_parts, main_reason, reasons_text, story, whys

K, T = 10, 8
_ENDS = ("gate_least", "gate_largest")
WORDS = [f"w{i}" for i in range(K)]


def ordered(seed, sequences, each=30):
    """A language with an order: words come back after the word they came after, or follow the last but one."""
    rng = np.random.default_rng(seed)
    follow = np.random.default_rng(7).dirichlet(np.full(K, 0.2), size=(K, K))
    ids, starts = [], [0]
    for _ in range(sequences):
        text = rng.integers(0, K, 2).tolist()
        while len(text) < each:
            before = [i for i in range(max(1, len(text) - T), len(text)) if text[i - 1] == text[-1]]
            again = before and rng.random() < 0.4
            text.append(
                text[before[-1]] if again else int(rng.choice(K, p=follow[text[-2], text[-1]]))
            )
        ids += text
        starts.append(len(ids))
    return windows_from_streams(Vocabulary(WORDS), np.array(ids), np.array(starts), T, partial=True)


@pytest.fixture(scope="module")
def corpora():
    return ordered(0, 60), ordered(1, 60), ordered(2, 60)


@pytest.fixture(scope="module")
def predictor(corpora) -> Predictor:
    made = tune(
        *corpora[:2],
        reading=Reading(context=T),
        priors=["main+bigram"],
        lambdas=[1.0],
        thetas=[0.3],
    )
    assert made.stage is not None
    return made


# The solver


def simple(ridge=0.0):
    """Four windows of two tokens, the first of each marked; it wins three times."""
    X = csr_array(np.tile([[1.0], [0.0]], (4, 1)))
    return Problem(
        X, np.arange(0, 9, 2), np.array([0, 2, 4, 7]), np.full(4, 0.25), np.array([ridge]), np.zeros(1)
    )  # fmt: skip


def test_by_hand():
    # Three wins in four are odds of 3; with a ridge 1 the slope p − ¾ + w is 0 where w = ¾ − 1/(1 + e^−w).
    assert simple().solve(np.zeros(1), 1e-12).weight == pytest.approx([np.log(3.0)])
    w = simple(1.0).solve(np.array([5.0]), 1e-12).weight[0]
    assert w == pytest.approx(0.75 - 1 / (1 + np.exp(-w)), abs=1e-12)
    with pytest.raises(SolverError, match="residual"):
        simple(1.0).solve(np.array([5.0]), 0.0)


def drawn(seed=0, windows=30, features=6):
    rng = np.random.default_rng(seed)
    length = rng.integers(1, 6, windows)
    start = np.concatenate([[0], np.cumsum(length)])
    X = rng.standard_normal((start[-1], features)) * (rng.random((start[-1], features)) < 0.5)
    share = rng.random(windows)
    label_at = start[:-1] + rng.integers(0, length)
    return Problem(
        csr_array(X), start, label_at, share / share.sum(), rng.random(features) / 10,
        rng.standard_normal(features),
    )  # fmt: skip


def plain_loss(problem, w):
    z = problem.X @ w
    total = 0.0
    for i, at in enumerate(problem.label_at):
        mine = z[problem.start[i] : problem.start[i + 1]]
        total -= problem.share[i] * (z[at] - np.log(np.exp(mine).sum()))
    return total + 0.5 * (problem.ridge * (w - problem.centre) ** 2).sum()


def test_one_minimum_whatever_the_start_and_whoever_looks_for_it():
    problem, rng = drawn(), np.random.default_rng(1)
    for _ in range(3):
        w = rng.standard_normal(6)
        assert problem.point(w).loss == pytest.approx(plain_loss(problem, w), abs=1e-13)
        wrong = check_grad(lambda v: problem.point(v).loss, lambda v: problem.point(v).slope, w)
        assert wrong < 1e-6  # of forward differences with steps of 1e-8
    found = [problem.solve(start, 1e-11) for start in (np.zeros(6), np.full(6, 9.0))]
    assert found[0].weight == pytest.approx(found[1].weight, abs=1e-9)
    assert max(problem.residual(x.weight) for x in found) <= 1e-11
    other = minimize(lambda v: plain_loss(problem, v), np.zeros(6), tol=1e-10)
    assert found[0].weight == pytest.approx(other.x, abs=1e-4)
    assert found[0].loss <= other.fun + 1e-14


def test_the_logistic_regression_by_a_plain_loss():
    rng = np.random.default_rng(2)
    F = rng.standard_normal((200, 4))
    hit = rng.random(200) < 1 / (1 + np.exp(-F @ [1.0, -1, 0, 0.5]))
    found = logistic(F, hit, np.full(200, 1 / 200), 0.01)

    def plain(w):
        p = 1 / (1 + np.exp(-F @ w))
        return -np.log(np.where(hit, p, 1 - p)).mean() + 0.005 * (w**2).sum()

    other = minimize(plain, np.zeros(4), tol=1e-10)
    assert found.weight == pytest.approx(other.x, abs=1e-4)
    assert found.loss <= other.fun + 1e-14
    again = logistic(F, hit, np.full(200, 1 / 200), 0.01, start=np.full(4, 3.0))
    assert again.weight == pytest.approx(found.weight, abs=1e-8)


# What it sees


def test_matches_by_a_plain_loop():
    rng = np.random.default_rng(3)
    for context in (rng.integers(0, 3, n).tolist() for n in (1, 2, 7, 12)):
        found = matches(np.array([context[::-1], [*context[::-1]]]))[0, ::-1]
        for i in range(len(context)):
            k = 0
            while k < min(i, 5) and context[i - 1 - k] == context[-1 - k]:
                k += 1
            assert found[i] == k


def test_a_look_by_a_plain_loop(predictor, corpora):
    tables, asked = predictor.stage.tables, corpora[2]
    rows = np.arange(0, len(asked), 37)
    bags = bags_of(asked, rows)
    look = look_at(bags, predictor.tuned(bags), tables)
    for i in range(len(rows)):
        context = bags.recent()[i][bags.recent()[i] >= 0][::-1]
        match = matches(context[::-1][None])[0, ::-1]
        for at in range(bags.start[i], bags.start[i + 1]):
            places = np.flatnonzero(context == bags.token[at])
            assert look.match[at] == match[places].max()
            left = tables.kin.left
            like = [float(left[context[j - 1]] @ left[context[-1]]) if j else 0.0 for j in places]
            assert look.alike[at] == pytest.approx(max(like), abs=1e-6)
    alone = bag_of(bags.context[: bags.length[0]])
    one = look_at(alone, predictor.tuned(alone), tables)
    assert one.p == pytest.approx(look.p[: len(one.p)])


def test_validation_windows_are_cut_by_time_and_between_sequences(corpora, text):
    valid = corpora[1]
    cut = cut_by_time(valid)
    sequence = valid.sequence_of(valid.source)
    assert sequence[cut - 1] < sequence[cut]
    assert 0.5 < valid.realizable[:cut].sum() / valid.realizable.sum() < 0.7
    one = text(0, 300)  # a single sequence is cut in the middle
    assert 0.5 < cut_by_time(one) / len(one) < 0.8
    assert len(some_windows(one, slice(0, 50))) == 50


# The stage


def test_new_words_alone_do_not_carry_the_gate_away(predictor, corpora):
    """No window to validate on was without a known word: how far the gate may go is what those windows show."""
    bags = bags_of(corpora[1], np.arange(len(corpora[1])))
    g = predictor.mixture(bags).gate
    for context in (["x"], ["x", "x"], ["x", "y", "x"], ["x", "y", "z", "v"] * 2):
        told = predictor.explain(context)
        assert g.min() / 10 < told.gate < 1 - (1 - g.max()) / 10
        assert sum(told.gate_terms.values()) == pytest.approx(logit(np.array([told.gate]))[0])
    # Control: held nowhere, as it was, the same gate is as sure as can be of what it has never seen.
    gate, far = predictor.stage.gate, np.full(len(predictor.stage.gate.mean), FAR)
    free = replace(predictor.stage, gate=replace(gate, least=-far, largest=far))
    sure = replace(predictor, stage=free).explain(["x", "y", "x"]).gate
    assert min(sure, 1 - sure) < 1e-6
    assert replace(predictor, stage=free).mixture(bags).gate == pytest.approx(g, abs=1e-12)


def test_the_certificate_is_that_of_the_weights(predictor, corpora):
    stage, record = predictor.stage, predictor.record["stage"]
    valid = corpora[1]
    design = design_of(valid, np.flatnonzero(valid.realizable), predictor.tuned, stage.tables)
    problem = design.problem(record["groups"])
    kept = np.concatenate([[stage.slope], *stage.weight.values()])
    assert problem.residual(kept) <= 1e-8
    assert record["gradient"] <= record["tolerance"] == 1e-8
    assert record["gate_gradient"] <= 1e-8
    rng = np.random.default_rng(0)
    other = problem.solve(rng.standard_normal(len(kept)), 1e-9)
    assert other.weight == pytest.approx(kept, abs=1e-4)  # weights that are hardly used are flat
    assert other.loss == pytest.approx(problem.point(kept).loss, abs=1e-12)
    # Control: weights that are not the minimum have no certificate.
    assert problem.residual(kept + 0.01) > 1e-6


def test_a_design_takes_four_bytes_for_each_column(predictor, corpora):
    valid = corpora[1]
    rows = np.flatnonzero(valid.realizable)
    X = design_of(valid, rows, predictor.tuned, predictor.stage.tables).matrix([SCORE, *GROUPS])
    assert X.indices.dtype == X.indptr.dtype == np.int32


def test_terms_add_up_to_the_log_odds(predictor, corpora):
    asked = corpora[2]
    for i in range(0, len(asked), 240):
        ids = asked.ids[asked.left[i] : asked.left[i] + asked.length[i]]
        context = [WORDS[x] for x in ids]
        bags = bag_of(ids)
        mine = dict(zip(bags.token, predictor.log_weights(bags), strict=True))
        for backoff in (True, False):
            told = predictor.explain(context, backoff)
            for term in told.terms:
                assert term.score == pytest.approx(mine[WORDS.index(term.token)], abs=1e-10)
                assert set(term.stage) == set(predictor.stage.weight)
            p = predictor.predict_proba(context, backoff)
            if (c := told.against) is not None:
                assert c.winner == predictor.predict(context, backoff)
                first, second = sorted((v for x, v in p.items() if x is not None))[:-3:-1]
                assert (p[c.winner], p[c.runner_up]) == (first, second)
                assert c.log_odds == pytest.approx(np.log(first / second), abs=1e-10)
                assert sum(s.difference for s in c.shares) == pytest.approx(c.log_odds, abs=1e-10)
                assert (c.winner_inside, c.runner_up_inside) == (
                    c.winner in context,
                    c.runner_up in context,
                )
            if backoff:
                total = sum(told.gate_terms.values())
                assert total == pytest.approx(logit(np.array([told.gate]))[0], abs=1e-9)
            json.dumps(told.record())


def test_facts_are_those_of_the_context(predictor, corpora):
    words = ["w1", "w2", "w3", "w4", "w1", "w2"]
    facts = {f.token: f for f in predictor.explain(words, backoff=False).against.facts}
    told = predictor.explain(words, backoff=False)
    assert set(facts) == {told.against.winner, told.against.runner_up}
    for token, fact in facts.items():
        assert fact.distance == words[::-1].index(token) + 1
        assert fact.count == words.count(token)
        if token == "w3":
            assert (fact.matched, fact.match_distance) == (("w1", "w2"), 4)
        assert [len(g.history) for g in fact.grams] == list(range(len(fact.grams)))
        assert fact.grams[0].of == len(corpora[0])
        assert all(g.history == tuple(words[len(words) - len(g.history) :]) for g in fact.grams)
        assert all(0 <= g.times <= g.of for g in fact.grams)
    assert "w3" in facts


def test_the_story_adds_up_and_tells_the_facts(predictor, corpora):
    asked, kinds = corpora[2], set()
    for i in range(0, len(asked), 23):
        ids = asked.ids[asked.left[i] : asked.left[i] + asked.length[i]]
        for made in (predictor, replace(predictor, stage=None)):
            told = made.explain([WORDS[x] for x in ids])
            c, why = told.against, whys(told)
            kinds.add((c.winner_inside, c.runner_up_inside, made is predictor))
            assert sum(w.share for w in why) == pytest.approx(c.log_odds, abs=1e-10)
            assert [abs(w.share) for w in why] == sorted((abs(w.share) for w in why), reverse=True)
            assert all(w.words for w in why)
            text = "\n".join(story(told))
            assert reasons_text(told).startswith(text)
            assert f"why '{c.winner}' and not '{c.runner_up}': log-odds {c.log_odds:+.2f}" in text
            where = "one of the context's tokens" if told.inside else "a token outside the context"
            assert main_reason(told).startswith(f"'{told.prediction}': {where}")
            bars = figure_bars(told)
            assert bars[-1].share == pytest.approx(sum(b.share for b in bars[:-1]), abs=1e-10)
            parts = gate_parts(told)
            assert sum(parts.values()) == pytest.approx(sum(told.gate_terms.values()), abs=1e-10)
    assert {x[:2] for x in kinds if x[2]} == {(a, b) for a in (True, False) for b in (True, False)}


def test_facts_in_words(predictor):
    told = predictor.explain(["w1", "w2", "w3", "w4", "w1", "w2"], backoff=False)
    words = {w.term: w.words for w in whys(told)}
    if "induction" in words:
        assert "'w3' followed 'w1 w2' 4 places back" in words["induction"]
    w, u = told.against.facts
    g, other = [x for x in zip(w.grams, u.grams, strict=True) if x[0].times + x[1].times][-1]
    seen = f"in {g.times:g} of {g.of:g} training windows, '{u.token}' in {other.times:g}"
    assert f"came '{w.token}' {seen}" in words["n-grams"]
    alone = predictor.explain(["w1"], backoff=False)
    assert whys(alone) == ()
    assert "no other token can come next" in reasons_text(alone)
    assert "0" not in main_reason(alone)


def test_windows_behind_the_counts(predictor, corpora):
    train, asked = corpora[0], corpora[2]
    for i in range(0, len(asked), 97):
        context = [WORDS[x] for x in asked.ids[asked.left[i] : asked.left[i] + asked.length[i]]]
        told = predictor.explain(context)
        seen = {f.token: [g for g in f.grams if g.times and g.history] for f in told.against.facts}
        for b in behind(told, train, most=10**6):
            rows = [row.context for row in b.rows]
            assert b.windows == len(rows)
            if b.kind == "n-grams" and seen[b.token]:
                g = seen[b.token][-1]
                assert (b.history, b.windows) == (g.history, g.times)
                words = tuple(x for x in b.history if x is not None)
                assert all(row[-len(words) :] == words for row in rows)
            if b.kind == "learned":
                assert all(row[-1] == context[-1] and b.token in row for row in rows)
    assert len(behind(told, train, most=1)[0].rows) <= 1


def test_what_was_learned_by_plain_counts(predictor, corpora):
    found, train = learned(predictor, top=1000), corpora[0]
    assert {g.name for g in found.groups if g.kept} == set(predictor.stage.weight)
    assert sum(g.weights for g in found.groups) + 1 == predictor.record["stage"]["weights"]
    rows = [
        (*(WORDS[x] for x in train.ids[a + n - 2 : a + n]), WORDS[y])
        for a, n, y in zip(train.left, train.length, train.label, strict=True)
        if n > 1
    ]
    for t in found.telling[:20]:
        assert t.times == rows.count((*t.history, t.token))
        assert t.of == sum(row[:2] == t.history for row in rows) >= 5
        assert t.times / t.of > t.after_last / t.of_last
    assert len({abs(p.learned) for p in found.strongest}) > 1
    text = learned_text(found)
    assert all(g.name in text for g in found.groups)
    order = order_after(predictor, "w3", top=4)
    bags = bag_of(np.array([WORDS.index(t.token) for t in order.tokens] + [3]))
    score = dict(zip(bags.token, predictor.tuned(bags), strict=True))  # each stands once
    for t in order.tokens:
        if t.token != "w3":
            assert t.score == pytest.approx(score[WORDS.index(t.token)], abs=1e-10)
    assert order.of == sum(train.ids[train.left + train.length - 1] == 3)
    assert "came next" in order_text(order)
    with pytest.raises(DataError, match="vocabulary"):
        order_after(predictor, "unheard")


def test_order_pays_and_is_asked_alike_one_by_one_and_together(predictor, corpora):
    asked = corpora[2]
    bags = bags_of(asked, np.flatnonzero(asked.realizable))
    tuned, stage = (
        measure(bags, bags.shares(score(bags)))
        for score in (predictor.tuned, predictor.log_weights)
    )
    assert stage.loss.mean() < tuned.loss.mean() - 0.1
    assert stage.top1.mean() > tuned.top1.mean()
    whole = over_vocabulary(asked, predictor)["predictor"]
    before = over_vocabulary(asked, replace(predictor, stage=None))["predictor"]
    assert whole.loss.mean() < before.loss.mean() - 0.1
    for i in range(0, len(asked), 97):
        ids = asked.ids[asked.left[i] : asked.left[i] + asked.length[i]]
        p = predictor.predict_proba([WORDS[x] for x in ids])
        assert sum(p.values()) == pytest.approx(1)
        assert whole.loss[i] == pytest.approx(-np.log(p[WORDS[asked.label[i]]]))


def test_each_group_left_out_and_controls_in_which_nothing_can_be_gained(predictor, corpora):
    rows = {row.name: row for row in leave_each_out(predictor, *corpora[1:])}
    groups = list(predictor.stage.weight)
    assert set(rows) == {WHOLE, NONE, *(f"{w} {g}" for w in ("without", "only") for g in groups)}
    assert rows[WHOLE].log_loss_more == 0
    assert rows[NONE].log_loss_more > 5 * rows[NONE].log_loss_more_error
    assert max(row.log_loss_more for row in rows.values()) > 0
    for found in control(predictor, *corpora[1:], np.random.default_rng(0)):
        assert found.gain < 2 * found.error, found.name


def test_where_nothing_pays_there_is_no_stage(predictor, corpora):
    # Labels drawn from the tuned scores themselves: whatever is put on top, it cannot pay.
    from attomaton.predictor.stage.ablation import with_labels

    train, valid, _ = corpora
    null = with_labels(
        some_windows(valid, np.flatnonzero(valid.realizable)),
        predictor.tuned,
        np.random.default_rng(4),
    )
    found, record = fitting.fit_stage(
        train, null, cut_by_time(null), predictor.tuned, predictor.gate, predictor.stage.tables.kin,
        null.sequence_of(null.source),
    )  # fmt: skip
    assert found is None
    assert "no group of terms pays" in record.reason
    few = tune(
        train, some_windows(valid, slice(0, 300)), priors=["main"], lambdas=[1.0], thetas=[0.3]
    )
    assert few.stage is None
    assert "500 are needed" in few.record["stage"]["reason"]
    left = tune(*corpora[:2], priors=["main"], lambdas=[1.0], thetas=[0.3], stage=False)
    assert (left.stage, left.record["stage"]["reason"]) == (None, "not asked for")


def test_round_trip_and_folders_of_before(predictor, tmp_path):
    folder = tmp_path / "predictor"
    predictor.save(folder)
    opened = Predictor.open(folder)
    contexts = (["w1", "w2", "w1"], ["w7"], ["unheard", "w3", "w3"], ["w1", "w2", "w3"] * 5)
    for context in contexts:
        assert opened.predict_proba(context) == predictor.predict_proba(context)
        assert opened.explain(context) == predictor.explain(context)
    assert opened.record == json.loads(json.dumps(predictor.record))
    # A gate that does not say how far it was fitted is held nowhere, and can be kept again.
    told = {x: v for x, v in predictor.stage.arrays().items() if x not in _ENDS}
    stage = type(predictor.stage).from_arrays(folder, told, K)
    assert (stage.gate.largest == FAR).all()
    assert (stage.gate.least == -FAR).all()
    # As version 2 was: no stage, no word about one.
    (folder / "stage.safetensors").unlink()
    for name, change in (("predictor.json", "stage"), (KIND_FILE, None)):
        record = json.loads((folder / name).read_text())
        record.pop(change, None)
        record |= {"schema_version": 2} if change is None else {}
        (folder / name).write_text(json.dumps(record))
    seal(folder)
    before = Predictor.open(folder)
    assert before.stage is None
    plain = replace(predictor, stage=None)
    for context in contexts:
        assert before.predict_proba(context) == plain.predict_proba(context)


def test_damaged_stages_are_refused(predictor, tmp_path):
    good = predictor.stage.arrays()
    name = f"weight {next(iter(predictor.stage.weight))}"
    for harm in ({name: good[name][1:]}, {"slope": np.zeros(2)}, {"kin_right": good["kin_left"][1:]},
                 {"gate_spread": -good["gate_spread"]}, {"gate_mean": good["gate_mean"][1:]}):  # fmt: skip
        with pytest.raises(DataError, match=r"stage\.safetensors"):
            type(predictor.stage).from_arrays(tmp_path / "stage.safetensors", good | harm, K)


def test_what_was_kept_is_not_made_again(predictor, corpora):
    made, shelf = [], {}

    def keep(name, make):
        if name not in shelf:
            made.append(name)
            shelf[name] = make()
        return shelf[name]

    asked = {"priors": ["main+bigram"], "lambdas": [1.0], "thetas": [0.3], "keep": keep}
    first, second = (tune(*corpora[:2], **asked) for _ in "ab")
    assert made == ["stage-groups", "stage-weights"]
    for a, b in zip(first.stage.arrays().values(), second.stage.arrays().values(), strict=True):
        assert (a == b).all()
    assert first.record["stage"] == second.record["stage"] == predictor.record["stage"]
    assert set(first.record["stage"]["groups"]) <= set(GROUPS)
    assert SCORE not in first.record["stage"]["groups"]
    # Without time no price is tried: all groups at the prices they come with, judged as a whole, and kept apart.
    hurried = tune(*corpora[:2], **asked, minutes=1e-6).record["stage"]
    assert made[2:] == ["stage-groups-in-6e-05-seconds", "stage-weights-in-6e-05-seconds"]
    assert (hurried["not_tried"], hurried["trials"]) == (list(GROUPS), [])
    assert hurried["groups"] == {name: group.price for name, group in GROUPS.items()}
    assert first.record["stage"]["not_tried"] == []
