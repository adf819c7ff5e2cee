"""The probe on a model made by hand from a planted graph, on controls that must fail, and its command."""

import gzip
import json

import numpy as np
import pytest

from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading
from attomaton.errors import AssumptionError, DataError
from attomaton.jobs.probe import Asked, as_read, probe_attention, probe_model
from attomaton.probe.first_layer import refuse_cosine
from attomaton.probe.heads import even_head, heads_of_attention
from attomaton.probe.statistics import correlation, share
from attomaton.report.text.probe import in_words, probe_text
from attomaton.trained.folder import read_trained


@pytest.fixture(scope="module")
def one(models, corpus):
    return probe_model(models / "1", corpus, asked=Asked(pairs=400, contexts=60))


def test_a_model_that_knows_the_graph_agrees_and_controls_do_not(one):
    real, outranked, minimal = one.behaviour
    assert [x.contexts for x in one.behaviour] == ["real", "outranked", "minimal"]
    for found in (real, minimal):
        # The rest is attention too small to outweigh the last token itself.
        assert found.agreement.value > 0.93
        assert found.other_last.low < 0.5 < found.other_last.high + 0.1
        assert abs(found.shuffled.value - 0.5) < 0.2
        assert abs(found.untrained.value - 0.5) < 0.2
        assert found.ties.rank_low > 0.5
        assert found.ties_untrained.rank_low < 0.5
    assert one.strict_orders == real.agreement.cases
    assert sum(x.share.cases for x in real.by_evidence) == one.strict_orders
    assert 0 < outranked.agreement.cases <= one.strict_orders
    assert real.agreement.value > outranked.agreement.value
    assert len(real.wrong) == round((1 - real.agreement.value) * one.strict_orders)


def test_one_head_carries_the_order_where_there_is_one(one):
    assert one.first_layer.heads[0].value > 0.97
    assert one.first_layer.verdict == "head 0 of layer 0 carries the order"
    assert abs(one.first_layer.untrained.value - 0.5) < 0.2
    (head,) = one.heads
    assert head.retrieved.value > 0.9
    assert head.hits.value > 0.9
    assert head.retrieved.value > one.even.retrieved.value + 0.3


def test_where_heads_share_the_order_their_sum_carries_it(models, corpus):
    found = probe_model(models / "2", corpus, asked=Asked(pairs=400, contexts=20))
    assert all(x.value < 0.85 for x in found.first_layer.heads)
    assert found.first_layer.sum.value > 0.97
    assert "no single head" in found.first_layer.verdict


def test_a_cosine_is_refused_with_the_reason(call, models):
    with pytest.raises(AssumptionError, match="more tokens than dimensions"):
        refuse_cosine(3)
    code, _, err = call("probe", models / "1", "--cosine")
    assert code == 3
    assert "mixtures, not tokens" in err


def test_the_command_tells_what_the_record_holds(call, models, corpus, one, tmp_path):
    figure = tmp_path / "probe.svg"
    asked = ["probe", models / "1", "--text", corpus, "--pairs", 400, "--contexts", 60]
    code, out, _ = call(*asked, "--figure", figure)
    assert code == 0
    assert out == probe_text(one, 20) + "\n"
    assert "entropy / log keys" in figure.read_text(encoding="utf-8")
    code, out, _ = call(*asked, "--json")
    told = json.loads(out)
    assert told["behaviour"][0]["agreement"]["value"] == one.behaviour[0].agreement.value
    assert {x["sha256"] for x in told["files"]} == {x.sha256 for x in one.files}
    code, _, err = call("probe", models / "1")
    assert (code, "--text names the corpus" in err) == (2, True)


def test_tokens_the_model_does_not_know_are_counted_or_refused(models, corpus, tmp_path):
    path = tmp_path / "more.jsonl"
    path.write_text(corpus.read_text() + '{"tokens": ["new", "t4", "t0"], "next": "t4"}\n')
    found = probe_model(models / "1", path, asked=Asked(pairs=50, contexts=5))
    assert (found.unknown_tokens, found.windows) == (1, 1500)
    assert "does not know 1 token" in in_words(found)
    path.write_text('{"tokens": ["a", "b"], "next": "a"}\n')
    with pytest.raises(DataError, match="knows none of the 2 tokens"):
        probe_model(models / "1", path)


