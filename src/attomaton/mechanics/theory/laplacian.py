r"""Newton steps of a Luce fit without cancellation, with a bound on what rounding may have done to them.

The Hessian of a Luce loss is the Laplacian of a graph with conductances $C_{ij} = \sum_n w_n p_{ni} p_{nj}$, and its
gradient is the imbalance of flows: $A_{ij} = \sum_{n: y_n = j} w_n p_{ni}$ is the probability that $i$ holds where $j$
won, and $g_i = \sum_j (A_{ij} - A_{ji})$. Both are sums of positive numbers, so each entry is known to many digits
however unlike the weights are; a matrix and a vector of sums over entries are not. Here the flows stay on their
edges through the elimination (Grassmann, Taksar and Heyman 1985 keep the diagonal the same way): taking out node $k$
of total conductance $d$,

$$F = A^\top - A, \qquad C_{ij} \mathrel{+}= C_{ik} C_{kj} / d, \qquad
F_{ij} \mathrel{+}= (F_{ik} C_{kj} - C_{ik} F_{jk}) / d.$$

An error $\varepsilon$ in the flow of an edge moves no difference of two scores by more than $\varepsilon R_{ij}$, the
effective resistance between its ends, and no path between them has a smaller one.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.shapes import Bool, Float, Int
from attomaton.numerics import sum_by, unique_inverse

EPS = float(np.finfo(float).eps)


class Step(NamedTuple):
    """Newton steps of several graphs, 0 at their first nodes, and how far rounding may have moved their differences."""

    step: Float[np.ndarray, "graphs size"]
    error: Float[np.ndarray, " graphs"]


def newton_step(
    conductance: Float[np.ndarray, "graphs size size"],
    flow: Float[np.ndarray, "graphs size size"],
    noise: Float[np.ndarray, "graphs size size"],
    real: Bool[np.ndarray, "graphs size"],
) -> Step:
    """−H⁻¹ g of graphs padded to one size; `noise` is the relative error of each flow, `real` marks true nodes.

    True nodes come first. The error is infinite where a graph falls apart for float64.
    """
    C, F = conductance.copy(), flow.transpose(0, 2, 1) - flow
    F_most = flow + flow.transpose(0, 2, 1)
    R = path_resistance(conductance)
    apart = ~np.isfinite(R)
    R[apart] = 0.0
    apart &= real[:, :, None] & real[:, None, :]
    error = np.where(apart.any(axis=(1, 2)), np.inf, (noise * (flow * R)).sum(axis=(1, 2)))
    graphs, size = real.shape
    x = np.zeros((graphs, size))
    for k in range(size - 1, 0, -1):
        c = np.ascontiguousarray(C[:, :k, k])
        d = c.sum(axis=1)
        c /= np.where(d > 0, d, 1.0)[:, None]
        f, most = F[:, :k, k].copy(), F_most[:, :k, k].copy()
        x[:, k] = -f.sum(axis=1) / np.where(d > 0, d, 1.0)
        error += EPS * k * (most * R[:, :k, k]).sum(axis=1)
        moved = f[:, :, None] * c[:, None, :]
        F[:, :k, :k] += moved - moved.transpose(0, 2, 1)
        moved = most[:, :, None] * c[:, None, :]
        F_most[:, :k, :k] += moved + moved.transpose(0, 2, 1)
        C[:, :k, :k] += C[:, :k, k][:, :, None] * c[:, None, :]
        C[:, k, :k] = c
        # Each new entry was rounded some four times; every pair is counted twice in the sum.
        error += 2 * EPS * (F_most[:, :k, :k] * R[:, :k, :k]).sum(axis=(1, 2))
    for k in range(1, size):
        x[:, k] += (C[:, k, :k] * x[:, :k]).sum(axis=1)
    error[~np.isfinite(x).all(axis=1) | np.isnan(error)] = np.inf
    return Step(x, error)


def balance(
    flow: Float[np.ndarray, "graphs size size"], real: Bool[np.ndarray, "graphs size"]
) -> Float[np.ndarray, "graphs size"]:
    """log u, 0 at the first nodes, such that flows u_i A_ij in and out of every node are equal.

    The stationary distribution of a Markov chain, by elimination without subtraction: exact to all digits at any
    distance from the optimum, and there already where choices are pairs that form a tree (Maystre and
    Grossglauser 2015 repeat it to the optimum).
    """
    A = flow.copy()
    graphs, size = real.shape
    leaving = np.ones((graphs, size))
    for k in range(size - 1, 0, -1):
        out = np.ascontiguousarray(A[:, k, :k])
        d = out.sum(axis=1)
        leaving[:, k] = np.where(d > 0, d, 1.0)
        A[:, :k, :k] += A[:, :k, k][:, :, None] * (out / leaving[:, k, None])[:, None, :]
    x = np.zeros((graphs, size))
    with np.errstate(divide="ignore"):
        for k in range(1, size):
            enters = x[:, :k] + np.log(A[:, :k, k])
            most = enters.max(axis=1)
            most[~np.isfinite(most)] = 0.0
            x[:, k] = most + np.log(np.exp(enters - most[:, None]).sum(axis=1) / leaving[:, k])
    return np.where(real & np.isfinite(x), x, 0.0)


def path_resistance(
    conductance: Float[np.ndarray, "graphs size size"],
) -> Float[np.ndarray, "graphs size size"]:
    """The least resistance of a path between any two nodes: at least the effective resistance between them."""
    with np.errstate(divide="ignore", over="ignore"):
        R = 1.0 / conductance
        for k in range(R.shape[1]):
            R[:, k, k] = 0.0
            np.minimum(R, R[:, :, k, None] + R[:, None, k, :], out=R)
    return R


def spanning_forest(
    one: Int[np.ndarray, " edges"],
    other: Int[np.ndarray, " edges"],
    conductance: Float[np.ndarray, " edges"],
    n: int,
) -> Any:
    """Of a graph of n nodes, the forest of least resistances that joins what the graph joins: a sparse matrix of them.

    Each edge lies in it once, whichever way it was given, with what was given of it added up.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    low, high = np.minimum(one, other), np.maximum(one, other)
    key, which = unique_inverse(low * np.int64(n) + high)
    c = sum_by(which, conductance, len(key))
    key, c = key[c > 1e-300], c[c > 1e-300]
    return minimum_spanning_tree(csr_array((1.0 / c, (key // n, key % n)), shape=(n, n)))


def tree_bound(
    one: Int[np.ndarray, " edges"],
    other: Int[np.ndarray, " edges"],
    conductance: Float[np.ndarray, " edges"],
    gradient: Float[np.ndarray, " nodes"],
    noise: Float[np.ndarray, " nodes"],
) -> float:
    """A bound on the largest difference within H⁻¹ g, for a graph too large to eliminate.

    `conductance` may leave out part of the true ones. The gradient, give or take `noise`, is routed along a
    spanning tree of small resistance; by Thomson's principle the energy of H⁻¹ g is at most that of this flow, and
    a potential difference is at most √(energy · resistance).
    """
    from scipy.sparse.csgraph import breadth_first_order

    n = len(gradient)
    tree = spanning_forest(one, other, conductance, n)
    tree = (tree + tree.T).tocsr()
    root = int(np.argmax(np.diff(tree.indptr)))
    order, parent = breadth_first_order(tree, root, directed=False)
    if len(order) < n:
        return np.inf
    ohm = np.zeros(n)
    row = np.repeat(np.arange(n), np.diff(tree.indptr))
    up = parent[row] == tree.indices
    ohm[row[up]] = tree.data[up]
    # Breadth-first order goes layer by layer: a layer ends where the next node's parent lies inside it.
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    above = np.where(order == root, -1, place[np.maximum(parent[order], 0)])
    layers = [0, 1]
    while layers[-1] < n:
        layers.append(int(np.searchsorted(above, layers[-1])))
    ohm, current, doubt = ohm[order], gradient[order].copy(), noise[order].copy()
    far = np.zeros(n)
    for lo, hi in pairwise(layers[1:]):
        far[lo:hi] = far[above[lo:hi]] + ohm[lo:hi]
    for hi, lo in pairwise(layers[:0:-1]):
        np.add.at(current, above[lo:hi], current[lo:hi])
        np.add.at(doubt, above[lo:hi], doubt[lo:hi])
    # Adding up signed currents rounds too, by what their sizes add up to.
    size = np.abs(current[1:]) + doubt[1:] + n * EPS * np.abs(gradient).sum()
    with np.errstate(over="ignore"):
        return float(np.sqrt(2 * far.max() * (size**2 * ohm[1:]).sum()))
