"""Types and shapes at the borders of the package are checked while the tests run."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError
from tests import lazily
from tests.unchecked import unchecked_types

from attomaton.corpus.samples import Samples
from attomaton.numerics import cosine

typed = lazily.typed(typechecker=lazily.checked)


@typed
def doubled(x: Float[np.ndarray, " n"], twin: Float[np.ndarray, " n"]) -> Float[np.ndarray, "2 n"]:
    return np.stack([x, twin]) if len(x) < 3 else x


def test_arguments_and_results_are_checked_at_every_call():
    two, four = np.ones(2), np.ones(4)
    assert doubled(two, two).shape == (2, 2)
    for arguments in ((two, four), (two.astype(int), two), ([1.0], [1.0]), (four, four)):
        with pytest.raises(TypeCheckError):
            doubled(*arguments)
    assert doubled(two, two).shape == (2, 2)
    with unchecked_types():
        assert doubled([1.0], [2.0]).shape == (2, 1)
    with pytest.raises(TypeCheckError):
        doubled([1.0], [2.0])


def test_axes_of_one_name_are_of_one_size_within_a_call_alone():
    @typed
    def outer(x: Float[np.ndarray, " n"], result: object) -> Float[np.ndarray, " n"]:
        doubled(np.ones(2), np.ones(2))  # another n
        plain(1)
        return result

    @typed
    def plain(number: int) -> float:
        return doubled(np.ones(number), np.ones(number)).sum()

    three = np.ones(3)
    assert outer(three, three) is three
    with pytest.raises(TypeCheckError):
        outer(three, np.ones(2))
    with pytest.raises(TypeCheckError):
        plain(1.0)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        outer(three)


def test_defaults_keywords_generators_and_what_is_named_later():
    @typed
    def many(*rows: Float[np.ndarray, " n"], times: int = 1, **more: str) -> "Later | None":
        return Later(len(rows) * times) if rows else None

    @typed
    def unknown(x: "NobodyKnows", y: int) -> None:  # noqa: F821
        return None

    @typed
    def each(x: Float[np.ndarray, " n"]) -> Iterator[float]:
        yield from x

    two = np.ones(2)
    assert many(two, two, times=3, name="x") == Later(6)
    assert many() is None
    assert unknown("anything", 1) is None
    assert list(each(two)) == [1.0, 1.0]
    for wrong in (
        lambda: many(two, np.ones(3)),
        lambda: many(two, times="3"),
        lambda: many(two, name=1),
        lambda: unknown("anything", "1"),
        lambda: each([1.0]),
        lambda: Later("1"),
    ):
        with pytest.raises(TypeCheckError):
            wrong()


@typed
@dataclass(frozen=True)
class Later:
    number: int


def test_functions_of_the_package_are_checked():
    assert cosine(np.ones(2), np.ones(2)) == pytest.approx(1)
    with pytest.raises(TypeCheckError):
        cosine(np.ones(2), np.ones(3))
    for made in (cosine, Samples.__init__, Samples.take):
        assert made.__code__.co_filename == lazily.__file__


def test_annotations_of_arrays_are_jaxtypings_where_that_is_loaded_and_words_elsewhere():
    code = (
        "import sys\n{first}from attomaton.base.shapes import Float, Int\n"
        "import inspect, typing\nimport numpy as np\n"
        "def f(a: Float[np.ndarray, ' n'], b: Int[np.ndarray, '*s']) -> tuple[Float[np.ndarray, 'n m'], ...]: ...\n"
        "one = typing.get_type_hints(f)['a']\n"
        "def g(a: Float[np.ndarray, 'n'] | None, b: None | Int[np.ndarray, 'n'], c: one | str): ...\n"
        "print(*(len(typing.get_args(x)) for x in g.__annotations__.values()))\n"
        "print(one is np.ndarray, issubclass(one, np.ndarray), 'jaxtyping' in sys.modules)\n"
        "print(inspect.signature(f))"
    )
    said = []
    for first in ("", "import jaxtyping\n"):
        command = [sys.executable, "-c", code.format(first=first)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        said.append(done.stdout.splitlines())
    plain, checked = said
    assert plain[:2] == ["2 2 2", "True True False"]
    assert checked[:2] == ["2 2 2", "False False True"]
    assert "Float 'n m'" in plain[2]
    assert "Float[ndarray, 'n m']" in checked[2]
