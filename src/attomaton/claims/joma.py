r"""JoMA: attention follows from the hidden layer's weights, and its entropy dips before it rises.

The scores that are trained beside a hidden layer are those its weights predict: exactly, up to the step, for
exponential and linear attention, whatever stands above the layer; for softmax as well as one mean context stands for
all. The control gives every token the score of another. Figures 2, 3 and 4 are the paper's (arXiv 2310.00535).
"""

from typing import Any

import numpy as np

from attomaton.base.shapes import Float
from attomaton.claims.picture import level, line, theory_line
from attomaton.joma.data import drawn_contexts
from attomaton.joma.experiment.equation import drawn_targets, grow_in_steps
from attomaton.joma.experiment.train import Setting, train
from attomaton.joma.theory.growth import attention_entropy, predicted_growth
from attomaton.joma.theory.invariant import correlations, predicted_scores
from attomaton.results import Assumption, Evidence, Panel, Result, Verdict

ALIGNED, APART = 0.99, 0.2  # mean correlation with the prediction, and with that of other tokens
EXACT = 0.003  # error of the exact invariants, in units of how far scores moved
ORDER = 0.1  # by which orders in the step may differ from 1
RATES, SPAN = (0.1, 0.05, 0.025), 50.0  # steps, and their sum
SEEDS = 10
START, TEMPERATURE, RATE, STEPS = 0.05, 3.0, 0.02, 5000  # of the nonlinear equation
SAME = 0.02  # by which steps of that length may differ from its solution
DIP = 0.1  # nats by which entropy rises again, at least
KINDS = ("correlation", "growth", "shared", "shuffled")  # with what scores are correlated
# Exact invariants, each with what stands above the layer: its nodes as logits, or a trained readout of ReLUs.
LAYERS = [(a, *b) for a in ("exp", "linear") for b in (("linear", None), ("relu", 40))]


def check(seeds: int = SEEDS) -> Evidence:
    """The invariants of three kinds of attention, and the nonlinear equation, each beside its control."""
    soft = softmax_runs(seeds, lr=0.1, steps=2000, T=0.5)
    exact = {f"{a}, {b}": exact_errors(a, b, nodes) for a, b, nodes in LAYERS}
    orders = {k: np.log2(np.divide(x[:-1], x[1:])).tolist() for k, x in exact.items()}
    growth = growth_runs(seeds, TEMPERATURE, RATE, STEPS)
    good = soft["correlation"].min() >= ALIGNED and all(
        x[0] <= EXACT and np.allclose(orders[k], 1.0, rtol=0, atol=ORDER) for k, x in exact.items()
    )
    dips = growth["error"].max() <= SAME and growth["rise"].min() >= DIP
    step = soft["step"][1:]
    errors = [line(RATES, x, name, "points") for name, x in exact.items()]
    first = next(iter(exact.values()))[0]
    slope = theory_line(RATES, first * np.array(RATES) / RATES[0], "order 1")
    return Evidence(
        formula="z = (1/2T)(Σ_k v_k² − x̄ Σ_k ‖w_k‖²) + c,   v̇ = (μ − v) ∘ softmax(v²/T)",
        assumptions=(
            Assumption("one query, orthonormal embeddings", True, "drawn so"),
            Assumption("one context stands for all (softmax only)", True, "x̄, the mean over classes"),
        ),
        prediction={"correlation": 1.0, "order of the error in the step": 1.0, "entropy": "dips, then rises"},
        reason="steps of length η leave errors of order η; x̄ stands for contexts that differ, so that softmax agrees "
        "the less the longer it is trained",
        verdict=Verdict.of(good and dips),
        control=Verdict.of(
            abs(soft["shuffled"]).max() > APART or growth["even rise"].min() >= DIP
        ),
        tolerance=(
            f"softmax: mean correlation ≥ {ALIGNED:g} at every step, with the tokens shuffled ≤ {APART:g} in size; exp "
            f"and linear: error ≤ {EXACT:g} of the way at η = {RATES[0]:g}, of order 1 ± {ORDER:g}; steps within "
            f"{SAME:g} of the solution, and entropy rises by ≥ {DIP:g} nats after its dip"
        ),
        measured={
            "correlation, least over steps": float(soft["correlation"].min()),
            "correlation at the end": float(soft["correlation"][-1]),
            "correlation at the end, by seed": soft["ends"].tolist(),
            "error, exact invariants": {k: x[0] for k, x in exact.items()},
            "order in the step, exact invariants": {k: x[-1] for k, x in orders.items()},
            "nonlinear: largest distance of steps from the solution": float(growth["error"].max()),
            "nonlinear: rise of the entropy, least": float(growth["rise"].min()),
        },
        control_measured={
            "correlation with the tokens shuffled, largest": float(abs(soft["shuffled"]).max()),
            "rise of the entropy under even attention, largest": float(growth["even rise"].max()),
        },
        panels=(
            Panel(
                "Scores of attention, trained and predicted", "step", "mean correlation",
                [line(step, soft["correlation"][1:], "with the prediction"),
                 line(step, soft["shuffled"][1:], "control: tokens shuffled"),
                 level(step, 1.0, "theory")],
                xscale="log",
            ),
            Panel("Error of the exact invariants", "step η", "error / way", [*errors, slope], "log", "log"),
            _entropy_panel(growth),
        ),
        settings={"seeds": seeds},
    )  # fmt: skip


