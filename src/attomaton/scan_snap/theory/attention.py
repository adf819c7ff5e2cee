r"""How the decoder's backward signal moves attention: overlaps E, mixing β, scan rate ξ, and the velocity of z.

With $F = [f_1 \dots f_K]$ and $F^\top F = I + E$, the decoder sends
$g_n \propto \iota_n f_n - \sum_{n'} \beta_{nn'} f_{n'}$ back, and the logits of query m move as

$$\dot z_m = \text{rate} \cdot \gamma \sum_{n \in \psi^{-1}(m)} \mathrm{diag}(f_n)
  \sum_{n' \ne n} \beta_{nn'} (f_n f_n^\top - I) f_{n'}.$$

`rate` is $\eta_Z$ for one class at a time, and $\eta_Z / K$ where K classes are drawn uniformly. Functions work on any
number of leading axes; `f[..., n, :]` is $f_n$.
"""

import numpy as np

from attomaton.base.shapes import Float, Int

Batch = Float[np.ndarray, "*batch classes vocab"]
Pairs = Float[np.ndarray, "*batch classes classes"]


def overlap(f: Float[np.ndarray, "*batch classes vocab"]) -> Pairs:
    """E, the cosines between the attention of different classes; 0 on the diagonal.

    >>> overlap(np.array([[0.6, 0.8, 0.0], [0.6, 0.0, 0.8]])).round(2).tolist()
    [[0.0, 0.36], [0.36, 0.0]]
    """
    E = f @ np.swapaxes(f, -1, -2)
    n = np.arange(E.shape[-1])
    E[..., n, n] = 0.0
    return E


def inverse_mixing(E: Float[np.ndarray, "*batch classes classes"]) -> Pairs:
    r"""β = E′ with $(I + E)^{-1} = I - E'$: a decoder whose *logits* separate the classes evenly.

    Computed as $(I + E)^{-1} E$, which keeps its digits however small E is.

    >>> inverse_mixing(np.array([[0.0, 0.5], [0.5, 0.0]])).round(3).tolist()
    [[-0.333, 0.667], [0.667, -0.333]]
    """
    return np.linalg.solve(np.eye(E.shape[-1]) + E, E)


def weak_mixing(
    E: Float[np.ndarray, "*batch classes classes"], u: float | Float[np.ndarray, "*batch"], M: int
) -> Pairs:
    r"""β of a decoder trained from zero on weakly correlated classes, by the time its logit gap is $u = Mh$.

    $$\beta_{nn'} = \frac{1}{M-1} \Big( \frac{e^{u E_{nn'}} - 1}{u E_{nn'}} + e^{u E_{nn'}} - 1 \Big).$$

    Write $Y = \sum_n f_n w_n^\top$. Class n' raises the logit of its own next token in class n by $u E_{nn'}$, so it
    takes the share $e^{u E_{nn'}}/(M-1)$ of what class n still gets wrong; $w_{n'n}$ is minus the integral of that
    share over u. β is $-w_{n'}^\top (e_n - \alpha_n)$ over $w_n^\top (e_n - \alpha_n)$, to first order in 1/M. It
    starts at $1/(M-1)$, not at E′, and is good while $e^{u E} \ll M E$: then the logits even out, and β turns
    towards E′.

    >>> weak_mixing(np.array([[0.0, 0.1], [0.1, 0.0]]), 0.0, 11).round(3).tolist()
    [[0.0, 0.1], [0.1, 0.0]]
    """
    x = np.asarray(u)[..., None, None] * E
    tiny = x < 1e-8
    share = np.where(tiny, 1 + x / 2, np.expm1(x) / np.where(tiny, 1.0, x))
    off = 1 - np.eye(E.shape[-1])
    return off * (share + np.expm1(x)) / (M - 1)


