"""Our forward pass against the `transformers` library (kept numbers), NumPy by loops, and our own textbook program."""

import json
from pathlib import Path

import numpy as np
import pytest

from attomaton.errors import UsageError
from attomaton.trained.folder import read_trained
from attomaton.trained.forward import Network, everything
from attomaton.trained.write import write_model, write_own

NAMES = list(json.loads((Path(__file__).parent / "golden.json").read_text(encoding="utf-8")))
EXACT = 1e-12  # rounding of logits around 4 in double precision; the library is met to 1e-14


@pytest.mark.parametrize("name", NAMES)
def test_logits_and_attention_are_those_of_the_library(name, golden, folders):
    one = golden.models[name]
    network = Network(read_trained(folders / name, "float64"))
    logits, (attention, scores) = network.run(golden.tokens, everything)
    assert np.abs(logits[0] - one.logits).max() < EXACT
    assert np.abs(attention[:, 0, :, -3:] - one.attention).max() < EXACT
    seen = np.isfinite(scores)
    shares = np.exp(np.where(seen, scores, -np.inf) - scores.max(-1, keepdims=True))
    assert np.allclose(attention, shares / shares.sum(-1, keepdims=True), atol=EXACT)


@pytest.mark.parametrize("name", ["gpt2", "mistral"])
def test_single_precision_is_that_of_the_library(name, golden, folders):
    logits, _ = Network(read_trained(folders / name)).run(golden.tokens)
    assert logits.dtype == np.float32
    assert np.abs(logits[1] - golden.models[name].single).max() < 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_the_textbook_says_the_same_as_the_library(name, golden, folders, witness):
    model = read_trained(folders / name, "float64")
    logits, attention = witness.forward(model.form, model.weights, golden.tokens[0])
    assert np.abs(logits - golden.models[name].logits).max() < EXACT
    assert np.abs(attention[:, :, -3:] - golden.models[name].attention).max() < EXACT


def test_our_own_transformer_is_read_back(tmp_path, textbook, golden):
    from attomaton.transformer.model import Settings, initial_params

    settings = Settings(29, width=8, heads=2, hidden=12, layers=2, dropout=0.0)
    params = initial_params(settings, seed=1, index=0)
    write_own(tmp_path / "own", params, settings, [f"w{i}" for i in range(29)])
    model = read_trained(tmp_path / "own", "float64")
    logits, (attention, _) = Network(model).run(golden.tokens, everything)
    wanted, maps = textbook.forward(params, golden.tokens, settings)
    assert np.abs(logits - wanted).max() < EXACT
    assert np.abs(attention - np.array(maps)).max() < EXACT
    assert model.words.ids["w7"] == 7


def test_names_of_transformer_lens_mean_the_same(tmp_path, golden, arrays, witness):
    old = arrays("gpt2")
    new = {
        "embed.W_E": old["transformer.wte.weight"],
        "pos_embed.W_pos": old["transformer.wpe.weight"],
    }
    for i in range(2):
        at, to = f"transformer.h.{i}.", f"blocks.{i}."
        W = old[f"{at}attn.c_attn.weight"].reshape(16, 3, 4, 4)
        b = old[f"{at}attn.c_attn.bias"].reshape(3, 4, 4)
        for c, letter in enumerate("QKV"):
            new[f"{to}attn.W_{letter}"] = W[:, c].transpose(1, 0, 2)
            new[f"{to}attn.b_{letter}"] = b[c]
        new[f"{to}attn.W_O"] = old[f"{at}attn.c_proj.weight"].reshape(4, 4, 16)
        new[f"{to}attn.b_O"] = old[f"{at}attn.c_proj.bias"]
        new[f"{to}attn.mask"] = np.tri(4, dtype=bool)
        for theirs, name in (("c_fc", "in"), ("c_proj", "out")):
            new[f"{to}mlp.W_{name}"] = old[f"{at}mlp.{theirs}.weight"]
            new[f"{to}mlp.b_{name}"] = old[f"{at}mlp.{theirs}.bias"]
        for norm in "12":
            new[f"{to}ln{norm}.w"] = old[f"{at}ln_{norm}.weight"]
            new[f"{to}ln{norm}.b"] = old[f"{at}ln_{norm}.bias"]
    new["ln_final.w"], new["ln_final.b"] = (
        old["transformer.ln_f.weight"],
        old["transformer.ln_f.bias"],
    )
    new["unembed.W_U"], new["unembed.b_U"] = (
        old["transformer.wte.weight"].T,
        np.zeros(29, np.float32),
    )
    config = {
        "n_layers": 2, "d_model": 16, "d_head": 4, "n_heads": 4, "d_mlp": 64, "n_ctx": 32, "d_vocab": 29,
        "act_fn": "gelu_new", "normalization_type": "LN", "eps": 1e-5,
    }  # fmt: skip
    write_model(tmp_path / "lens", config, new)
    model = read_trained(tmp_path / "lens", "float64")
    logits, _ = witness.forward(model.form, model.weights, golden.tokens[0])
    assert np.abs(logits - golden.models["gpt2"].logits).max() < EXACT


def test_logits_at_one_place_are_those_of_the_shorter_context(golden, folders):
    network = Network(read_trained(folders / "gpt2", "float64"))
    whole, _ = network.run(golden.tokens)
    some, _ = network.logits_at(golden.tokens, np.array([3, 7]))
    assert np.abs(some - whole[[0, 1], [3, 7]]).max() < EXACT
    changed = golden.tokens.copy()
    changed[0, 4:] = (changed[0, 4:] + 1) % 29
    other, _ = network.logits_at(changed, np.array([3, 7]))
    assert np.abs(some - other).max() < EXACT


def test_tokens_the_model_cannot_take_are_refused(folders):
    network = Network(read_trained(folders / "gpt2"))
    with pytest.raises(UsageError, match="knows 0 … 28"):
        network.run(np.array([[29]]))
    with pytest.raises(UsageError, match="from 1 to 32"):
        network.run(np.zeros((1, 33), int))
