"""Folders of models: what is read, what is refused and in which words."""

import json
import os
from hashlib import sha256

import numpy as np
import pytest
from safetensors.numpy import save_file

from attomaton.disk.formats import write_arrays, write_json
from attomaton.errors import DataError
from attomaton.trained.attention import read_attention
from attomaton.trained.folder import look_at, read_trained
from attomaton.trained.form import Rotary, read_form
from attomaton.trained.names import block_shapes, outer_shapes, pieces


def refused(folder, words):
    with pytest.raises(DataError, match=words):
        read_trained(folder)


def test_files_are_told_by_hash_and_tokens_by_id(folder):
    model = read_trained(folder)
    wanted = {p.name: sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}
    assert {entry.name: entry.sha256 for entry in model.files} == wanted
    assert model.words.id_of("w3") == 3
    assert model.words.id_of("<eos>", end=5) == 5
    assert model.words.id_of("nowhere") is None
    assert model.form.heads == 4
    assert model.parameters == sum(np.prod(s) for _, (_, s, _) in look_at(folder).places.values())


def test_pieces_fill_every_weight_of_every_family(golden):
    for name, one in golden.models.items():
        form = read_form(name, one.config)
        found = list(pieces(form, one.shapes))
        wanted = [f for f, s in (block_shapes(form) | outer_shapes(form)).items() if s is not None]
        assert {field for piece in found for field in piece.fields} == set(wanted)
        named = {next(x for x in p.names if x in one.shapes): list(p.shape) for p in found}
        assert named == one.shapes


@pytest.mark.parametrize(("kind", "digits"), [("f2", 11), ("bf", 7), ("f8", 53)])
def test_numbers_of_other_sizes_are_read(folder, arrays, kind, digits):
    old = arrays("gpt2")
    if kind == "bf":
        save_bfloat(folder / "model.safetensors", old)
    else:
        write_arrays(folder / "model.safetensors", {k: v.astype(kind) for k, v in old.items()})
    U = read_trained(folder, "float64").weights.U
    exact = old["transformer.wte.weight"].astype(float)
    assert np.abs(U - exact).max() <= 2.0**-digits * np.abs(exact).max()
    assert (exact == U).all() == (kind == "f8")


def save_bfloat(path, arrays):
    """Arrays whose numbers are the upper halves of float32, cut off."""
    halves = {k: np.ascontiguousarray(v.view("<u4") >> 16).astype("<u2") for k, v in arrays.items()}
    save_file(halves, path)
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + size].replace(b'"U16"', b'"BF16"')
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[8 + size :])


def shards(
    folder, arrays, named=("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
):
    """The weights in two files, with an index that names them."""
    whole = arrays("gpt2")
    (folder / "model.safetensors").unlink()
    table = {}
    for i, name in enumerate(named):
        some = {k: whole[k] for k in sorted(whole)[i::2]}
        write_arrays(folder / f"model-0000{i + 1}-of-00002.safetensors", some)
        table |= dict.fromkeys(some, name)
    write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": table})
    return table


def test_shards_are_read_as_one_file(folder, arrays):
    whole = read_trained(folder)
    shards(folder, arrays)
    again = read_trained(folder)
    assert len(again.files) == 5
    for a, b in zip(whole.weights.blocks, again.weights.blocks, strict=True):
        assert (a is None and b is None) or (a == b).all()


@pytest.mark.parametrize(
    "name",
    [
        "../model.safetensors",
        "/etc/passwd",
        "a/b.safetensors",
        "model.bin",
        "",
        ".safetensors",
        "a\0.safetensors",
    ],
)
def test_shards_lie_in_the_folder_alone(folder, arrays, name):
    shards(folder, arrays, ("model-00001-of-00002.safetensors", name))
    refused(folder, "no name of a .safetensors file")


def test_an_index_that_names_itself_or_the_wrong_file_is_refused(folder, arrays):
    table = shards(folder, arrays)
    path = folder / "model.safetensors.index.json"
    write_json(path, {"weight_map": dict.fromkeys(table, "model.safetensors.index.json")})
    refused(folder, "no name of a .safetensors file")
    first = next(iter(table))
    write_json(path, {"weight_map": {**table, first: "model-00002-of-00002.safetensors"}})
    refused(folder, "not where it says")
    write_json(path, {"weight_map": table | {"more": "model-00002-of-00002.safetensors"}})
    refused(folder, "more is not in")


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"n_head": 3}, "n_head is 3; a number that divides the width 16"),
        ({"n_embd": 32}, "arrays are not as config.json says"),
        ({"n_layer": 3}, "h.2.ln_1.weight is missing"),
        ({"n_layer": 1}, "h.1.attn.c_attn.bias is no array of gpt2"),
        ({"n_layer": 2**40}, "n_layer is"),
        ({"n_layer": 4000}, "speaks of 4,000 layers"),
        ({"n_layer": True}, "n_layer is True"),
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"layer_norm_epsilon": -1}, "layer_norm_epsilon"),
        ({"activation_function": "tanh"}, "activation_function"),
        ({"model_type": "bert"}, "one of gpt2"),
        ({"model_type": "llama"}, "hidden_size is missing"),
        ({"add_cross_attention": True}, "not read here"),
        ({"tie_word_embeddings": False}, "lm_head.weight is missing"),
    ],
)  # fmt: skip
def test_a_configuration_that_does_not_fit_is_refused(folder, change, entries, words):
    change(**entries)
    refused(folder, words)


