r"""Each optimiser has a norm: what it tends to is the largest margin $\gamma_N = 1/N(W_N)$ in that norm.

Acyclic data, one-hot tokens, steps $\eta/\sqrt{t}$. The share of the best margin that a trained W has in a norm is
$\min (e_i - e_j)^\top W e_k / (N(W)\,\gamma_N)$ over strict priorities, at most 1. Every optimiser is looked at in the
norms of all: the others are the control. Step sizes and Adam's $\beta_2$ were chosen on ten draws of another name. Two
things are reported and not judged: Adam at its usual $\beta_2$, which gets less far in this many steps, and Muon on
data with cycles, for which no statement is known.
"""

from collections.abc import Sequence

import numpy as np

from attomaton.base.shapes import Float
from attomaton.claims.cases import Case, assumptions, refuted
from attomaton.claims.measure import train_cases
from attomaton.claims.picture import heat
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.experiment.arguments import limit_norm
from attomaton.mechanics.synthetic import draw_samples
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.mechanics.theory.norms import Norm, norm_of
from attomaton.numerics import cosine, named_rng
from attomaton.results import Assumption, Evidence, Verdict

K, N, T = 7, 12, 4
RATES = {
    "ngd": 1.0,
    "sign": 1.0,
    "adam": 0.3,
    "spectral": 1.0,
    "muon": 1.0,
    "mirror:1.5": 1.0,
    "mirror:3": 100.0,
}
BETA_2 = 0.95
LEAST = {"ngd": 0.97}  # share of the best margin in its own norm; of the others:
USUAL_LEAST = 0.98
ALIGNED = 0.99  # cosine of mirror descent with W_p, which is unique
NORMS: tuple[Norm, ...] = ("frobenius", "max", "spectral", 1.5, 3.0)

Matrices = Float[np.ndarray, "problems keys queries"]


def draws(name: str, problems: int, kind: str) -> list[Case]:
    """Data sets with one-hot tokens, drawn under a name."""
    one_hot = check_embeddings(np.eye(K))
    rngs = (named_rng(f"{name}, {kind}", i) for i in range(problems))
    return [Case(draw_samples(rng, K, N, T, kind=kind), one_hot) for rng in rngs]


def trained(cases: Sequence[Case], optimizer: str, steps: int, **own: float) -> Matrices:
    """W of each after so many decaying steps from 0."""
    how = {"lr": RATES[optimizer], **own}
    run = train_cases(
        cases, optimizer=optimizer, steps=steps, every=steps, schedule="inverse-sqrt", **how
    )
    return run.params


def limits_of(cases: Sequence[Case], norm: Norm) -> list[Limit]:
    """The limit of each in a norm."""
    return [solve_limit(c.samples, norm=norm) for c in cases]


def share(limit: Limit, norm: Norm, W: Float[np.ndarray, "keys queries"]) -> float:
    """The smallest margin of W over strict priorities, of the best that its norm allows."""
    graph, samples = limit.graph, limit.samples
    score = W[graph.pair_token, graph.pair_last]
    of = samples.sample_of
    label = graph.pairs(samples.last, samples.label)[of]
    other = graph.pairs(samples.last[of], samples.token)
    strict = graph.component[label] != graph.component[other]
    value = limit.svm.norm if limit.direction is None else limit.direction.value
    return float((score[label] - score[other])[strict].min()) * value / norm_of(W, norm)


def check(problems: int = 3, steps: int = 40_000) -> Evidence:
    """Seven optimisers on random acyclic data sets, each in five norms."""
    cases = draws("optimiser norm", problems, "acyclic")
    limits = {norm: limits_of(cases, norm) for norm in NORMS}
    ends = {
        name: trained(cases, name, steps, **({"eps": 0.0, "beta2": BETA_2} if name == "adam" else {}))
        for name in RATES
    }  # fmt: skip

    def shares(W: Matrices, norm: Norm) -> list[float]:
        return [share(x, norm, w) for x, w in zip(limits[norm], W, strict=True)]

    table = {name: {norm: shares(W, norm) for norm in NORMS} for name, W in ends.items()}
    own = {name: limit_norm(name) for name in RATES}
    least = {name: LEAST.get(name, USUAL_LEAST) for name in RATES}
    aligned = {
        name: [
            cosine(w, x.dense(x.direction.score))
            for x, w in zip(limits[own[name]], ends[name], strict=True) if x.direction is not None
        ]
        for name in RATES if name.startswith("mirror")
    }  # fmt: skip
    ahead = {
        f"{name}, ahead of the best other in its norm": [
            mine - max(table[other][own[name]][i] for other in RATES if own[other] != own[name])
            for i, mine in enumerate(table[name][own[name]])
        ]
        for name in RATES
    }
    holds = (
        all(min(table[name][own[name]]) >= least[name] for name in RATES if name not in aligned)
        and all(min(x) >= ALIGNED for x in aligned.values())
        and all(min(x) > 0 for x in ahead.values())
    )
    usual = shares(trained(cases, "adam", steps, eps=0.0), "max")
    cyclic = draws("optimiser norm", problems, "cyclic")
    muon = zip(limits_of(cyclic, "spectral"), trained(cyclic, "muon", steps), strict=True)
    mean = np.array([[np.mean(x) for x in row.values()] for row in table.values()])
    elsewhere = {
        f"{name} in {norm}": table[name][norm] for name in RATES for norm in NORMS if norm != own[name]
    }  # fmt: skip
    return Evidence(
        formula="min (e_i − e_j)ᵀ W e_k / N(W) → γ_N = 1/N(W_N), N the optimiser's norm",
        assumptions=(*assumptions(cases), acyclic(limits["frobenius"])),
        verdict=Verdict.of(holds),
        control=refuted(
            min(table[name][norm]) < least[name] for name in RATES for norm in NORMS if norm != own[name]
        ),
        prediction={
            f"γ, {norm}": [1 / x.svm.norm if x.direction is None else x.direction.margin for x in found]
            for norm, found in limits.items()
        },
        tolerance=(
            f"in its own norm at least {LEAST['ngd']:g} (ngd) and {USUAL_LEAST:g} of the best margin, cosines of "
            f"mirror descent with W_p at least {ALIGNED:g}, and more than any other has in it; control: in each other "
            "norm some data set has less"
        ),
        reason="the margin's error falls like (log t)/√t",
        measured={
            **{f"{name} in {own[name]}": table[name][own[name]] for name in RATES},
            **{f"{name}, cosine with W_p": x for name, x in aligned.items()},
            **ahead,
            "not judged: adam, β₂ = 0.999, in max": usual,
            "not judged: muon with cycles, in spectral": [share(x, "spectral", w) for x, w in muon],
        },
        control_measured=elsewhere,
        panels=(
            heat(
                "Share of the best margin", "norm", "", mean,
                [str(x) for x in NORMS], list(RATES), "mean share", 0.5, 1.0,
            ),
        ),
        settings={"problems": problems, "steps": steps, "K": K, "n": N, "T": T, "beta2 of adam": BETA_2,
                  **{f"lr of {name}": x for name, x in RATES.items()}},
    )  # fmt: skip


def acyclic(limits: Sequence[Limit]) -> Assumption:
    """Whether no token ties with another."""
    tied = sum(bool(x.graph.cyclic.any()) for x in limits)
    return Assumption("acyclic data", not tied, f"{tied} of {len(limits)} data sets with ties")
