"""The report of a verification as one page that needs nothing else: no network, light, dark and print."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from attomaton.base.assets import beside
from attomaton.disk.formats import to_json
from attomaton.errors import cut
from attomaton.report.figures.verification import (
    BAD_PANEL,
    Table,
    full,
    panel_or_fault,
    panel_table,
    themed,
    words,
)
from attomaton.report.html.markup import (
    Html,
    code_box,
    document,
    escape,
    escaped,
    figure_box,
    paragraphs,
    scrolling,
    table_box,
)
from attomaton.report.text import verification as told
from attomaton.report.text.spreadsheets import csv_text
from attomaton.report.text.verification import Block, Header, Mark
from attomaton.report.words import evenly, seconds_text
from attomaton.results import Checked, Panel

MOST_ROWS, MOST_COLUMNS = 50, 16  # of a panel's numbers that the page shows; its CSV has all


def report_page(
    records: Sequence[Checked], header: Header, figures: Mapping[str, str] | None = None
) -> str:
    """The whole report as one HTML document; `figures` are those of `report_figures`, if drawn already."""
    names = told.slugs(records)
    whole = told.overall(records)
    body = [
        '<a class="skip" href="#claims">Skip to the claims</a>',
        '<p class="above">attomaton verify</p>',
        f"<h1>{told.TITLE}</h1>",
        f'<p class="sentence {whole.kind}"><span aria-hidden="true">{whole.symbol}</span> '
        f"{escape(told.headline(records))}</p>",
        f'<p class="facts">{escape(told.facts(records, header))}</p>',
        paragraphs(told.HOW_TO_READ),
        '<section aria-labelledby="claims">',
        '<h2 id="claims" tabindex="-1">Claims</h2>',
        _BUTTONS,
        _overview(records, names),
        "</section>",
        *(_claim(r, name, figures or {}) for r, name in zip(records, names, strict=True)),
        '<section aria-labelledby="made-by">',
        '<h2 id="made-by">What made this page</h2>',
        table_box(["what", "which"], told.made_by(header), "what made this page"),
        "</section>",
    ]
    return document(f"{told.TITLE}: {told.headline(records)}", body, style=_STYLE, script=_SCRIPT)


def _overview(records: Sequence[Checked], names: Sequence[str]) -> str:
    """The table of claims, each leading to its section."""
    rows = []
    for record, name in zip(records, names, strict=True):
        link = f'<a href="#{name}">{escape(record.claim)}</a>'
        title = record.title or record.statement
        control = [_marked(told.control_mark(record)), *map(_small, told.control_telling(record))]
        took = f'<span class="right">{seconds_text(record.seconds)}</span>'
        named = [link, *(_small(cut(x, 160)) for x in (title, record.paper) if x)]
        cells = (named, [_marked(told.verdict_mark(record))],
                 map(escape, told.telling(record)), control, [took])  # fmt: skip
        rows.append([Html("<br>".join(lines)) for lines in cells])
    return table_box(told.COLUMNS, rows, "claims", kind="claims")


def _claim(record: Checked, name: str, figures: Mapping[str, str]) -> str:
    title = f"{escape(told.heading(record))} {_marked(told.verdict_mark(record))}"
    group = "stands" if told.stands(record) else "falls" if told.applies(record) else "silent"
    return "\n".join(
        [
            f'<section class="claim" data-group="{group}" aria-labelledby="{name}">',
            f'<h2 id="{name}" tabindex="-1">{title}</h2>',
            *(_BLOCKS[block.kind](block, figures) for block in told.blocks(record, name)),
            '<p class="up"><a href="#claims">Back to the claims</a></p>',
            "</section>",
        ]
    )


def _tables(block: Block) -> str:
    boxes = []
    for table in block.tables:
        rows = [[_marked(x) if isinstance(x, Mark) else x for x in row] for row in table.rows]
        boxes.append(table_box(table.header, rows, table.name, kind="figures"))
    return "\n".join(['<div class="beside">', *boxes, "</div>"]) if len(boxes) > 1 else boxes[0]


def _panels(block: Block, figures: Mapping[str, str]) -> str:
    drawn = [_panel(panel, name, figures) for name, panel in block.panels.items()]
    return "\n".join(['<div class="panels">', *drawn, "</div>"])


# How each kind of block looks.
_BLOCKS: dict[str, Callable[[Block, Mapping[str, str]], str]] = {
    "heading": lambda b, _: f"<h3>{escape(b.text)}</h3>",
    "text": lambda b, _: paragraphs(b.text),
    "formula": lambda b, _: scrolling("div", escaped(b.text), b.name, "formula"),
    "code": lambda b, _: code_box(b.text, b.name),
    "term": lambda b, _: f"<p><strong>{escape(b.name)}.</strong> {escape(b.text)}</p>",
    "mark": lambda b, _: f"<p>{_marked(b.mark)} {escape(b.text)}</p>" if b.mark else "",
    "tables": lambda b, _: _tables(b),
    "values": lambda b, _: _details(
        "Every value, at full precision", code_box(_json(b.values), b.name)
    ),
    "panels": _panels,
}


def _panel(panel: Panel, name: str, figures: Mapping[str, str]) -> str:
    """A picture, where it can be drawn, with its numbers and its two downloads."""
    title = words(panel.title or name)
    svg, fault = figures.get(f"{name}.svg", ""), ""
    if not svg:
        svg, fault = panel_or_fault(panel)
    links: list[str] = []
    parts: list[str] = []
    if svg:
        parts.append(figure_box(themed(svg), f"{name}-", title, kind="card drawn"))
        links.append(_download(svg, "image/svg+xml", f"{name}.svg", "SVG", title))
    else:
        parts.append(paragraphs(f"{title}: no picture ({fault})."))
    try:
        table = panel_table(panel)
    except BAD_PANEL as why:
        return f'<div class="panel">{"".join(parts)}<p>No numbers ({escape(repr(why))}).</p></div>'
    links.append(_download(csv_text(*table), "text/csv", f"{name}.csv", "CSV", title))
    parts.append(f'<p class="downloads">{" ".join(links)}</p>')
    parts.append(_details("Data", _numbers(table, title)))
    return f'<div class="panel">{"".join(parts)}</div>'


def _numbers(table: Table, title: str) -> str:
    """A panel's numbers with all their digits, evenly thinned where there are many."""
    header, rows = table
    down, across = evenly(len(rows), MOST_ROWS), evenly(len(header), MOST_COLUMNS)
    cut = [
        f"{len(kept)} of {count} {what}"
        for kept, count, what in ((down, len(rows), "rows"), (across, len(header), "columns"))
        if len(kept) < count
    ]
    shown = [[full(rows[i][j]) for j in across] for i in down]
    caption = f"{', '.join(cut)}; the CSV has all." if cut else ""
    return table_box([header[j] for j in across], shown, f"data of {title}", caption, kind="data")


