"""What the weights of each family are called in its files, how large they are, and where they go here.

Inside, every model has the same weights: for each layer queries, keys and values by head, norms and the hidden layer,
stacked over layers. A `Piece` is one array of a file, and `split` cuts it into those.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from attomaton.trained.form import Form

Shape = tuple[int, ...]
Split = Callable[[np.ndarray], dict[str, np.ndarray]]


class Block(NamedTuple):
    """Weights of all layers, one after the other on the first axis; None where the family has none."""

    scale_1: Any
    shift_1: Any
    W_Q: Any  # (layers, width, heads, each)
    b_Q: Any
    W_K: Any  # (layers, width, key_heads, each)
    b_K: Any
    W_V: Any
    b_V: Any
    W_O: Any  # (layers, heads, each, width)
    b_O: Any
    scale_Q: Any  # norms of queries and keys themselves
    scale_K: Any
    scale_2: Any
    shift_2: Any
    W_1: Any  # (layers, width, hidden)
    b_1: Any
    W_G: Any  # what multiplies the hidden units, in families that have a gate
    b_G: Any
    W_2: Any  # (layers, hidden, width)
    b_2: Any


class Weights(NamedTuple):
    """All weights: embeddings U, positions P, layers, the last norm, and the decoder (None where it is U)."""

    U: Any
    P: Any
    blocks: Block
    scale: Any
    shift: Any
    D: Any
    b: Any


@dataclass(frozen=True)
class Piece:
    """One array of a file: its names there (any of them), shape, layer (None: of none), and the weights it holds."""

    names: tuple[str, ...]
    shape: Shape
    layer: int | None
    fields: tuple[str, ...]
    split: Split


def block_shapes(form: Form) -> dict[str, Shape | None]:
    """The shape of every weight of one layer; None where the form has none."""
    d, h, e = form.width, form.hidden, form.each
    queries, keys = (form.heads, e), (form.key_heads, e)
    plain = (d,) if form.norm_weights else None
    shift = plain if form.norm == "layer" else None
    gate = form.bias_hidden and form.gated and form.family != "transformer_lens"
    return {
        "scale_1": plain, "shift_1": shift,
        "W_Q": (d, *queries), "b_Q": queries if form.bias_qkv else None,
        "W_K": (d, *keys), "b_K": keys if form.bias_qkv else None,
        "W_V": (d, *keys), "b_V": keys if form.bias_qkv else None,
        "W_O": (*queries, d), "b_O": (d,) if form.bias_out else None,
        "scale_Q": (e,) if form.query_key_norm else None, "scale_K": (e,) if form.query_key_norm else None,
        "scale_2": plain, "shift_2": shift,
        "W_1": (d, h), "b_1": (h,) if form.bias_hidden else None,
        "W_G": (d, h) if form.gated else None, "b_G": (h,) if gate else None,
        "W_2": (h, d), "b_2": (d,) if form.bias_hidden else None,
    }  # fmt: skip


def outer_shapes(form: Form) -> dict[str, Shape | None]:
    """The shape of every weight outside the layers."""
    d, last = form.width, (form.width,) if form.norm_weights and not form.post else None
    bias = form.family in ("attomaton", "transformer_lens")
    return {
        "U": (form.vocab, d),
        "P": (form.longest, d) if form.positions == "learned" else None,
        "scale": last,
        "shift": last if form.norm == "layer" else None,
        "D": None if form.tied else (form.vocab, d),
        "b": (form.vocab,) if bias else None,
    }


def pieces(form: Form, there: Collection[str]) -> Iterator[Piece]:
    """Every array that the files of this form hold; `there` are the names found in them."""
    yield from _FAMILIES[form.family](form, there)


def is_known_extra(name: str) -> bool:
    """Whether an array holds no weight: masks, and frequencies that follow from the configuration."""
    last = ".".join(name.split(".")[-2:])
    return last in _EXTRA or name.endswith("rotary_emb.inv_freq")


_EXTRA = (
    "attn.bias", "attn.masked_bias", "attention.bias", "attention.masked_bias", "attn.mask", "attn.IGNORE",
    "attn.rotary_sin", "attn.rotary_cos",
)  # fmt: skip


def _piece(
    names: tuple[str, ...],
    shape: Shape,
    layer: int | None,
    field: str,
    to: Shape,
    turned: bool = False,
) -> Piece:
    """One array that is one weight of the shape `to`; it may lie there turned over."""
    stored = shape[::-1] if turned else shape
    return Piece(
        names, stored, layer, (field,), lambda a: {field: (a.T if turned else a).reshape(to)}
    )


def _three(name: str, shape: Shape, layer: int, letter: str, cut: Callable) -> Piece:
    """Query, key and value in one array, which `cut` takes apart."""
    fields = tuple(f"{letter}_{x}" for x in "QKV")
    return Piece((name,), shape, layer, fields, lambda a: dict(zip(fields, cut(a), strict=True)))


def _outer(
    form: Form, names: Mapping[str, str | tuple[str, ...]], turned: bool = False
) -> Iterator[Piece]:
    """Those of these weights outside the layers that the form has, by field."""
    shapes = outer_shapes(form)
    for field, name in names.items():
        if (shape := shapes[field]) is not None:
            known = (name,) if isinstance(name, str) else name
            yield _piece(known, shape, None, field, shape, turned)


def _prefix(there: Collection[str], prefix: str, first: str) -> str:
    """The prefix of all names; files of a model without its decoder leave it out."""
    return "" if first in there and prefix + first not in there else prefix


# Most families are made of modules, each with its weight and its bias; matrices have no axis of heads.

_NORMS = ("scale_1", "shift_1"), ("scale_2", "shift_2")
_Q, _K, _V, _O, _1, _G, _2 = ((f"W_{x}", f"b_{x}") for x in "QKVO1G2")


def _modules(
    form: Form, layer: int, at: str, names: Mapping[str, tuple[str, ...]], turned: bool
) -> Iterator[Piece]:
    """Those weights of the modules of a layer that the form has; matrices may be stored turned over."""
    shapes = block_shapes(form)
    for module, fields in names.items():
        for field, end in zip(fields, ("weight", "bias"), strict=False):
            to = shapes[field]
            if to is None:
                continue
            inner = to[-1] if field == "W_O" else to[0]
            flat = (prod(to) // inner, inner) if field == "W_O" else (inner, prod(to) // inner)
            shape = flat if field.startswith("W") else (prod(to),)
            yield _piece((f"{at}{module}.{end}",), shape, layer, field, to, turned)


# GPT-2: matrices are stored as they multiply from the right


def _gpt2(form: Form, there: Collection[str]) -> Iterator[Piece]:
    p, d = _prefix(there, "transformer.", "wte.weight"), form.width
    yield from _outer(form, {"U": f"{p}wte.weight", "P": f"{p}wpe.weight"})

    def cut(a: np.ndarray) -> list[np.ndarray]:
        return [x.reshape(*a.shape[:-1], form.heads, form.each) for x in np.split(a, 3, axis=-1)]

    names = {
        "ln_1": _NORMS[0], "attn.c_proj": _O, "ln_2": _NORMS[1], "mlp.c_fc": _1, "mlp.c_proj": _2,
    }  # fmt: skip
    for i in range(form.layers):
        at = f"{p}h.{i}."
        yield _three(f"{at}attn.c_attn.weight", (d, 3 * d), i, "W", cut)
        yield _three(f"{at}attn.c_attn.bias", (3 * d,), i, "b", cut)
        yield from _modules(form, i, at, names, turned=False)
    last = {"scale": f"{p}ln_f.weight", "shift": f"{p}ln_f.bias", "D": "lm_head.weight"}
    yield from _outer(form, last)


# GPT-NeoX: query, key and value of each head side by side


def _gpt_neox(form: Form, there: Collection[str]) -> Iterator[Piece]:
    p, d = _prefix(there, "gpt_neox.", "embed_in.weight"), form.width
    yield from _outer(form, {"U": f"{p}embed_in.weight"})

    def cut(a: np.ndarray) -> list[np.ndarray]:
        parts = a.reshape(form.heads, 3, form.each, *a.shape[1:])
        return [parts[:, c] if a.ndim == 1 else parts[:, c].transpose(2, 0, 1) for c in range(3)]

    names = {
        "input_layernorm": _NORMS[0], "attention.dense": _O, "post_attention_layernorm": _NORMS[1],
        "mlp.dense_h_to_4h": _1, "mlp.dense_4h_to_h": _2,
    }  # fmt: skip
    for i in range(form.layers):
        at = f"{p}layers.{i}."
        yield _three(f"{at}attention.query_key_value.weight", (3 * d, d), i, "W", cut)
        if form.bias_qkv:
            yield _three(f"{at}attention.query_key_value.bias", (3 * d,), i, "b", cut)
        yield from _modules(form, i, at, names, turned=True)
    norm = f"{p}final_layer_norm"
    last = {"scale": f"{norm}.weight", "shift": f"{norm}.bias"}
    yield from _outer(form, {**last, "D": ("embed_out.weight", "lm_head.weight")})


# Llama and its kin


def _llama(form: Form, there: Collection[str]) -> Iterator[Piece]:
    p = _prefix(there, "model.", "embed_tokens.weight")
    yield from _outer(form, {"U": f"{p}embed_tokens.weight"})
    names = {
        "input_layernorm": _NORMS[0],
        "self_attn.q_proj": _Q, "self_attn.k_proj": _K, "self_attn.v_proj": _V, "self_attn.o_proj": _O,
        "self_attn.q_norm": ("scale_Q",), "self_attn.k_norm": ("scale_K",),
        "post_attention_layernorm": _NORMS[1],
        "mlp.up_proj": _1, "mlp.gate_proj": _G, "mlp.down_proj": _2,
    }  # fmt: skip
    for i in range(form.layers):
        yield from _modules(form, i, f"{p}layers.{i}.", names, turned=True)
    yield from _outer(form, {"scale": f"{p}norm.weight", "D": "lm_head.weight"})


# Our own transformer, and TransformerLens, which keeps weights by head


def _own(form: Form, there: Collection[str]) -> Iterator[Piece]:
    d, shapes = form.width, block_shapes(form)

    def cut(a: np.ndarray) -> list[np.ndarray]:
        return [a[..., c, :].reshape(*a.shape[:-2], form.heads, form.each) for c in range(3)]

    yield from _outer(form, {x: x for x in ("U", "D", "b")})
    for i in range(form.layers):
        at = f"layers.{i}."
        yield _three(f"{at}W_QKV", (d, 3, d), i, "W", cut)
        yield _three(f"{at}b_QKV", (3, d), i, "b", cut)
        yield _piece((f"{at}W_O",), (d, d), i, "W_O", (form.heads, form.each, d))
        for field in ("b_O", *_NORMS[0], *_1, *_2, *_NORMS[1]):
            shape = shapes[field] or ()
            yield _piece((f"{at}{field}",), shape, i, field, shape)


def _transformer_lens(form: Form, there: Collection[str]) -> Iterator[Piece]:
    shapes = block_shapes(form)
    yield from _outer(form, {"U": "embed.W_E", "P": "pos_embed.W_pos"})
    # Where queries share keys, the names of keys and values begin with "_".
    heads = {f"{a}_{x}": (f"attn.{a}_{x}", f"attn._{a}_{x}") for x in "QKV" for a in "Wb"}
    names = {
        "scale_1": "ln1.w", "shift_1": "ln1.b", "scale_2": "ln2.w", "shift_2": "ln2.b", **heads,
        "W_O": "attn.W_O", "b_O": "attn.b_O", "scale_Q": "attn.q_norm.w", "scale_K": "attn.k_norm.w",
        "W_1": "mlp.W_in", "W_G": "mlp.W_gate", "b_1": "mlp.b_in", "W_2": "mlp.W_out", "b_2": "mlp.b_out",
    }  # fmt: skip

    def by_head(field: str, shape: Shape, layer: int) -> Piece:
        """A matrix for each head, here as one with heads behind the width."""
        d, n, e = shape
        found = tuple(f"blocks.{layer}.{x}" for x in names[field])
        return Piece(found, (n, d, e), layer, (field,), lambda a: {field: a.transpose(1, 0, 2)})

    for i in range(form.layers):
        for field, name in names.items():
            if (shape := shapes[field]) is None:
                continue
            if field in ("W_Q", "W_K", "W_V"):
                yield by_head(field, shape, i)
            else:
                known = (name,) if isinstance(name, str) else name
                yield _piece(tuple(f"blocks.{i}.{x}" for x in known), shape, i, field, shape)
    yield from _outer(form, {"scale": "ln_final.w", "shift": "ln_final.b"})
    yield from _outer(form, {"D": "unembed.W_U"}, turned=True)
    yield from _outer(form, {"b": "unembed.b_U"})


_FAMILIES: dict[str, Callable[[Form, Collection[str]], Iterator[Piece]]] = {
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "llama": _llama,
    "mistral": _llama,
    "qwen2": _llama,
    "qwen3": _llama,
    "attomaton": _own,
    "transformer_lens": _transformer_lens,
}
