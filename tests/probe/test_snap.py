"""A model over its checkpoints: when heads freeze, that a rate near 0 freezes nothing, and equal weights."""

import json
import shutil

import numpy as np
import pytest

from attomaton.errors import DataError, UsageError
from attomaton.jobs.probe import Asked
from attomaton.jobs.snap import digest, in_steps, snap_models
from attomaton.trained.fresh import fresh_weights
from attomaton.trained.write import gpt2_form, write_gpt2

FEW = Asked(pairs=150, contexts=40)


def test_heads_freeze_while_orders_are_learned_and_equal_weights_are_named(
    learned, corpus, tmp_path
):
    copy = tmp_path / "step-1000"
    shutil.copytree(in_steps(learned)[-1][1], copy)
    found = snap_models([*learned, copy], corpus, asked=FEW)
    assert [x.step for x in found.marks] == [*range(50, 401, 50), 1000]
    assert found.marks[-1].same_as == "step-400"
    assert found.duplicates == 1
    assert found.marks[-1].minimal.value > found.marks[0].minimal.value
    assert found.marks[-1].minimal.value > 0.85
    assert any(x.verdict == "froze" for x in found.courses)
    for x in found.courses:
        if x.frozen_at is not None:
            after = [m.entropy[0][x.head] for m in found.marks if m.step >= x.frozen_at]
            assert np.ptp(after) < 0.1


def test_a_rate_near_zero_freezes_nothing(checkpoints, corpus, tmp_path):
    found = snap_models(checkpoints(tmp_path, 1e-6), corpus, asked=FEW)
    assert {x.verdict for x in found.courses} == {"hardly moved"}


def test_a_duplicate_is_found_every_time(tmp_path):
    form = gpt2_form(5, 4, 1, 1, 4, hidden=4)
    for i in range(20):
        write_gpt2(tmp_path / f"step-{i}", form, fresh_weights(form, i))
        shutil.copytree(tmp_path / f"step-{i}", tmp_path / f"copy-{i}")
    one, two = ([digest(tmp_path / f"{name}-{i}") for i in range(20)] for name in ("step", "copy"))
    assert one == two
    assert len(set(one)) == 20


def test_the_command_tells_it(call, learned, corpus, tmp_path):
    asked = ["snap", *learned[:3], "--text", corpus, "--pairs", 60, "--contexts", 10]
    code, out, _ = call(*asked, "--figure", tmp_path / "snap.svg")
    assert code == 0
    assert "3 checkpoints of gpt2" in out
    assert "entropy / log keys" in (tmp_path / "snap.svg").read_text(encoding="utf-8")
    told = json.loads(call(*asked, "--json")[1])
    assert len(told["marks"]) == 3
    assert call("snap", learned[0], "--text", corpus)[0] == 2


def test_other_models_are_no_checkpoints(learned, models, corpus):
    with pytest.raises(DataError, match="another form"):
        snap_models([learned[0], models / "1"], corpus, asked=FEW)
    with pytest.raises(UsageError, match="at least two"):
        snap_models(learned[:1], corpus)