def test_a_corpus_is_read_as_what_it_holds(models, corpus, tmp_path):
    trained = read_trained(models / "1")
    rows, words = tmp_path / "rows.jsonl.gz", tmp_path / "words.txt.gz"
    rows.write_bytes(gzip.compress(corpus.read_bytes()))
    words.write_bytes(gzip.compress(b"t1 t2 t3 t4\n"))
    sets = tmp_path / "sets.data"
    sets.write_text("1 -1 2 -1 -2\n")
    for path, cut, apart in (
        (rows, False, False),
        ("example", False, False),
        (sets, True, False),
        (words, True, True),
    ):
        found = as_read(models / "1", trained, path, Reading())
        assert (found.context is not None, found.tokenizer is not None) == (cut, apart), path
    assert len(read_windows(rows, as_read(models / "1", trained, rows, Reading()))) == 1500


def test_measures_of_heads_are_those_of_loops():
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 3, (4, 6))
    scores = rng.normal(size=(4, 2, 3, 6, 6))
    seen = np.tri(6, dtype=bool)
    attention = np.where(seen, np.exp(scores), 0)
    attention /= attention.sum(-1, keepdims=True)
    heads = heads_of_attention(tokens, attention, scores)
    assert [(x.layer, x.head) for x in heads] == [(i, h) for i in range(2) for h in range(3)]
    x, a, s = heads[4], attention[:, 1, 1], scores[:, 1, 1]
    places = [(c, t) for c in range(4) for t in range(1, 6)]
    assert x.largest.value == pytest.approx(np.mean([a[c, t].max() for c, t in places]))
    entropy = [-sum(p * np.log(p) for p in a[c, t, : t + 1]) / np.log(t + 1) for c, t in places]
    assert x.entropy.value == pytest.approx(np.mean(entropy), rel=1e-5)
    assert x.previous.value == pytest.approx(np.mean([a[c, t, t - 1] for c, t in places]))
    assert x.first.value == pytest.approx(np.mean([a[c, t, 0] for c, t in places]))
    gaps = [np.sort(s[c, t, : t + 1])[-1] - np.sort(s[c, t, : t + 1])[-2] for c, t in places]
    assert x.margin == pytest.approx(np.quantile(gaps, [0.1, 0.5, 0.9]), rel=1e-5)
    for name, wanted in (
        ("same", lambda c, t, k: k < t and tokens[c, k] == tokens[c, t]),
        ("induction", lambda c, t, k: 0 < k <= t and tokens[c, k - 1] == tokens[c, t]),
    ):
        by_context = []
        for c in range(4):
            mass = [[a[c, t, k] for k in range(6) if wanted(c, t, k)] for t in range(6)]
            by_context.append(np.mean([sum(m) for m in mass if m]) if any(mass) else np.nan)
        assert getattr(x, name).value == pytest.approx(np.nanmean(by_context), rel=1e-5)
    even = even_head(tokens, None)
    assert even.entropy.value == pytest.approx(1.0)
    assert even.margin is None


def test_attention_of_other_programs_is_told_as_heads(tmp_path, call):
    even = np.tri(4) / np.arange(1, 5)[:, None]
    np.savez(
        tmp_path / "a.npz",
        attention=np.broadcast_to(even, (3, 2, 2, 4, 4)),
        tokens=np.zeros((3, 4), int),
    )
    found = probe_attention(tmp_path / "a.npz")
    assert len(found.heads) == 4
    assert found.heads[3].entropy.value == pytest.approx(1.0)
    code, out, _ = call("probe", tmp_path / "a.npz")
    assert code == 0
    assert "Attention alone was given" in out


def test_intervals_know_what_belongs_together():
    right = np.repeat([True, False], 50)
    apart, together = np.arange(100), np.repeat([0, 1], 50)
    assert share(right, together).high - share(right, apart).high > 0.3
    assert share(np.ones(10, bool), np.arange(10)).low == pytest.approx(0.7)
    rng = np.random.default_rng(0)
    luce = rng.normal(size=200)
    found = correlation(luce, 0.5 * luce, np.arange(200) % 9, 0)
    assert (found.rank, found.slope) == (pytest.approx(1), pytest.approx(0.5))
    noise = correlation(luce, rng.normal(size=200), np.arange(200) % 9, 0)
    assert noise.rank_low < 0 < noise.rank_high
