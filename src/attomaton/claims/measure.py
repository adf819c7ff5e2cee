"""How far a layer in training is from the limit that theory predicts: the yardstick of all claims.

Prediction and measurement meet here and nowhere below: the yardstick is built from a `Limit`, and applied,
inside the compiled training loop, to whatever parameters training has at that moment.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attomaton.base.lazily import jax, jnp
from attomaton.claims.cases import Case
from attomaton.mechanics.experiment.train import Training, train
from attomaton.mechanics.theory.finite import FiniteComponent, FiniteSubspace
from attomaton.mechanics.theory.limit import Limit
from attomaton.mechanics.theory.svm import GraphSVM
from attomaton.numerics import float64

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    from attomaton.mechanics.experiment.model import Problem, Sizes


class Yardstick(NamedTuple):
    """The limit of one or (stacked) many problems, in the coordinates training uses.

    `unit` is W_svm/‖W_svm‖ (0 where W_svm is). Dense space: `basis` spans S_fin, `fin` is W_fin in it.
    Pairs space: `group` numbers the component of each pair (tied with nothing: one spare number),
    `share` is 1/|C| in components of two or more and 0 elsewhere, `fin` is W_fin on the pairs. `tied` marks, in
    the padded samples, the tokens of the label's component.
    """

    unit: Any
    basis: Any
    group: Any
    share: Any
    fin: Any
    problem: Any
    tied: Any


def measure(params: "Float[Array, '*shape']", y: Yardstick) -> "dict[str, Array]":
    """The distances to the limit that the theorems speak about, at one moment of training.

    - `cosine_svm`: angle of W with W_svm (not a number where W_svm = 0);
    - `cosine_outside`: the same for the part of W outside S_fin;
    - `distance_fin`: ‖Π_fin W − W_fin‖;
    - `mass_retrieved`: mean attention on the component theory says is retrieved.
    """

    from attomaton.mechanics.experiment.model import attention

    if y.basis is not None:
        inside = jnp.einsum("rab,ab->r", y.basis, params)
    else:
        mean = jnp.zeros_like(params).at[y.group].add(params * y.share)[y.group]
        inside = jnp.where(y.share > 0, params - mean, 0.0)
    along = (params * y.unit).sum()
    whole = (params * params).sum()
    outside = jnp.maximum(whole - (inside * inside).sum(), 0.0)
    exists = (y.unit * y.unit).sum() > 0
    a = attention(params, y.problem)
    return {
        "cosine_svm": jnp.where(exists & (whole > 0), along / jnp.sqrt(whole), jnp.nan),
        "cosine_outside": jnp.where(exists & (outside > 0), along / jnp.sqrt(outside), jnp.nan),
        "distance_fin": jnp.sqrt(((inside - y.fin) ** 2).sum()),
        "mass_retrieved": y.problem.bags.weight @ (a * y.tied).sum(-1),
    }


def yardstick(limits: Limit | Sequence[Limit], seeds: int = 1) -> Yardstick:
    """The yardstick for `seeds` runs on one limit, or for one run on each of several.

    With embeddings it measures W itself, without them the scores of the observed pairs.
    """

    from attomaton.mechanics.experiment.model import sizes_of

    several = [limits] * seeds if isinstance(limits, Limit) else list(limits)
    sizes = sizes_of([x.samples for x in several])
    if several[0].embeddings is None:
        parts = [_pairs_yardstick(x, several, sizes) for x in several]
    else:
        bases = [FiniteSubspace(x.graph, x.embeddings).basis for x in several]
        most = max(map(len, bases))
        parts = [_dense_yardstick(x, b, most, sizes) for x, b in zip(several, bases, strict=True)]
    return jax.tree.map(lambda *x: np.stack(x), *parts)


def _dense_yardstick(limit: Limit, own: np.ndarray, most: int, sizes: "Sizes") -> Yardstick:
    basis = np.concatenate([own, np.zeros((most - len(own), *own.shape[1:]))])
    fin = np.einsum("rab,ab->r", basis, limit.dense(limit.finite.coefficient))
    W = limit.dense(limit.svm.coefficient)
    unit = W / (limit.svm.norm or 1.0)
    return Yardstick(unit, basis, None, None, fin, *_tied(limit, sizes))


def _pairs_yardstick(limit: Limit, several: Sequence[Limit], sizes: "Sizes") -> Yardstick:
    graph = limit.graph
    pairs = max(len(x.graph.pair_last) for x in several)

    def padded(values: np.ndarray) -> np.ndarray:
        return np.pad(values, (0, pairs - len(values)))

    share = np.where(graph.cyclic, 1.0 / graph.component_size[graph.component], 0.0)
    first = np.unique(graph.component, return_index=True)[1]
    return Yardstick(
        padded(limit.svm.score / (limit.svm.norm or 1.0)),
        None,
        padded(first[graph.component].astype(np.int32)),
        padded(share),
        padded(limit.finite.score),
        *_tied(limit, sizes),
    )


def _tied(limit: Limit, sizes: "Sizes") -> "tuple[Problem, np.ndarray]":
    """The samples padded like everybody's, and which of their tokens are tied with the label."""
    from attomaton.mechanics.experiment.model import problem_of

    samples, graph = limit.samples, limit.graph
    owner = samples.sample_of
    label = graph.component[graph.pairs(samples.last, samples.label)]
    own = graph.component[graph.pairs(samples.last[owner], samples.token)] == label[owner]
    tied = np.zeros((sizes.rows, sizes.slots))
    tied[owner, np.arange(len(owner)) - samples.start[owner]] = own
    return problem_of(samples, limit.embeddings, sizes, whole=False), tied


# What claims train, and where


def train_cases(cases: Sequence[Case | Limit], **how: Any) -> Training:
    """All cases, or those of some limits, trained side by side, each with its own embeddings."""
    tables = [c.embeddings for c in cases if c.embeddings is not None]
    return train([c.samples for c in cases], embeddings=tables or None, **how)


def parameters(run: Training, limits: Sequence[Limit]) -> list[np.ndarray]:
    """W of each problem, or its own pairs' scores without the padding."""
    if run.W is not None:
        return list(run.W)
    return [x[: len(y.graph.pair_last)] for x, y in zip(run.params, limits, strict=True)]


def in_space(limit: Limit, part: GraphSVM | FiniteComponent) -> np.ndarray:
    """W_svm or W_fin in the space that is trained in."""
    return part.score if limit.embeddings is None else limit.dense(part.coefficient)


def problem_of(case: Case) -> "Problem":
    """A case as the layer that training uses takes it; inside `float64()`."""

    from attomaton.mechanics.experiment import model

    return jax.tree.map(jnp.asarray, model.problem_of(case.samples, case.embeddings))


def gradients(case: Case, places: Sequence[np.ndarray]) -> np.ndarray:
    """The gradient of the log-loss at each of several W, as training computes it."""

    from attomaton.mechanics.experiment.model import loss_and_gradient

    with float64():
        problem = problem_of(case)
        return np.asarray(jax.vmap(lambda W: loss_and_gradient(W, problem)[1])(np.stack(places)))