def _download(content: str, kind: str, name: str, word: str, title: str) -> str:
    data = quote(content, safe=" !$&'()*+,-./:;=?@[]^_`{|}~>")
    return (
        f'<a download="{escape(name)}" href="data:{kind};charset=utf-8,{escape(data)}" '
        f'aria-label="Download {word} of {escape(title)}">{word}</a>'
    )


def _details(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def _marked(mark: Mark) -> Html:
    return Html(f'<span class="mark {mark.kind}">{escape(str(mark))}</span>')


def _small(text: str) -> str:
    return f"<small>{escape(text)}</small>"


def _json(value: Any) -> str:
    """JSON, a list of plain entries on one line."""
    text = to_json(value, indent=1)
    return re.sub(r"\[[^\[\]{}]*\]", lambda found: re.sub(r"\s*\n\s*", " ", found[0]), text)


# Shown by the script alone: without it nothing here would work.
_BUTTONS = (
    '<p class="buttons" hidden><button type="button" data-show="all" aria-pressed="true">All</button> '
    '<button type="button" data-show="stands" aria-pressed="false">Stand</button> '
    '<button type="button" data-show="falls" aria-pressed="false">Do not stand</button> '
    '<button type="button" data-show="silent" aria-pressed="false">Not applicable</button> '
    '<button type="button" data-open aria-pressed="false">Open all data</button></p>'
)

_SCRIPT = beside(__file__, "verification.js").strip()

_STYLE = beside(__file__, "verification.css").strip()
