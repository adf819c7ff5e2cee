"""What both sides of the wall know of a run: which attention, and weights and scores over the steps."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from attomaton.base.shapes import Float, Int
from attomaton.errors import UsageError

Attention = Literal["softmax", "exp", "linear"]


def check_attention(attention: str) -> None:
    """Refuse an attention that is none of the three."""
    if attention not in get_args(Attention):
        raise UsageError(f"attention={attention!r}: softmax, exp or linear is needed.")


@dataclass(frozen=True, eq=False)
class Course:
    """A run at the steps that were kept.

    `weight` has a row for each hidden node, its last number that of the query; `score` are the scores z of the one
    query, `loss` the mean loss over classes. `temperature` divides scores (linear attention has none: 1).
    """

    attention: Attention
    temperature: float
    step: Int[np.ndarray, " kept"]
    weight: Float[np.ndarray, "kept nodes inputs"]
    score: Float[np.ndarray, "kept tokens"]
    loss: Float[np.ndarray, " kept"]

    @property
    def tokens(self) -> Float[np.ndarray, "kept nodes tokens"]:
        """v: the weights of hidden nodes on tokens, without the query's."""
        return self.weight[..., :-1]
