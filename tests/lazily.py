"""Types and shapes of the package's functions, checked at every call for little.

jaxtyping's import hook puts its decorator on every function of the package, also on those inside others, at each of
their definitions. That decorator makes two more functions of each, binds the arguments of every call and checks them
twice: half the time of tests that call many small functions. The one below takes its place. It makes nothing before
the first call, checks once, and keeps the sizes of named axes only where a signature names some.
"""

import dataclasses
import inspect
from functools import wraps
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import beartype
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import AbstractArray, TypeCheckError, config, jaxtyped


def checked(function):
    """The function, with its arguments and its result checked; axes of one name agree within a call."""
    within, has_axes = None, False

    @wraps(function)
    def check(*args, **kwargs):
        nonlocal within, has_axes
        if config.jaxtyping_disable:
            return function(*args, **kwargs)
        if within is None:
            within, has_axes = _made(function)
        try:
            if has_axes:
                with jaxtyped("context"):
                    return within(*args, **kwargs)
            return within(*args, **kwargs)
        except BeartypeCallHintViolation as error:
            raise TypeCheckError(str(error)) from error

    return check


def _made(function):
    """What checks the function, and whether its signature names axes."""
    if (
        inspect.isgeneratorfunction(function)
        or inspect.iscoroutinefunction(function)
        or inspect.isasyncgenfunction(function)
    ):
        # Their bodies run after the call, when its axes are forgotten: only the call itself is checked.
        return jaxtyped(function, typechecker=beartype), False
    hints = {name: _meant(hint, function) for name, hint in function.__annotations__.items()}
    function.__annotations__ = hints
    return beartype(function), any(map(_has_axes, hints.values()))


def _meant(hint, function):
    """What an annotation means; anything where it names what is imported for type checkers alone."""
    if hint is None:
        return None

    def one(value: hint):
        del value

    try:
        return get_type_hints(one, function.__globals__, include_extras=True)["value"]
    except Exception:
        return Any


def _has_axes(hint):
    if isinstance(hint, list):
        return any(map(_has_axes, hint))
    if inspect.isclass(hint) and issubclass(hint, AbstractArray):
        return True
    return any(map(_has_axes, get_args(hint)))


def typed(typechecker):
    """The decorator that the import hook is to find: functions are checked, and what dataclasses are made of."""
    assert typechecker is not None

    def decorate(what):
        if not inspect.isclass(what):
            return checked(what)
        own = vars(what).get("__init__")
        if dataclasses.is_dataclass(what) and own and not hasattr(own, "__wrapped__"):
            what.__init__ = checked(own)
        return what

    return decorate


jaxtyping.jaxtyped = typed
