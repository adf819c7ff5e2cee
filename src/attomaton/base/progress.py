"""How long work tells how far it is."""

from collections.abc import Callable

# Done, of how many, and in a few words what is being done or how it goes ("" where there is nothing to say).
Progress = Callable[[int, int, str], object]


def quiet(done: int, total: int, what: str) -> None:
    """A progress nobody looks at."""


def shifted(progress: Progress, at: int, parts: int) -> Progress:
    """The progress of one part of several, as a progress of the whole.

    >>> shifted(print, 1, 4)(50, 100, "second")
    150 400 second
    """
    return lambda done, total, what: progress(at * total + done, parts * total, what)
