"""Frozen records to plain data and back: what one room hands to another, and what lies on the disk, has one shape.

A record is a frozen dataclass. `formats.plain` writes it field by field; `as_record` reads it with suspicion: whatever
is missing or not of its kind is refused by name. Two words about fields: a name that ends in an underscore (`lambda_`)
is written without it, and a field declared `= absent()` is not written at all while it is None.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from attomaton.disk.formats import AGAIN, key_of, read_json
from attomaton.errors import DataError
from attomaton.results import absent

__all__ = ["absent", "as_record", "read_record"]

Record = TypeVar("Record")
_LISTS = (list, tuple, Sequence)
_TABLES = (dict, Mapping)


def read_record(path: Path, kind: type[Record]) -> Record:
    """A JSON file as a record of this kind; a file that does not hold one is refused."""
    return as_record(kind, read_json(path), path)


def as_record(kind: type[Record], value: Any, where: Path | str) -> Record:
    """Plain data as a record of this kind; `where` names them in the error. Entries no field asks for are passed over.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: float
    ...     names: tuple[str, ...] = ()
    >>> as_record(Point, {"x": 1, "names": ["a"], "more": 0}, "p.json")
    Point(x=1.0, names=('a',))
    >>> as_record(Point, {"x": "one"}, "p.json")
    Traceback (most recent call last):
    ...
    attomaton.errors.DataError: p.json: x is missing or not of its kind; restore the file, or make its folder again.
    """
    wrong: list[str] = []
    made = _made(kind, value, "", wrong)
    if wrong:
        named = ", ".join(place.lstrip(".") or "the record" for place in wrong[:3])
        raise DataError(f"{where}: {named} is missing or not of its kind; {AGAIN}.")
    return made


def _made(form: Any, value: Any, place: str, wrong: list[str]) -> Any:  # noqa: PLR0911
    """The value as its form has it; where it is of another kind, its place is noted."""
    origin, inner = get_origin(form), get_args(form)
    if form in (Any, object):
        return value
    if origin in (Union, UnionType):
        return _one_of(inner, value, place, wrong)
    if is_dataclass(origin or form) and isinstance(value, Mapping):
        return _filled(form, value, place, wrong)
    if origin in _LISTS and isinstance(value, (list, tuple)):
        return _listed(origin, inner, value, place, wrong)
    if origin in _TABLES and isinstance(value, Mapping):
        return {str(k): _made(inner[1], v, f"{place}.{k}", wrong) for k, v in value.items()}
    # As `plain` writes them, infinite ones are words.
    if form is float and (type(value) in (int, float) or value in ("inf", "-inf")):
        return float(value)
    if form is Path and type(value) is str:
        return Path(value)
    if isinstance(form, type) and issubclass(form, Enum) and value in [x.value for x in form]:
        return form(value)
    fits = value in inner if origin is Literal else form in (None, NoneType) and value is None
    if not fits and not (isinstance(form, type) and type(value) is form):
        wrong.append(place)
    return value


def _one_of(forms: Sequence[Any], value: Any, place: str, wrong: list[str]) -> Any:
    # A whole number stays one where the record allows both.
    for form in sorted(forms, key=lambda form: form is float and type(value) is int):
        unlike: list[str] = []
        made = _made(form, value, place, unlike)
        if not unlike:
            return made
    wrong.append(place)
    return value


def _listed(origin: Any, inner: tuple, value: Any, place: str, wrong: list[str]) -> Any:
    one_for_each = origin is tuple and not (len(inner) == 2 and inner[1] is Ellipsis)
    forms = inner if one_for_each else inner[:1] * len(value)
    if len(forms) != len(value):
        wrong.append(place)
        return value
    pairs = enumerate(zip(forms, value, strict=True))
    found = (_made(form, x, f"{place}[{i}]", wrong) for i, (form, x) in pairs)
    return list(found) if origin is list else tuple(found)


def _filled(kind: Any, value: Mapping[str, Any], place: str, wrong: list[str]) -> Any:
    given = {}
    for one, form in _forms(kind):
        key = key_of(one.name)
        if key in value:
            given[one.name] = _made(form, value[key], f"{place}.{key}", wrong)
        elif one.default is MISSING and one.default_factory is MISSING:
            wrong.append(f"{place}.{key}")
    return None if wrong else kind(**given)


@cache
def _forms(kind: Any) -> tuple[tuple[Field, Any], ...]:
    plain = get_origin(kind) or kind
    # What a record is a record of (`Record[Point]`) stands for it in its fields.
    known = dict(zip(getattr(plain, "__parameters__", ()), get_args(kind), strict=False))

    def said(form: Any) -> Any:
        asked = getattr(form, "__parameters__", ())
        return form[tuple(known.get(x, Any) for x in asked)] if asked else known.get(form, form)

    forms = {name: said(form) for name, form in get_type_hints(plain).items()}
    return tuple((one, forms[one.name]) for one in fields(plain) if one.init)
