"""A small GRU and a small transformer, trained briefly on the same windows (PyTorch, imported when asked for).

Both read the context from its beginning, embed K + 1 tokens (the last: any word never seen) in `WIDTH` dimensions, and
take the same table for their output. Adam, early stop on validation windows, and a budget of seconds and epochs: what
was best on validation when either ran out is what is judged. With more than `FEW` tokens the softmax of training is
over the label, the `FREQUENT` most frequent tokens and `SAMPLED` others drawn by frequency, which count for all that
were not drawn; judged is the whole one.
"""

import itertools
import math
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Float, Int
from attomaton.corpus.windows import Windows
from attomaton.numerics import named_rng, ragged_indices
from attomaton.predictor.bags import thinned
from attomaton.predictor.rivals.counting import LONGEST
from attomaton.predictor.rivals.spreads import Dense

WIDTH, LAYERS, HEADS, DROPOUT = 96, 2, 4, 0.15
BATCH = 128
RATE = {"gru": 3e-3, "transformer": 1.5e-3}
FEW, FREQUENT, SAMPLED = 2048, 512, 512
CHECKS = 25  # looks at validation windows, at most
MEMORY = 0.99  # of the running average of weights
PATIENCE = 6  # looks without a gain
VALIDATION = 4000  # windows looked at
EPOCHS = 30.0
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
    epochs: float = EPOCHS,
    progress: Progress = quiet,
) -> Neural:
    """Train a network ("gru" or "transformer") for at most so many seconds and epochs.

    The rate of learning falls towards whichever end is nearer, so that both make a whole training.
    """
    import torch

    begin = time.perf_counter()
    K = len(train.vocabulary)
    rng = named_rng(kind, 0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        net = _network(kind, K, min(LONGEST, int(train.length.max()))).to(device)
        windows = epochs * _cover(train)

        def gone(seen: int) -> float:
            """How much of the training is over after so many windows: 1 at its end."""
            return max((time.perf_counter() - begin) / seconds, seen / windows)

        best, seen, loss = _train(net, RATE[kind], train, valid, rng, gone, progress)
    net.load_state_dict(best)
    net.eval()
    table, bias = (x.detach().cpu().numpy() for x in (net.embed.weight[: K + 1], net.bias))
    trained = Trained(time.perf_counter() - begin, seen / _cover(train), loss)
    return Neural(net, table, bias, trained)


def _network(kind: str, K: int, longest: int) -> Any:
    """The network: tokens (rows, places) to states (rows, places, width)."""
    import torch
    from torch import nn
    from torch.nn.functional import relu, scaled_dot_product_attention

    class Block(nn.Module):
        """Causal attention, then two linear maps; half the time of the library's layer on a CPU."""

        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.three, self.joined = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
            self.drop = nn.Dropout(DROPOUT)

        def forward(self, x: Any) -> Any:
            rows, places, width = x.shape
            three = self.three(self.before(x)).view(rows, places, 3, HEADS, width // HEADS)
            query, key, value = three.permute(2, 0, 3, 1, 4)
            heads = scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.drop(self.joined(heads.transpose(1, 2).reshape(x.shape)))
            return x + self.drop(self.down(relu(self.up(self.between(x)))))

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
                self.body = nn.Sequential(*(Block() for _ in range(LAYERS)))
            self.out = nn.Linear(WIDTH, WIDTH)

        def forward(self, token: Any) -> Any:
            x = self.drop(self.embed(token))
            if kind == "gru":
                h, _ = self.body(x)
            else:
                h = self.body(x + self.place(torch.arange(token.shape[1], device=token.device)))
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
    over: Callable[[int], float],
    progress: Progress,
) -> tuple[Any, int, float]:
    """Adam until nothing is gained on validation windows or, after so many windows, training is `over` (1 or more).

    Judged, and given back, is a running average of the weights: the last steps of a short training jump about.
    """
    import torch

    K = len(train.vocabulary)
    frequency = np.bincount(train.label, minlength=K) + 1.0
    sampler = _Sampler(K, frequency / frequency.sum(), rng) if K > FEW else None
    optimiser = torch.optim.Adam(net.parameters(), lr=rate, fused=True)
    asked = thinned(np.arange(len(valid)), VALIDATION)
    average = deepcopy(net).eval()
    best, state, waited, seen, looks = math.inf, _copy(average), 0, 0, 0
    batches = (rows for _ in itertools.count() for rows in _batches(train, rng))
    for step, rows in enumerate(batches):
        gone = over(seen)
        # Rises at first (attention needs that), falls in the second half.
        falls = max(0.02, 2 * (1 - gone))
        optimiser.param_groups[0]["lr"] = rate * min(1.0, 0.1 + 20 * gone, falls)
        loss = _loss(net, train, rows, K, sampler)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        seen += len(rows)
        with torch.no_grad():
            for mean, new in zip(average.parameters(), net.parameters(), strict=True):
                mean.lerp_(new, max(1 - MEMORY, 9 / (10 + step)))
        gone = over(seen)
        if gone * CHECKS >= looks + 1:
            value, looks = _valid_loss(average, valid, asked, K), int(gone * CHECKS)
            progress(int(100 * gone), 100, f"% of the training, valid {value:.3f} nats")
            waited += 1
            if value < best:
                best, state, waited = value, _copy(average), 0
            if gone >= 1 or waited >= PATIENCE:
                break
    return state, seen, best


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
    """A softmax over the label, the most frequent tokens, and others drawn by frequency^¾.

    A token of chance q that is drawn m times over stands for 1 / (m q) of its kind: so the sum below the line is, on
    average, that of the whole softmax. The label counts once, as itself.
    """

    def __init__(self, K: int, share: Float[np.ndarray, " vocab"], rng: np.random.Generator):
        order = np.append(np.argsort(-share, kind="stable"), K)
        self.often, self.rest = order[:FREQUENT], order[FREQUENT:]
        self.place = np.empty(K + 1, dtype=np.int64)
        self.place[order] = np.arange(K + 1)
        flat = np.append(share, 1.0 / K)[self.rest] ** 0.75
        self.q, self.rng = flat / flat.sum(), rng
        self.up_to = np.cumsum(self.q)

    def loss(self, net: Any, state: Any, target: Any) -> Any:
        """The log-loss with the sum below the line drawn."""
        import torch
        from torch.nn.functional import cross_entropy

        def there(x: np.ndarray) -> Any:
            return torch.from_numpy(x).to(state.device)

        drawn = np.searchsorted(self.up_to, self.rng.random(SAMPLED) * self.up_to[-1])
        tokens = np.concatenate([self.often, self.rest[drawn]])
        many = np.concatenate([np.zeros(len(self.often)), np.log(SAMPLED * self.q[drawn])])
        index = there(tokens)
        z = state @ net.embed.weight[index].T + (net.bias[index] - there(many.astype(np.float32)))
        twice = index[len(self.often) :] == target[:, None]
        z[:, len(self.often) :].masked_fill_(twice, -math.inf)
        place = there(self.place)[target]
        own = (state * net.embed.weight[target]).sum(dim=1) + net.bias[target]
        own = own.masked_fill(place < len(self.often), -math.inf)
        z = torch.cat([z, own[:, None]], dim=1)
        return cross_entropy(z, torch.where(place < len(self.often), place, len(tokens)))


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
