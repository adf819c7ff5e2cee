"""Which of very many words are meant by what is typed."""

from collections.abc import Iterable, Sequence

Found = tuple[str, str, str]  # what is chosen, how it is shown, what is said about it


def matches(words: Sequence[str], order: Iterable[int], text: str, most: int) -> list[int]:
    """Which of the casefolded words are meant: exact, then beginning with the text, then holding it, each in order.

    >>> matches(["steam", "teapot", "tea"], range(3), "TEA ", 9)
    [2, 1, 0]
    """
    wanted = text.strip().casefold()
    ranked: list[list[int]] = [[], [], []]
    for i in order:
        word = words[i]
        if wanted in word:
            ranked[0 if word == wanted else 1 if word.startswith(wanted) else 2].append(i)
            if len(ranked[1]) >= most and (not wanted or ranked[0]):
                break
    return (ranked[0] + ranked[1] + ranked[2])[:most]
