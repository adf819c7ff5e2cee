"""One self-contained HTML page from plain sections: no network, no script, light and dark."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attomaton.errors import UsageError
from attomaton.report.html.markup import (
    code_box,
    document,
    escape,
    figure_box,
    paragraphs,
    table_box,
)

_KEYS = ("heading", "text", "table", "svg", "code", "caption")


def page(
    title: str, sections: Iterable[Mapping[str, Any]], footer: str | Sequence[str] = ""
) -> str:
    """A whole HTML document; everything but figures is escaped, and figures lose their scripts.

    A section holds any of `heading`, `text` (blank lines part paragraphs, or a list of them), `svg`
    (a figure), `table` (`{"header": [...], "rows": [[...], ...]}`; numbers stand right), `code` and
    `caption` (of the figure, else of the table). `footer` says what made the page: version, command.

    >>> "<h1>a &lt; b</h1>" in page("a < b", [{"heading": "First", "text": "Words."}])
    True
    """
    body = [f"<h1>{escape(title)}</h1>"]
    body += [_section(section, i) for i, section in enumerate(sections, 1)]
    return document(title, body, paragraphs(footer))


def _section(section: Mapping[str, Any], number: int) -> str:
    if unknown := sorted(set(section) - set(_KEYS)):
        raise UsageError(
            f"section {number}: unknown key {unknown[0]!r}; a section holds {', '.join(_KEYS)}."
        )
    heading, caption = section.get("heading", ""), section.get("caption", "")
    name = caption or heading or f"figure {number}"
    parts = []
    if heading:
        parts.append(f'<h2 id="h{number}">{escape(heading)}</h2>')
    if section.get("text"):
        parts.append(paragraphs(section["text"]))
    if section.get("svg"):
        parts.append(figure_box(section["svg"], f"s{number}-", heading or name, caption))
        caption = ""
    if section.get("table"):
        parts.append(table_box(**section["table"], name=heading or name, caption=caption))
        caption = ""
    if section.get("code"):
        parts.append(code_box(section["code"], name))
    if caption:
        parts.append(f"<p>{escape(caption)}</p>")
    label = f' aria-labelledby="h{number}"' if heading else ""
    return "\n".join([f"<section{label}>", *parts, "</section>"])
