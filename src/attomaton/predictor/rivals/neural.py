"""A small GRU and a small transformer, trained briefly on the same windows (PyTorch, imported when asked for).

Both read the context from its beginning, embed K + 1 tokens (the last: any word never seen) in `WIDTH` dimensions, and
take the same table for their output. Adam, early stop on validation windows, and a budget of seconds: what was best on
validation when time ran out is what is judged. With more than `FEW` tokens the softmax of training is over the labels
of a batch and `SAMPLED` tokens drawn by frequency, corrected for how they were drawn; judged is the whole one.
"""

import math
import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from attomaton.base.progress import Progress, quiet
from attomaton.corpus.windows import Windows
from attomaton.numerics import named_rng, ragged_indices
from attomaton.predictor.rivals.counting import LONGEST
from attomaton.predictor.rivals.spreads import Dense

WIDTH, LAYERS, HEADS, DROPOUT = 96, 2, 4, 0.15
BATCH = 64
RATE = {"gru": 3e-3, "transformer": 1.5e-3}
FEW, SAMPLED = 8192, 2048
CHECKS = 25  # looks at validation windows, at most, in the time there is
MEMORY = 0.99  # of the running average of weights
PATIENCE = 6  # looks without a gain
VALIDATION = 4000  # windows looked at
EPOCHS = 30
SECONDS = 180.0


@dataclass(frozen=True)
class Trained:
    """How long training took, how many epochs it came to, and the log-loss on validation windows."""

    seconds: float
    epochs: float
    valid_loss: float


@dataclass(frozen=True, eq=False)
class Neural:
    """A trained network: the state after a context, against the table of tokens."""

    net: Any
    table: Float[np.ndarray, "vocab_and_one width"]
    bias: Float[np.ndarray, " vocab_and_one"]
    trained: Trained
    buckets: int = 1

    def on(self, windows: Windows, rows: Int[np.ndarray, " rows"]) -> "States":
        """The states after these contexts."""
        states = _states(self.net, windows, rows, len(self.bias) - 1)
        return States(states, self.table, self.bias)


@dataclass(frozen=True, eq=False)
class States:
    """States after contexts; a distribution is the softmax of their products with the table."""

    state: Float[np.ndarray, "rows width"]
    table: Float[np.ndarray, "vocab_and_one width"]
    bias: Float[np.ndarray, " vocab_and_one"]

    @property
    def bucket(self) -> Int[np.ndarray, " rows"]:
        """One kind of window."""
        return np.zeros(len(self.state), dtype=np.int64)

    def dense(self, begin: int, end: int) -> Dense:
        """The distributions of rows begin … end − 1."""
        z = self.state[begin:end] @ self.table.T
        z += self.bias
        z -= z.max(axis=1, keepdims=True)
        p = np.exp(z, out=z).astype(np.float64)
        p /= p.sum(axis=1, keepdims=True)
        return p


