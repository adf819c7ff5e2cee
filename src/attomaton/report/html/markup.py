"""The pieces every page is made of: the document around it, boxes that scroll, tables, inline figures."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape as html_escape
from typing import Any
from xml.etree import ElementTree

from attomaton.base.assets import beside
from attomaton.errors import UsageError, visible
from attomaton.report.words import value_text

_REFERENCE = re.compile(r"url\(\s*['\"]?#([^)'\"]+)['\"]?\s*\)")
_OUTSIDE = re.compile(r"url\(\s*['\"]?(?!#)|@import", re.IGNORECASE)
_DROPPED = ("metadata", "script", "foreignObject", "title")

WIDEST = 1000  # characters of a cell

# Nothing may be fetched, not even by a figure from elsewhere.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

_STYLE = beside(__file__, "markup.css").strip()


class Html(str):
    """Text that is HTML already; every other text is escaped."""

    __slots__ = ()


def escape(text: str) -> str:
    """Text for a page: no markup, and nothing that turns the direction of writing or hides."""
    return html_escape(visible(text, most=None, keep="\n\t\xa0"))


def escaped(text: str) -> Html:
    """The text as HTML."""
    return text if isinstance(text, Html) else Html(escape(text))


def document(
    title: str, main: Iterable[str], footer: str = "", style: str = "", script: str = ""
) -> str:
    """A whole HTML document around the parts of its `main`; `style` adds to ours, and `script` alone may run."""
    policy = _POLICY
    if script:
        script = f"\n{script}\n"
        digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy += f"; script-src 'sha256-{digest}'"
    rules = f"{_STYLE}\n{style}".strip()
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{rules}\n</style>",
            "</head>",
            "<body>",
            "<main>",
            *main,
            "</main>",
            *([f"<footer>\n{footer}\n</footer>"] if footer else []),
            *([f"<script>{script}</script>"] if script else []),
            "</body>",
            "</html>",
            "",
        ]
    )


def paragraphs(text: str | Sequence[str]) -> Html:
    """Paragraphs from a text that blank lines part, or from a list."""
    parts = re.split(r"\n\s*\n", text) if isinstance(text, str) else text
    return Html("\n".join(f"<p>{escaped(part.strip())}</p>" for part in parts if part.strip()))


def scrolling(tag: str, content: str, name: str, kind: str = "") -> Html:
    """A box that scrolls sideways on its own, by keyboard too, so that the page never does."""
    classes = f"scroll {kind}".strip()
    return Html(
        f'<{tag} class="{classes}" role="region" tabindex="0" aria-label="{escape(name)}">'
        f"{content}</{tag}>"
    )


def code_box(code: str, name: str) -> Html:
    """Code, or what a program said, kept as it is."""
    return scrolling("pre", f"<code>{escape(code)}</code>", f"code: {name}")


def table_box(
    header: Sequence[str],
    rows: Sequence[Sequence[Any]],
    name: str,
    caption: str = "",
    kind: str = "",
) -> Html:
    """A table in a box of its own; numbers stand right."""
    for i, row in enumerate(rows):
        if len(row) != len(header):
            raise UsageError(
                f"table {name!r}, row {i + 1}: {len(row)} cells under {len(header)} headings."
            )
    numeric = [bool(rows) and all(_is_number(row[j]) for row in rows) for j in range(len(header))]
    lines = ["<table>"]
    if caption:
        lines.append(f"<caption>{escaped(caption)}</caption>")
    lines.append("<thead><tr>")
    lines += [
        f'<th scope="col"{_right(n)}>{escaped(_shown(h))}</th>'
        for h, n in zip(header, numeric, strict=True)
    ]
    lines.append("</tr></thead>\n<tbody>")
    for row in rows:
        cells = (
            [f'<th scope="row"{_right(numeric[0])}>{escaped(_shown(row[0]))}</th>'] if row else []
        )
        cells += [f"<td{_right(_is_number(x))}>{escaped(_shown(x))}</td>" for x in row[1:]]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines.append("</tbody>\n</table>")
    return scrolling("div", "\n".join(lines), f"table: {name}", f"table {kind}".strip())


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)


def _right(number: bool) -> str:
    return ' class="number"' if number else ""


def _shown(x: Any) -> str:
    """A cell's words: integers with thousands marks, other numbers to six digits."""
    if isinstance(x, bool) or not _is_number(x):
        return x if isinstance(x, Html) else "" if x is None else visible(x, WIDEST, keep="\n\t")
    return value_text(x, digits=6)


def figure_box(svg: str, prefix: str, name: str, caption: str = "", kind: str = "card") -> Html:
    """A figure with its caption; `prefix` keeps its ids apart from those of the page's other figures."""
    box = scrolling("div", _inline(svg, prefix, name), f"figure: {name}", kind)
    words = f"\n<figcaption>{escaped(caption)}</figcaption>" if caption else ""
    return Html(f"<figure>{box}{words}</figure>")


def _inline(svg: str, prefix: str, name: str) -> str:
    """An SVG document as part of a page: its ids prefixed, nothing in it that runs or is fetched."""
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as fault:
        raise UsageError(f"figure {name!r}: not an SVG document ({fault}).") from fault
    if _local(root.tag) != "svg":
        raise UsageError(f"figure {name!r}: not an SVG document (it is <{_local(root.tag)}>).")
    for element in root.iter():
        for child in list(element):
            if _local(child.tag) in _DROPPED:
                element.remove(child)
        element.tag = _local(element.tag)
        element.attrib = _attributes(element, prefix)
        if element.tag == "style":
            element.text = _scoped(element.text or "", prefix)
    _size(root)
    root.attrib.update({"id": f"{prefix}figure", "role": "img", "aria-label": name})
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    """A name without its XML namespace; HTML knows SVG's elements by their plain names."""
    return name.rpartition("}")[2]


def _attributes(element: ElementTree.Element, prefix: str) -> dict[str, str]:
    """An element's attributes under plain names, ids and what points at them prefixed."""
    kept: dict[str, str] = {}
    for full_name, value in element.attrib.items():
        name = _local(full_name)
        if name == "id":
            kept[name] = prefix + value
        elif name in ("aria-labelledby", "aria-describedby"):
            kept[name] = " ".join(prefix + target for target in value.split())
        elif name == "href" and value.startswith("#"):
            kept[name] = f"#{prefix}{value[1:]}"
        elif name == "href" and value.startswith("data:image/"):
            kept[name] = value
        elif name != "href" and not name.lower().startswith("on"):
            kept[name] = _REFERENCE.sub(rf"url(#{prefix}\1)", value)
    return {name: value for name, value in kept.items() if not _OUTSIDE.search(value)}


def _scoped(style: str, prefix: str) -> str:
    """A figure's own style rules, kept inside that figure."""
    if _OUTSIDE.search(style):
        return ""

    def rule(found: re.Match[str]) -> str:
        selectors = [f"#{prefix}figure {one.strip()}" for one in found[1].split(",")]
        return ", ".join(selectors) + " {"

    return re.sub(r"([^{}]+)\{", rule, style).strip()


def _size(root: ElementTree.Element) -> None:
    """Natural size in a roomy page, scrolled rather than unreadably small in a narrow one."""
    width = re.fullmatch(r"([\d.]+)(pt|px)?", root.attrib.pop("width", ""))
    root.attrib.pop("height", None)
    if width:
        pixels = float(width[1]) * (4 / 3 if width[2] == "pt" else 1)
        root.set("style", f"width:{pixels:.0f}px;min-width:{0.8 * pixels:.0f}px")
