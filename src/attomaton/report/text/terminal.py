"""What a person reads on a terminal: plain lines, aligned, no colour needed to understand them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attomaton.corpus.vocabulary import Label
from attomaton.errors import counted, visible
from attomaton.mechanics.theory.automaton import Explanation, Fate, Witness
from attomaton.mechanics.theory.inference import Inference
from attomaton.mechanics.theory.prediction import Prediction
from attomaton.mechanics.theory.view import GraphView
from attomaton.report.words import NONE, give_or_take, interval

WIDEST = 200  # characters of a cell, or of an example in a line of its own


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns aligned, numbers to the right.

    >>> print(table(["token", "p"], [["tea", 0.25], ["cake", 1]]))
    token     p
    tea    0.25
    cake      1
    """
    cells = [[_cell(x) for x in row] for row in rows]
    right = [
        bool(cells)
        and all(isinstance(row[j], (int, float)) or row[j] == NONE for row in map(list, rows))
        for j in range(len(header))
    ]
    width = [max(len(h), *(len(row[j]) for row in cells), 0) for j, h in enumerate(header)]
    lines = []
    for row in [list(header), *cells]:
        parts = [x.rjust(w) if r else x.ljust(w) for x, w, r in zip(row, width, right, strict=True)]
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def _cell(x: object) -> str:
    return f"{x:.4g}" if isinstance(x, float) else visible(x, WIDEST)


def quoted(token: object) -> str:
    """A token in a sentence; a word in quotes, so that it cannot be taken for a number."""
    return f"'{visible(token)}'" if isinstance(token, str) else str(token)


def joined(tokens: Iterable[object]) -> str:
    """Tokens one after the other."""
    return " ".join(map(visible, tokens))


def fit_text(s: Mapping[str, Any]) -> str:
    """The summary of a fit in sentences and counts."""
    c = s["certificates"]
    aside = s.get("set_aside", {"examples": ()})
    lines = [
        f"{s['samples']:,} samples over {s['vocab']:,} tokens; {s['dropped']:,} set aside "
        "(label absent from the context)",
        *(f"  set aside, {visible(example, WIDEST)}" for example in aside["examples"][:2]),
        *([f"embeddings {visible(s['embeddings'], WIDEST)}"] if s.get("embeddings") else []),
        f"{s['last_tokens']:,} priority graphs: {s['pairs']:,} pairs, {s['edges']:,} edges, "
        f"{s['levels']} levels",
        f"{s['components']:,} components, {s['cyclic_components']:,} of several tokens "
        f"(largest {s['largest_component']:,}, {s['pairs_in_cyclic']:,} tokens in all)",
        f"hard part   ‖W_svm‖ = {s['svm_norm']:.6g}   residuals: primal {c['svm_primal']:.1e}, "
        f"dual {c['svm_dual']:.1e}, gap {c['svm_gap']:.1e}",
        f"soft part   ‖W_fin‖ = {s['finite_norm']:.6g}   gradient {c['luce_gradient']:.1e}"
        + (f", log-odds right to {c['luce_error']:.1e}" if "luce_error" in c else ""),
        f"loss floor  L* = {s['loss_floor']:.10g}",
    ]
    return "\n".join(lines)


def graph_text(view: GraphView) -> str:
    """One priority graph, level by level."""
    lines = [f"after {quoted(view.last)}: {len(view.nodes)} tokens, {len(view.links)} edges"]
    members = view.members
    for component in view.components:
        inside = members[component.id]
        names = [visible(node.token) for node in inside]
        if len(inside) > 1:
            told = zip(names, inside, strict=True)
            names = [f"{x} ({node.log_pi:+.3f}{give_or_take(node.se)})" for x, node in told]
        tied = " ~ ".join(names)
        mark = " *" if component.linear else ""
        lines.append(f"  level {component.level}  score {inside[0].svm_score:+.4f}  {tied}{mark}")
    if any(component.linear for component in view.components):
        lines.append("* tied by the embeddings: no cycles of the data join all of these")
    return "\n".join(lines)


