"""What would change, told to a person: trajectories, mixed corpora, resampled data."""

from attomaton.errors import counted, visible
from attomaton.report.text.terminal import table
from attomaton.report.words import NONE, percent
from attomaton.summaries.trajectories import TrajectorySummary

SHOWN = 40  # tokens of a trajectory


def trajectories_text(s: TrajectorySummary, chain: bool) -> str:
    """Shares, moments and slopes as tables; with `chain`, the tokens that the first trajectory drew."""
    grows = "the context grows" if s.window is None else f"the context is the last {s.window:,}"
    lines = [
        f"{s.trajectories:,} trajectories of {counted(s.steps, 'token')} from "
        f"'{' '.join(map(visible, s.prompt))}'; {grows}",
        *([s.note] if s.note else []),
        table(
            ["token", "in the prompt", "share at the end", "in the lead"],
            [[x.token, x.in_prompt, x.share[-1], percent(x.leads)] for x in s.tokens],
        ),
    ]
    if s.more_tokens:
        lines.append(f"and {counted(s.more_tokens, 'token')} of smaller share")
    lines.append(
        f"{percent(s.collapsed[-1])} collapsed: one token holds {percent(s.threshold)} of the context"
    )
    rows = [
        [
            percent(m.share),
            NONE if m.drawn is None else m.drawn,
            NONE if m.predicted is None else round(m.predicted),
        ]
        for m in s.moments
    ]
    if any(row[1:] != [NONE, NONE] for row in rows):
        lines.append(table(["collapsed", "by step", "by theory"], rows))
    if s.fading:
        some = [
            [
                f.leader, f.token, f.trajectories, *(NONE if x is None else x for x in (f.odds, f.predicted)),
                NONE if f.slope is None else f"{f.slope:.3f} ± {f.error:.3f}",
            ]
            for f in s.fading
        ]  # fmt: skip
        heading = "share ∝ length^slope: by theory once the leader has nearly all; drawn, over the last tenfold:"
        header = ["leader", "token", "trajectories", "odds", "slope by theory", "slope"]
        lines += [heading, table(header, some)]
    if s.ended:
        lines.append(f"{s.ended:,} ended early: their last token never was one in the data")
    if chain:
        cut = s.trajectory[:SHOWN]
        more = "" if len(s.trajectory) <= SHOWN else f" … ({len(s.trajectory):,} tokens)"
        lines.append(f"trajectory 1: {' '.join(map(visible, cut))}{more}")
    return "\n".join(lines)
