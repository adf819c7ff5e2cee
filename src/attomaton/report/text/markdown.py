"""The report of a verification as Markdown: the page's words and tables, pictures as links to files."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attomaton.report.figures.verification import words
from attomaton.report.text import verification as told
from attomaton.report.text.verification import Block, Cell, Header, Table
from attomaton.report.words import seconds_text
from attomaton.results import Checked


def report_markdown(
    records: Sequence[Checked],
    header: Header,
    figures: Mapping[str, str] | None = None,
    folder: str = "figures",
) -> str:
    """The whole report as Markdown; `figures` (of `report_figures`) are linked as files in `folder`."""
    names = told.slugs(records)
    files = {name: f"{folder}/{name}" for name in figures or ()}
    lines = [f"# {told.TITLE}", "", f"**{_kept(told.headline(records))}**", "", _kept(told.facts(records, header)), "",
             told.HOW_TO_READ, "", "## Claims", "", *_overview(records, names), ""]  # fmt: skip
    for record, name in zip(records, names, strict=True):
        lines += [f'<a id="{name}"></a>', "", f"## {_kept(told.heading(record))}", ""]
        lines += [f"**{told.verdict_mark(record)}**", ""]
        for block in told.blocks(record, name):
            shown = _BLOCKS[block.kind](block, files)
            lines += [*shown, ""] if shown else []
    made = _table(Table(["what", "which"], told.made_by(header)))
    return "\n".join([*lines, "## What made this page", "", *made, ""])


class _Link(str):
    """Markdown already; every other text is kept as it is."""

    __slots__ = ()


def _overview(records: Sequence[Checked], names: Sequence[str]) -> list[str]:
    """The table of claims, each leading to its section."""
    rows: list[list[Cell]] = [
        [
            _Link(f"[{_kept(told.heading(record))}](#{name})"),
            told.verdict_mark(record),
            told.telling(record),
            [str(told.control_mark(record)), *told.control_telling(record)],
            seconds_text(record.seconds),
        ]
        for record, name in zip(records, names, strict=True)
    ]
    return _table(Table(told.COLUMNS, rows))


def _kept(text: Any) -> str:
    """Text that Markdown leaves as it is, on one line."""
    if isinstance(text, _Link):
        return text
    marked = re.sub(r"([\\`*_\[\]|$~#])", r"\\\1", " ".join(str(text).split()))
    return marked.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _table(table: Table) -> list[str]:
    def line(cells: Sequence[Any]) -> str:
        lines = [cell if isinstance(cell, list) else [cell] for cell in cells]
        return "| " + " | ".join("<br>".join(map(_kept, part)) for part in lines) + " |"

    return [line(table.header), "|" + " --- |" * len(table.header), *map(line, table.rows)]


def _fenced(code: str) -> list[str]:
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    return [fence, *code.splitlines(), fence]


def _pictures(block: Block, files: Mapping[str, str]) -> list[str]:
    return [
        f"![{_kept(words(panel.title or name))}]({files[file]})"
        for name, panel in block.panels.items()
        if (file := f"{name}.svg") in files
    ]


# How each kind of block looks; values at full precision are left to the JSON.
_BLOCKS: dict[str, Callable[[Block, Mapping[str, str]], list[str]]] = {
    "heading": lambda b, _: [f"### {_kept(b.text)}"],
    "text": lambda b, _: [_kept(b.text)],
    "formula": lambda b, _: _fenced(b.text),
    "code": lambda b, _: _fenced(b.text),
    "term": lambda b, _: [f"**{_kept(b.name)}.** {_kept(b.text)}"],
    "mark": lambda b, _: [f"**{b.mark}.** {_kept(b.text)}"],
    "tables": lambda b, _: [line for table in b.tables for line in ("", *_table(table))][1:],
    "values": lambda b, _: [],
    "panels": _pictures,
}