def softmax_runs(seeds: int, lr: float, steps: int, T: float) -> Result:
    """Means over seeds of correlations with the prediction, its two terms, and its tokens shuffled, over the steps."""
    found: list[list[np.ndarray]] = []
    for seed in range(seeds):
        contexts = drawn_contexts(seed)
        run = train(contexts, setting=Setting("softmax", T), lr=lr, steps=steps, seed=seed)
        said = predicted_scores(run, contexts.mean)
        other = np.random.default_rng([seed, 2]).permutation(contexts.share.shape[1])
        every = (said.score, said.growth, said.shared, said.score[:, other])
        found.append([correlations(run.score, x) for x in every])
    each = np.array(found)  # seeds × kinds × steps
    return {
        "step": run.step,
        **dict(zip(KINDS, each.mean(axis=0), strict=True)),
        "ends": each[:, 0, -1],
        "shuffled ends": each[:, 3, -1],
        "share": drawn_contexts(0).share,
    }


def exact_errors(attention: Any, activation: Any, nodes: int | None) -> list[float]:
    """The largest distance of scores from their prediction, in units of how far they moved, by the step."""
    contexts, errors = drawn_contexts(0), []
    for lr in RATES:
        setting = Setting(attention, 0.5, activation)
        run = train(contexts, setting=setting, nodes=nodes, lr=lr, steps=round(SPAN / lr))
        said = predicted_scores(run, contexts.mean).score
        way = np.abs(run.score - run.score[0]).max()
        errors.append(float(np.abs(run.score - said).max() / way))
    return errors


def growth_runs(seeds: int, T: float, lr: float, steps: int, d: int = 10) -> Result:
    """The nonlinear equation in steps and by quadrature: one course, and for every seed how entropy moves."""
    error, rise, flat = [], [], []
    for seed in range(seeds):
        mu = drawn_targets(seed, d)
        v = grow_in_steps(mu, START, T, lr, steps)
        said = predicted_growth(mu, START, T, lr * np.arange(steps + 1))
        even = attention_entropy(grow_in_steps(mu, START, T, lr, steps, even=True), T)
        entropy = attention_entropy(v, T)
        error.append(float(np.abs(v - said.v).max()))
        rise.append(float(entropy[-1] - entropy.min()))
        flat.append(float(even[-1] - even.min()))
        if not seed:
            first = {"mu": mu, "v": v, "said": said, "entropy": entropy, "even": even}
    return {"error": np.array(error), "rise": np.array(rise), "even rise": np.array(flat), **first}


def fig2(
    lr: float = 0.1, steps: int = 2000, temperature: float = 0.5, seeds: int = SEEDS
) -> Result:
    """Correlation of trained scores with those the weights predict, over the steps; beside it both of their terms."""
    runs = softmax_runs(seeds, lr, steps, temperature)
    return {
        "title": "Attention follows from the hidden layer",
        "share": runs["share"].T.tolist(),
        "curves": [
            {"of": name, "step": runs["step"].tolist(), "correlation": runs[name].tolist()}
            for name in KINDS
        ],
        "measured": {
            "mean correlation, least over steps": float(runs["correlation"].min()),
            "mean correlation at the end": float(runs["correlation"][-1]),
            "correlation at the end, by seed": runs["ends"].tolist(),
        },
        "control_measured": {
            "tokens shuffled: mean correlation, largest": float(abs(runs["shuffled"]).max()),
            "tokens shuffled: at the end, by seed": runs["shuffled ends"].tolist(),
        },
        "verdict": Verdict.of(runs["correlation"].min() >= ALIGNED).value,
        "control": Verdict.of(abs(runs["shuffled"]).max() > APART).value,
    }


