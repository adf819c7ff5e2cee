"""What would change, told to a person: trajectories, mixed corpora, resampled data."""

from typing import Any

from attomaton.errors import counted, visible
from attomaton.mechanics.theory.mixture import Corpus, Mixed, Turned
from attomaton.mechanics.theory.resampling import Stability
from attomaton.report.text.terminal import table
from attomaton.report.words import NONE, or_none, percent, share_text
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
    rows = [[percent(m.share), or_none(m.drawn), or_none(m.predicted, round)] for m in s.moments]
    if any(row[1:] != [NONE, NONE] for row in rows):
        lines.append(table(["collapsed", "by step", "by theory"], rows))
    if s.fading:
        some = [
            [
                f.leader, f.token, f.trajectories, or_none(f.odds), or_none(f.predicted),
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


def mix_sections(m: Mixed) -> list[dict[str, Any]]:
    """What becomes of A and of B in both together: sections of a page, and of the text."""
    first = (
        f"{counted(m.a.samples, 'sample')} of {m.a.name} (A) and {m.b.samples:,} of {m.b.name} (B): "
        f"{counted(m.common_tokens, 'token')} in common, {_only(m.a)} only in A, {_only(m.b)} only in B.\n\n"
        "A strict order survives unless the other corpus adds a path back: then the two are tied."
    )
    columns = {
        "strict orders": "strict", "survive": "survive", "turn into ties": "turn", "ties before": "tied",
        "last tokens": "last_tokens", "with one that turns": "changed_last_tokens",
    }  # fmt: skip
    rows = [
        [name, *(getattr(x, field) for field in columns.values())]
        for name, x in (("A", m.a.orders), ("B", m.b.orders))
    ]
    header = ["", *columns]
    sections: list[dict[str, Any]] = [{"text": first, "table": {"header": header, "rows": rows}}]
    for name, other, corpus in (("A", "B", m.a), ("B", "A", m.b)):
        turned = corpus.orders.turned
        if turned:
            heading = f"Orders of {name} that {other} turns into ties"
            if len(turned) < corpus.orders.turn:
                heading += f", the {len(turned)} with the most samples"
            back = [[x.last, x.winner, x.loser, x.weight, _path(x, name, other)] for x in turned]
            header = ["after", "winner", "loser", f"samples in {name}", "the way back"]
            sections.append({"heading": heading, "table": {"header": header, "rows": back}})
    return sections


def mix_text(m: Mixed) -> str:
    """The same for a terminal."""
    parts = []
    for s in mix_sections(m):
        head = [s["heading"]] if "heading" in s else [s["text"].replace("\n\n", "\n")]
        parts.append("\n".join([*head, table(**s["table"])]))
    return "\n\n".join(parts)


def _only(corpus: Corpus) -> str:
    few = ", ".join(visible(x) for x in corpus.only[:3])
    more = ", …" if corpus.only_tokens > 3 else ""
    return f"{corpus.only_tokens:,}{f' ({few}{more})' if few else ''}"


def _path(turned: Turned, name: str, other: str) -> str:
    """The path back, each step with the samples behind it in either corpus."""
    return ", ".join(
        f"{visible(s.winner)} over {visible(s.loser)} ({s.counts(name, other)})"
        for s in turned.path
    )


def stability_text(s: Stability) -> str:
    """How often everything comes out the same, then what is least sure."""
    rows = [
        [name, k.count, k.always, k.sure, *(or_none(x, share_text) for x in (k.share, k.low, k.high))]
        for name, k in (
            ("strict orders", s.orders), ("ties", s.ties), ("components of several tokens", s.components),
            ("answers to contexts of the data", s.answers),
        )
    ]  # fmt: skip
    header = [
        "",
        "in the data",
        "always the same",
        "in 95% or more",
        "share the same",
        "from",
        "to",
    ]
    lines = [f"{s.resamples:,} resamples of {s.sequences:,} sequences", table(header, rows)]
    one = next((b for b in s.behind if b.sequences == 1), None)
    if one is not None:
        lines.append(
            f"{counted(one.orders, 'strict order')} with one sequence behind: the same in {share_text(one.same)} "
            f"of the resamples ({share_text(one.alone)} by that sequence alone)"
        )
    lines.append(
        "A resample can lose a strict order, never contradict it: attomaton coverage bounds that."
    )
    if s.shaky:
        rows = [
            [
                x.last,
                f"{visible(x.winner)} {'over' if x.strict else 'tied with'} {visible(x.loser)}",
                x.weight,
                x.sequences,
                *map(share_text, (x.same, x.turned, x.lost)),
            ]
            for x in s.shaky
        ]
        header = ["after", "order or tie", "samples", "sequences", "the same", "turned", "lost"]
        lines += ["", "below 95%, those with the most samples:", table(header, rows)]
    return "\n".join(lines)
