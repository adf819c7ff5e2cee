"""Write `golden.json` and `golden.npz`: tiny models of each family, with the logits the `transformers` library gives.

    python tests/trained/make_golden.py [FOLDER]

Needs torch and transformers, not attomaton. Configurations, names and shapes of arrays are those the library itself
writes; the numbers in them are drawn by name, so that they need not be kept. With FOLDER the models are left there as
well, as the library saves them, each with `logits.npz`: `test_library.py` reads them.

In double precision the library still rounds norms and turned positions to float32. Here those places are lifted to
double precision too, so that what is left of a difference is arithmetic.
"""

import json
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from draws import draw
from safetensors.numpy import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

HERE = Path(__file__).parent
VOCAB, LENGTH, BATCH = 29, 11, 2
LLAMA = {
    "vocab_size": VOCAB, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 32, "bos_token_id": 0, "eos_token_id": 1,
}  # fmt: skip
GPT2 = {"vocab_size": VOCAB, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32}
NEOX = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 32,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 100.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
TURNED = {"rope_type": "default", "rope_theta": 50.0, "partial_rotary_factor": 0.25}
MODELS = {
    "gpt2": ("gpt2", GPT2),
    "gpt2, scaled by layer": (
        "gpt2",
        {**GPT2, "scale_attn_by_inverse_layer_idx": True, "n_inner": 24, "activation_function": "relu"},
    ),
    "gpt_neox": ("gpt_neox", {**NEOX, "rope_parameters": TURNED}),
    "gpt_neox, one after the other": (
        "gpt_neox",
        {**NEOX, "use_parallel_residual": False, "attention_bias": False, "hidden_act": "gelu_new"},
    ),
    "llama": ("llama", LLAMA),
    "llama, biases, stretched, tied": (
        "llama",
        {**LLAMA, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "rope_parameters": LLAMA3},
    ),
    "mistral": ("mistral", {**LLAMA, "head_dim": 6, "sliding_window": 4}),
    "qwen2": (
        "qwen2",
        {**LLAMA, "use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1, "tie_word_embeddings": True},
    ),
    "qwen3": ("qwen3", {**LLAMA, "head_dim": 6}),
}  # fmt: skip


@contextmanager
def all_double():
    """The library's float32 is float64 in here."""
    kept = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = kept
        torch.set_default_dtype(torch.float32)


def loaded(folder, dtype):
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", output_loading_info=True
    )
    assert not any(info.get(x) for x in ("missing_keys", "unexpected_keys", "mismatched_keys")), (
        info
    )
    return model.eval()


def double(folder):
    """The library's model with every number and every step in double precision."""
    state = {x: a.double() for x, a in loaded(folder, torch.float32).state_dict().items()}

    def call(ids):
        with all_double():
            config = AutoConfig.from_pretrained(folder)
            model = (
                AutoModelForCausalLM.from_config(config, attn_implementation="eager")
                .double()
                .eval()
            )
            model.load_state_dict(state)
            return model(ids, output_attentions=True)

    return call


def main(arguments):
    kept = Path(arguments[0]) if arguments else Path(tempfile.mkdtemp())
    tokens = np.random.default_rng(0).integers(0, VOCAB, (BATCH, LENGTH))
    told, arrays = {}, {"tokens": tokens.astype(np.int16)}
    for name, (family, settings) in MODELS.items():
        folder = kept / name
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **settings)).save_pretrained(
            folder
        )
        shapes = {x: a.shape for x, a in load_file(folder / "model.safetensors").items()}
        drawn = {x: draw(x, shape) for x, shape in shapes.items()}
        save_file(drawn, folder / "model.safetensors", {"format": "pt"})
        loaded(folder, torch.float32).save_pretrained(folder)
        again = load_file(folder / "model.safetensors")
        assert all((again[x] == drawn[x]).all() for x in drawn), (
            "the library reads and writes them as they are"
        )
        ids = torch.from_numpy(tokens)
        with torch.no_grad():
            single = loaded(folder, torch.float32)(ids).logits.numpy()
            out = double(folder)(ids)
        logits = out.logits.numpy()
        assert logits.dtype == np.float64, logits.dtype
        attention = np.stack([a[0].numpy() for a in out.attentions])
        print(
            f"{name}: single against double {abs(single - logits).max():.1e}, largest {abs(logits).max():.2f}"
        )
        np.savez(
            folder / "logits.npz", tokens=tokens, single=single, double=logits, attention=attention
        )
        config = json.loads((folder / "config.json").read_text())
        told[name] = {"config": config, "shapes": {x: list(s) for x, s in sorted(shapes.items())}}
        arrays[f"{name}/single"] = single[1].astype(np.float32)
        arrays[f"{name}/logits"] = logits[0]
        arrays[f"{name}/attention"] = attention[:, :, -3:].astype(np.float64)
    if not arguments:
        (HERE / "golden.json").write_text(json.dumps(told, indent=1) + "\n")
        np.savez_compressed(HERE / "golden.npz", **arrays)


if __name__ == "__main__":
    main(sys.argv[1:])
