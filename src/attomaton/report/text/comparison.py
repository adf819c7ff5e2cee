"""Runs of training side by side, told to a person: sentences and tables from a `Comparison`."""

from string import ascii_uppercase

from attomaton.claims.comparison import Comparison, Priority
from attomaton.errors import counted, cut, visible
from attomaton.report.text.summary import Section, as_text
from attomaton.report.words import NONE, or_none, share_text

TITLE = "Runs of training beside the exact limit"
WIDEST = 30  # characters of a context


def in_words(record: Comparison) -> str:
    """What the runs have in common and where they differ; every number of it is in the record."""
    n, layers = record.priorities, record.layers
    if not n:
        said = "No token outranks another in these data, so there is no order to learn."
    elif all(x.right == n for x in layers):
        every = {1: "The run has", 2: "Both runs have"}.get(
            len(layers), f"All {len(layers)} runs have"
        )
        said = f"{every} all {counted(n, 'strict priority')} right."
    else:
        best, worst = max(x.right for x in layers), min(x.right for x in layers)
        most = f"{worst:,} to {best:,}" if best != worst else f"{best:,}"
        said = (
            f"Of {counted(n, 'strict priority')}, {most} are right; about {record.disputed:,} the "
            f"runs disagree, {record.wrong:,} all have wrong."
        )
    if record.different:
        share = share_text(record.different / record.samples)
        said += (
            f" In {record.different:,} of {counted(record.samples, 'sample')} ({share}) some run's likeliest token is "
            "not the automaton's."
        )
    else:
        said += f" All {counted(record.samples, 'sample')} are answered as by the automaton."
    return said


def sections(record: Comparison) -> list[Section]:
    """The tables of a comparison."""
    letters = list(ascii_uppercase[: len(record.layers)])
    layers = list(zip(letters, record.layers, strict=True))
    header = ["last token", "winner", "loser", "samples"]
    return [
        {
            "heading": "Runs",
            "note": f"Right: of {record.priorities:,} strict priorities. Half, all: the steps from which so many stay "
            "right.",
            "header": ["", "run", "optimizer", "steps", "right", "half", "all"],
            "rows": [[letter, x.name, x.optimizer, x.steps, x.right, or_none(x.half), or_none(x.all)]
                     for letter, x in layers],
        },
        {
            "heading": "Beside the limit",
            "note": "Order: rank correlation of the steps at which priorities came right with those of A. Answers: of "
            f"{record.samples:,} samples, those answered as by the automaton. Odds: how far the log-odds of "
            f"{counted(record.tied, 'tied pair')} are off, in nats.",
            "header": ["", "order", "answers", "odds, mean", "odds, worst"],
            "rows": [[letter, or_none(x.order), x.answers, or_none(x.odds_mean), or_none(x.odds_worst)]
                     for letter, x in layers],
        },
        {
            "heading": "Where the runs disagree",
            "note": f"Score of the winner above the loser, {len(record.disputes):,} of {record.disputed:,} priorities; "
            "below 0 is wrong.",
            "header": [*header, *letters],
            "rows": [[*_named(x), *x.margins] for x in record.disputes],
        },
        {
            "heading": "Learned last",
            "note": f"By A; the step from which each run has it right, {NONE} where it is wrong.",
            "header": [*header, *letters],
            "rows": [[*_named(x), *map(or_none, x.learned)] for x in record.late],
        },
        {
            "heading": "Answers that differ",
            "note": "The likeliest token of the automaton and of each run.",
            "header": ["context", "last token", "samples", "automaton", *letters],
            "rows": [
                [cut(" ".join(map(visible, x.context)), WIDEST), visible(x.last), x.samples,
                 " or ".join(map(visible, x.exact)), *map(visible, x.given)]
                for x in record.answers
            ],
        },
        {
            "heading": "Log-odds of tied tokens, those furthest off",
            "note": "",
            "header": ["last token", "token", "other", "exact", *letters],
            # Rounded: the last digits of a subtraction say nothing.
            "rows": [[*map(visible, (x.last, x.token, x.other)), round(x.exact, 12), *x.given] for x in record.odds],
        },
    ]  # fmt: skip


def comparison_text(record: Comparison) -> str:
    """The whole comparison for a terminal."""
    return as_text(TITLE, in_words(record), sections(record))


def _named(x: Priority) -> list[object]:
    return [*map(visible, (x.last, x.winner, x.loser)), x.weight]
