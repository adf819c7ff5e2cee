"""The predictor on data frames and lists: every kind of table gives the same answers, those of the predictor itself."""

from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pytest

from attomaton import NextTokenPredictor, as_windows, tune
from attomaton.corpus.splits import split_windows
from attomaton.errors import DataError, NotFittedError, UsageError

SMALL = {"priors": ["main"], "lambdas": [1.0], "thetas": [0.5], "widen": 0}
KINDS = ["dictionary", "arrow", "pandas", "polars"]


def framed(kind, columns):
    """Columns as a table of some library."""
    if kind == "dictionary":
        return columns
    if kind == "arrow":
        return pa.table(columns)
    if find_spec(kind) is None:
        pytest.skip(f"{kind} is not installed")
    if kind == "pandas":
        import pandas as pd

        made = pd.DataFrame(columns)
        made["Activity"] = made["Activity"].astype("category")
        made["Complete Timestamp"] = pd.to_datetime(made["Complete Timestamp"], unit="s")
        return made.set_index(made.index[::-1])  # an index that is no help
    import polars as pl

    made = pl.DataFrame(columns)
    return made.with_columns(pl.from_epoch("Complete Timestamp", time_unit="s"))


@pytest.fixture(scope="module")
def columns(text):
    """Thirty users of twelve events each, the rows shuffled."""
    windows = text(0, 360)
    words = [windows.vocabulary[x] for x in windows.ids]
    rows = np.random.default_rng(0).permutation(360).tolist()
    return {
        "Case ID": [f"u{r // 12}" for r in rows],
        "Activity": [words[r] for r in rows],
        "Complete Timestamp": [1_700_000_000 + 1000 * r for r in rows],
    }


@pytest.fixture(scope="module")
def model(columns):
    return NextTokenPredictor(context=6, grid=SMALL).fit(columns)


def sequences(columns):
    rows = sorted(
        zip(columns["Complete Timestamp"], columns["Case ID"], columns["Activity"], strict=True)
    )
    found = {name: [] for name in dict.fromkeys(columns["Case ID"])}
    for _, name, item in rows:
        found[name].append(item)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_table_is_the_same_log(columns, model, kind):
    frame = framed(kind, columns)
    other = NextTokenPredictor(context=6, grid=SMALL).fit(frame)
    assert other.said_ == model.said_
    assert other.classes_.tolist() == model.classes_.tolist()
    contexts = list(sequences(columns).values())
    assert np.array_equal(other.predict_proba(contexts), model.predict_proba(contexts))
    # A table is asked about the end of each of its sequences, in the order in which they first appear.
    assert other.predict(frame).tolist() == model.predict(contexts).tolist()
    assert other.score(frame) == model.score(columns)


def test_it_answers_as_the_predictor_does(columns, model):
    windows = as_windows(columns, context=6)
    train, valid, how = split_windows(windows)
    assert (how.kind, model.said_) == ("time", (how.text(),))
    made = tune(train, valid, **SMALL)
    context = next(iter(sequences(columns).values()))[-6:]
    expected = made.predict_proba(context)
    p = model.predict_proba([context])[0]
    assert p == pytest.approx([expected[x] for x in model.classes_])
    assert p.sum() == pytest.approx(1 - expected[None])
    assert model.predict([context]).tolist() == [made.predict(context)]
    assert model.explain(context).prediction == made.predict(context)
    new = ["never", *context[:2], "never"]
    assert model.predict([new, context]).tolist() == [made.predict(new), made.predict(context)]
    hits = [
        model.predict([[windows.vocabulary[i] for i in windows.ids[a : a + n]]])[0] == windows.vocabulary[x]
        for a, n, x in zip(windows.left, windows.length, windows.label, strict=True)
    ]  # fmt: skip
    assert model.score(columns) == pytest.approx(np.mean(hits))


def test_lists_of_sequences_and_contexts_with_next_tokens(columns):
    lists = list(sequences(columns).values())
    model = NextTokenPredictor(context=6, grid=SMALL).fit(lists)
    assert "drawn at random" in model.said_[0]
    assert 0 < model.score(lists) < 1
    X = [row[i : i + 4] for row in lists for i in range(8)]
    y = [row[i + 4] for row in lists for i in range(8)]
    given = NextTokenPredictor(grid=SMALL).fit(X, y)
    assert given.said_[0].startswith("no --validate: chosen on 24 rows")
    assert given.score(X, y) == pytest.approx(np.mean(given.predict(X) == np.array(y)))
    inside = NextTokenPredictor(backoff=False, grid=SMALL).fit(X, y, validate=(X[:50], y[:50]))
    assert inside.said_ == ()
    assert inside.predict_proba(X[:1]).sum() == pytest.approx(1)
    realizable = [b in a for a, b in zip(X, y, strict=True)]
    hit = inside.predict(X)[realizable] == np.array(y)[realizable]
    assert inside.score(X, y) == pytest.approx(hit.mean())


def test_validation_data_that_go_on(columns):
    log = {k: np.array(v) for k, v in columns.items()}
    late = np.array([sorted(log["Complete Timestamp"][log["Case ID"] == c]).index(t) >= 8
                     for c, t in zip(log["Case ID"], log["Complete Timestamp"], strict=True)])  # fmt: skip
    one, two = ({k: v[x].tolist() for k, v in log.items()} for x in (~late, late))
    model = NextTokenPredictor(context=6, grid=SMALL).fit(one, validate=two)
    assert model.said_ == (
        "validation data: contexts reach back into the training data, where 30 sequences began",
    )
    assert model.predictor_.record["valid"]["windows"] == 120
    apart = NextTokenPredictor(context=6, grid=SMALL, history=False).fit(one, validate=two)
    assert apart.predictor_.record["valid"]["windows"] == 90


def test_what_makes_no_sense(columns, model):
    with pytest.raises(NotFittedError):
        NextTokenPredictor().predict([["a"]])
    with pytest.raises(DataError, match="no column 'sequence'"):
        NextTokenPredictor(grid=SMALL).fit({"a": [1], "b": [2]})
    with pytest.raises(UsageError, match="context"):
        NextTokenPredictor(context=0).fit(columns)
    with pytest.raises(UsageError, match="pair"):
        NextTokenPredictor(grid=SMALL).fit([["a", "b"]], ["a"], validate=[["a"]])
    with pytest.raises(UsageError, match="metric"):
        NextTokenPredictor(metric="x", grid=SMALL).fit(columns)
    with pytest.raises(UsageError, match="no parameter"):
        model.set_params(contxt=3)
    assert repr(NextTokenPredictor(context=5)) == "NextTokenPredictor(context=5)"
    assert model.get_params()["context"] == 6
