"""Beartype, applied to a function when it is first called: most of the package's thousands never are in one process."""

from functools import wraps

from beartype import beartype


def checked(function):
    """The function, with its arguments and its result checked."""
    within = None

    @wraps(function)
    def check(*args, **kwargs):
        nonlocal within
        if within is None:
            within = beartype(function)
        return within(*args, **kwargs)

    return check
