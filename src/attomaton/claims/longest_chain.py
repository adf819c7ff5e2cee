r"""With one-hot tokens the largest margin in the max norm is $\gamma_{max} = 2/c$, c the steps of the longest chain.

A chain is a path of strict priorities after one last token. Two witnesses: the value of a linear program (HiGHS) on the
constraints themselves, over random graphs with and without cycles, and sign descent, whose margin tends to it on
acyclic data. Control: the tokens of the chain instead of its steps, one more.

With cycles sign descent tends to less: to the largest margin with tied tokens *held* at 0, the same program with these
scores fixed. A tied token's gradient is what is left of its tie, which steps $\propto 1/\sqrt t$ keep open by as much,
plus what outranked tokens add, which falls exponentially with the margin: its sign follows the tie alone, and the
token stays while those it outranks sink. Control: the largest margin of all, where the two differ.
"""

import numpy as np

from attomaton.claims.cases import assumptions, refuted
from attomaton.claims.optimiser_norm import acyclic, draws, limits_of, share, trained
from attomaton.claims.picture import line, theory_line
from attomaton.mechanics.synthetic import draw_samples
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.numerics import named_rng
from attomaton.results import Evidence, Panel, Verdict

KINDS = ("general", "cyclic", "acyclic")
EXACT = 1e-9  # of the program's value
LEAST = 0.98  # share of 2/c that sign descent has
HELD = 0.05  # off the share with tied tokens held: at first they do move


def _graph(i: int) -> Limit:
    rng = named_rng("longest chain", i)
    K, n, lasts = int(rng.integers(4, 11)), int(rng.integers(3, 40)), int(rng.integers(1, 4))
    T = int(rng.integers(3, min(K, 6)))
    return solve_limit(draw_samples(rng, K, n, T, kind=KINDS[i % 3], lasts=lasts), norm="max")


def program(limit: Limit, held: bool = False) -> float:
    """The smallest v such that scores within ±v have all margins: by HiGHS, an inequality for each edge.

    With tied tokens `held` at 0 there is none where some outrank others: infinity.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, vstack

    graph = limit.graph
    n, m = len(graph.pair_last), len(graph.edge_from)
    row = np.arange(m)
    # Variables: v, then the scores. An edge i → j within a component is an equality, else s_i − s_j ≥ 1.
    edges = coo_array(
        (np.repeat([-1.0, 1.0], m), (np.tile(row, 2), 1 + np.concatenate([graph.edge_from, graph.edge_to]))),
        shape=(m, n + 1),
    ).tocsr()  # fmt: skip
    tied = ~graph.strict
    one, own = np.arange(n), np.ones(n)
    within = [
        coo_array((np.concatenate([-own, sign * own]), (np.tile(one, 2), np.concatenate([0 * one, 1 + one]))),
                  shape=(n, n + 1))
        for sign in (1, -1)
    ]  # fmt: skip
    bounds = [(None, None), *((0, 0) if held and x else (None, None) for x in graph.cyclic)]
    found = linprog(
        np.eye(1, n + 1)[0], vstack([edges[~tied], *within]), np.repeat([-1.0, 0.0], [(~tied).sum(), 2 * n]),
        edges[tied] if tied.any() else None, np.zeros(tied.sum()) if tied.any() else None, bounds=bounds,
    )  # fmt: skip
    return np.inf if found.fun is None else float(found.fun)


def steps_of(limit: Limit) -> int:
    """The steps of the longest chain; 0 where nothing is strict."""
    assert limit.direction is not None
    return 0 if limit.direction.chain is None else len(limit.direction.chain.tokens) - 1


def check(problems: int = 3, graphs: int = 100, steps: int = 40_000) -> Evidence:
    """Random graphs against a linear program; sign descent on data sets without and with cycles."""
    drawn = [_graph(i) for i in range(graphs)]
    chain = np.array([steps_of(x) for x in drawn])
    value = np.array([program(x) for x in drawn])
    cases = [x for kind in ("acyclic", "cyclic") for x in draws("longest chain", problems, kind)]
    limits = limits_of(cases, "max")
    own = np.array([steps_of(x) for x in limits[:problems]])
    both = [share(x, "max", W) for x, W in zip(limits, trained(cases, "sign", steps), strict=True)]
    shares, tied = np.split(np.array(both), 2)
    held = np.array([program(x) / program(x, held=True) for x in limits[problems:]])

    def off(c: np.ndarray) -> np.ndarray:
        return np.abs(value - c / 2)

    holds = (
        off(chain).max() <= EXACT
        and shares.min() >= LEAST
        and shares.max() <= 1 + EXACT
        and np.abs(tied - held)[held > 0].max(initial=0.0) <= HELD
    )
    more = shares * (own + 1) / own
    less = (held > 0) & (held < 1 - 2 * HELD)
    wrong = np.concatenate(
        [off(chain + 1) > EXACT, (more < LEAST) | (more > 1 + EXACT), np.abs(tied - 1)[less] > HELD]
    )
    seen = np.unique(np.stack([chain, value])[:, chain > 0], axis=1)
    x = np.arange(1, max(*chain, *own) + 1)
    return Evidence(
        formula="γ_max = 2/c",
        assumptions=(*assumptions(cases), acyclic(limits[:problems])),
        verdict=Verdict.of(holds),
        control=refuted(wrong.tolist()),
        prediction={"γ of trained data sets": (2 / own).tolist(), "with cycles, share of 2/c": held.tolist()},
        tolerance=(
            f"the program's value is c/2 to {EXACT:g}, sign descent has {LEAST:g} to 1 of 2/c, with cycles the "
            f"share of tied tokens held at 0 within {HELD:g}; control: c + 1, and 2/c where that share is less"
        ),
        reason="rounding; the margin's error falls like (log t)/√t",
        measured={
            "graphs by longest chain": {str(c): int((chain == c).sum()) for c in np.unique(chain)},
            "largest error of the program's value": float(off(chain).max()),
            "sign descent, share of 2/c": shares.tolist(),
            "with cycles": tied.tolist(),
        },
        control_measured={
            "smallest error of the program's value": float(off(chain + 1).min()),
            "sign descent, share of 2/(c + 1)": more.tolist(),
            "with cycles, below 2/c by": (1 - tied)[less].tolist(),
        },
        panels=(
            Panel(
                "Largest margin in the max norm", "steps of the longest chain c", "margin",
                [theory_line(x, 2 / x, "2/c"), line(seen[0], 1 / seen[1], "linear program", "points"),
                 line(own, 2 * shares / own, "sign descent", "points"),
                 line(x, 2 / (x + 1), "control: 2/(c + 1)")],
            ),
            Panel(
                "Sign descent with cycles", "share of 2/c, tied tokens held at 0", "share of 2/c, measured",
                [theory_line([0, 1], [0, 1], "tied tokens held at 0"), line(held, tied, "sign descent", "points"),
                 line([0, 1], [1, 1], "control: 2/c")],
            ),
        ),
        settings={"problems": problems, "graphs": graphs, "steps": steps},
    )  # fmt: skip
