"""What every test shares: repeatable Hypothesis runs, compiled programs, and WikiText-2 where it is at hand."""

import gc
import os
import signal
import sys
import threading
from bisect import bisect
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path

import pytest
import tests.lazily  # noqa: F401  (by its name the types of the package are checked, see pyproject.toml)
from hypothesis import settings

gc.disable()  # until all is collected: what is imported stays, and no search through it finds anything

# Repeatable by default; `nightly` looks further, at random, and keeps what it finds: see docs/invariants.md.
# Hypothesis takes another default where it finds a CI's variables; a profile is the same everywhere.
ORDINARY = settings.get_profile("default")
settings.register_profile("commit", ORDINARY, derandomize=True, deadline=None)
settings.register_profile("nightly", ORDINARY, max_examples=10_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "commit"))

# Files and folders of tests that take long, the longest first: pages in a browser, processes that are killed, programs
# to compile, many random problems. They are begun first, and `make quick` (`-m "not slow"`) leaves them out.
LONG = (
    "tests/lab/test_scan_snap_screen.py",
    "tests/lab/test_training_screen.py",
    "tests/lab",
    "tests/transformer",
    "tests/trained/test_forward.py",
    "tests/trained/test_train.py",
    "tests/probe",
    "tests/claims",
    "tests/scan_snap/test_train.py",
    "tests/test_docs.py::test_readme_commands_run",
    "tests/scan_snap/test_limit.py",
    "tests/faults",
    "tests/test_divided.py",
    "tests/mechanics/test_train.py",
    "tests/mechanics/test_optimizers.py",
    "tests/test_mutations.py",
    "tests/engine",
    "tests/test_dynamics.py",
    "tests/test_verify.py",
    "tests/predictor/test_tunings.py",
    "tests/scan_snap/test_reduced.py",
    "tests/mechanics/test_whole.py",
    "tests/mechanics/test_minima.py",
    "tests/test_models.py",
    "tests/mechanics/test_svm.py",
    "tests/mechanics/test_norms.py",
    "tests/mechanics/test_finite.py",
    "tests/mechanics/test_snapshots.py",
    "tests/mechanics/test_mixed.py",
    "tests/scan_snap/test_blocks.py",
    "tests/mechanics/test_divided.py",
    "tests/test_public_face.py",
    "tests/test_stability.py",
    "tests/test_tutorial.py",
    "tests/test_console.py",
    "tests/test_interrupts.py",
    "tests/test_places.py",
    "tests/mechanics/test_automaton.py",
    "tests/mechanics/test_luce_error.py",
    "tests/mechanics/test_graph.py",
    "tests/mechanics/test_model.py",
    "tests/report/test_verification.py",
    "tests/report/test_figures.py",
    "tests/scan_snap/test_model.py",
    "tests/scan_snap/test_population.py",
    "tests/predictor/test_model.py",
    "tests/predictor/test_cli.py",
    "tests/predictor/test_ngrams.py",
    "tests/predictor/test_tune.py",
    "tests/predictor/test_wikitext.py",
    "tests/corpus/test_sessions.py",
    "tests/test_sweeps.py",
    "tests/test_reproduce.py",
    "tests/test_answers.py",
    "tests/test_estimates.py",
    "tests/test_estimator.py",
    "tests/test_cli.py",
    "tests/test_cli_summary.py",
    "tests/test_escapes.py",
    "tests/test_folders.py",
    "tests/test_bombs.py",
    "tests/invariants",
    "tests/mechanics/test_dependent.py",
    "tests/mechanics/test_inference.py",
    "tests/test_bootstrap.py",
    "tests/test_dimensions.py",
    "tests/test_docs.py::test_commands_of_the_other_pages_run",
)
ROOT = Path(__file__).resolve().parents[1]
# Most programs of the tests take seconds to compile and run for less. These flags halve the former; the few that run
# for long take up to half as long again. Only versions of XLA seen to know them are given them: others would abort.
QUICKLY_COMPILED = (
    "0.10",
    "--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false"
    " --xla_cpu_parallel_codegen_split_count=1",
)
# Files of many programs that run for a moment each: here even that is more than compiling them plainly. Programs that
# run for seconds would take three times as long.
PLAINLY_COMPILED = (
    "tests/claims/test_cases.py",
    "tests/claims/test_protocols.py",
    "tests/claims/test_scan_snap_theorems.py",
    "tests/claims/test_text_attention.py",
    "tests/lab/test_accessibility.py",
    "tests/mechanics/test_decoder.py",
    "tests/mechanics/test_inference.py",
    "tests/mechanics/test_model.py",
    "tests/mechanics/test_optimizers.py",
    "tests/mechanics/test_snapshots.py",
    "tests/mechanics/test_train.py",
    "tests/mechanics/test_whole.py",
    "tests/probe/test_contexts.py",
    "tests/probe/test_pages.py",
    "tests/probe/test_probe.py",
    "tests/probe/test_snap.py",
    "tests/scan_snap/test_blocks.py",
    "tests/scan_snap/test_model.py",
    "tests/scan_snap/test_population.py",
    "tests/scan_snap/test_reduced.py",
    "tests/scan_snap/test_train.py",
    "tests/test_dynamics.py",
    "tests/trained/test_forward.py",
    "tests/trained/test_train.py",
    "tests/transformer/test_chunks.py",
    "tests/transformer/test_model.py",
    "tests/transformer/test_train.py",
)
PLAINLY = pytest.StashKey[bool]()  # whether that is how programs are compiled at the moment