def fig3(
    lr: float = 0.1, steps: int = 2000, temperature: float = 0.5, seeds: int = SEEDS
) -> Result:
    r"""Weights of hidden nodes on tokens: at first $\dot v_k = (x_k - \bar x)/K$, then salient components win."""
    rows: list[dict[str, float]] = []
    for seed in range(seeds):
        contexts = drawn_contexts(seed)
        setting = Setting("softmax", temperature)
        run = train(contexts, setting=setting, lr=lr, steps=steps, seed=seed)
        x = contexts.share - contexts.mean
        moved = run.tokens - run.tokens[0]
        pace = contexts.share.shape[0] * moved[1] / (lr * run.step[1])
        b = contexts.share * np.exp((run.score[-1] - run.score[-1].max()) / temperature)
        rows.append(
            {
                "seed": seed,
                "early": _flat(moved[1], x),
                "early rate": float((pace * x).sum() / (x * x).sum()),
                "end": _flat(moved[-1], x),
                "control": _flat(moved[1], np.roll(x, len(x) // 2, axis=0)),
                "entropy at first": _entropy(contexts.share),
                "entropy at the end": _entropy(b / b.sum(axis=1, keepdims=True)),
            }
        )
        if not seed:
            curves = [
                {"component": l, "step": run.step.tolist(), "v": run.tokens[:, 0, l].tolist(),
                 "rate": lr * float(x[0, l]) / len(x)}
                for l in range(4)
            ]  # fmt: skip
            maps = {"first": run.tokens[0].T.tolist(), "last": run.tokens[-1].T.tolist()}
    means = {k: float(np.mean([r[k] for r in rows])) for k in rows[0] if k != "seed"}
    return {
        "title": "Components of hidden nodes grow along what sets their class apart",
        "rows": rows,
        "curves": curves,
        "maps": maps,
        "measured": {k: v for k, v in means.items() if k != "control"},
        "control_measured": {"classes half way round": means["control"]},
        "verdict": Verdict.of(
            min(r["early"] for r in rows) >= ALIGNED
            and abs(means["early rate"] - 1) <= ORDER
            and all(r["entropy at the end"] < r["entropy at first"] for r in rows)
        ).value,
        "control": Verdict.of(max(r["control"] for r in rows) >= ALIGNED).value,
    }


def fig4(
    d: int = 10, temperature: float = TEMPERATURE, lr: float = RATE, steps: int = STEPS, seeds: int = SEEDS
) -> Result:  # fmt: skip
    """The nonlinear equation: components on their way to their targets, and the entropy of attention."""
    growth = growth_runs(seeds, temperature, lr, steps, d)
    kept = np.unique(np.linspace(0, steps, 201).round().astype(int))
    dip = int(growth["entropy"].argmin())
    return {
        "title": "Attention narrows, then widens again",
        "target": growth["mu"].tolist(),
        "curves": [
            {"component": j, "step": kept.tolist(), "v": growth["v"][kept, j].tolist(),
             "theory": growth["said"].v[kept, j].tolist()}
            for j in range(d)
        ],
        "entropy": {
            "step": kept.tolist(), "steps": growth["entropy"][kept].tolist(),
            "theory": growth["said"].entropy[kept].tolist(), "even": growth["even"][kept].tolist(),
        },
        "measured": {
            "largest distance of steps from the solution": float(growth["error"].max()),
            "rise of the entropy after its dip, least": float(growth["rise"].min()),
            "step of the dip, first draw": dip,
            "entropy: at first, in the dip, at the end": [
                float(growth["entropy"][i]) for i in (0, dip, -1)
            ],
        },
        "control_measured": {
            "even attention: rise of the entropy, largest": float(growth["even rise"].max())
        },
        "verdict": Verdict.of(growth["error"].max() <= SAME and growth["rise"].min() >= DIP).value,
        "control": Verdict.of(growth["even rise"].max() >= DIP).value,
    }  # fmt: skip


def _flat(a: np.ndarray, b: np.ndarray) -> float:
    return float(correlations(a.reshape(1, -1), b.reshape(1, -1))[0])


def _entropy(share: Float[np.ndarray, "classes tokens"]) -> float:
    """Mean entropy over classes, in nats."""
    log = np.log(np.where(share > 0, share, 1.0))
    return float(-(share * log).sum(axis=1).mean())


def _entropy_panel(growth: Result) -> Panel:
    """The entropy of attention that follows its components beside that of even attention."""
    steps = np.arange(1, len(growth["v"]))
    lines = [
        line(steps, growth["entropy"][1:], "in steps"),
        line(steps, growth["even"][1:], "control: even attention"),
        theory_line(steps, growth["said"].entropy[1:], "solution"),
    ]
    return Panel("Entropy of softmax(v²/T)", "step", "nats", lines, xscale="log")
