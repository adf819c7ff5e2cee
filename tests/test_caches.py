"""What JAX compiled is kept for programs of ours, within bounds, and for nobody else."""

import os
import subprocess
import sys

import pytest

from attomaton.base.caches import MOST, cache_folder, keep_compiled

NAMES = (
    "JAX_COMPILATION_CACHE_DIR", "JAX_COMPILATION_CACHE_MAX_SIZE", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS",
    "ATTOMATON_COMPILED",
)  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """An environment that says nothing of it, put back as it was."""
    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that what a test sets is forgotten after it
        monkeypatch.delenv(name)
    monkeypatch.setenv("ATTOMATON_CACHE", str(tmp_path / "cache"))


def test_jax_is_told_a_folder_of_the_cache_and_a_bound():
    keep_compiled()
    assert os.environ[NAMES[0]].startswith(str(cache_folder() / "compiled"))
    assert os.environ[NAMES[1]] == str(MOST)


@pytest.mark.parametrize("name", [*NAMES[::3], "a file"])
def test_a_choice_of_the_users_own_comes_first(name, monkeypatch):
    if name == "a file":
        cache_folder().write_text("where a folder should be")
    else:
        monkeypatch.setenv(name, "off")
    keep_compiled()
    assert os.environ.get(NAMES[0]) in (None, "off")
    assert not (cache_folder() / "compiled").exists()


def test_programs_are_kept_where_the_command_line_says_so_and_not_by_an_import(tmp_path):
    """Compiled once, found again by another process; a process that only imports the library leaves nothing."""
    code = (
        "{}\nimport attomaton, jax, jax.numpy as jnp\njax.jit(lambda x: jnp.sin(x) @ x.T)(jnp.ones((9, 9)))\n"
        "print(jax.config.jax_compilation_cache_dir)"
    )
    ours = "from attomaton.base.caches import keep_compiled; keep_compiled()"
    found = []
    for first in ("", ours):
        environment = os.environ | {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        subprocess.run([sys.executable, "-c", code.format(first)], check=True, env=environment)
        found.append(len(list((tmp_path / "cache").rglob("*-cache"))))
    assert found[0] == 0 < found[1]
