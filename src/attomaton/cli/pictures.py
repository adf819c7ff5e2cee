"""Files that commands write beside their result: a figure, and one page that needs nothing else."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from attomaton.cli.console import say

Figure = Annotated[Path | None, "Also draw it: an .svg or .png file."]
Html = Annotated[Path | None, "Also write one page: an .html file."]


def check_pictures(
    inputs: Sequence[Path | None], figure: Path | None, html: Path | None = None
) -> None:
    """Refuse files that could not be written, before any work is done."""
    from attomaton.disk.storage import check_file
    from attomaton.report.figures.canvas import FIGURES

    for path, suffixes in ((html, (".html", ".htm")), (figure, FIGURES)):
        if path is not None:
            check_file(path, suffixes, inputs)


def write_pictures(
    draw: Callable[[], Any],
    figure: Path | None,
    html: Path | None = None,
    page: Callable[[str | None, str], str] = lambda svg, footer: "",
) -> list[Path]:
    """The files asked for, written: a figure, and a page made from its SVG and a footer."""
    if html is None and figure is None:
        return []
    from attomaton.disk.formats import write_text
    from attomaton.disk.ledger import command
    from attomaton.disk.provenance import package_version
    from attomaton.disk.storage import write_whole
    from attomaton.report.figures import canvas

    # A page can do without its picture; a figure cannot be drawn without matplotlib.
    drawn = draw() if figure or package_version("matplotlib") else None
    if figure is not None:
        canvas.write(drawn, figure)
    if html is not None:
        footer = f"attomaton {package_version('attomaton')} · {command()}"
        svg = None if drawn is None else canvas.to_svg(drawn)
        write_whole(html, write_text, page(svg, footer))
    return [path for path in (html, figure) if path is not None]


def say_written(*paths: Path | None) -> None:
    """Say which files were written."""
    for path in paths:
        if path is not None:
            say(f"written: {path}")
