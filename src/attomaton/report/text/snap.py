"""A model over its checkpoints, told to a person."""

from attomaton.errors import counted, visible
from attomaton.probe.snapping import Snap
from attomaton.report.text.probe import KINDS, share_interval
from attomaton.report.text.summary import Section, as_text, section
from attomaton.report.words import or_none, share_text

TITLE = "When the heads froze"


def snap_text(found: Snap, top: int) -> str:
    """All of it for a terminal."""
    return as_text(TITLE, in_words(found), sections(found, top))


def in_words(found: Snap) -> str:
    """The record in a few sentences, every number of which is in it."""
    froze = [x for x in found.courses if x.frozen_at is not None]
    still = sum(x.verdict == "still moving" for x in found.courses)
    first, last = found.marks[0], found.marks[-1]
    said = [
        f"{counted(len(found.marks), 'checkpoint')} of {found.family}, {counted(found.layers, 'layer')} of "
        f"{counted(found.heads, 'head')}, on {counted(found.contexts, 'context')} of {found.context} tokens and "
        f"{counted(found.strict_orders, 'strict order')}.",
        f"{len(froze)} of {counted(len(found.courses), 'head')} froze, {still} still move at the end.",
    ]
    if first.minimal is not None and last.minimal is not None:
        said.append(
            f"Orders shared in minimal contexts: {share_text(first.minimal.value)} at step {first.step}, "
            f"{share_text(last.minimal.value)} at step {last.step}."
        )
    if found.duplicates:
        same = [f"{x.name} is {x.same_as}" for x in found.marks if x.same_as is not None]
        told = visible("; ".join(same[:5]), 300)
        said.append(
            f"{counted(found.duplicates, 'checkpoint')} hold weights of an earlier one: {told}."
        )
    return " ".join(said)


def sections(found: Snap, top: int) -> list[Section]:
    """The tables of the record: heads, and every checkpoint."""
    return [
        section(
            "Heads",
            "Entropy over log keys at the first and the last checkpoint, and the step from which on it stays there.",
            ["head", "first", "last", "froze at", ""],
            ([f"{x.layer}.{x.head}", f"{x.first:.3f}", f"{x.last:.3f}",
              or_none(x.frozen_at, "{:,}".format), x.verdict] for x in found.courses),
        ),
        section(
            "Checkpoints",
            "Strict orders shared with the corpus, and the mean entropy of all heads.",
            ["step", *KINDS.values(), "entropy", "same as"],
            ([x.step, *(share_interval(getattr(x, kind)) for kind in KINDS), f"{_mean(x.entropy):.3f}",
              visible(x.same_as) if x.same_as else ""] for x in found.marks),
        ),
    ]  # fmt: skip


def _mean(table: tuple[tuple[float, ...], ...]) -> float:
    values = [x for row in table for x in row]
    return sum(values) / len(values)
