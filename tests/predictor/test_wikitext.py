"""WikiText-2: fitted on the head of `valid.txt`, chosen on what follows, judged on the head of `test.txt`."""

import numpy as np

from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading
from attomaton.corpus.windows import windows_from_streams
from attomaton.predictor.scoring import score_predictor
from attomaton.predictor.tune import tune


def part(windows, begin, end):
    ids = windows.ids[begin:end]
    return windows_from_streams(windows.vocabulary, ids, np.array([0, len(ids)]), 32, partial=False)


def test_beats_the_baselines_on_unseen_text(wikitext):
    text, unseen = (
        read_windows(wikitext / f"{name}.txt", Reading(context=32)) for name in ("valid", "test")
    )
    predictor = tune(
        part(text, 0, 60_000), part(text, 60_000, 80_000), reading=Reading(context=32),
        priors=["main+bigram+kin"], lambdas=[1.0, 2.0, 4.0], thetas=[0.2],
    )  # fmt: skip
    result = score_predictor(predictor, part(unseen, 0, 60_000)).realizable
    rows = {row.name: row for row in result.rows}
    for name in ("unigram", "most recent", "bigram", "bigram, smoothed", "bigram, mixed"):
        row = rows[name]
        if np.isfinite(row.log_loss):
            # By more than chance: three standard errors of the paired difference.
            assert row.log_loss_more > 3 * row.log_loss_more_error, name
        assert row.top1_more < 0, name
    assert rows["bigram"].impossible > 0.05
    assert predictor.record["certificates"]["gradient"] <= 1e-8
