r"""Winner takes all: how fast the other tokens of a growing context fade, by theory alone.

Where token $w$ has nearly all of a context of length $n$, the next is $x$ with probability $r_x m_x / n$,
$r_x = P_{wx}/P_{ww}$ its odds against $w$ after $w$. So $dm_x/dn = r_x m_x/n$: counts grow like $n^{r_x}$ and the
share of $x$ falls like $n^{-(1 - r_x)}$.

Where the odds are the same after every token, the context is an urn, and its clock can be changed (Athreya and Karlin
1968): token $x$ splits at rate $P_x$, by itself, and after time $\tau$ there are $\Gamma_x e^{P_x \tau}$ of it, with
independent $\Gamma_x$ of a gamma distribution whose shape is the count of $x$ in the prompt. So
$m_x = \Gamma_x (m_w/\Gamma_w)^{r_x}$, which says when $w$ has a given share, trajectory by trajectory.
"""

import numpy as np

from attomaton.base.shapes import Float
from attomaton.mechanics.theory.automaton import Choices
from attomaton.numerics import named_rng

EQUAL = 1e-9  # odds this close are equal
DRAWS = 20_000  # of the gamma variables: quantiles to a hundredth of the distribution
HALVINGS = 60


def fading(choices: Choices, winner: int) -> Float[np.ndarray, " words"]:
    """The exponent −(1 − r) of each word's share where `winner` has nearly all; NaN where theory gives none.

    It gives none where the winner does not follow itself, where some word would overtake it (r > 1), and of words that
    do not lead back to it.

    >>> one = Choices(("a", "b"), np.array([0, 1]), 1, np.ones(2, bool), np.zeros((2, 2)), np.log([[4.0, 1], [4, 1]]))
    >>> fading(one, 0).round(9).tolist()
    [0.0, -0.75]
    """
    P = choices.odds()
    if (P[winner] > (1 + EQUAL) * P[winner, winner]).any():
        return np.full(len(P), np.nan)
    r = P[winner] / P[winner, winner]
    return np.where((P[:, winner] > 0) | (r == 0), r - 1, np.nan)


def collapse_times(choices: Choices, threshold: float) -> Float[np.ndarray, " draws"] | None:
    """Draws of the moment at which one token has the share `threshold`, ascending; None unless the context is an urn.

    That is where all tokens have the same odds after each of them, and one of them the best.
    """
    P = choices.odds()
    start = np.bincount(choices.order, minlength=len(P))
    drawn = P[choices.last] > 0  # the others keep the count they have in the prompt
    if not choices.answered[drawn].all() or np.ptp(P[drawn], axis=0).max() > EQUAL:
        return None
    r = P[choices.last] / P[choices.last].max()
    winner, many = int(r.argmax()), int((r > 1 - EQUAL).sum())
    if many > 1:
        return None
    size = named_rng("collapse", 0).standard_gamma(np.where(drawn, start, 1), (DRAWS, len(P)))
    # log(m_x / m_w^r): what is never drawn stays as it is.
    scale = np.where(drawn, np.log(size) - r * np.log(size[:, [winner]]), np.log(start))
    scale, rate = np.delete(scale, winner, 1), np.delete(r, winner) - 1
    low, high = np.zeros(DRAWS), np.full(DRAWS, 700.0)  # of log m_w
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        others = np.exp(np.minimum(scale + rate * middle[:, None], 700.0)).sum(1)
        above = others > (1 - threshold) / threshold
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.sort(np.maximum(np.exp(high) / threshold - start.sum(), 0.0))
