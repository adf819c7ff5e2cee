"""Turns README, the pages of docs/ and the tutorial into a small site in docs/_site/: `python docs/make_site.py`.

Every page stands alone: its pictures are inside, nothing is fetched. Open docs/_site/index.html.
"""

import base64
import json
import os
import re
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from attomaton.report.markup import Html, code_box, document, figure_box

HERE = Path(__file__).parent
SITE = HERE / "_site"
README, NOTEBOOK = HERE.parent / "README.md", HERE / "tutorial.ipynb"
SHORT = 14  # letters of a title that the navigation takes as it is
IMAGES = {".png": "image/png", ".svg": "image/svg+xml"}

STYLE = """
nav { max-width: 62rem; margin: 0 auto 1.5rem; font-size: .9rem; }
nav ul { max-width: none; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; list-style: none; margin: 0; padding: 0; }
nav a[aria-current] { color: var(--ink); font-weight: 600; text-decoration: none; }
a { color: var(--link); }
h3 { font-size: 1.08rem; margin: 2rem 0 .4rem; }
ul, ol { max-width: 44rem; padding-left: 1.4rem; }
li { margin: .3rem 0; }
img { max-width: 100%; height: auto; background: #ffffff; border: 1px solid var(--line);
  border-radius: 8px; padding: .5rem; }
thead th { white-space: normal; }
thead:not(:has(th:not(:empty))) { display: none; }
td:not(.number) { min-width: 4rem; }
h2 code { font-size: .95em; }
p code, li code, td code, h2 code { background: var(--fill); padding: .1em .3em; border-radius: 4px; }
.said { background: none; border-style: dashed; margin-top: -.6rem; }
""".strip()


def sources(notebook: Path = NOTEBOOK) -> list[Path]:
    """What becomes a page, in the order of the navigation."""
    pages = sorted(p for p in HERE.glob("*.md"))
    return [README, *([notebook] if notebook.is_file() else []), *pages]


def page_name(source: Path) -> str:
    """The file a source becomes."""
    return "index.html" if source == README else f"{source.stem}.html"


def first_heading(source: Path) -> str:
    """The title of a page: its first heading."""
    text = source.read_text(encoding="utf-8")
    if source.suffix == ".ipynb":
        text = "".join(json.loads(text)["cells"][0]["source"])
    found = re.search(r"^# (.+)$", text, flags=re.MULTILINE)
    return found[1].replace("`", "") if found else source.stem


class Converter:
    """Markdown as HTML: pictures taken inside, links turned to pages, boxes that scroll on their own."""

    def __init__(self, source: Path, pages: Sequence[Path], site: Path):
        self.source, self.site = source, site
        self.pages = {page.resolve(): page_name(page) for page in pages}
        self.markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
        self.slugs: set[str] = set()
        rules = {
            "fence": self._code, "code_block": self._code, "image": self._image,
            "table_open": self._table_open, "table_close": self._table_close,
        }  # fmt: skip
        for name, rule in rules.items():
            self.markdown.add_render_rule(name, lambda _, *rest, rule=rule: rule(*rest))

    def html(self, text: str) -> Html:
        """The text as HTML."""
        tokens = self.markdown.parse(text)
        for i, token in enumerate(tokens):
            if token.type == "heading_open":
                token.attrSet("id", self._slug(tokens[i + 1].content))
            for child in token.children or ():
                if child.type == "link_open":
                    child.attrSet("href", self._link(str(child.attrGet("href"))))
        return Html(self.markdown.renderer.render(tokens, self.markdown.options, {}))

    def _slug(self, heading: str) -> str:
        """A heading's name in links, as code forges make it."""
        plain = base = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        number = 0
        while plain in self.slugs:
            number += 1
            plain = f"{base}-{number}"
        self.slugs.add(plain)
        return plain

    def _link(self, target: str) -> str:
        """Where a link leads on the site; what has no page there is named from the site's folder."""
        parts = urlsplit(target)
        if parts.scheme or not parts.path:
            return target
        path = (self.source.parent / parts.path).resolve()
        page = self.pages.get(path) or Path(os.path.relpath(path, self.site.resolve())).as_posix()
        return page + (f"#{parts.fragment}" if parts.fragment else "")

    def _code(self, tokens: Sequence[Token], i: int, *_: Any) -> str:
        return code_box(tokens[i].content.rstrip("\n"), tokens[i].info or "text") + "\n"

    def _image(self, tokens: Sequence[Token], i: int, *_: Any) -> str:
        path = self.source.parent / str(tokens[i].attrGet("src"))
        data = base64.b64encode(path.read_bytes()).decode()
        alt = escape(tokens[i].content)
        return f'<img alt="{alt}" src="data:{IMAGES[path.suffix]};base64,{data}">'

    def _table_open(self, *_: Any) -> str:
        return '<div class="scroll table" role="region" tabindex="0" aria-label="table">\n<table>\n'

    def _table_close(self, *_: Any) -> str:
        return "</table>\n</div>\n"


def notebook_parts(notebook: dict[str, Any], converter: Converter) -> list[Html]:
    """A notebook's cells in order: prose, code, what it printed, what it drew."""
    parts: list[Html] = []
    for i, cell in enumerate(notebook["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(converter.html(source))
            continue
        parts.append(code_box(source, "python"))
        for j, output in enumerate(cell["outputs"]):
            svg = "".join(output.get("data", {}).get("image/svg+xml", ""))
            if output["output_type"] == "stream":
                said = code_box("".join(output["text"]).rstrip("\n"), "output")
                parts.append(Html(said.replace('class="scroll', 'class="scroll said', 1)))
            elif svg:
                parts.append(figure_box(svg, f"c{i}-{j}-", f"of cell {i}"))
    return parts


def navigation(pages: Sequence[Path], here: Path) -> Html:
    """The list of all pages, this one marked."""
    entries = []
    for page in pages:
        title = first_heading(page)
        name = title if len(title) <= SHORT else page.stem.replace("_", " ").capitalize()
        mark = ' aria-current="page"' if page == here else ""
        entries.append(f'<li><a href="{page_name(page)}"{mark}>{escape(name)}</a></li>')
    return Html(f'<nav aria-label="Pages"><ul>{"".join(entries)}</ul></nav>')


def make(site: Path = SITE) -> list[Path]:
    """Write every page; their paths."""
    site.mkdir(parents=True, exist_ok=True)
    own = site / NOTEBOOK.name  # run here without WikiText-2: newer than the kept one
    pages = sources(own if own.is_file() else NOTEBOOK)
    written = []
    for source in pages:
        # Links of the tutorial are written as seen from docs/, wherever it was run.
        place = NOTEBOOK if source.suffix == ".ipynb" else source
        converter = Converter(place, [NOTEBOOK if p == own else p for p in pages], site)
        text = source.read_text(encoding="utf-8")
        cells = source.suffix == ".ipynb"
        body = notebook_parts(json.loads(text), converter) if cells else [converter.html(text)]
        title = first_heading(source)
        heading = title if source == README else f"{title} · attomaton"
        target = site / page_name(source)
        target.write_text(
            document(heading, [navigation(pages, source), *body], style=STYLE), encoding="utf-8"
        )
        written.append(target)
    return written


if __name__ == "__main__":
    print(f"{len(make())} pages; open {SITE / 'index.html'}", file=sys.stderr)
