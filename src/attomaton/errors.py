"""What can go wrong, named after what went wrong.

Every error a user can meet is an `AttomatonError`. Its message names the place, what was found there
and the cure; its `exit_code` is what the command line returns.
"""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from math import inf
from operator import index

# Invisible, but Persian, Hindi and emoji are misspelt without them; between plain letters they only hide.
_JOINER = re.compile("(?<=[^\x00-\x7f])[\u200c\u200d]")


UNKNOWN_TOKENS = 6  # the exit code of an answer about tokens some of which the model does not know
LONGEST = 80  # characters of a name that may be a slip of the hand
# Names that are all compared with an unknown one; of more, those that begin or end alike
CLOSE = 2000


class AttomatonError(Exception):
    """The family: `except AttomatonError` catches everything this library says on purpose.

    >>> from attomaton import AttomatonError, read_samples
    >>> try:
    ...     read_samples("nowhere.jsonl")
    ... except AttomatonError as error:
    ...     print(error)
    nowhere.jsonl: no such file.
    """

    exit_code = 1
    # Whether what was finished before it is kept, for the next process to go on with
    resumable = False


class UsageError(AttomatonError, ValueError):
    """An argument or option that makes no sense, whatever the data.

    >>> from attomaton import build_graph, example_samples
    >>> build_graph(example_samples()).to_networkx("bel")
    Traceback (most recent call last):
    ...
    attomaton.errors.UsageError: 'bel' is no last token; did you mean 'bell'?
    """

    exit_code = 2


class DataError(AttomatonError, ValueError):
    """Input that cannot be read as what it claims to be.

    >>> from attomaton import samples_from_sequences
    >>> samples_from_sequences([["a", "b"]], ["a", "b"])
    Traceback (most recent call last):
    ...
    attomaton.errors.DataError: 1 sequences but 2 next tokens; one each is needed.
    """

    exit_code = 3


class AssumptionError(AttomatonError, ValueError):
    """A theorem was asked for on data that break one of its assumptions; the message is a witness.

    >>> from attomaton import build_graph, samples_from_sequences
    >>> build_graph(samples_from_sequences([["a", "b"], ["a", "b"]], ["a", "b"])).priority_order(1)
    Traceback (most recent call last):
    ...
    attomaton.errors.AssumptionError: last token 'b': its priority graph has a cycle, so no order
    of single tokens exists:
      'a' → 'b' → 'a'
    Use levels and components instead.
    """

    exit_code = 3


class SolverError(AttomatonError, RuntimeError):
    """A solver ended without a certified answer.

    >>> from attomaton import norm_path, samples_from_sequences
    >>> try:
    ...     norm_path(samples_from_sequences([[0, 1]], [0]), [1e3])
    ... except SolverError as error:
    ...     print(str(error)[:9])
    norm path
    """

    exit_code = 4


class StorageError(AttomatonError, RuntimeError):
    """A file could not be written; what was whole before still is.

    What was finished before is kept: the same work asked for again goes on from there.

    >>> from attomaton import AttomatonError, StorageError
    >>> issubclass(StorageError, AttomatonError), StorageError.resumable
    (True, True)
    """

    resumable = True
    taken = False  # whether only the place was: the result is whole, and lies elsewhere


class NotFittedError(AttomatonError, ValueError, AttributeError):
    """An estimator was asked before it was fitted."""

    exit_code = 2


def listed(heading: str, faults: Sequence[str], cure: str, most: int = 5) -> str:
    """One message for many faults: the heading, the first few with their place, the cure.

    >>> print(listed("2 rows are empty:", ["row 3", "row 9"], "Drop them."))
    2 rows are empty:
      row 3
      row 9
    Drop them.
    """
    lines = [heading, *(f"  {fault}" for fault in faults[:most])]
    if len(faults) > most:
        lines.append(f"  … and {len(faults) - most} more")
    return "\n".join([*lines, cure])


def counted(n: int, noun: str) -> str:
    """A number of things, in words.

    >>> counted(1, "fault"), counted(3, "fault"), counted(2, "query"), counted(2, "priority")
    ('1 fault', '3 faults', '2 queries', '2 priorities')
    """
    many = f"{noun[:-1]}ies" if noun.endswith(("ry", "ty")) else f"{noun}s"
    return f"{n} {noun if n == 1 else many}"


def one_of(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse a word that is not among the choices, with the nearest that is."""
    if isinstance(value, str) and value in choices:
        return
    known = ", ".join(f'"{c}"' for c in choices)
    if not isinstance(value, str):
        raise UsageError(f"{name}={value!r:.60} is no word; choose from {known}.")
    shown = visible(value)
    raise UsageError(f'{name}="{shown}" is not known; choose from {known}{nearest(value, choices)}')


def whole_number(
    name: str, value: object, least: int | None = None, most: int | None = None
) -> int:
    """A count, a seed, a length: what Python or NumPy calls an integer; nothing is rounded.

    >>> whole_number("steps", 3, least=1)
    3
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        found = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"{name}={value!r:.60}: a whole number is needed.") from None
    if least is not None and found < least:
        raise UsageError(f"{name}={found}: at least {least} is needed.")
    if most is not None and found > most:
        raise UsageError(f"{name}={visible(found, 30)}: at most {most:,} is possible.")
    return found


