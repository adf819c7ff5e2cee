"""Write models in the layout of Hugging Face: configuration, weights, and a tokenizer of whole words."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attomaton.disk.formats import write_arrays, write_json
from attomaton.errors import UsageError
from attomaton.trained.folder import CONFIG, TOKENS, WEIGHTS
from attomaton.trained.form import Form, read_form
from attomaton.trained.names import Block, Weights

if TYPE_CHECKING:
    from attomaton.transformer.model import Params, Settings


def write_model(
    folder: Path | str,
    config: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    tokens: Sequence[object] | None = None,
) -> None:
    """Write one model; `tokens` are the words that the rows of its embeddings stand for, cut at white space."""
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder}: is not empty; name a new folder.")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / CONFIG, config)
    write_arrays(folder / WEIGHTS, arrays)
    if tokens is not None:
        write_json(folder / TOKENS, word_tokenizer(tokens))


def write_own(
    folder: Path | str,
    params: "Params",
    settings: "Settings",
    tokens: Sequence[object] | None = None,
) -> None:
    """Write a transformer of this package (see `attomaton.transformer`)."""
    outer = {name: np.asarray(getattr(params, name)) for name in ("U", "D", "b")}
    layers = {
        f"layers.{i}.{name}": np.asarray(value)
        for i, layer in enumerate(params.layers)
        for name, value in layer._asdict().items()
    }
    config = {"model_type": "attomaton", **settings._asdict()}
    write_model(folder, config, outer | layers, tokens)


def write_gpt2(
    folder: Path | str, form: Form, weights: Weights, tokens: Sequence[object] | None = None
) -> None:
    """Write a model of GPT-2's form; other tools read it as one."""
    if form.family != "gpt2":
        raise UsageError(f"a model of the family {form.family} is not written as gpt2.")
    d = form.width
    arrays = {"transformer.wte.weight": weights.U, "transformer.wpe.weight": weights.P}
    arrays |= {"transformer.ln_f.weight": weights.scale, "transformer.ln_f.bias": weights.shift}
    if not form.tied:
        arrays["lm_head.weight"] = weights.D
    for i in range(form.layers):
        own = Block(*(None if w is None else np.asarray(w[i]) for w in weights.blocks))
        at = f"transformer.h.{i}."
        arrays |= {
            f"{at}ln_1.weight": own.scale_1, f"{at}ln_1.bias": own.shift_1,
            f"{at}attn.c_attn.weight": np.concatenate([w.reshape(d, d) for w in (own.W_Q, own.W_K, own.W_V)], axis=1),
            f"{at}attn.c_attn.bias": np.concatenate([b.ravel() for b in (own.b_Q, own.b_K, own.b_V)]),
            f"{at}attn.c_proj.weight": own.W_O.reshape(d, d), f"{at}attn.c_proj.bias": own.b_O,
            f"{at}ln_2.weight": own.scale_2, f"{at}ln_2.bias": own.shift_2,
            f"{at}mlp.c_fc.weight": own.W_1, f"{at}mlp.c_fc.bias": own.b_1,
            f"{at}mlp.c_proj.weight": own.W_2, f"{at}mlp.c_proj.bias": own.b_2,
        }  # fmt: skip
    named = {x: np.asarray(a) for x, a in arrays.items()}
    write_model(folder, gpt2_config(form), named, tokens)


def gpt2_config(form: Form) -> dict[str, Any]:
    """The configuration of a form of GPT-2's, as its library writes it."""
    return {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": form.vocab, "n_embd": form.width,
        "n_layer": form.layers, "n_head": form.heads, "n_positions": form.longest, "n_inner": form.hidden,
        "activation_function": "gelu_new", "layer_norm_epsilon": form.epsilon, "tie_word_embeddings": form.tied,
        "bos_token_id": form.end, "eos_token_id": form.end, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
    }  # fmt: skip


def gpt2_form(
    vocab: int,
    width: int,
    layers: int,
    heads: int,
    longest: int,
    hidden: int | None = None,
    tied: bool = True,
) -> Form:
    """A form of GPT-2's of any size."""
    return read_form(
        "gpt2_form",
        {
            "model_type": "gpt2", "vocab_size": vocab, "n_embd": width, "n_layer": layers, "n_head": heads,
            "n_positions": longest, "n_inner": hidden, "tie_word_embeddings": tied,
        },
    )  # fmt: skip


def word_tokenizer(tokens: Sequence[object]) -> dict[str, Any]:
    """The content of a `tokenizer.json` whose tokens are words between white space."""
    ids = {str(token): i for i, token in enumerate(tokens)}
    unknown = "<unk>" if "<unk>" in ids else next(iter(ids), "")
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": unknown},
    }
