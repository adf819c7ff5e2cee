"""Linear decoders: how they are drawn, what separates them in the plane, both figures, and the claim's own failures."""

import numpy as np
import pytest

from attomaton.claims import linear_decoder, published
from attomaton.errors import AttomatonError
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.results import Verdict

SMALL = {"n": 200, "m": 6, "d": 8, "V": 4, "S": 2, "steps": 300, "seeds": 2}


def entropy(P):
    p = P / P.sum(axis=1, keepdims=True)
    return float(-(P * np.log(np.where(P > 0, p, 1.0))).sum() / P.sum())


def widest(H):
    angle = np.sort(np.degrees(np.arctan2(H[:, 1], H[:, 0])))
    return max(*np.diff(angle), 360 - np.ptp(angle))


def test_draws_have_the_published_sizes_and_its_entropy():
    drawn = [linear_decoder.draw("entropies", i, 5000, 50, 60, 10, 6)[1] for i in range(200)]
    for P in drawn:
        assert ((P > 0).sum(axis=1) == 6).all()
        assert abs(P.sum() - 5000) <= 50
    found = [entropy(P) for P in drawn]
    assert np.mean(found) == pytest.approx(sum(1 / k for k in range(2, 7)), abs=0.01)
    assert abs(np.mean(found) - linear_decoder.ENTROPY) <= np.std(found)


def test_the_plane_has_the_published_supports_and_entropy():
    """Word 3 comes after A alone, the others after two contexts each, 1 and 5 after the same."""
    for i in range(5):
        H, P = linear_decoder.draw_plane(i, linear_decoder.ENTROPY_1)
        assert entropy(P) == pytest.approx(linear_decoder.ENTROPY_1, abs=5e-5)
        assert widest(H) <= linear_decoder.WIDEST
        assert (P > 0).sum(axis=0).tolist() == [2, 2, 1, 2, 2]
        assert np.array_equal(P[:, 0] > 0, P[:, 4] > 0)
        assert P[0, 2] > 0


def test_in_the_plane_contexts_are_separable_if_they_surround_the_origin():
    """Then the entropy is reached and all margins are had; else the limit is another one."""
    rng = np.random.default_rng(12)
    seen = set()
    for _ in range(16):
        H, P = rng.standard_normal((3, 2)), linear_decoder.draw_plane(0, 1.0)[1]
        limit = solve_limit(queries=H, support=P)
        score = H @ limit.dense(limit.svm.coefficient).T
        margin = min(s[p > 0].min() - s[p == 0].max() for s, p in zip(score, P, strict=True))
        around = widest(H) < 180
        seen.add(around)
        assert (margin > 0.99) == around
        assert (limit.finite.loss_floor < entropy(P) + 1e-9) == around
    assert seen == {True, False}


def test_the_figure_of_three_optimisers():
    result = linear_decoder.fig4(**SMALL)
    drawn = [linear_decoder.draw("ntp-fig4", i, 200, 6, 8, 4, 2)[1] for i in range(2)]
    assert [c["optimizer"] for c in result["curves"]] == ["gd", "gd", "ngd", "ngd", "adam", "adam"]
    for c in result["curves"]:
        assert c["entropy"] == pytest.approx(entropy(drawn[c["seed"]]), abs=1e-12)
        assert c["loss_gap"][-1] < c["loss_gap"][0]
        assert c["cosine_outside"][-1] > max(0.5, abs(c["control"]))
    assert result["verdict"] == result["control"] == "fails"  # another entropy
    panels = published.ntp_fig4_panels(result)
    assert [x.label for x in panels[0].lines] == ["gd", "ngd", "adam"]
    assert panels[-1].lines[-1].y == [1.445, 1.445]
    assert len(published.curves_table(result)["step"]) == 6 * len(result["curves"][0]["step"])


def test_the_figure_in_the_plane():
    result = linear_decoder.fig1(seeds=2)
    assert (result["verdict"], result["control"]) == ("holds", "fails")
    W_mm, path = np.array(result["W_mm"]), np.array(result["path"])
    assert W_mm[0] == pytest.approx(W_mm[4], abs=1e-9)
    end = path[..., -1] / np.linalg.norm(path[..., -1])
    assert (end * W_mm).sum() / np.linalg.norm(W_mm) == pytest.approx(
        result["curves"][0]["cosine_outside"][-1], abs=1e-9
    )
    assert len(published.ntp_fig1_panels(result)) == 6


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"S": 4}, {"m": 0}, {"n": 0}):
        with pytest.raises(AttomatonError):
            linear_decoder.fig4(**{**SMALL, **wrong})
    with pytest.raises(AttomatonError, match="entropies between"):
        linear_decoder.fig1(H=2.0, seeds=1)


def test_the_claim_holds_its_control_fails_and_few_steps_do_not_pass():
    evidence = linear_decoder.check()
    assert evidence.stands, (evidence.measured, evidence.control_measured)
    assert linear_decoder.check(steps=100).verdict is Verdict.FAILS
