"""What every test shares: repeatable Hypothesis runs, compiled programs, and WikiText-2 where it is at hand."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("attomaton", derandomize=True, deadline=None)
settings.load_profile("attomaton")


def pytest_configure(config):
    """Let all processes of a test run share what XLA has compiled; the key is the program itself."""
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(config.cache.mkdir("jax")))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")


@pytest.fixture(scope="session")
def wikitext() -> Path:
    """The folder with `train.txt`, `valid.txt` and `test.txt` of WikiText-2."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("ATTOMATON_DATA", beside)) / "wikitext-2"
    if not (folder / "valid.txt").is_file():
        pytest.skip(f"WikiText-2 is not at {folder}; set ATTOMATON_DATA to the folder above it")
    return folder


@pytest.fixture
def call(monkeypatch, capsys):
    """Run a command in this process: exit code, stdout, stderr."""

    from attomaton import cli

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["attomaton", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return run