def number(name: str, value: object, least: float | int = -inf, above: float | int = -inf) -> float:
    """A single number at least this large, or above that; not NaN, and no text that looks like one.

    >>> number("radius", 2, least=0)
    2.0
    """
    try:
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{name}={value!r:.60}: a number is needed.") from None
    if not (found >= least and (found > above or above == -inf)):
        wanted = f"{least:g} or more" if least > -inf else f"more than {above:g}"
        wanted = wanted if max(least, above) > -inf else "a number"
        raise UsageError(f"{name}={found:g}: {wanted} is needed.")
    return found


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: a suggestion where one is but a slip or two away, never itself.

    >>> nearest("limt", ["sampled", "limit"]), nearest("item", ["price"])
    ("; did you mean 'limit'?", '.')
    """
    close = closest(name, list(known))
    return f"; did you mean {close!r}?" if close is not None else "."


def closest(name: str, known: Sequence[str]) -> str | None:
    """The known name a slip or two away from an unknown one, else one that begins with it; None where none is near.

    It takes a fraction of a second for a million.

    >>> closest("bel", ["tea", "bell"]), closest("bel", ["soup"])
    ('bell', None)
    """
    if len(name) > LONGEST:
        return None
    most, half = max(1, len(name) // 3), max(1, len(name) // 2)
    near = [x for x in known if abs(len(x) - len(name)) <= most and x != name]
    if len(near) > CLOSE:  # a single slip leaves one half as it is
        near = [x for x in near if x.startswith(name[:half]) or x.endswith(name[-half:])]
    close = [x for x in get_close_matches(name, near, n=5, cutoff=0.4) if slips(name, x) <= most]
    if not close and len(name) > 2:
        close = sorted((x for x in known if x.startswith(name) and x != name), key=len)
    return close[0] if close else None


def as_text(word: str) -> str:
    """A word of the command line or the name of a file as text that can be written.

    Where the system's encoding is too narrow they are bytes in disguise: read as UTF-8, which they mostly are.

    >>> as_text("\\udcc3\\udca9")
    'é'
    """
    try:
        return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return word.encode("utf-8", "replace").decode()


def visible(text: object, most: int | None = 80, keep: str = "") -> str:
    r"""Text of a user or a file, safe to print: what would steer a terminal or hide is spelled out, the rest cut.

    Control characters, escapes, marks that turn the direction of writing, zero-width and line-breaking characters
    are shown by their code, all but those in `keep`; beyond `most` characters comes "…" (None: all is shown).

    >>> print(visible("a\x1b[31m\nb"), visible("\u202egnp.exe"), visible(12), visible("abcdef", most=4))
    a\x1b[31m\nb \u202egnp.exe 12 abc…
    """
    text = str(text)
    head = text if most is None else text[: most + 1]
    if not head.isprintable():
        head = "".join(_pieces(head, keep))
    if most is None or len(head) <= most:
        return head
    # Cut between characters, not inside the code of one.
    shown, room = "", most - 1
    for piece in _pieces(text[: most + 1], keep):
        if len(shown) + len(piece) > room:
            break
        shown += piece
    return shown + "…"


def _pieces(text: str, keep: str) -> Iterable[str]:
    """How each character of a text is shown."""
    joiners = {found.start() for found in _JOINER.finditer(text)}
    for i, c in enumerate(text):
        shown = c.isprintable() or c in keep or i in joiners
        yield c if shown else c.encode("unicode_escape").decode()


def cut(text: str, most: int) -> str:
    """A text, cut where it is too long.

    >>> cut("attomaton", 5), cut("atom", 5)
    ('atto…', 'atom')
    """
    return text if len(text) <= most else text[: max(most - 1, 0)] + "…"


def size_text(n: float | int, digits: int = 2) -> str:
    """Bytes as a person says them.

    >>> size_text(999), size_text(12_345), size_text(3_400_000), size_text(10_780_000_000, digits=3)
    ('999 B', '12 kB', '3.4 MB', '10.8 GB')
    """
    value, units = float(n), ["B", "kB", "MB", "GB", "TB"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{round(value, max(0, digits - len(str(int(value))))):,g} {units[0]}"


def slips(one: str, two: str) -> int:
    """How many letters to put in, leave out, change or swap with their neighbour make one word of the other.

    Capitals are no slips of their own.

    >>> slips("teh", "the"), slips("item", "price"), slips("Radius", "radius")
    (1, 4, 0)
    """
    one, two = one.casefold(), two.casefold()
    before: list[int] = []
    row = list(range(len(two) + 1))
    for i, a in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, b in enumerate(two, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b)))
            if i > 1 and j > 1 and a == two[j - 2] and one[i - 2] == b:
                row[j] = min(row[j], older[j - 2] + 1)
    return row[-1]
