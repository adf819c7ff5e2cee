r"""The margins of a layer in training, as shares of the best that a norm allows.

An optimiser tends to the largest margin $\gamma_N = 1/N(W_N)$ in a norm of its own. At any moment W has the share
$\min (e_i - e_j)^\top W e_k / (N(W)\,\gamma_N) \le 1$ of it, the minimum taken over the strict priorities of the
samples. It is measured in the optimiser's norm, in Frobenius', and for one-hot tokens in the max norm, which costs one
pass over the graph. The cosine is taken with $W_N$ too, but for the max norm, where $W_N$ is one of many.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attomaton.base.lazily import jax, jnp
from attomaton.claims.measure import Yardstick, measure, yardstick
from attomaton.errors import SolverError, UsageError, counted
from attomaton.mechanics.theory.limit import Limit, dense_matrix
from attomaton.mechanics.theory.norms import Norm, NormLimit, norm_key, norm_limit

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int

MOST_PAIRS = 500_000  # for which an entrywise norm is solved before a run; beyond, it takes minutes


@dataclass(frozen=True)
class Ends:
    """What a run of training is measured against: a limit, and the directions of other norms by their names."""

    limit: Limit
    norms: Mapping[str, NormLimit]
    left_out: str | None = None  # why the optimiser's own norm is not among them

    @property
    def best(self) -> dict[str, float | None]:
        """γ_N by the name of N; None where no token outranks another."""
        values = {"frobenius": self.limit.svm.norm, **{k: x.value for k, x in self.norms.items()}}
        return {name: 1 / x if x else None for name, x in values.items()}


class Target(NamedTuple):
    """One norm: of the entries of W, or of its singular values, as the p of a p-norm; 1/γ_N; W_N at length 1."""

    entries: Any
    singular: Any
    value: Any
    unit: Any


class Edges(NamedTuple):
    """Strict priorities as places of the scores of pairs; `E`, `token` and `last` give these where W is a matrix."""

    above: Any
    below: Any
    token: Any = None
    last: Any = None
    E: Any = None


class Rulers(NamedTuple):
    """What `measure_margins` and `follow_orders` measure by."""

    yardstick: Yardstick
    targets: dict[str, Target]
    edges: Edges


def ends_of(limit: Limit, own: Norm) -> Ends:
    """The limits of an optimiser with this norm; `limit` is in the space that is trained in."""
    table, P = limit.embeddings, len(limit.graph.pair_last)
    one_hot = table is None or np.array_equal(table.E, np.eye(len(table.E)))
    asked: list[Norm] = [x for x in (own, "max") if x != "frobenius" and (x == own or one_hot)]
    norms, left_out = {}, None
    for norm in dict.fromkeys(asked):
        try:
            if norm == "nuclear" and table is None:
                raise UsageError(
                    "norm nuclear: of this many tokens W is not kept as a matrix, so its margin is not measured."
                )
            if norm not in ("max", "spectral", "nuclear") and P > MOST_PAIRS:
                raise UsageError(
                    f"norm {norm}: {counted(P, 'pair')}, and {MOST_PAIRS:,} are the most for which it is solved "
                    "before a run."
                )
            norms[norm_key(norm)] = norm_limit(
                limit.graph, limit.samples, None if one_hot else table, norm
            )
        except (UsageError, SolverError) as error:
            left_out = str(error)
    return Ends(limit, norms, left_out)


def rulers(ends: Ends, seeds: int = 1) -> Rulers:
    """What `seeds` runs are measured by, stacked."""
    limit, targets = ends.limit, {}
    for name, found in ends.norms.items():
        p = {"max": np.inf, "spectral": np.inf, "nuclear": 1.0}.get(name, found.norm)
        W = None if found.norm == "max" else _parameters(limit, found)
        unit = None if W is None else W / (np.linalg.norm(W) or 1.0)
        singular = name in ("spectral", "nuclear")
        entries = None if singular else p
        targets[name] = Target(entries, p if singular else None, found.value, unit)
    targets["frobenius"] = Target(2.0, None, limit.svm.norm, None)
    stacked = jax.tree.map(lambda x: np.stack([np.asarray(x, float)] * seeds), targets)
    edges = jax.tree.map(lambda x: np.stack([x] * seeds), _edges(limit))
    return Rulers(yardstick(limit, seeds), stacked, edges)


def _edges(limit: Limit) -> Edges:
    graph = limit.graph
    strict = graph.strict
    ends = graph.edge_from[strict].astype(np.int32), graph.edge_to[strict].astype(np.int32)
    if limit.embeddings is None:
        return Edges(*ends)
    return Edges(*ends, graph.pair_token, graph.pair_last, limit.embeddings.E)


def follow_orders(
    since: "Int[Array, ' strict']",
    params: "Float[Array, '*shape']",
    step: "Int[Array, '']",
    by: Rulers,
) -> "Int[Array, ' strict']":
    """For each strict priority the first step looked at since which its order has been right; −1 while it is wrong."""
    above, below, token, last, E = by.edges
    score = params if E is None else ((E @ params)[token] * E[last]).sum(axis=1)
    right = score[above] > score[below]
    return jnp.where(right, jnp.where(since < 0, step.astype(since.dtype), since), -1)


def _parameters(limit: Limit, found: NormLimit) -> np.ndarray:
    """W_N in the space that is trained in."""
    if limit.embeddings is None:
        return found.score
    if found.W is not None:
        return found.W
    graph = limit.graph
    return dense_matrix(len(graph.vocabulary), None, graph.pair_last, graph.pair_token, found.score)


def measure_margins(params: "Float[Array, '*shape']", by: Rulers) -> "dict[str, Array]":
    """What `measure` says, and for each norm N: `margin_N`, the share of the best margin, and `cosine_N` with W_N."""

    from attomaton.mechanics.experiment.model import logits

    bags = by.yardstick.problem.bags
    score = logits(params, by.yardstick.problem) - bags.log_count
    above = jnp.take_along_axis(score, bags.label_slot[:, None], axis=-1) - score
    strict = jnp.isfinite(bags.log_count) & (by.yardstick.tied == 0) & (bags.weight[:, None] > 0)
    least = jnp.where(strict, above, jnp.inf).min()
    found = measure(params, by.yardstick)
    for name, (entries, singular, value, unit) in by.targets.items():
        x = params if singular is None else jnp.linalg.svd(params, compute_uv=False)
        size = _norm(x, entries if singular is None else singular)
        found[f"margin_{name}"] = jnp.where((value > 0) & (size > 0), least * value / size, jnp.nan)
        if unit is not None:
            length = jnp.sqrt((params * params).sum())
            along = (params * unit).sum() / length
            found[f"cosine_{name}"] = jnp.where((value > 0) & (length > 0), along, jnp.nan)
    return found


def _norm(x: "Float[Array, '*shape']", p: "Float[Array, '']") -> "Float[Array, '']":
    """The p-norm of numbers, the largest of them for p = ∞."""
    most = jnp.abs(x).max()
    ratio = jnp.abs(x) / jnp.where(most > 0, most, 1.0)
    return jnp.where(jnp.isinf(p), most, most * (ratio**p).sum() ** (1 / p))
