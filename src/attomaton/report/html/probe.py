"""A probed transformer, or one over its checkpoints, as one page that needs nothing else."""

from collections.abc import Sequence

from attomaton.base.assets import beside
from attomaton.errors import counted
from attomaton.probe.records import Probe
from attomaton.probe.snapping import Mark, Snap
from attomaton.report.html.markup import (
    Html,
    document,
    escape,
    figure_box,
    paragraphs,
    scrolling,
    table_box,
)
from attomaton.report.html.summary import sections_page
from attomaton.report.text import probe as told
from attomaton.report.text import snap as over_time
from attomaton.report.text.summary import Section

WORDS = 60  # of a context that the page shows


def probe_page(found: Probe, top: int = 20, svg: str | None = None, footer: str = "") -> str:
    """Sentences, agreement and maps of heads as a picture, every table, orders it got wrong with their contexts."""
    tables = [_unbroken(s) for s in told.sections(found, top, WORDS)]
    return sections_page(told.TITLE, told.in_words(found), tables, svg, _CAPTION, footer)


def snap_page(found: Snap, top: int = 20, svg: str | None = None, footer: str = "") -> str:
    """Sentences, curves over training, a slider over checkpoints with a map of all heads, every table."""
    body = [f"<h1>{escape(over_time.TITLE)}</h1>", paragraphs(over_time.in_words(found))]
    if svg is not None:
        body.append(figure_box(svg, "s-", over_time.TITLE, _COURSE))
    body.append(_checkpoints(found.marks))
    for s in map(_unbroken, over_time.sections(found, top)):
        body += [
            f"<h2>{escape(s['heading'])}</h2>",
            paragraphs(s["note"]),
            table_box(s["header"], s["rows"], s["heading"]),
        ]
    return document(over_time.TITLE, body, paragraphs(footer), _STYLE, _SCRIPT)


def _unbroken(s: Section) -> Section:
    """A table whose numbers with intervals stay on one line."""

    def cell(x: object) -> object:
        if isinstance(x, str) and x.endswith(")") and x.lstrip("-")[:1].isdigit():
            return Html(f"<span style='white-space:nowrap'>{escape(x)}</span>")
        return x

    return {**s, "rows": [[cell(x) for x in row] for row in s["rows"]]}


def _checkpoints(marks: Sequence[Mark]) -> str:
    """Every checkpoint's shares and map; the script leaves the one that the slider stands on."""
    last = len(marks) - 1
    return "\n".join(
        [
            '<section aria-labelledby="at"><h2 id="at">At one checkpoint</h2>',
            paragraphs("Entropy of every head over the logarithm of its keys: 0 on one key, 1 spread evenly."),
            f'<p class="slider" hidden><label>Checkpoint <input type="range" min="0" max="{last}" value="{last}"> '
            f"<output>step {marks[-1].step:,}</output></label></p>",
            *(_checkpoint(mark) for mark in marks),
            "</section>",
        ]
    )  # fmt: skip


def _checkpoint(mark: Mark) -> str:
    shares = [
        f"{words}: {told.share_interval(getattr(mark, kind))}"
        for kind, words in told.KINDS.items()
        if getattr(mark, kind) is not None
    ]
    same = f" The same weights as {mark.same_as}." if mark.same_as else ""
    said = f"Step {mark.step:,}. Orders as in the corpus: {'; '.join(shares)}.{same}"
    return (
        f'<div class="mark" data-step="step {mark.step:,}">{paragraphs(said)}'
        f"{heat_map(mark.entropy, f'entropy at step {mark.step:,}')}</div>"
    )


def heat_map(values: Sequence[Sequence[float]], name: str) -> Html:
    """A map of layer × head, every cell with its number."""
    heads = max((len(row) for row in values), default=0)
    head = "".join(f'<th scope="col">{h}</th>' for h in range(heads))
    rows = [
        f'<tr><th scope="row">layer {i}</th>'
        + "".join(
            f'<td class="{"deep" if x > 0.55 else ""}" style="--v:{100 * min(max(x, 0), 1):.0f}%">{x:.2f}</td>'
            for x in row
        )
        + "</tr>"
        for i, row in enumerate(values)
    ]
    table = (
        f'<table><thead><tr><th scope="col">head</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
    said = f"{name}: {counted(len(values), 'layer')}, {counted(heads, 'head')} each"
    return scrolling("div", table, said, "table map")


_CAPTION = (
    "First: strict orders the model shares with the corpus, with 95 % intervals, and controls. Then maps of layer × "
    "head: how evenly each attends, the mass on its largest key, on the key before, on keys that an induction head "
    "copies from, and on what the automaton retrieves."
)
_COURSE = (
    "Left: entropy of every head over the logarithm of its keys, in the colour of its layer; a mark where it froze. "
    "Right: the share of strict orders as in the corpus, with 95 % intervals."
)
_STYLE = beside(__file__, "probe.css").strip()
# Without the script every checkpoint is shown, one below the other.
_SCRIPT = beside(__file__, "probe.js").strip()
