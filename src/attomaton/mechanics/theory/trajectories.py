r"""Trajectories of the automaton: append the token that was drawn, go on, and watch one token take all.

With $m_x$ the counts of the context and $k$ its last token, the next one is drawn by
$P(y \mid X, k) = m_y P_{ky} / \sum_j m_j P_{kj}$, where $P_k$ is the choice of the limit after $k$ among the retrieved
tokens. What is drawn stands in the context already, so its tokens never change, only their counts: many trajectories
are one matrix of counts. The context grows with every token, or slides as a window of fixed length; a token that
has left the window never comes back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.base.face import Shown
from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Float, Int
from attomaton.corpus.vocabulary import Label
from attomaton.errors import DataError, UsageError, number, visible, whole_number
from attomaton.mechanics.theory.automaton import NO_ANSWER, Automaton, Choices
from attomaton.mechanics.theory.many import TIE
from attomaton.numerics import named_rng

RECORDS = 60  # moments kept of each trajectory, evenly on a log axis
MOST = 1 << 29  # counts that are kept, at most: 2 GB of them
COLLAPSED = 0.95  # share of the context from which on one token has taken all


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories(Shown):
    """Many trajectories from one prompt; `counts[i, j, x]` is how often word `x` stands in context `j` at `times[i]`.

    Time counts drawn tokens. `collapsed[j]` is the first moment at which one token holds the share `threshold` of
    context `j`, `ended[j]` the moment after which it knows no next token (the last one never was a last token); −1
    where there is none. `first` are the tokens that trajectory 0 drew.
    """

    choices: Choices
    window: int | None
    threshold: float
    times: Int[np.ndarray, " times"]
    counts: Int[np.ndarray, "times trajectories words"]
    collapsed: Int[np.ndarray, " trajectories"]
    ended: Int[np.ndarray, " trajectories"]
    first: tuple[Label, ...]

    def _in_short(self) -> str:
        _, many, words = self.counts.shape
        return f"{many:,} trajectories of {self.times[-1]:,} steps, {words} tokens"

    @property
    def shares(self) -> Float[np.ndarray, "times trajectories words"]:
        """The share of each word in each context."""
        return self.counts / self.counts.sum(-1, keepdims=True)

    @property
    def length(self) -> Int[np.ndarray, " times"]:
        """How long the contexts are."""
        return self.counts[:, 0].sum(-1)

    @property
    def leader(self) -> Int[np.ndarray, " trajectories"]:
        """The word that each trajectory ends with most of."""
        return self.counts[-1].argmax(-1)

    def slope(self, word: int, some: Int[np.ndarray, " some"]) -> tuple[float, float] | None:
        """Of the mean share of a word over some trajectories: d log share / d log length, and its standard error.

        It is fitted to the last tenfold of the length; None where there is none, or the share is 0 somewhere there.
        """
        length = self.length
        late = np.flatnonzero(length >= length[-1] / 10)
        share = self.counts[late[:, None], some, word] / length[late, None]
        mean = share.mean(1)
        if length[-1] < 10 * length[0] or not (mean > 0).all():
            return None
        x = np.log(length[late] / length[-1])
        x = (x - x.mean()) / np.square(x - x.mean()).sum()
        each = x @ (share / mean[:, None])  # how much each trajectory moves the slope
        error = each.std(ddof=1) / np.sqrt(len(some)) if len(some) > 1 else np.inf
        return float(x @ np.log(mean)), float(error)


def draw_trajectories(
    automaton: Automaton,
    prompt: Sequence[Label],
    *,
    trajectories: int = 100,
    steps: int = 1000,
    window: int | None = None,
    threshold: float = COLLAPSED,
    seed: int = 0,
    progress: Progress = quiet,
) -> Trajectories:
    """Draw trajectories from a prompt: the context grows, or keeps its last `window` tokens.

    Tokens that the model does not know are left out. A prompt whose last token never was one in the data is an error:
    nothing was learned about what follows it.

    >>> from attomaton import example_samples, solve_limit
    >>> automaton = Automaton(solve_limit(example_samples()))
    >>> draw_trajectories(automaton, ["dishes", "phone"], trajectories=9, steps=50)
    Trajectories(9 trajectories of 50 steps, 2 tokens)
    """
    many = whole_number("trajectories", trajectories, least=1)
    steps = whole_number("steps", steps, least=1)
    seed = whole_number("seed", seed, least=0)
    if not 0.5 < number("threshold", threshold) < 1:
        raise UsageError(f"threshold={threshold:g}: a share between 0.5 and 1 is needed.")
    if window is not None:
        window = whole_number("window", window, least=1)
    known = automaton.choices(prompt)
    if known.last is None or not known.answered[known.last]:
        raise DataError(f"the prompt ends in {visible(list(prompt)[-1])!r}. {NO_ANSWER}")
    times = np.unique(np.geomspace(1, steps, RECORDS).round().astype(np.int64))
    times = np.concatenate([[0], times])
    if len(times) * many * len(known.words) > MOST or many * (window or 0) > MOST:
        raise UsageError(
            f"{many:,} trajectories over {len(known.words):,} tokens do not fit in memory; draw fewer."
        )
    state = _State(known, many, window)
    counts = np.empty((len(times), many, len(known.words)), np.int32)
    counts[0] = state.count
    collapsed, ended = np.full((2, many), -1)
    collapsed[state.lead() >= threshold] = 0
    rng, drawn, kept = named_rng("trajectories", seed), [], 1
    for t in range(1, steps + 1):
        state.step(rng.random(many))
        if state.going[0] or ended[0] < 0:
            drawn.append(known.words[state.last[0]])
        collapsed[(collapsed < 0) & (state.lead() >= threshold)] = t
        state.going = known.answered[state.last]
        if not state.going.all():
            ended[(ended < 0) & ~state.going] = t
        if t == times[kept]:
            counts[kept] = state.count
            kept += 1
            progress(t, steps, f"{(collapsed >= 0).mean():.0%} collapsed")
            if not state.going.any():
                counts[kept:] = state.count
                break
    return Trajectories(known, window, threshold, times, counts, collapsed, ended, tuple(drawn))


class _State:
    """All contexts at one moment, and the step from it to the next."""

    def __init__(self, known: Choices, many: int, window: int | None):
        order = known.order if window is None else known.order[-window:]
        self.known, self.every = known, np.arange(many)
        self.count = np.tile(np.bincount(order, minlength=len(known.words)), (many, 1))
        self.last, self.going = np.full(many, known.last), np.ones(many, bool)
        self.weight = known.odds()
        # What stands in each window, written over from the oldest place on; −1 where nothing stands yet.
        self.ring = None if window is None else np.full((many, window), -1)
        self.place = 0
        if self.ring is not None:
            self.ring[:, : len(order)] = order
            self.place = len(order) % self.ring.shape[1]

    def lead(self) -> Float[np.ndarray, " trajectories"]:
        """The largest share in each context."""
        return np.asarray(self.count.max(1) / self.count.sum(1))

    def step(self, chance: Float[np.ndarray, " trajectories"]) -> None:
        """Draw the next token of each context that goes on, by a number in [0, 1)."""
        mass = self.count * (self.weight[self.last] if self.ring is None else self._retrieved())
        edges = mass.cumsum(1)
        with np.errstate(invalid="ignore"):  # contexts that have ended have no mass
            drawn = (edges / edges[:, -1:] > chance[:, None]).argmax(1)
        some, drawn = self.every[self.going], drawn[self.going]
        if self.ring is not None:
            oldest = self.ring[some, self.place]
            old = oldest >= 0
            self.count[some[old], oldest[old]] -= 1
            self.ring[some, self.place] = drawn
            self.place = (self.place + 1) % self.ring.shape[1]
        self.count[some, drawn] += 1
        self.last[some] = drawn

    def _retrieved(self) -> Float[np.ndarray, "trajectories words"]:
        """The weights of the words that are retrieved among those the window still holds."""
        svm = np.where(self.count > 0, self.known.svm[self.last], -np.inf)
        top = svm.max(1, keepdims=True)
        finite = np.where(svm >= top - TIE, self.known.finite[self.last], -np.inf)
        going = self.going[:, None]
        return np.where(going, np.exp(finite - finite.max(1, keepdims=True)), 0.0)
