r"""The identity everything rests on: a self-attention layer is a Luce choice model for each last token.

$$c_y^\top X^\top \mathrm{softmax}(X W e_q) = \frac{m_y e^{s_y}}{\sum_x m_x e^{s_x}}, \quad s_x = e_x^\top W e_q,$$

and the gradient by W is that by the scores, pulled back: $\nabla_W L = E^\top (\partial L/\partial S)^\top E$. Measured
is the layer as it is defined, position by position with its own embeddings and head, differentiated by JAX; predicted
is the choice model, which knows of counts only; and the layer of `mechanics.model` that all training here uses must
agree with both.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.lazily import jax, jnp
from attomaton.base.shapes import Float, Int
from attomaton.claims.cases import Case, Given, assumptions, drawn_case
from attomaton.claims.convexity import choices_of, pair_scores
from attomaton.claims.measure import problem_of
from attomaton.claims.picture import line, theory_line
from attomaton.corpus.samples import Samples
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.corpus.windows import windows_from_ids
from attomaton.errors import counted
from attomaton.mechanics.data import check_embeddings
from attomaton.mechanics.synthetic import unit_embeddings
from attomaton.mechanics.theory.finite import Choices, luce_loss
from attomaton.numerics import float64, named_rng
from attomaton.results import Assumption, Evidence, Panel, Verdict

K, D, N, T = 7, 9, 40, 6
SCALES = (0.1, 1.0, 3.0)  # of the entries of W
TOKENS = 200  # of a user's vocabulary, for which dense embeddings are drawn
SAMPLES = 100
EXACT = 1e-9


def _draws(problems: int) -> list[Case]:
    return [drawn_case("luce", i, K, D, N, T, repeats=True) for i in range(problems)]


def _dense_part(given: Given) -> Case:
    """As many of the first samples of the cases as fit a small vocabulary, with random embeddings for it."""
    rows: list[tuple[list[int], int]] = []
    known: set[int] = set()
    for case in given.cases:
        s = case.samples
        for i in range(len(s)):
            tokens = _sequence(s, i)
            if len(known | set(tokens[:-1])) < TOKENS and len(rows) < SAMPLES:
                known |= set(tokens)
                rows.append((tokens, int(s.label[i])))
    number = {x: i for i, x in enumerate(sorted(known))}
    words = Vocabulary([given.samples.vocabulary[x] for x in sorted(known)])
    samples = windows_from_ids(
        words,
        np.array([number[x] for row, _ in rows for x in row]),
        np.array([len(row) for row, _ in rows]),
        np.array([number[y] for _, y in rows]),
    ).samples()
    E = unit_embeddings(named_rng("luce", 0), len(known), len(known) + 2)
    return Case(samples, check_embeddings(E))


def _sequence(s: Samples, i: int) -> list[int]:
    """A bag as a sequence, its last token last."""
    part, last = slice(s.start[i], s.start[i + 1]), int(s.last[i])
    tokens = np.repeat(s.token[part], s.count[part]).tolist()
    tokens.remove(last)
    return [*tokens, last]


class Positions(NamedTuple):
    """Samples written out position by position: padded sequences, their lengths, labels and weights."""

    token: Int[np.ndarray, "samples positions"]
    length: Int[np.ndarray, " samples"]
    label: Int[np.ndarray, " samples"]
    weight: Float[np.ndarray, " samples"]


def _positions(s: Samples) -> Positions:
    """Each bag as a sequence."""
    rows = [_sequence(s, i) for i in range(len(s))]
    longest = max(map(len, rows))
    token = np.array([row + [row[-1]] * (longest - len(row)) for row in rows])
    return Positions(token, np.array([len(r) for r in rows]), s.label, s.weight / s.total_weight)


def _differentiated(W: Any, E: Any, C: Any, at: Positions) -> Any:
    """Of the layer as defined, c_yᵀ Xᵀ softmax(X W e_q) for every sample: the gradient of its loss, and its values."""
    X = E[at.token]
    q = jnp.take_along_axis(at.token, at.length[:, None] - 1, axis=1)[:, 0]
    inside = jnp.arange(at.token.shape[1]) < at.length[:, None]

    def loss(w: Any) -> Any:
        logit = jnp.einsum("ntd,de,ne->nt", X, w, E[q])
        a = jax.nn.softmax(jnp.where(inside, logit, -jnp.inf), axis=-1)
        p = jnp.einsum("nd,nd->n", C[at.label], jnp.einsum("nt,ntd->nd", a, X))
        return -at.weight @ jnp.log(p), p

    return jax.grad(loss, has_aux=True)(W)


class Both(NamedTuple):
    """The layer as measured and the choice model as predicted, at one W."""

    p: Float[np.ndarray, " samples"]
    luce: Float[np.ndarray, " samples"]
    gradient: Float[np.ndarray, "width width"]
    pulled: Float[np.ndarray, "width width"]
    trained: Float[np.ndarray, "width width"]  # by the layer that training uses
    blind: Float[np.ndarray, " samples"]  # the control


def _at(case: Case, W: Float[np.ndarray, "width width"], repeats: bool) -> Both:

    from attomaton.mechanics.experiment.model import loss_and_gradient

    assert case.embeddings is not None
    E, s = case.embeddings.E, case.samples
    C = np.linalg.pinv(E).T
    at = _positions(s)
    with float64():
        plain, p = jax.jit(_differentiated)(W, E, C, at)
        _, trained = jax.jit(loss_and_gradient)(W, problem_of(case))
    choices = choices_of(s)
    theta = pair_scores(case, W)
    look = luce_loss(choices, theta)
    by_score = np.zeros((len(E), len(E)))
    by_score[np.divmod(s.pair_index()[0], len(E))] = look.gradient
    return Both(
        np.asarray(p), look.p[choices.winner_at], np.asarray(plain), E.T @ by_score.T @ E,
        np.asarray(trained), _blind(choices, theta, s, repeats),
    )  # fmt: skip


def _blind(
    choices: Choices, theta: np.ndarray, s: Samples, repeats: bool
) -> Float[np.ndarray, " samples"]:
    """The control: choices that know no multiplicities, or where nothing repeats, do not see the last token."""
    if repeats:
        other = replace(choices, log_count=np.zeros(len(choices.item)))
        return luce_loss(other, theta).p[other.winner_at]
    p = luce_loss(choices, theta).p
    last = s.token == s.last[s.sample_of]
    seen = 1 - np.add.reduceat(np.where(last, p, 0.0), s.start[:-1])
    return p[choices.winner_at] / np.maximum(seen, 1e-300)


def check(problems: int = 4, given: Given | None = None) -> Evidence:
    """The identity and its gradient on random data sets with repeated tokens, or on a user's."""
    cases = _draws(problems) if given is None else [_dense_part(given)]
    repeats = any((c.samples.count > 1).any() for c in cases)
    found = []
    for i, case in enumerate(cases):
        rng = named_rng("luce W", i)
        found += [_at(case, scale * rng.normal(size=case.shape), repeats) for scale in SCALES]
    gap = [float(np.abs(x.p - x.luce).max()) for x in found]
    slope = [_apart(x.gradient, x.pulled) for x in found]
    used = [_apart(x.trained, x.pulled) for x in found]
    wrong = [float(np.abs(x.p - x.blind).max()) for x in found]
    what = "multiplicities" if repeats else "the last token among the keys"
    every = assumptions(cases, given)
    if given is not None:
        s = cases[0].samples
        said = f"{counted(len(s), 'distinct sample')} over {len(s.vocabulary)} tokens, random embeddings of them"
        every = (*every, Assumption(f"dense embeddings (up to {TOKENS} tokens)", True, said))
    return Evidence(
        formula="c_yᵀ Xᵀ softmax(X W e_q) = m_y e^{s_y} / Σ m_x e^{s_x},   ∇_W L = Eᵀ (∂L/∂S)ᵀ E",
        assumptions=every,
        verdict=Verdict.of(max(*gap, *slope, *used) <= EXACT),
        control=Verdict.FAILS if max(wrong) > EXACT else Verdict.HOLDS,
        prediction={"choice probabilities": int(sum(len(x.luce) for x in found)),
                    "least": min(float(x.luce.min()) for x in found)},
        tolerance=f"probabilities and gradients (relative to the largest entry) agree to {EXACT:g}",
        reason="rounding of float64, enlarged by the condition of the embeddings (the head is their pseudo-inverse) "
        "and by 1/p(y) in the gradient of the plain layer",
        measured={
            "largest gap of a probability": max(gap),
            "largest gap of the gradient": max(slope),
            "largest gap of the gradient training uses": max(used),
        },
        control_measured={f"largest gap of a probability, without {what}": max(wrong)},
        panels=_panels(found, what),
        settings={"problems": len(cases), "scales of W": list(SCALES)},
    )  # fmt: skip


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-300))


def _panels(found: list[Both], what: str) -> tuple[Panel, ...]:
    p, luce, blind = (
        np.concatenate([getattr(x, k) for x in found]) for k in ("p", "luce", "blind")
    )
    order = np.argsort(luce)
    equal = theory_line([0, 1], [0, 1], "equal")
    g, h = (np.concatenate([getattr(x, k).ravel() for x in found]) for k in ("gradient", "pulled"))
    ends = [float(h.min()), float(h.max())]
    at = np.argsort(h)
    return (
        Panel(
            "Probabilities", "Luce choice probability", "layer, position by position",
            [line(luce[order], p[order], "each sample", "points"),
             line(blind[order], p[order], f"without {what}", "points", points=60), equal],
        ),
        Panel(
            "Gradients", "pulled back from scores", "of the layer, by W",
            [line(h[at], g[at], "each entry", "points"), theory_line(ends, ends, "equal")],
        ),
    )  # fmt: skip
