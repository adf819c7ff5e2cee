"""Compiled programs: a brief one gives the same numbers, and options of another XLA are left out."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from attomaton.base import programs


def _build(power):
    return lambda x: (x**power).sum()


def test_a_brief_program_gives_the_same_numbers():
    x = np.linspace(0.0, 1.0, 101, dtype=np.float32)
    whole = programs.compiled_program(_build, 3, (x,))
    brief = programs.compiled_program(_build, 3, (x,), brief=True)
    assert brief is not whole
    assert float(brief(x)) == pytest.approx(float(whole(x)), rel=1e-6)
    assert float(brief(x)) == pytest.approx((x.astype(float) ** 3).sum(), rel=1e-6)


def test_what_another_version_does_not_know_is_left_out(monkeypatch):
    x = np.arange(4, dtype=np.float32)
    monkeypatch.setattr(programs, "BRIEF", {"cpu": {"xla_of_another_day": True}})
    assert float(programs.compiled_program(_build, 2, (x,), brief=True)(x)) == 14.0


def test_what_is_wrong_with_a_known_option_is_told(monkeypatch):
    x = np.arange(4, dtype=np.float32)
    monkeypatch.setattr(programs, "BRIEF", {"cpu": {"xla_backend_optimization_level": "high"}})
    with pytest.raises(RuntimeError, match="xla_backend_optimization_level"):
        programs.compiled_program(_build, 2, (x,), brief=True)


ASKED = """
import sys
from attomaton.base.programs import on_processors
print(on_processors(), "jax" in sys.modules)
"""


@pytest.mark.skipif(
    importlib.util.find_spec("jax_plugins") is not None, reason="JAX has another device here"
)
@pytest.mark.parametrize(
    ("platforms", "plugin", "is_asked"),
    [("cpu", True, False), ("", False, False), ("", True, True), ("cpu,cpu", False, True)],
)
def test_jax_is_asked_for_its_device_only_where_there_may_be_another(
    tmp_path, platforms, plugin, is_asked
):
    if plugin:  # as those of other devices lie in a package of this name
        (tmp_path / "jax_plugins").mkdir()
    given = os.environ | {"PYTHONPATH": str(tmp_path)}
    given.pop("JAX_PLATFORMS", None)
    if platforms:
        given["JAX_PLATFORMS"] = platforms
    command = [sys.executable, "-c", ASKED]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", str(is_asked)]
