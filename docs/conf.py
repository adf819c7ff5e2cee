"""How Sphinx makes the documentation site: `make docs` builds it into docs/_site, and nothing is fetched."""

import json
import re
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import jaxtyping  # noqa: F401  # annotations of arrays are shown as it writes them

DOCS = Path(__file__).parent
LETTERS = {"psi": "ψ", "eta": "η", "chi": "χ", "alpha": "α", "propto": "∝", "top": "ᵀ", "|": "‖", "log": "log",
           "nabla": "∇", "theta": "θ", "pi": "π", "sum": "Σ"}  # fmt: skip
_FITTING = 'style="max-width: 100%; height: auto"'  # a drawing is no wider than the page

project = "attomaton"
html_title = "attomaton"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_site", "*.py", "*.ipynb"]
html_theme = "furo"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
myst_heading_anchors = 4  # links to headings, as the pages write them
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
default_role = "code"  # docstrings write names in single backticks
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True  # by their names, as the source has them
myst_enable_extensions = ["html_image"]
html_static_path = ["static"]
html_css_files = ["site.css"]
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False


def setup(app: Any) -> None:
    """Tutorials are executed notebooks; docstrings are shown as they are meant."""
    app.connect("source-read", _read)
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-process-docstring", _letters)


def _signature(
    app: Any, what: str, name: str, thing: Any, options: Any, said: str, returned: str
) -> tuple[str, None] | None:
    """Records are made by functions: how to fill in their fields is nobody's business."""
    return ("", None) if what == "class" and is_dataclass(thing) else None


def _letters(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Formulas between dollars in letters: what would set them has to be fetched."""
    lines[:] = [re.sub(r"\$([^$]+)\$", _formula, line) for line in lines]


def _formula(found: re.Match[str]) -> str:
    text = re.sub(r"\\\\?([a-z]+|\|)", lambda x: LETTERS.get(x[1], x[0]), found[1])
    return f"``{text}``"


def _read(app: Any, name: str, source: list[str]) -> None:
    if name in ("tutorial", "probing"):
        source[0] = tutorial(json.loads((DOCS / f"{name}.ipynb").read_text(encoding="utf-8")))
    elif name == "index":
        source[0] += _readme()


def _readme() -> str:
    """README, which stands one folder up and calls the notebook by its file."""
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    for there, here in (
        ("docs/", ""),
        ("CONTRIBUTING", "contributing"),
        ("CHANGELOG", "changelog"),
    ):
        text = text.replace(f"]({there}", f"]({here}")
    return re.sub(r"(tutorial|probing)\.ipynb\)", r"\1.md)", text)


def tutorial(notebook: dict[str, Any]) -> str:
    """An executed notebook as one Markdown page, its pictures inside."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif source.strip():
            parts += [f"```python\n{source}\n```", *map(_output, cell["outputs"])]
    page = "\n\n".join(part for part in parts if part)
    return page.replace("](../README.md)", "](index.md)")


def _output(output: dict[str, Any]) -> str:
    """What a cell printed, returned or drew."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        drawing = "".join(data["image/svg+xml"])
        drawing = drawing[drawing.index("<svg") :].replace("<svg", f"<svg {_FITTING}", 1)
        # Markdown ends a block of HTML at an empty line.
        return "\n".join(line for line in drawing.splitlines() if line.strip())
    text = "".join(output.get("text", data.get("text/plain", ""))).rstrip()
    return f"```text\n{text}\n```" if text else ""
