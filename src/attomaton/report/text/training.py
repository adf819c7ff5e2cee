"""A run of training in words: which limit its optimiser has, and how much of the best margin it came to."""

from collections.abc import Mapping, Sequence
from math import isfinite

from attomaton.errors import counted
from attomaton.mechanics.theory.norms import Norm, norm_key

NAMES = {
    "gd": "gradient descent", "ngd": "normalised gradient descent", "polyak": "gradient descent with Polyak's steps",
    "sgd": "stochastic gradient descent", "adam": "Adam", "sign": "sign descent", "spectral": "spectral descent",
    "muon": "Muon",
}  # fmt: skip


def norm_text(norm: Norm) -> str:
    """A norm in words.

    >>> norm_text("max"), norm_text("frobenius"), norm_text(1.5)
    ('max norm', 'Frobenius norm', '1.5-norm')
    """
    if isinstance(norm, str):
        return f"{'Frobenius' if norm == 'frobenius' else norm} norm"
    return f"{norm:g}-norm"


def optimizer_text(optimizer: str, eps: float | None = None) -> str:
    """An optimiser by its name in a sentence, with its ε if it is Adam.

    >>> optimizer_text("adam", 0.0), optimizer_text("mirror:3")
    ('Adam with ε = 0', 'mirror descent with p = 3')
    """
    kind, _, p = optimizer.partition(":")
    name = f"mirror descent with p = {p}" if kind == "mirror" else NAMES.get(optimizer, optimizer)
    return f"{name} with ε = {eps:g}" if optimizer == "adam" and eps is not None else name


def limit_words(
    optimizer: str,
    norm: Norm,
    final: Sequence[Mapping[str, float | int | None]],
    *,
    eps: float | None = None,
    left_out: str | None = None,
    tied: bool = False,
    plain: bool = True,
) -> str:
    """What an optimiser approaches, and how much of that margin the last records of its runs have.

    `plain`: under the log-loss and the identity head, of which that is known.

    >>> limit_words("muon", "spectral", [{"margin_spectral": 0.8, "margin_frobenius": 0.6}])
    'Muon approaches the largest margin in the spectral norm; this run has 0.80 of it (0.60 of the Frobenius margin).'
    """
    name = optimizer_text(optimizer, eps) + (" on keys and queries" if norm == "nuclear" else "")
    line = f"{name[0].upper()}{name[1:]} approaches the largest margin in the {norm_text(norm)}"
    if tied and norm != "frobenius":
        line += " (known for data without ties; these have some)"
    if not plain:
        line += " (known for the log-loss and the identity head; others may settle in a local direction)"
    free = _values(final, "eps_free")
    if eps and free:
        line += f" while √v is well above ε, at the end in {min(free):.1%} of the coordinates"
    own = _values(final, f"margin_{norm_key(norm)}")
    other = "max" if norm == "frobenius" else "frobenius"
    beside = _values(final, f"margin_{other}")
    aside = f"{_range(beside)} of the {norm_text(other).replace(' norm', '')} margin"
    runs = "this run has" if len(final) == 1 else f"these {counted(len(final), 'run')} have"
    if own:
        line += f"; {runs} {_range(own)} of it" + (f" ({aside})." if beside else ".")
    elif left_out is not None:
        line += f". How much of it is not told ({left_out.rstrip('.')})"
        line += f"; {runs} {aside}." if beside else "."
    else:
        return f"{line}; there is none, since no token outranks another."
    return line + (
        " Below 0: some priority is still the wrong way round." if min(own or [0]) < 0 else ""
    )


def _values(final: Sequence[Mapping[str, float | int | None]], name: str) -> list[float]:
    found = (row.get(name) for row in final)
    return [x for x in found if x is not None and isfinite(x)]


def _range(values: list[float]) -> str:
    low, high = (f"{x:.2f}" for x in (min(values, default=0), max(values, default=0)))
    return low if low == high else f"{low} to {high}"