def scan_rate(
    f: Float[np.ndarray, "*batch classes vocab"],
    gamma: float | Float[np.ndarray, "*batch"] = 1.0,
    beta: Float[np.ndarray, "*batch classes classes"] | None = None,
) -> Float[np.ndarray, "*batch classes"]:
    r"""ξ_n, how fast attention to class n's distinct tokens grows; β = E′ unless given.

    $$\xi_n = \gamma \sum_{n' \ne n} \beta_{nn'}\, f_n^\top f_{n'}.$$

    For β = E′ this is $\gamma\,([(I + E)^{-1}]_{nn} - 1) = \gamma R_n^2 / (1 - R_n^2)$, where $R_n^2$ is the share of
    $f_n$ that lies in the span of the other classes: never negative, however strong the correlation.

    >>> f = np.array([[0.6, 0.8, 0.0], [0.6, 0.0, 0.8]])
    >>> scan_rate(f, 2.0).round(6).tolist() == [round(2 * 0.36**2 / (1 - 0.36**2), 6)] * 2
    True
    """
    E = overlap(f)
    mix = inverse_mixing(E) if beta is None else beta
    return np.asarray(gamma)[..., None] * (mix * E).sum(axis=-1)


def class_velocity(
    f: Float[np.ndarray, "*batch classes vocab"],
    beta: Float[np.ndarray, "*batch classes classes"],
) -> Batch:
    r"""What each class asks of its query's logits, in units of γ.

    $$v_n = \mathrm{diag}(f_n) \sum_{n' \ne n} \beta_{nn'} (f_n f_n^\top - I) f_{n'}.$$
    """
    E = overlap(f)
    n = np.arange(E.shape[-1])
    mix = beta.copy()
    mix[..., n, n] = 0.0
    rho = (mix * E).sum(axis=-1, keepdims=True)
    return f * (rho * f - mix @ f)


def reduced_velocity(
    f: Float[np.ndarray, "*batch classes vocab"],
    query_of: Int[np.ndarray, " classes"],
    *,
    rate: float,
    gamma: float | Float[np.ndarray, "*batch"],
    beta: Float[np.ndarray, "*batch classes classes"] | None = None,
) -> Float[np.ndarray, "*batch queries vocab"]:
    r"""$\dot z_m$ for every query, ascending: the sum of what its classes ask; β = E′ unless given.

    Each row adds up to 0.

    >>> f = np.array([[0.6, 0.8, 0.0], [0.6, 0.0, 0.8]])
    >>> reduced_velocity(f, np.array([3, 3]), rate=1.0, gamma=1.0).round(4).tolist()
    [[-0.1906, 0.0953, 0.0953]]
    """
    mix = inverse_mixing(overlap(f)) if beta is None else beta
    member = (np.unique(query_of)[:, None] == query_of).astype(float)
    return rate * np.asarray(gamma)[..., None, None] * (member @ class_velocity(f, mix))


def distinct_velocity(
    f: Float[np.ndarray, "*batch classes vocab"],
    xi: Float[np.ndarray, "*batch classes"],
    *,
    rate: float,
) -> Batch:
    r"""$\dot z_{ml} = \text{rate}\, f_{nl}^2 \xi_n$, true of the tokens distinct to class n."""
    return rate * f**2 * xi[..., None]


def single_common_velocity(
    f_l: Float[np.ndarray, "*batch classes"],
    xi: Float[np.ndarray, "*batch classes"],
    query_of: Int[np.ndarray, " classes"],
    *,
    rate: float,
) -> Float[np.ndarray, "*batch queries"]:
    r"""$\dot z_{ml} = -\text{rate} \sum_{n \in \psi^{-1}(m)} (1 - f_{nl}^2)\, \xi_n$, true of the only common token.

    A class without that token shares nothing with any other, so its ξ is 0 and it adds nothing.
    """
    member = (np.unique(query_of)[:, None] == query_of).astype(float)
    return -rate * ((1 - f_l**2) * xi) @ member.T
