"""Models that the `transformers` library writes, read by us: logits compared with its own, as it computes them now.

Where the library is not installed beside JAX, another environment that has it can leave models behind:
`python tests/trained/make_golden.py FOLDER`, then `ATTOMATON_MODELS=FOLDER pytest tests/trained/test_library.py`.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from attomaton.trained.folder import read_trained
from attomaton.trained.forward import Network, everything


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of models, each with the logits of the library."""
    left = os.environ.get("ATTOMATON_MODELS")
    if left:
        return sorted(Path(left).iterdir())
    if find_spec("transformers") is None or find_spec("torch") is None:
        pytest.skip(
            "torch and transformers are not installed: pip install 'attomaton[transformers]'"
        )
    root = tmp_path_factory.mktemp("library")
    program = Path(__file__).with_name("make_golden.py")
    subprocess.run([sys.executable, program, root], check=True)
    return sorted(root.iterdir())


def test_logits_and_attention_are_those_of_the_library_today(models):
    assert len(models) == 9
    for folder in models:
        with np.load(folder / "logits.npz") as theirs:
            single, _ = Network(read_trained(folder)).run(theirs["tokens"])
            assert np.abs(single - theirs["single"]).max() < 1e-4
            network = Network(read_trained(folder, "float64"))
            double, (attention, _) = network.run(theirs["tokens"], everything)
            assert np.abs(double - theirs["double"]).max() < 1e-8
            assert np.abs(attention[:, 0] - theirs["attention"]).max() < 1e-8
