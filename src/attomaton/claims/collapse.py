r"""One trajectory ends with one token: of two with odds $r < 1$, the share of the weak one falls like $t^{-(1-r)}$.

Data, limit, automaton and draws are all ours; the exponent comes from the odds in the data alone. The control draws by
the same odds from a context that stays as it was: its shares settle instead of falling.
"""

from collections.abc import Sequence

import numpy as np

from attomaton.claims.picture import line, theory_line
from attomaton.corpus.windows import samples_from_sequences
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.collapse import fading
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.mechanics.theory.trajectories import Trajectories, draw_trajectories
from attomaton.numerics import named_rng
from attomaton.results import Assumption, Evidence, Panel, Verdict

ODDS = (0.25, 0.5)
NEAR = 0.03
PROMPT = ("strong", "weak")


def check(trajectories: int = 300, steps: int = 20_000, seed: int = 0) -> Evidence:
    """Slopes of the weak token's share on data with each of the odds."""
    runs = [_run(r, trajectories, steps, seed) for r in ODDS]
    everything = np.arange(trajectories)
    predicted = [float(fading(run.choices, 0)[1]) for run in runs]
    found = [run.slope(1, everything) for run in runs]
    slopes, errors = zip(*((np.nan, np.nan) if x is None else x for x in found), strict=True)
    settled = [_forgetful(run, r, seed) for run, r in zip(runs, ODDS, strict=True)]
    lines = []
    for i, (run, slope) in enumerate(zip(runs, predicted, strict=True)):
        t, share = run.length, run.shares[..., 1].mean(1)
        lines.append(line(t, share, f"r = {ODDS[i]:g}, measured", colour=i))
        late = t >= t[-1] / 100
        through = share[-1] * (t[late] / t[-1]) ** slope
        lines.append(theory_line(t[late], through, f"slope {slope:g}", colour=i))
    return Evidence(
        formula="share of the weak token ∝ t^{−(1 − r)},  P(y | X, k) = m_y P_ky / Σ_j m_j P_kj",
        assumptions=(
            Assumption("the same odds after both tokens", True, "as many samples end in each"),
        ),
        prediction={"slope": predicted},
        measured={"slope": list(slopes), "standard error": list(errors)},
        verdict=Verdict.of(_agree(slopes, predicted)),
        control=Verdict.of(_agree(settled, predicted)),
        control_measured={"slope, the context as it was": settled},
        tolerance=f"every slope within {NEAR:g} of −(1 − r)",
        reason="over the last tenfold of t the slope is less steep by r (1 − r) times the share that is left",
        panels=(
            Panel(
                "Share of the weak token", "length of the context t", "mean share", lines, xscale="log", yscale="log",
            ),
        ),
        settings={
            "r": list(ODDS), "trajectories": trajectories, "steps": steps, "seed": seed,
            "prompt": list(PROMPT),
        },
    )  # fmt: skip


def _agree(slopes: Sequence[float], predicted: Sequence[float]) -> bool:
    return all(abs(a - b) <= NEAR for a, b in zip(slopes, predicted, strict=True))


def _run(r: float, trajectories: int, steps: int, seed: int) -> Trajectories:
    """Trajectories of the limit of samples in which the weak token wins r times as often as the strong one."""
    orders = [PROMPT, PROMPT[::-1]]
    samples = samples_from_sequences(
        [order for order in orders for _ in PROMPT], [*PROMPT, *PROMPT], [1, r, 1, r]
    )
    automaton = Automaton(solve_limit(samples))
    return draw_trajectories(
        automaton, PROMPT, trajectories=trajectories, steps=steps, seed=seed, threshold=0.99
    )


def _forgetful(run: Trajectories, r: float, seed: int) -> float:
    """The slope where every draw is from the prompt: counts of independent draws."""
    rng, chance = named_rng("collapse, control", seed), r / (1 + r)
    new = rng.binomial(
        np.diff(run.times)[:, None], chance, (len(run.times) - 1, run.counts.shape[1])
    )
    weak = np.concatenate([run.counts[:1, :, 1], run.counts[0, :, 1] + new.cumsum(0)])
    counts = np.stack([run.length[:, None] - weak, weak], axis=-1)
    slope = Trajectories(
        run.choices, None, run.threshold, run.times, counts, run.collapsed, run.ended, ()
    ).slope(1, np.arange(counts.shape[1]))
    return np.nan if slope is None else slope[0]