def place(name):
    """How early the tests of this name are begun: by the first entry of LONG that is the name or lies above it."""
    above = (
        i
        for i, entry in enumerate(LONG)
        if name == entry or name.startswith((f"{entry}/", f"{entry}::"))
    )
    return next(above, len(LONG))


def pytest_configure(config):
    """Let Ctrl-C reach the processes of tests, and let all share what XLA and Python have compiled.

    A shell that starts something in the background makes it ignore SIGINT, and so would all that it starts.

    The key of XLA's is the program itself. Where `.pyc` files beside the sources are forbidden they are kept apart:
    each of the many small processes would compile all that it imports anew.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.dont_write_bytecode:
        sys.dont_write_bytecode = False
        sys.pycache_prefix = str(config.cache.mkdir("bytecode"))
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    # Files are handed out in the order below, not those of many tests first: many are mostly quick ones.
    config.option.loadscopereorder = False
    if hasattr(config, "cache"):
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(config.cache.mkdir("jax")))
        os.environ["ATTOMATON_STATE"] = str(config.cache.mkdir("state"))  # not the user's own key
    # Threads of OpenBLAS that wait for work look for it all the time, 30 ms long, on cores that others need: as many as
    # they were, these fall asleep at once. Processes that are started from here read it, workers of xdist among them.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")
    # One that a killed process has left half written is compiled anew.
    torn = "Error reading persistent compilation cache entry"
    config.addinivalue_line("filterwarnings", f"ignore:{torn}:UserWarning")
    if version("jaxlib").startswith(f"{QUICKLY_COMPILED[0]}."):
        os.environ.setdefault("XLA_FLAGS", QUICKLY_COMPILED[1])


def pytest_ignore_collect(collection_path, config):
    """Whole files of long tests are not even imported where those are not asked for."""
    name = collection_path.relative_to(ROOT).as_posix() if ROOT in collection_path.parents else ""
    if config.option.markexpr == "not slow" and place(name) < len(LONG):
        return True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Processes side by side collect from different files on, and order all alike in the end.

    The first time, what is imported is compiled, tests with their asserts rewritten; it takes longer than all else of
    collecting. So each compiles another part of it and finds the rest done.
    """
    report = yield
    if collector.path == ROOT / "tests" and isinstance(collector, pytest.Directory):
        own = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        of = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        files = [max(1, len(list(entry.path.rglob("test_*.py")))) for entry in report.result]
        first = bisect(list(accumulate(files)), own * sum(files) / of)
        report.result[:] = report.result[first:] + report.result[:first]
    return report


def pytest_collection_modifyitems(items):
    """Long files first, so that no process works on one while the others have nothing left to do.

    A file is as long as the longest of its tests: processes are handed whole files. Those that are alike come by name,
    whichever was collected first.
    """
    earliest = {}
    for item in items:
        found = place(item.nodeid)
        if found < len(LONG):
            item.add_marker("slow")
        earliest[item.path] = min(found, earliest.get(item.path, found))
    items.sort(key=lambda item: (earliest[item.path], item.path))


def pytest_collection_finish():
    """What was imported stays until the end: no later search for garbage goes through all of it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(
        20_000, 20, 20
    )  # of what tests make, little is garbage and less of it in cycles
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Compile what the files of PLAINLY_COMPILED run without optimising it, fixtures of all tests included.

    No other file sees those programs.
    """
    plainly = item.path.relative_to(ROOT).as_posix() in PLAINLY_COMPILED
    if plainly == item.config.stash.get(PLAINLY, False):
        return
    item.config.stash[PLAINLY] = plainly

    import jax

    from attomaton.base import programs

    jax.config.update("jax_disable_most_optimizations", plainly)
    # These say themselves how they are compiled.
    programs.BRIEF["cpu"]["xla_backend_optimization_level"] = "0" if plainly else "1"
    programs.BRIEF["cpu"]["xla_llvm_disable_expensive_passes"] = plainly
    jax.clear_caches()
    programs._compiled.cache_clear()


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

    from attomaton.cli import console
    from attomaton.cli import main as cli

    # What a slow machine says of its progress is no part of what tests read.
    monkeypatch.setattr(console, "FIRST_LINE", threading.TIMEOUT_MAX)

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
