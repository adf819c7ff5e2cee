"""One sentence on what follows a last token, and why."""

from collections.abc import Iterator

from attomaton.errors import visible
from attomaton.report.words import odds_text, percent
from attomaton.summaries.after import After, Some

EACH = " where each is there once"
Piece = tuple[str, bool]  # words, and whether they are a token


def sentence(found: After) -> list[Piece]:
    """The sentence in pieces, so that a page can tell tokens from words."""
    said: list[Piece] = [("After ", False), (visible(found.last), True), (": ", False)]
    for i, one in enumerate(found.next):
        said += [(", ", False)] if i else []
        said += [(visible(one.token), True), (f" {percent(one.share)}", False)]
    of = f" of {found.samples:,} samples" if found.samples > 1 else " of one sample"
    said.append((of, False))
    reasons = list(_reasons(found))
    first = visible(found.next[0].token)
    if reasons:
        said += [(", because ", False), (first, True), (" ", False)]
        for i, reason in enumerate(reasons):
            said += [("; it ", False)] if i else []
            said += reason
    elif found.next[0].share < 1:
        said.append((": the samples put them in no order", False))
    return [*said, (".", False)]


def _reasons(found: After) -> Iterator[list[Piece]]:
    if found.outranks.all:
        yield [("goes before ", False), *_some(found.outranks), (" wherever both are there", False)]
    if found.ties:
        tied: list[Piece] = [("is tied with ", False)]
        for i, one in enumerate(found.tied):
            tied += [(", ", False)] if i else []
            tied += [
                (visible(one.token), True),
                (f" ({odds_text(one.odds)}{EACH if not i else ''})", False),
            ]
        more = found.ties - len(found.tied)
        yield [*tied, (f" and {more:,} more", False)] if more else tied
    if found.outranked_by.all:
        yield [("waits for ", False), *_some(found.outranked_by)]


def _some(some: Some) -> list[Piece]:
    said: list[Piece] = []
    for i, token in enumerate(some.tokens):
        said += [(" and " if i == some.all - 1 else ", ", False)] if i else []
        said.append((visible(token), True))
    more = some.all - len(some.tokens)
    return [*said, (f" and {more:,} more", False)] if more else said
