"""What the weights of each family are called in its files, how large they are, and where they go here.

Inside, every model has the same weights: for each layer queries, keys and values by head, norms and the hidden layer,
stacked over layers. A `Piece` is one array of a file, and `split` cuts it into those.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
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


def _as(field: str, shape: Shape | None = None, turned: bool = False) -> Split:
    """The whole array as one weight, turned over or of another shape."""

    def split(a: np.ndarray) -> dict[str, np.ndarray]:
        a = a.T if turned else a
        return {field: a if shape is None else a.reshape(shape)}

    return split


def _layer_piece(
    name: str, shape: Shape, layer: int, field: str, to: Shape | None = None, turned: bool = False
) -> Piece:
    return Piece((name,), shape, layer, (field,), _as(field, to, turned))


def _outer(names: str | tuple[str, ...], shape: Shape, field: str, turned: bool = False) -> Piece:
    """A piece outside the layers."""
    known = (names,) if isinstance(names, str) else names
    return Piece(known, shape, None, (field,), _as(field, None, turned))


def _three(name: str, shape: Shape, layer: int, letter: str, cut: Callable) -> Piece:
    """Query, key and value in one array, which `cut` takes apart."""
    fields = tuple(f"{letter}_{x}" for x in "QKV")
    return Piece((name,), shape, layer, fields, lambda a: dict(zip(fields, cut(a), strict=True)))


def _optional(pieces: Iterator[Piece], shapes: dict[str, Shape | None]) -> Iterator[Piece]:
    """Those of the pieces whose weights the form has."""
    for piece in pieces:
        if all(shapes[field] is not None for field in piece.fields):
            yield piece


def _prefix(there: Collection[str], prefix: str, first: str) -> str:
    """The prefix of all names; files of a model without its decoder leave it out."""
    return "" if first in there and prefix + first not in there else prefix


# GPT-2: matrices are stored as they multiply from the right


def _gpt2(form: Form, there: Collection[str]) -> Iterator[Piece]:
    p = _prefix(there, "transformer.", "wte.weight")
    d, h = form.width, form.hidden
    heads = (form.heads, form.each)
    yield _outer(f"{p}wte.weight", (form.vocab, d), "U")
    yield _outer(f"{p}wpe.weight", (form.longest, d), "P")

    def cut(a: np.ndarray) -> list[np.ndarray]:
        return [x.reshape(*a.shape[:-1], *heads) for x in np.split(a, 3, axis=-1)]

    for i in range(form.layers):
        at = f"{p}h.{i}."
        yield _layer_piece(f"{at}ln_1.weight", (d,), i, "scale_1")
        yield _layer_piece(f"{at}ln_1.bias", (d,), i, "shift_1")
        yield _three(f"{at}attn.c_attn.weight", (d, 3 * d), i, "W", cut)
        yield _three(f"{at}attn.c_attn.bias", (3 * d,), i, "b", cut)
        yield _layer_piece(f"{at}attn.c_proj.weight", (d, d), i, "W_O", (*heads, d))
        yield _layer_piece(f"{at}attn.c_proj.bias", (d,), i, "b_O")
        yield _layer_piece(f"{at}ln_2.weight", (d,), i, "scale_2")
        yield _layer_piece(f"{at}ln_2.bias", (d,), i, "shift_2")
        yield _layer_piece(f"{at}mlp.c_fc.weight", (d, h), i, "W_1")
        yield _layer_piece(f"{at}mlp.c_fc.bias", (h,), i, "b_1")
        yield _layer_piece(f"{at}mlp.c_proj.weight", (h, d), i, "W_2")
        yield _layer_piece(f"{at}mlp.c_proj.bias", (d,), i, "b_2")
    yield _outer(f"{p}ln_f.weight", (d,), "scale")
    yield _outer(f"{p}ln_f.bias", (d,), "shift")
    if not form.tied:
        yield _outer("lm_head.weight", (form.vocab, d), "D")


# GPT-NeoX: query, key and value of each head side by side


def _gpt_neox(form: Form, there: Collection[str]) -> Iterator[Piece]:
    p = _prefix(there, "gpt_neox.", "embed_in.weight")
    d, h, heads, e = form.width, form.hidden, form.heads, form.each
    yield _outer(f"{p}embed_in.weight", (form.vocab, d), "U")

    def cut(a: np.ndarray) -> list[np.ndarray]:
        parts = a.reshape(heads, 3, e, *a.shape[1:])
        return [parts[:, c] if a.ndim == 1 else parts[:, c].transpose(2, 0, 1) for c in range(3)]

    def layer(i: int) -> Iterator[Piece]:
        at = f"{p}layers.{i}."
        yield _layer_piece(f"{at}input_layernorm.weight", (d,), i, "scale_1")
        yield _layer_piece(f"{at}input_layernorm.bias", (d,), i, "shift_1")
        yield _three(f"{at}attention.query_key_value.weight", (3 * d, d), i, "W", cut)
        yield _three(f"{at}attention.query_key_value.bias", (3 * d,), i, "b", cut)
        yield _layer_piece(f"{at}attention.dense.weight", (d, d), i, "W_O", (heads, e, d), True)
        yield _layer_piece(f"{at}attention.dense.bias", (d,), i, "b_O")
        yield _layer_piece(f"{at}post_attention_layernorm.weight", (d,), i, "scale_2")
        yield _layer_piece(f"{at}post_attention_layernorm.bias", (d,), i, "shift_2")
        yield _layer_piece(f"{at}mlp.dense_h_to_4h.weight", (h, d), i, "W_1", None, True)
        yield _layer_piece(f"{at}mlp.dense_h_to_4h.bias", (h,), i, "b_1")
        yield _layer_piece(f"{at}mlp.dense_4h_to_h.weight", (d, h), i, "W_2", None, True)
        yield _layer_piece(f"{at}mlp.dense_4h_to_h.bias", (d,), i, "b_2")

    shapes = block_shapes(form)
    for i in range(form.layers):
        yield from _optional(layer(i), shapes)
    yield _outer(f"{p}final_layer_norm.weight", (d,), "scale")
    yield _outer(f"{p}final_layer_norm.bias", (d,), "shift")
    if not form.tied:
        yield _outer(("embed_out.weight", "lm_head.weight"), (form.vocab, d), "D")


# Llama and its kin


def _llama(form: Form, there: Collection[str]) -> Iterator[Piece]:
    p = _prefix(there, "model.", "embed_tokens.weight")
    d, h, e = form.width, form.hidden, form.each
    yield _outer(f"{p}embed_tokens.weight", (form.vocab, d), "U")

    def layer(i: int) -> Iterator[Piece]:
        at = f"{p}layers.{i}."
        yield _layer_piece(f"{at}input_layernorm.weight", (d,), i, "scale_1")
        for letter, n in (("Q", form.heads), ("K", form.key_heads), ("V", form.key_heads)):
            name = f"{at}self_attn.{letter.lower()}_proj"
            yield _layer_piece(f"{name}.weight", (n * e, d), i, f"W_{letter}", (d, n, e), True)
            yield _layer_piece(f"{name}.bias", (n * e,), i, f"b_{letter}", (n, e))
        wide = form.heads * e
        yield _layer_piece(
            f"{at}self_attn.o_proj.weight", (d, wide), i, "W_O", (form.heads, e, d), True
        )
        yield _layer_piece(f"{at}self_attn.o_proj.bias", (d,), i, "b_O")
        yield _layer_piece(f"{at}self_attn.q_norm.weight", (e,), i, "scale_Q")
        yield _layer_piece(f"{at}self_attn.k_norm.weight", (e,), i, "scale_K")
        yield _layer_piece(f"{at}post_attention_layernorm.weight", (d,), i, "scale_2")
        for name, field in (("up", "1"), ("gate", "G")):
            yield _layer_piece(f"{at}mlp.{name}_proj.weight", (h, d), i, f"W_{field}", turned=True)
            yield _layer_piece(f"{at}mlp.{name}_proj.bias", (h,), i, f"b_{field}")
        yield _layer_piece(f"{at}mlp.down_proj.weight", (d, h), i, "W_2", turned=True)
        yield _layer_piece(f"{at}mlp.down_proj.bias", (d,), i, "b_2")

    shapes = block_shapes(form)
    for i in range(form.layers):
        yield from _optional(layer(i), shapes)
    yield _outer(f"{p}norm.weight", (d,), "scale")
    if not form.tied:
        yield _outer("lm_head.weight", (form.vocab, d), "D")


# Our own transformer, and TransformerLens, which keeps weights by head


def _own(form: Form, there: Collection[str]) -> Iterator[Piece]:
    d, heads, e = form.width, form.heads, form.each

    def cut(a: np.ndarray) -> list[np.ndarray]:
        return [a[..., c, :].reshape(*a.shape[:-2], heads, e) for c in range(3)]

    for field, shape in (("U", (form.vocab, d)), ("D", (form.vocab, d)), ("b", (form.vocab,))):
        yield _outer(field, shape, field)
    shapes = block_shapes(form)
    for i in range(form.layers):
        at = f"layers.{i}."
        yield _three(f"{at}W_QKV", (d, 3, d), i, "W", cut)
        yield _three(f"{at}b_QKV", (3, d), i, "b", cut)
        yield _layer_piece(f"{at}W_O", (d, d), i, "W_O", (heads, e, d))
        for field in (
            "b_O",
            "scale_1",
            "shift_1",
            "W_1",
            "b_1",
            "W_2",
            "b_2",
            "scale_2",
            "shift_2",
        ):
            yield _layer_piece(f"{at}{field}", shapes[field] or (), i, field)


def _by_head(field: str) -> Split:
    """A matrix for each head as one matrix with heads behind the width."""
    return lambda a: {field: a.transpose(1, 0, 2)}


def _transformer_lens(form: Form, there: Collection[str]) -> Iterator[Piece]:
    d, h, e = form.width, form.hidden, form.each
    yield _outer("embed.W_E", (form.vocab, d), "U")
    if form.positions == "learned":
        yield _outer("pos_embed.W_pos", (form.longest, d), "P")

    def layer(i: int) -> Iterator[Piece]:
        at = f"blocks.{i}."
        for norm in ("1", "2"):
            yield _layer_piece(f"{at}ln{norm}.w", (d,), i, f"scale_{norm}")
            yield _layer_piece(f"{at}ln{norm}.b", (d,), i, f"shift_{norm}")
        for x, n in (("Q", form.heads), ("K", form.key_heads), ("V", form.key_heads)):
            names = f"{at}attn.W_{x}", f"{at}attn._W_{x}"  # the latter where queries share keys
            shifts = tuple(name.replace("W_", "b_") for name in names)
            yield Piece(names, (n, d, e), i, (f"W_{x}",), _by_head(f"W_{x}"))
            yield Piece(shifts, (n, e), i, (f"b_{x}",), _as(f"b_{x}"))
        yield _layer_piece(f"{at}attn.W_O", (form.heads, e, d), i, "W_O")
        yield _layer_piece(f"{at}attn.b_O", (d,), i, "b_O")
        yield _layer_piece(f"{at}attn.q_norm.w", (e,), i, "scale_Q")
        yield _layer_piece(f"{at}attn.k_norm.w", (e,), i, "scale_K")
        yield _layer_piece(f"{at}mlp.W_in", (d, h), i, "W_1")
        yield _layer_piece(f"{at}mlp.W_gate", (d, h), i, "W_G")
        yield _layer_piece(f"{at}mlp.b_in", (h,), i, "b_1")
        yield _layer_piece(f"{at}mlp.W_out", (h, d), i, "W_2")
        yield _layer_piece(f"{at}mlp.b_out", (d,), i, "b_2")

    shapes = block_shapes(form)
    for i in range(form.layers):
        yield from _optional(layer(i), shapes)
    if form.norm_weights:
        yield _outer("ln_final.w", (d,), "scale")
        if form.norm == "layer":
            yield _outer("ln_final.b", (d,), "shift")
    yield _outer("unembed.W_U", (d, form.vocab), "D", turned=True)
    yield _outer("unembed.b_U", (form.vocab,), "b")


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