def fit_neural(
    kind: str,
    train: Windows,
    valid: Windows,
    seconds: float = SECONDS,
    progress: Progress = quiet,
) -> Neural:
    """Train a network ("gru" or "transformer") for at most so many seconds."""
    import torch

    begin = time.perf_counter()
    K = len(train.vocabulary)
    rng = named_rng(kind, 0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        net = _network(kind, K, min(LONGEST, int(train.length.max()))).to(device)
        best, trained = _train(net, RATE[kind], train, valid, rng, begin + seconds, progress)
    net.load_state_dict(best)
    net.eval()
    table, bias = (x.detach().cpu().numpy() for x in (net.embed.weight[: K + 1], net.bias))
    spent = time.perf_counter() - begin
    return Neural(net, table, bias, Trained(spent, trained.epochs, trained.valid_loss))


def _network(kind: str, K: int, longest: int) -> Any:
    """The network: tokens (rows, places) to states (rows, places, width)."""
    import torch
    from torch import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(K + 2, WIDTH)  # the last fills up rows
            nn.init.normal_(self.embed.weight, std=0.1)
            self.bias = nn.Parameter(torch.zeros(K + 1))
            self.drop = nn.Dropout(DROPOUT)
            if kind == "gru":
                self.body: nn.Module = nn.GRU(WIDTH, WIDTH, batch_first=True)
            else:
                self.place = nn.Embedding(longest + 1, WIDTH)
                nn.init.normal_(self.place.weight, std=0.1)
                layer = nn.TransformerEncoderLayer(
                    WIDTH, HEADS, 4 * WIDTH, DROPOUT, batch_first=True, norm_first=True
                )
                self.body = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
            self.out = nn.Linear(WIDTH, WIDTH)

        def forward(self, token: Any) -> Any:
            x = self.drop(self.embed(token))
            if kind == "gru":
                h, _ = self.body(x)
            else:
                n = token.shape[1]
                x = x + self.place(torch.arange(n, device=token.device))
                later = torch.triu(torch.ones(n, n, dtype=torch.bool, device=token.device), 1)
                h = self.body(x, mask=later)
            return self.out(self.drop(h))

    return Network()


def _rows_of(
    windows: Windows, rows: Int[np.ndarray, " rows"], K: int, label: bool
) -> Int[np.ndarray, "rows places"]:
    """Contexts from their beginning (their last LONGEST tokens), with the label behind, filled up with K + 1."""
    length = np.minimum(windows.length[rows], LONGEST).astype(np.int64)
    left = windows.left[rows] + windows.length[rows] - length
    found = np.full((len(rows), int(length.max()) + label), K + 1, dtype=np.int64)
    row = np.repeat(np.arange(len(rows)), length)
    place = ragged_indices(np.zeros(len(rows), dtype=np.int64), length)
    found[row, place] = np.minimum(windows.ids[ragged_indices(left, length)], K)
    if label:
        found[np.arange(len(rows)), length] = np.minimum(windows.label[rows], K)
    return found


def _states(
    net: Any, windows: Windows, rows: Int[np.ndarray, " rows"], K: int
) -> Float[np.ndarray, "rows width"]:
    import torch

    device = net.bias.device
    found = []
    with torch.no_grad():
        for begin in range(0, len(rows), 512):
            some = rows[begin : begin + 512]
            token = torch.from_numpy(_rows_of(windows, some, K, label=False)).to(device)
            last = np.minimum(windows.length[some], LONGEST).astype(np.int64) - 1
            found.append(net(token)[torch.arange(len(some)), torch.from_numpy(last)].cpu().numpy())
    return np.concatenate(found)


def _batches(windows: Windows, rng: np.random.Generator) -> Iterator[Int[np.ndarray, " rows"]]:
    """Windows whose contexts and labels cover the corpus about once, in batches, drawn anew each time.

    Of sequences every T-th window from a random one on and the last; of contexts given as such all.
    """
    rows = np.arange(len(windows))
    if windows.starts is not None:
        T = min(LONGEST, int(windows.length.max()))
        sequence = windows.sequence_of(windows.source)
        place = rows - np.searchsorted(sequence, sequence)
        last = np.append(np.diff(sequence) > 0, True)
        rows = np.flatnonzero(((place - rng.integers(T)) % T == T - 1) | last)
    rows = rng.permutation(rows)
    for begin in range(0, len(rows), BATCH):
        yield rows[begin : begin + BATCH]


def _train(
    net: Any,
    rate: float,
    train: Windows,
    valid: Windows,
    rng: np.random.Generator,
    end: float,
    progress: Progress,
) -> tuple[Any, Trained]:
    """Adam until nothing is gained on validation windows or the time is over.

    Judged, and given back, is a running average of the weights: the last steps of a short training jump about.
    """
    import torch

    K, begin = len(train.vocabulary), time.perf_counter()
    frequency = np.bincount(train.label, minlength=K) + 1.0
    sampler = _Sampler(K, frequency / frequency.sum(), rng) if K > FEW else None
    optimiser = torch.optim.Adam(net.parameters(), lr=rate)
    asked = np.linspace(0, len(valid) - 1, min(VALIDATION, len(valid))).astype(np.int64)
    every = max((end - begin) / CHECKS, 0.5)
    average = deepcopy(net).eval()
    best, state, waited, seen, look = math.inf, _copy(average), 0, 0, begin + every
    batches = (rows for _ in range(EPOCHS) for rows in _batches(train, rng))
    for step, rows in enumerate(batches):
        now = time.perf_counter()
        done = (now - begin) / (end - begin)
        # Rises at first (attention needs that), falls in the second half.
        falls = max(0.02, 2 * (1 - done))
        optimiser.param_groups[0]["lr"] = rate * min(1.0, 0.1 + 20 * done, falls)
        loss = _loss(net, train, rows, K, sampler)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        seen += len(rows)
        with torch.no_grad():
            for mean, new in zip(average.parameters(), net.parameters(), strict=True):
                mean.lerp_(new, max(1 - MEMORY, 9 / (10 + step)))
        if now >= look or now >= end:
            value, look = _valid_loss(average, valid, asked, K), time.perf_counter() + every
            progress(int(now - begin), int(end - begin), f"valid {value:.3f} nats")
            waited += 1
            if value < best:
                best, state, waited = value, _copy(average), 0
            if now >= end or waited >= PATIENCE:
                break
    else:
        value = _valid_loss(average, valid, asked, K)
        best, state = (value, _copy(average)) if value < best else (best, state)
    return state, Trained(time.perf_counter() - begin, seen / _cover(train), best)


def _cover(windows: Windows) -> float:
    """About how many windows one epoch takes."""
    return max(1.0, float(sum(len(x) for x in _batches(windows, np.random.default_rng(0)))))


def _copy(net: Any) -> Any:
    return {name: value.detach().clone() for name, value in net.state_dict().items()}


def _loss(net: Any, windows: Windows, rows: Int[np.ndarray, " rows"], K: int, sampler: Any) -> Any:
    """The log-loss of all next tokens in these contexts and of labels; of labels alone where contexts were given."""
    import torch
    from torch.nn.functional import cross_entropy

    device = net.bias.device
    token = torch.from_numpy(_rows_of(windows, rows, K, label=True)).to(device)
    state, target = net(token[:, :-1]), token[:, 1:]
    wanted = target <= K
    if windows.starts is None:
        wanted = torch.zeros_like(wanted)
        last = np.minimum(windows.length[rows], LONGEST).astype(np.int64) - 1
        wanted[torch.arange(len(rows)), torch.from_numpy(last)] = True
    state, target = state[wanted], target[wanted]
    if sampler is None:
        return cross_entropy(state @ net.embed.weight[: K + 1].T + net.bias, target)
    return sampler.loss(net, state, target)


class _Sampler:
    """A softmax over the labels of a batch and tokens drawn by frequency^¾, each corrected for its expected count."""

    def __init__(self, K: int, share: Float[np.ndarray, " vocab"], rng: np.random.Generator):
        flat = share**0.75
        self.q, self.rng, self.K = flat / flat.sum(), rng, K

    def loss(self, net: Any, state: Any, target: Any) -> Any:
        """The corrected log-loss."""
        import torch
        from torch.nn.functional import cross_entropy

        labels = target.cpu().numpy()
        drawn = self.rng.choice(self.K, SAMPLED, p=self.q)
        tokens, place = np.unique(np.concatenate([labels, drawn]), return_inverse=True)
        # A token is there if it was drawn or is a label of the batch: about 1 − (1 − q)^(both).
        known = np.minimum(tokens, self.K - 1)
        many = SAMPLED + len(labels)
        there = -np.expm1(many * np.log1p(-np.minimum(self.q[known], 0.999999)))
        index = torch.from_numpy(tokens).to(state.device)
        z = state @ net.embed.weight[index].T + net.bias[index]
        z = z - torch.from_numpy(np.log(np.maximum(there, 1e-9)).astype(np.float32)).to(z.device)
        return cross_entropy(z, torch.from_numpy(place[: len(labels)]).to(z.device))


def _valid_loss(net: Any, valid: Windows, rows: Int[np.ndarray, " rows"], K: int) -> float:
    """The log-loss of labels, over the whole vocabulary."""
    table, bias = (x.detach().cpu().numpy() for x in (net.embed.weight[: K + 1], net.bias))
    states = States(_states(net, valid, rows, K), table, bias)
    size, loss = max(1, (1 << 22) // (K + 1)), 0.0
    label = np.minimum(valid.label[rows], K)
    for a in range(0, len(rows), size):
        b = min(a + size, len(rows))
        p = states.dense(a, b)[np.arange(b - a), label[a:b]]
        loss -= float(np.log(np.maximum(p, 1e-12)).sum())
    return loss / len(rows)