def test_turns_are_read_as_older_and_newer_configurations_say_them(golden):
    old = {**golden.models["gpt_neox"].config, "rotary_pct": 0.25, "rotary_emb_base": 50}
    del old["rope_parameters"]
    new = golden.models["gpt_neox"].config
    assert read_form("c", old) == read_form("c", new)
    assert read_form("c", new).rotary == Rotary(2, 50.0)
    for scaling, words in (
        ({"rope_type": "yarn", "factor": 2.0}, "rope_type"),
        ({"rope_type": "linear"}, "factor is missing"),
        ({"rope_type": "linear", "factor": 1e-320}, "turns are numbers"),
        ("linear", "a table"),
    ):
        with pytest.raises(DataError, match=words):
            read_form("c", {**old, "rope_scaling": scaling})


def test_windows_are_those_of_the_configuration(golden):
    config = golden.models["qwen2"].config
    assert read_form("c", config).window == (None, 3)
    without = {k: v for k, v in config.items() if k != "layer_types"}
    assert read_form("c", without).window == (None, 3)
    assert read_form("c", {**config, "use_sliding_window": False}).window == (None, None)
    mistral = golden.models["mistral"].config
    assert read_form("c", mistral).window == (4, 4)
    assert read_form("c", {**mistral, "sliding_window": None}).window == (None, None)


def test_a_pickle_is_refused_and_named(folder):
    (folder / "model.safetensors").rename(folder.parent / "weights")
    refused(folder, "holds neither .*index.json.$")
    (folder.parent / "weights").rename(folder / "pytorch_model.bin")
    refused(folder, "pytorch_model.bin is a pickle")


def test_files_may_be_links_but_not_devices_or_circles(folder):
    real = folder.parent / "blob"
    (folder / "config.json").rename(real)
    (folder / "config.json").symlink_to(real)
    assert read_trained(folder).form.width == 16
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("/dev/zero")
    refused(folder, "a device, where a plain file is needed")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("model.safetensors")
    refused(folder, "cannot be read")


def test_numbers_that_are_none_are_refused(folder, arrays):
    old = arrays("gpt2")
    old["transformer.wte.weight"][3, 3] = np.nan
    write_arrays(folder / "model.safetensors", old)
    refused(folder, "not finite")
    write_arrays(
        folder / "model.safetensors", {k: v.astype("<i4") for k, v in arrays("gpt2").items()}
    )
    refused(folder, "holds int32")


def test_a_huge_model_is_refused_before_memory_is_taken(folder, change, arrays, monkeypatch):
    """A file that claims a gigabyte, and is as large on a disk that keeps no zeros."""
    path = folder / "model.safetensors"
    rows = 1 << 24
    old = {k: v for k, v in arrays("gpt2").items() if k != "transformer.wte.weight"}
    write_arrays(path, old)
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header, end = json.loads(content[8 : 8 + size]), len(content) - 8 - size
    header["transformer.wte.weight"] = {
        "dtype": "F32",
        "shape": [rows, 16],
        "data_offsets": [end, end + 64 * rows],
    }
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])
    os.truncate(path, 8 + len(text) + end + 64 * rows)
    change(vocab_size=rows)
    monkeypatch.setenv("ATTOMATON_MEMORY", "0.5")
    refused(folder, "1.07 GB of memory, more than the 500 MB allowed")


@pytest.mark.parametrize(
    ("tokenizer", "words"),
    [
        ({"model": {"vocab": {"a": 29}}}, "no id from 0 to 28"),
        ({"model": {"vocab": {"a": True}}}, "no id from 0 to 28"),
        ({"model": {"vocab": "a"}}, "model.vocab"),
        ({"model": None}, "model.vocab"),
        ([], "model.vocab"),
        ({"model": {"vocab": {}}, "added_tokens": [1]}, "added_tokens"),
    ],
)
def test_a_tokenizer_that_does_not_fit_is_refused(folder, tokenizer, words):
    write_json(folder / "tokenizer.json", tokenizer)
    refused(folder, words)


def test_tokenizers_list_tokens_in_several_ways(folder):
    listed = {
        "model": {"vocab": [["a", -1.0], ["Ċ", -2.0]]},
        "added_tokens": [{"id": 9, "content": "<s>"}],
    }
    write_json(folder / "tokenizer.json", listed)
    words = read_trained(folder).words
    assert (words.id_of("a"), words.id_of("<s>"), words.id_of("<eos>")) == (0, 9, 1)


def test_attention_of_others_is_read_and_checked(tmp_path):
    path = tmp_path / "a.npz"
    even = np.tri(3) / np.arange(1, 4)[:, None]
    attention = np.broadcast_to(even, (2, 1, 4, 3, 3)).astype(np.float32)
    tokens = np.array([[0, 1, 2], [2, 1, 0]])
    for save in (np.savez, np.savez_compressed):
        save(path, attention=attention, tokens=tokens)
        found = read_attention(path)
        assert np.allclose(found.attention, attention)
        assert found.scores is None
    for wrong, words in (
        ({"attention": attention}, "no array 'tokens'"),
        ({"attention": attention[:1], "tokens": tokens}, "has the shape"),
        ({"attention": attention * 2, "tokens": tokens}, "sum to 1"),
        ({"attention": attention[..., ::-1], "tokens": tokens}, "sum to 1"),
        ({"attention": attention, "tokens": tokens, "scores": even}, "scores have the shape"),
        ({"attention": np.array([{}]), "tokens": tokens}, "not numbers|unknown header"),
    ):
        np.savez(path, **wrong)
        with pytest.raises(DataError, match=words):
            read_attention(path)
    path.write_bytes(b"PK\x03\x04" + bytes(30))
    with pytest.raises(DataError, match=r"cannot be read as \.npz"):
        read_attention(path)
