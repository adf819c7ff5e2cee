"""The form of a trained transformer: everything its `config.json` says that the arithmetic depends on.

Decoder-only models differ in a dozen choices (which norm, where it stands, how positions come in, how many keys share
their heads); a `Form` is those choices as one frozen record, whatever the file calls them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from attomaton.base.shapes import Float
from attomaton.errors import DataError, visible

# Of a width, a vocabulary, a context: far beyond any model, far below what overflows
MOST = 1 << 24
MOST_LAYERS = 1 << 12
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "gelu_quick",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


@dataclass(frozen=True)
class Rotary:
    """Positions as turns: of each head the first `width` numbers are turned, by angles that fall geometrically.

    `kind` is how the angles were stretched for long contexts: not at all (`default`), all alike (`linear`), or those
    of long wavelengths only (`llama3`), with `factor` and, for the latter, where short ends and long begins.
    """

    width: int
    base: float
    kind: str = "default"
    factor: float = 1.0
    low: float = 1.0
    high: float = 4.0
    original: int = 1


@dataclass(frozen=True)
class Form:
    """What the arithmetic of a model depends on besides its weights.

    `key_heads` keys and values are shared by `heads` queries, each of `each` numbers. `window` holds, for each layer,
    how many of the last positions it sees (None: all). `post` says that norms stand behind the branches, `parallel`
    that both branches of a layer read the same input. `divisor` divides the scores of each layer.
    """

    family: str
    vocab: int
    width: int
    layers: int
    heads: int
    key_heads: int
    each: int
    hidden: int
    longest: int
    norm: str  # layer, rms
    epsilon: float
    activation: str
    positions: str  # learned, rotary, sine, none
    window: tuple[int | None, ...]
    divisor: tuple[float, ...]
    rotary: Rotary | None = None
    post: bool = False
    parallel: bool = False
    gated: bool = False
    tied: bool = False
    bias_qkv: bool = False
    bias_out: bool = False
    bias_hidden: bool = False
    norm_weights: bool = True  # False where they were folded into what follows
    query_key_norm: bool = False
    end: int | None = None  # the id of the token that ends a text


class _Said:
    """A table of a configuration, asked by name; what is missing or of another kind is refused with its name."""

    def __init__(self, path: Any, table: Mapping[str, Any], above: str = ""):
        self.path, self.table, self.above = path, table, above

    def wrong(self, name: str, wanted: str) -> DataError:
        found = self.table.get(name)
        has = "is missing" if found is None else f"is {visible(repr(found), 40)}"
        return DataError(f"{self.path}: {self.above}{name} {has}; {wanted} is needed.")

    def size(self, name: str, default: int | None = None, most: int = MOST) -> int:
        found = self.table.get(name)
        found = default if found is None else found
        if type(found) is not int or not 1 <= found <= most:
            raise self.wrong(name, f"a whole number from 1 to {most:,}")
        return found

    def number(self, name: str, default: float | None = None) -> float:
        found: Any = self.table.get(name)
        found = default if found is None else found
        if type(found) not in (int, float) or not isfinite(found) or not 0 < found < 1e30:
            raise self.wrong(name, "a positive number")
        return float(found)

    def flag(self, name: str, default: bool) -> bool:
        found = self.table.get(name)
        found = default if found is None else found
        if type(found) is not bool:
            raise self.wrong(name, "true or false")
        return found

    def word(self, name: str, default: str | None = None) -> str:
        found = self.table.get(name)
        found = default if found is None else found
        if not isinstance(found, str):
            raise self.wrong(name, "a word")
        return found

    def activation(self, name: str, default: str) -> str:
        found = self.word(name, default)
        if found not in ACTIVATIONS:
            raise self.wrong(name, f"one of {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[found]

    def inner(self, *names: str) -> "_Said":
        """The first of these tables that is there, or an empty one."""
        for name in names:
            found = self.table.get(name)
            if found is not None:
                if not isinstance(found, Mapping):
                    raise self.wrong(name, "a table")
                return _Said(self.path, found, f"{self.above}{name}.")
        return _Said(self.path, {}, self.above)

    def refuse(self, name: str, harmless: Sequence[Any]) -> None:
        """Refuse a choice that this arithmetic does not know."""
        found = self.table.get(name)
        if not any(found is x or (type(found) is type(x) and found == x) for x in harmless):
            raise DataError(
                f"{self.path}: {self.above}{name} is {visible(repr(found), 40)}, which is not read here."
            )


def read_form(path: Any, config: Any) -> Form:
    """The form that a configuration (the content of `config.json` at `path`) describes."""
    if not isinstance(config, Mapping):
        raise DataError(f"{path}: a table of settings is needed.")
    said = _Said(path, config)
    if "model_type" not in config and {"d_model", "n_layers", "d_head"} <= set(config):
        return _transformer_lens(said)
    family = said.word("model_type")
    if family not in FAMILIES:
        raise said.wrong("model_type", f"one of {', '.join(FAMILIES)}")
    return FAMILIES[family](said)


def _shares(said: _Said, width: int, heads: int, name: str) -> int:
    """Numbers in each head, where heads share the width."""
    if width % heads:
        raise said.wrong(name, f"a number that divides the width {width}")
    return width // heads


def _end(said: _Said, vocab: int) -> int | None:
    """The token that ends a text: one id, or the first of several."""
    found = said.table.get("eos_token_id")
    found = found[0] if isinstance(found, list) and found else found
    return found if type(found) is int and 0 <= found < vocab else None


def _gpt2(said: _Said) -> Form:
    said.refuse("add_cross_attention", (None, False))
    width, heads, layers = said.size("n_embd"), said.size("n_head"), _layers(said, "n_layer")
    each = _shares(said, width, heads, "n_head")
    by_layer = said.flag("scale_attn_by_inverse_layer_idx", False)
    root = each**0.5 if said.flag("scale_attn_weights", True) else 1.0
    vocab = said.size("vocab_size")
    return Form(
        "gpt2", vocab, width, layers, heads, heads, each, said.size("n_inner", 4 * width),
        said.size("n_positions"), "layer", said.number("layer_norm_epsilon", 1e-5),
        said.activation("activation_function", "gelu_new"), "learned", (None,) * layers,
        tuple(root * (i + 1 if by_layer else 1) for i in range(layers)),
        tied=said.flag("tie_word_embeddings", True), bias_qkv=True, bias_out=True, bias_hidden=True,
        end=_end(said, vocab),
    )  # fmt: skip


def _gpt_neox(said: _Said) -> Form:
    width, heads = said.size("hidden_size"), said.size("num_attention_heads")
    layers = _layers(said, "num_hidden_layers")
    each = _shares(said, width, heads, "num_attention_heads")
    vocab, bias = said.size("vocab_size"), said.flag("attention_bias", True)
    return Form(
        "gpt_neox", vocab, width, layers, heads, heads, each, said.size("intermediate_size"),
        said.size("max_position_embeddings"), "layer", said.number("layer_norm_eps", 1e-5),
        said.activation("hidden_act", "gelu"), "rotary", (None,) * layers, (each**0.5,) * layers,
        rotary=_rotary(said, each, "rotary_emb_base", "rotary_pct", 0.25),
        parallel=said.flag("use_parallel_residual", True), tied=said.flag("tie_word_embeddings", False),
        bias_qkv=bias, bias_out=bias, bias_hidden=True, end=_end(said, vocab),
    )  # fmt: skip


def _llama_like(said: _Said, family: str, **own: Any) -> Form:
    width, heads = said.size("hidden_size"), said.size("num_attention_heads")
    layers = _layers(said, "num_hidden_layers")
    key_heads = said.size("num_key_value_heads", heads)
    if heads % key_heads:
        raise said.wrong("num_key_value_heads", f"a number that divides the {heads} heads")
    shared = None if said.table.get("head_dim") is not None else width % heads
    if shared:
        raise said.wrong("num_attention_heads", f"a number that divides the width {width}")
    each, vocab = said.size("head_dim", width // heads or None), said.size("vocab_size")
    given: dict[str, Any] = {"window": (None,) * layers, **own}
    return Form(
        family, vocab, width, layers, heads, key_heads, each, said.size("intermediate_size"),
        said.size("max_position_embeddings"), "rms", said.number("rms_norm_eps", 1e-6),
        said.activation("hidden_act", "silu"), "rotary", divisor=(each**0.5,) * layers,
        rotary=_rotary(said, each, "rope_theta", "partial_rotary_factor", 1.0), gated=True,
        tied=said.flag("tie_word_embeddings", False), end=_end(said, vocab), **given,
    )  # fmt: skip


def _llama(said: _Said) -> Form:
    bias = said.flag("attention_bias", False)
    return _llama_like(
        said, "llama", bias_qkv=bias, bias_out=bias, bias_hidden=said.flag("mlp_bias", False)
    )


def _mistral(said: _Said) -> Form:
    # Unlike a configuration that does not speak of it
    none = said.table.get("sliding_window", 0) is None
    window = None if none else said.size("sliding_window", 4096)
    return _llama_like(said, "mistral", window=(window,) * _layers(said, "num_hidden_layers"))


def _qwen2(said: _Said) -> Form:
    return _llama_like(said, "qwen2", window=_qwen_windows(said), bias_qkv=True)


def _qwen3(said: _Said) -> Form:
    bias = said.flag("attention_bias", False)
    windows = _qwen_windows(said)
    return _llama_like(
        said, "qwen3", window=windows, bias_qkv=bias, bias_out=bias, query_key_norm=True
    )


def _qwen_windows(said: _Said) -> tuple[int | None, ...]:
    """Layers from some depth on may see the last positions only."""
    layers = _layers(said, "num_hidden_layers")
    if not said.flag("use_sliding_window", False):
        return (None,) * layers
    window = said.size("sliding_window", 4096)
    kinds = said.table.get("layer_types")
    if kinds is None:
        first = said.table.get("max_window_layers", 28)
        if type(first) is not int or first < 0:
            raise said.wrong("max_window_layers", "a whole number from 0 on")
        return tuple(window if i >= first else None for i in range(layers))
    known = {"full_attention": None, "sliding_attention": window}
    if not isinstance(kinds, list) or len(kinds) != layers or any(
        not isinstance(x, str) or x not in known for x in kinds
    ):  # fmt: skip
        raise said.wrong("layer_types", f"a list of {layers} times one of {', '.join(known)}")
    return tuple(known[x] for x in kinds)


def _layers(said: _Said, name: str) -> int:
    return said.size(name, most=MOST_LAYERS)


def _rotary(said: _Said, each: int, base: str, share: str, default: float) -> Rotary:
    """Turned positions, as older configurations say it (beside the rest) or newer ones (in a table)."""
    inner = said.inner("rope_parameters", "rope_scaling")
    part = inner.number("partial_rotary_factor", said.number(share, default))
    turned = int(each * part)
    if not 2 <= turned <= each or turned % 2:
        raise DataError(
            f"{said.path}: {turned} of the {each} numbers of a head would be turned; an even number is needed."
        )
    theta = inner.number("rope_theta", said.number(base, 10_000.0))
    kind = inner.word("rope_type", inner.word("type", "default"))
    found = Rotary(turned, theta)
    if kind == "linear":
        found = Rotary(turned, theta, kind, inner.number("factor"))
    elif kind == "llama3":
        low, high = inner.number("low_freq_factor"), inner.number("high_freq_factor")
        if not low < high:
            raise inner.wrong("high_freq_factor", f"a number above low_freq_factor={low:g}")
        original = inner.size("original_max_position_embeddings")
        found = Rotary(turned, theta, kind, inner.number("factor"), low, high, original)
    elif kind != "default":
        raise inner.wrong("rope_type", "one of default, linear, llama3")
    with np.errstate(all="ignore"):
        if not np.isfinite(frequencies(found)).all():
            raise inner.wrong("rope_theta", "a number whose turns are numbers")
    return found


def _own(said: _Said) -> Form:
    """The transformer of this package: norms behind the branches, sines as positions."""
    width, heads, layers = said.size("width"), said.size("heads"), _layers(said, "layers")
    each, vocab = _shares(said, width, heads, "heads"), said.size("vocab")
    return Form(
        "attomaton", vocab, width, layers, heads, heads, each, said.size("hidden"), said.size("longest", MOST), "layer",
        said.number("epsilon", 1e-5), "relu", "sine" if said.flag("positions", True) else "none", (None,) * layers,
        (each**0.5,) * layers, post=True, bias_qkv=True, bias_out=True, bias_hidden=True, end=_end(said, vocab),
    )  # fmt: skip


def _transformer_lens(said: _Said) -> Form:
    """A configuration as TransformerLens keeps it."""
    for name in ("attn_only", "rotary_adjacent_pairs", "use_attn_in", "post_embedding_ln",
                 "use_normalization_before_and_after"):  # fmt: skip
        said.refuse(name, (None, False))
    for name in ("attn_scores_soft_cap", "output_logits_soft_cap"):
        said.refuse(name, (None, -1, -1.0, 0, 0.0))
    said.refuse("attention_dir", (None, "causal"))
    norm = said.word("normalization_type", "LN")
    if norm not in ("LN", "LNPre", "RMS", "RMSPre"):
        raise said.wrong("normalization_type", "one of LN, LNPre, RMS, RMSPre")
    width, heads, layers = said.size("d_model"), said.size("n_heads"), _layers(said, "n_layers")
    each, longest = said.size("d_head"), said.size("n_ctx")
    kind = said.word("positional_embedding_type", "standard")
    if kind not in ("standard", "rotary"):
        raise said.wrong("positional_embedding_type", "one of standard, rotary")
    rotary = None
    if kind == "rotary":
        turned = said.size("rotary_dim", each)
        if turned % 2 or turned > each:
            raise said.wrong("rotary_dim", f"an even number up to {each}")
        said.refuse("use_NTK_by_parts_rope", (None, False))
        rotary = Rotary(turned, said.number("rotary_base", 10_000.0))
    key_heads = said.size("n_key_value_heads", heads)
    if heads % key_heads:
        raise said.wrong("n_key_value_heads", f"a number that divides the {heads} heads")
    scaled = said.flag("use_attn_scale", True)
    scale = said.table.get("attn_scale")
    root = each**0.5 if scale in (None, -1, -1.0) else said.number("attn_scale")
    by_layer = said.flag("scale_attn_by_inverse_layer_idx", False)
    windows: tuple[int | None, ...] = (None,) * layers
    if said.flag("use_local_attn", False):
        window, kinds = said.size("window_size"), said.table.get("attn_types")
        if not isinstance(kinds, list) or len(kinds) != layers:
            raise said.wrong("attn_types", f"a list of {layers} words")
        windows = tuple(window if x == "local" else None for x in kinds)
    return Form(
        "transformer_lens", said.size("d_vocab"), width, layers, heads, key_heads, each, said.size("d_mlp"), longest,
        "layer" if norm.startswith("LN") else "rms", said.number("eps", 1e-5), said.activation("act_fn", "gelu_new"),
        "learned" if kind == "standard" else "rotary", windows,
        tuple((root if scaled else 1.0) * (i + 1 if by_layer else 1) for i in range(layers)),
        rotary=rotary, parallel=said.flag("parallel_attn_mlp", False), gated=said.flag("gated_mlp", False),
        bias_qkv=True, bias_out=True, bias_hidden=True, norm_weights=not norm.endswith("Pre"),
        query_key_norm=said.flag("use_qk_norm", False),
    )  # fmt: skip


FAMILIES = {
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "llama": _llama,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "attomaton": _own,
}


def frequencies(rotary: Rotary) -> Float[np.ndarray, " half"]:
    """Radians that each pair of numbers is turned by, per position.

    >>> frequencies(Rotary(4, 100.0)).tolist()
    [1.0, 0.1]
    """
    turn = rotary.base ** -(np.arange(0, rotary.width, 2) / rotary.width)
    if rotary.kind == "linear":
        return turn / rotary.factor
    if rotary.kind == "llama3":
        # Wavelengths that fit `high` times into the original context stay; those that fit less than `low` times are
        # stretched; between them the two are mixed in proportion.
        times = rotary.original * turn / (2 * np.pi)
        mix = np.clip((times - rotary.low) / (rotary.high - rotary.low), 0, 1)
        return turn * (mix + (1 - mix) / rotary.factor)
    return turn
