"""Draws who imports whom, from the imports themselves: `python docs/make_architecture.py`.

Writes docs/images/architecture.svg and the table between two marks in docs/architecture.md.
"""

import ast
import re
from functools import cache
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent / "src" / "attomaton"
PAGE, PICTURE = DOCS / "architecture.md", DOCS / "images" / "architecture.svg"
BEGIN, END = "<!-- imports: made by docs/make_architecture.py -->", "<!-- end of imports -->"
# The rooms in which modules at the root count as one with a folder.
BASE = ("base", "errors", "numerics", "results")

Arrows = dict[str, set[str]]  # by room: the rooms it imports from


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name below the package."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(p for p in parts if p != "__init__")] = path
    return {name: path for name, path in found.items() if name}


@cache
def imports(path: Path) -> set[str]:
    """The modules of the package that a file imports, wherever in it."""
    known, found = modules(), set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attomaton"):
            below = (node.module or "").removeprefix("attomaton").lstrip(".")
            names = [f"{below}.{a.name}".lstrip(".") for a in node.names]
            names = [name if name in known else below for name in names]
        elif isinstance(node, ast.Import):
            names = [
                a.name.removeprefix("attomaton.")
                for a in node.names
                if a.name.startswith("attomaton.")
            ]
        found |= {name for name in names if name}
    return found


def room(module: str) -> str:
    """The room of a module: its folder, or the base."""
    first = module.partition(".")[0]
    return "base" if first in BASE else first


def arrows() -> Arrows:
    """Every room and the rooms it imports from."""
    found: Arrows = {}
    for name, path in modules().items():
        seen = found.setdefault(room(name), set())
        seen |= {room(other) for other in imports(path)} - {room(name)}
    return found


def layers(drawn: Arrows) -> list[list[str]]:
    """Rooms by how far they stand above the base; a cycle has no layers."""
    height: dict[str, int] = {}

    def measure(name: str, above: tuple[str, ...] = ()) -> int:
        if name in above:
            raise ValueError(f"a cycle: {' → '.join((*above, name))}")
        if name not in height:
            height[name] = 1 + max((measure(x, (*above, name)) for x in drawn[name]), default=-1)
        return height[name]

    for name in drawn:
        measure(name)
    rows: list[list[str]] = [[] for _ in range(max(height.values()) + 1)]
    for name in sorted(drawn):
        rows[height[name]].append(name)
    return rows


def needed(drawn: Arrows) -> Arrows:
    """The arrows that no path of others implies."""

    def below(name: str) -> set[str]:
        return drawn[name] | {y for x in drawn[name] for y in below(x)}

    return {
        name: {x for x in seen if not any(x in below(y) for y in seen if y != x)}
        for name, seen in drawn.items()
    }


def table(drawn: Arrows) -> str:
    """The arrows as Markdown, the highest room first."""
    rows = [name for row in reversed(layers(drawn)) for name in row]
    lines = [f"| `{name}` | {', '.join(sorted(drawn[name])) or '–'} |" for name in rows]
    return "\n".join(["| room | imports from |", "|---|---|", *lines])


def picture(drawn: Arrows) -> str:
    """The rooms in layers, with the arrows that no others imply."""
    rows, width, high = list(reversed(layers(drawn))), 1000, 92
    at = {
        name: ((i + 0.5) * width / len(row), j * high + 40)
        for j, row in enumerate(rows)
        for i, name in enumerate(row)
    }
    lines = []
    for name, seen in sorted(needed(drawn).items()):
        for other in sorted(seen):
            (x, y), (u, v) = at[name], at[other]
            bend = (v - y) / 2
            out = 150 if x == u and v - y > high else 0  # around the boxes between the two
            curve = (
                f"M{x:.0f},{y + 17:.0f} C{x + out:.0f},{y + bend:.0f} {u + out:.0f},{v - bend:.0f} "
                f"{u:.0f},{v - 20:.0f}"
            )
            lines.append(f'<path d="{curve}" marker-end="url(#tip)"/>')
    boxes = [
        f'<rect x="{x - 52:.0f}" y="{y - 17:.0f}" width="104" height="34" rx="7"/>'
        f'<text x="{x:.0f}" y="{y + 5:.0f}">{escape(name)}</text>'
        for name, (x, y) in sorted(at.items())
    ]
    style = (
        "path{fill:none;stroke:#56748f;stroke-width:1.3}rect{fill:#eef4fa;stroke:#0072b2}"
        "text{font:14px sans-serif;text-anchor:middle;fill:#1b2733}#tip path{fill:#56748f;stroke:none}"
    )
    size = 'markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto"'
    tip = f'<marker id="tip" {size}><path d="M0,0 L8,4 L0,8 z"/></marker>'
    view = f'viewBox="0 0 {width} {len(rows) * high - 8}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {view} role="img" aria-label="Rooms and who imports whom">'
    return "\n".join(
        [head, f"<style>{style}</style>", f"<defs>{tip}</defs>", *lines, *boxes, "</svg>", ""]
    )


def page(text: str, drawn: Arrows) -> str:
    """The page with the table of arrows in its place."""
    begin, end = re.escape(BEGIN), re.escape(END)
    return re.sub(f"{begin}.*{end}", f"{BEGIN}\n{table(drawn)}\n{END}", text, flags=re.DOTALL)


if __name__ == "__main__":
    found = arrows()
    PICTURE.write_text(picture(found), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
