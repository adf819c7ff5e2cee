"""Frozen records come back from JSON as they were, or are refused by name."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import pytest

from attomaton.disk.formats import to_json
from attomaton.disk.records import absent, as_record, read_record
from attomaton.errors import DataError
from attomaton.results import Verdict


@dataclass(frozen=True)
class Inner:
    name: str
    lambda_: float
    pair: tuple[int, str] = (0, "")


@dataclass(frozen=True)
class Outer:
    inner: Inner
    many: tuple[Inner, ...]
    table: dict[str, list[int]]
    verdict: Verdict
    place: Path
    either: int | float | str | None = None
    note: str | None = absent()
    settings: dict[str, object] = field(default_factory=dict)


Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Several(Generic[Kind]):
    first: Kind
    others: tuple[Kind, ...]


@dataclass(frozen=True)
class Holder:
    several: Several[Inner]


WHOLE = Outer(
    Inner("a", math.inf),
    (Inner("b", 0.5, (1, "x")),),
    {"t": [1, 2]},
    Verdict.HOLDS,
    Path("a/b"),
    3,
    settings={"n": 1},
)


def test_a_record_comes_back_as_it_was():
    written = json.loads(to_json(WHOLE))
    assert written["inner"] == {"name": "a", "lambda": "inf", "pair": [0, ""]}
    assert "note" not in written
    back = as_record(Outer, written, "x")
    assert back == WHOLE
    assert type(back.either) is int


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"inner": {"name": "a"}}, "inner.lambda"),
        ({"many": [{"name": 1, "lambda": 2}]}, r"many\[0\].name"),
        ({"many": [{"name": "a", "lambda": 2, "pair": [1]}]}, r"many\[0\].pair"),
        ({"table": {"t": [1, "2"]}}, r"table.t\[1\]"),
        ({"table": []}, "table"),
        ({"verdict": "perhaps"}, "verdict"),
        ({"either": [1]}, "either"),
        ({"place": None}, "place"),
        ({"inner": {"name": "a", "lambda": True}}, "inner.lambda"),
    ],
)
def test_what_is_missing_or_of_another_kind_is_named(tmp_path, change, named):
    path = tmp_path / "x.json"
    path.write_text(json.dumps({**json.loads(to_json(WHOLE)), **change}))
    with pytest.raises(DataError, match=f"x.json: {named} is missing or not of its kind"):
        read_record(path, Outer)


def test_whatever_is_no_record_is_refused():
    for value in (None, 3, [], "text"):
        with pytest.raises(DataError, match="the record is missing"):
            as_record(Inner, value, "x")


def test_a_record_of_records_is_read_as_what_it_holds():
    whole = Holder(Several(Inner("a", 1.0), (Inner("b", 2.0),)))
    given = json.loads(to_json(whole))
    assert as_record(Holder, given, "x.json") == whole
    given["several"]["others"][0]["name"] = 3
    with pytest.raises(DataError, match="others"):
        as_record(Holder, given, "x.json")
