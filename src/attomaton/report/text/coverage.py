"""How far data carry what was learned from them, told to a person: sentences and tables."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from attomaton.corpus.vocabulary import Label
from attomaton.errors import counted, visible
from attomaton.mechanics.theory.information import Interval
from attomaton.report.figures.canvas import mention
from attomaton.report.text.summary import Section, as_text, section
from attomaton.report.words import NONE, share_text
from attomaton.summaries.coverage import Coverage, NewContexts, Odds

TITLE = "How far the data carry"

NOT_JUDGED = (
    "Not answered: how many new contexts these data determine, and what to collect next. A model keeps no windows that "
    "could be set aside."
)
CURE = "Name a file of new data, --new FILE, or ask about the data themselves."


def coverage_text(found: Coverage, top: int) -> str:
    """All of it for a terminal."""
    return as_text(TITLE, in_words(found), sections(found, top))


def in_words(found: Coverage, cure: str = CURE) -> str:
    """The record in a few sentences, every number of which is in it; `cure` is what to do where some has no answer."""
    soft, split = found.soft, sum(x.groups > 1 for x in found.last_tokens)
    said = [
        f"{counted(found.samples, 'sample')} after {counted(len(found.last_tokens), 'last token')} compare "
        f"{counted(found.tokens, 'token')} with them, of which {found.came_next:,} ever came next.",
        f"{counted(found.orders, 'strict order')} are seen directly; {found.on_one:,} of them rest on one sample: "
        "nothing else orders the two, by any path.",
    ]
    if split:
        said.append(
            f"After {counted(split, 'last token')} tokens that came next fall into groups never seen together: "
            "no number of such samples decides between them."
        )
    if soft.se is not None:
        by = "information" if soft.sequences is None else f"{counted(soft.sequences, 'sequence')}"
        said.append(
            f"The log-odds of {counted(soft.odds, 'tied pair')} have standard errors of {soft.se[1]:.2g} nats in the "
            f"median (by {by}); the loss floor is {interval_text(soft.loss_floor)}."
        )
    if soft.unknown:
        said.append(
            f"{soft.unknown:,} log-odds rest on one sequence alone, so their errors are unknown."
        )
    said += [NOT_JUDGED, cure] if found.new is None else [_new_words(found.new)]
    return " ".join(said).strip()


def _new_words(new: NewContexts) -> str:
    if not new.contexts:
        return "There are no new contexts."
    shares = (share_text(x / new.contexts) for x in (new.determined, new.undetermined, new.unseen))
    return "Of {:,.6g} new contexts ({}) the data determine {}, leave {} undetermined, and have not seen {}.".format(
        new.contexts, new.source, *shares
    )


def interval_text(x: Interval) -> str:
    """A number with its interval.

    >>> interval_text(Interval(1.0986, 1.1547, -1.1646, 3.3618))
    '1.099 (−1.165 to 3.362)'
    """
    if math.isnan(x.se):
        return f"{x.value:.4g} (error unknown)"
    return f"{x.value:.4g} ({x.low:.4g} to {x.high:.4g})".replace("-", "−")


def sections(found: Coverage, top: int) -> list[Section]:
    """The tables of the record, each of at most `top` rows."""
    new = found.new
    return [
        *([] if new is None else _new_sections(new)),
        section(
            "Evidence behind strict orders",
            "Samples in which the winner came next beside the loser, never the reverse. The contrary has at most this "
            "probability at 95 %.",
            ["samples", "orders", "contrary at most"],
            ([name, x.orders, f"{x.contrary:.2g}"]
             for name, x in zip(steps([x.at_least for x in found.support]), found.support,
                                strict=True)),
        ),
        section(
            "Orders that rest on one sample",
            "Those first whose loser came next most often elsewhere. The row would turn the order into a tie.",
            ["after", "winner", "over", "row that would tie them"],
            ([x.last, x.winner, x.loser, f"{_tokens(x.tied_by.tokens)} → {mention(x.tied_by.next)}"]
             for x in found.fragile[:top]),
        ),
        section(
            "Never seen together",
            "Groups of tokens that came next after the last token; nothing is known across them.",
            ["after", "groups", "sizes", "tokens"],
            ([x.last, len(x.groups), _some(x.sizes), " | ".join(_tokens(g) for g in x.groups[:4])]
             for x in found.apart[:top]),
        ),
        section("Surest log-odds", "", *_odds(found.soft.surest[:top])),
        section("Least sure log-odds", "", *_odds(found.soft.least_sure[:top])),
        section(
            "Last tokens",
            "Tokens seen with it, those that came next, those tied with another, groups never seen together, strict "
            "orders seen directly, and those that rest on one sample.",
            ["last token", "samples", "tokens", "came next", "tied", "groups", "orders", "on one"],
            ([x.last, x.samples, x.tokens, x.came_next, x.tied, x.groups, x.orders, x.on_one]
             for x in found.last_tokens[:top]),
        ),
    ]  # fmt: skip


def steps(at_least: Sequence[int | float]) -> list[str]:
    """Ranges that begin with each number, in words.

    >>> steps([1, 2, 5]), steps([0.0, 0.5])
    (['1', '2–4', '≥ 5'], ['0–0.5', '≥ 0.5'])
    """
    if isinstance(at_least[0], float):
        names = [f"{a:g}–{b:g}" for a, b in pairwise(at_least)]
    else:
        names = [f"{a}" if b == a + 1 else f"{a}–{b - 1}" for a, b in pairwise(at_least)]
    return [*names, f"≥ {at_least[-1]:g}"]


def _new_sections(new: NewContexts) -> list[Section]:
    rows = (
        ("determined", new.determined, "one component outranks all others in the context"),
        ("undetermined", new.undetermined, "the data leave two unrelated; only scores decide"),
        ("unseen", new.unseen, "a token never seen with the last token, or an unseen last token"),
    )
    total = new.contexts or 1.0
    answers = section(
        "New contexts",
        f"{new.source[:1].upper()}{new.source[1:]}.",
        ["answer", "contexts", "%", "meaning"],
        ([name, x, round(100 * x / total, 1), why] for name, x, why in rows),
    )

    collect = section(
        "What to collect next",
        "Contexts that end in the last token and hold these tokens, with what came next. Decided are those new "
        "contexts in which nothing else stands in the way. A sample is a window that holds its own next token.",
        ["last token", "tokens", "why", "new contexts", "decided"],
        ([x.last, _tokens(x.tokens), x.why, x.contexts, x.decides] for x in new.collect),
    )
    return [answers, collect]


def _odds(rows: Iterable[Odds]) -> tuple[list[str], list[list[object]]]:
    header = ["after", "token", "over", "log-odds", "se", "95 % from", "to"]
    return header, [
        [x.last, x.token, x.other, *(round(v, 3) for v in (
            x.log_odds.value, x.log_odds.se, x.log_odds.low, x.log_odds.high))]
        for x in rows
    ]  # fmt: skip


def _tokens(tokens: Iterable[Label]) -> str:
    return " ".join(visible(x) for x in tokens) or NONE


def _some(sizes: Iterable[int]) -> str:
    few = list(sizes)
    return ", ".join(map(str, few[:6])) + (", …" if len(few) > 6 else "")
