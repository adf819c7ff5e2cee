"""How an invariant is tested: on drawn examples, on every example that ever broke it, and against planted faults.

`holds_for` draws 200 examples under the profile `commit`, a stated share of them where one example is slow, and 10,000
under `nightly`. What breaks an invariant in a random run is written, shrunk, to `regressions/TEST.json`; once that
file is committed, every later run begins with it. The file holds plain values, so it outlives changes of the test and
of Hypothesis.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.strategies import SearchStrategy
from tests.oracle import Raw

COMMIT = 200  # examples of every invariant in a repeatable run
REGRESSIONS = Path(__file__).parent / "regressions"


def holds_for(
    *strategies: SearchStrategy, share: float = 1.0, folder: Path = REGRESSIONS
) -> Callable[[Callable], Callable]:
    """An invariant: a function of drawn values that asserts something of all of them."""

    def decorate(law: Callable) -> Callable:
        file = folder / f"{law.__name__}.json"
        known, names = read_examples(file), list(signature(law).parameters)

        @wraps(law)
        def noted(**drawn: Any) -> None:
            try:
                law(**drawn)
            except UnsatisfiedAssumption:
                raise
            except Exception:
                values = [drawn[name] for name in names]
                if not settings().derandomize and values not in known:
                    # Hypothesis ends with the smallest example it found: the last one written.
                    write_examples(file, [*known, values])
                raise

        most = round(share * COMMIT) if settings().derandomize else settings().max_examples
        # A busy machine draws slowly; that says nothing about the invariant.
        how = settings(
            max_examples=most,
            report_multiple_bugs=False,
            suppress_health_check=[HealthCheck.too_slow],
        )
        test = how(given(*strategies)(noted))
        for values in known:
            test = example(*values)(test)
        test.law, test.drawn_from = law, strategies
        return test

    return decorate


def refuted(test: Callable, *also: type[Exception]) -> None:
    """Demand that an invariant breaks, by an assertion or an error that is named: for controls, a fault planted."""
    few = settings(
        max_examples=COMMIT,
        derandomize=True,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow],
    )
    with pytest.raises((AssertionError, *also)):
        few(given(*test.drawn_from)(test.law))()


def write_examples(file: Path, examples: list[list[Any]]) -> None:
    """Keep examples as JSON; data sets as objects, everything else as it is."""
    file.parent.mkdir(exist_ok=True)
    rows = [json.dumps(values, default=asdict) for values in examples]
    file.write_text("[" + ",\n ".join(rows) + "]\n", encoding="utf-8")


def read_examples(file: Path) -> list[list[Any]]:
    """The examples of one invariant, none where it was never broken."""
    if not file.is_file():
        return []
    return json.loads(file.read_text(encoding="utf-8"), object_hook=_as_drawn)


def _as_drawn(value: dict[str, Any]) -> Any:
    if set(value) != {"K", "rows", "labels", "weights"}:
        return value
    rows = tuple(map(tuple, value["rows"]))
    return Raw(value["K"], rows, tuple(value["labels"]), tuple(value["weights"]))