def reproduction_text(s: Mapping[str, Any]) -> str:
    """A published experiment: what was asked, what came out, where it lies."""
    lines = [f"{s['title']}: {s['verdict']}", f"  asked: {s['asked']}"]
    rows = s.get("rows") or s.get("cells")
    if rows:
        names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
        lines.append(table(names, [[row[name] for name in names] for row in rows]))
    skip = (
        "title",
        "verdict",
        "asked",
        "preset",
        "run",
        "rows",
        "cells",
        "seconds",
        "schema_version",
    )
    lines += [
        f"{name}: {_cell(value)}"
        for name, value in s.items()
        if name not in skip and isinstance(value, (int, float, str))
    ]
    return "\n".join([*lines, f"run in {s['run']}"])


def explanation_text(e: Explanation) -> str:
    """A prediction and its reasons, token by token."""
    comes = ": no prediction" if e.prediction is None else f" comes {quoted(e.prediction)}"
    lines = [f"after '{joined(e.context)}'{comes}", e.note, ""]
    rows = [
        [f.token, f.count, _known(f, f.probability), _known(f, f.svm_score), _known(f, f.finite_score), _reason(f)]
        for f in e.fates
    ]  # fmt: skip
    header = ["token", "count", "p", "hard", "soft", "why"]
    if any(f.low is not None for f in e.fates):
        header.insert(3, "95 %")
        for row, f in zip(rows, e.fates, strict=True):
            row.insert(3, interval(f.low, f.high))
    lines.append(table(header, rows))
    for fate in e.fates:
        if fate.tie is not None:
            lines.append(f"  {fate.tie.words()}")
        for edge in fate.path:
            if edge.tie is not None:
                lines.append(f"  {edge.tie.words()}")
                continue
            seen = "; ".join(map(_sample, edge.evidence))
            open_ = "" if edge.contrary is None else f" (contrary at most {edge.contrary:.2g})"
            lines.append(f"  {visible(edge.winner)} over {visible(edge.loser)}{open_}: {seen}")
    return "\n".join([*dict.fromkeys(lines), *_inference(e.inference)])


def _inference(found: Inference | None) -> list[str]:
    """What keys and queries add to the answer of the data."""
    if found is None:
        return []
    comes = "undecided" if found.prediction is None else f"{quoted(found.prediction)} comes"
    starts = counted(found.starts, "start")
    lines = [f"by keys and queries of rank {found.rank} ({starts}): {comes}. {found.note}"]
    return [*lines, *(f"  {x.words()}, in {x.starts} of {starts}" for x in found.orders)]


def prediction_text(found: Prediction, top: int) -> str:
    """The likeliest next tokens; those of the context that the model does not know are marked."""
    mark: dict[Label | None, str] = dict.fromkeys(found.unseen, "never seen with the last token")
    mark |= {x.token: x.why for x in found.unknown}
    shown = [
        (named(r.token), r.p, interval(r.low, r.high), mark.pop(r.token, ""))
        for r in found.probabilities[:top]
    ]
    left_out = [x.token for x in found.unknown if x.token in mark]
    rows = [*shown, *((token, NONE, "", mark[token]) for token in left_out)]
    kept = [0, 1, *(i for i in (2, 3) if any(row[i] for row in rows))]
    header = ("token", "p", "95 %", "")
    text = table([header[i] for i in kept], [[row[i] for i in kept] for row in rows])
    if found.prediction is None:
        text = f"no prediction\n{found.note}"
    elif found.note:
        text += f"\n{found.note}"
    if found.why is not None:
        text += f"\n{found.why}"
    if found.continuation is not None:
        text += f"\n{joined([*found.context, '→', *found.continuation])}"
        if found.continuation_ends is not None:
            text += f"\nends there, {visible(found.continuation_ends)}"
    return "\n".join([text, *_inference(found.inference)])


def named(token: object) -> object:
    """A token in a table; None stands for all words that were never seen."""
    return "(any word never seen)" if token is None else token


def _known(fate: Fate, x: float | None) -> float | str:
    """A number about a token; a dash where nothing was learned."""
    return NONE if fate.probability is None or x is None else round(float(x), 12) + 0.0


def _reason(fate: Fate) -> str:
    if not fate.path:
        alone = fate.reason == "retrieved" and not fate.seen
        return f"{fate.reason}, never seen with the last token" if alone else fate.reason
    way = [fate.path[0].winner, *(edge.loser for edge in fate.path)]
    return f"outranked: {' → '.join(map(visible, way))}"


def _sample(s: Witness) -> str:
    bag = joined(token for token, count in s.tokens.items() for _ in range(count))
    times = "" if s.weight == 1 else f" ×{s.weight:g}"
    return f"{{{bag}}} → {visible(s.next)}{times}"
