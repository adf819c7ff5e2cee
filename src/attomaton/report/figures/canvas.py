"""The drawing board: our matplotlib style, widths of words, and figures as files."""

import io
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import Any

from attomaton.disk.formats import write_text
from attomaton.disk.storage import check_file, write_whole
from attomaton.errors import UsageError, cut
from attomaton.report.figures.colours import GREY
from attomaton.report.graphs import Label, Real, readable

Figure = Any  # matplotlib.figure.Figure; matplotlib is imported where it is used

FIGURES = (".svg", ".png")  # suffixes of their files
SVM, FIN, S_FIN = (
    rf"${a}_{{\mathrm{{{b}}}}}$" for a, b in (("W", "svm"), ("W", "fin"), ("S", "fin"))
)

# DejaVu Sans comes with matplotlib and is wider than what browsers put in its place, so text that
# fits here fits there; the others fill in scripts that it lacks, where they are installed.
_FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Hiragino Sans",
    "Microsoft YaHei",
    "WenQuanYi Zen Hei",
    "Arial Unicode MS",
    "Noto Emoji",
)
_DRAWING = threading.RLock()  # matplotlib's settings are one per process


@contextmanager
def style() -> Iterator[None]:
    """Our matplotlib settings for as long as the block runs, one block at a time."""
    try:
        import matplotlib
    except ImportError as missing:
        raise UsageError("figures need matplotlib; install attomaton[plot].") from missing
    settings: dict[Any, Any] = {
        "axes.axisbelow": True,
        "axes.edgecolor": GREY,
        "axes.grid": True,
        "axes.labelsize": 9,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 10,
        "figure.facecolor": "white",
        "figure.constrained_layout.h_pad": 0.08,
        "figure.constrained_layout.w_pad": 0.08,
        "font.family": "sans-serif",
        "font.sans-serif": list(_installed_fonts()),
        "font.size": 9,
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.6,
        "hatch.linewidth": 0.8,
        "legend.fontsize": 8,
        "legend.frameon": False,
        "svg.fonttype": "none",  # text stays text: selectable, searchable, read aloud
        "svg.hashsalt": "attomaton",  # the same figure gives the same bytes
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
    }
    with _DRAWING, matplotlib.rc_context(settings), warnings.catch_warnings():
        # A script no installed font holds: SVG leaves it to the reader's fonts, PNG shows a frame.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def drawn(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, run inside our style."""

    @wraps(function)
    def styled(*arguments: Any, **options: Any) -> Any:
        with style():
            return function(*arguments, **options)

    return styled


@cache
def _installed_fonts() -> tuple[str, ...]:
    from matplotlib.font_manager import fontManager

    there = set(fontManager.get_font_names())
    return tuple(name for name in _FONTS if name in there)


def new_figure(
    title: str, width: Real, height: Real, size: Real = 12, formulas: bool = False
) -> Figure:
    """An empty figure under its title; dollar signs in it are those of formulas, or plain ones."""
    from matplotlib.figure import Figure as NewFigure

    figure = NewFigure(figsize=(width, height), layout="constrained", label=title)
    figure.suptitle(title, fontsize=size, fontweight="bold", x=0.01, ha="left", parse_math=formulas)
    return figure


@drawn
def get_ready() -> None:
    """Draw something small for nobody, so that all that drawing needs is loaded, formulas and fonts too."""
    figure = new_figure(SVM, 2, 2, formulas=True)
    axes = figure.add_subplot()
    axes.errorbar([1, 2], [1, 2], yerr=[1, 1], label=SVM)
    axes.legend(title=S_FIN)
    to_svg(figure)
    figure.set_layout_engine("none")
    figure.savefig(io.BytesIO(), format="png", dpi=72)


@drawn
def to_svg(figure: Figure) -> str:
    """The figure as SVG text, the same bytes for the same figure."""
    out = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(out, format="svg", metadata={**nothing, "Title": figure.get_label() or None})
    return out.getvalue()


@drawn
def write(figure: Figure, path: str | Path) -> None:
    """Writes one file, SVG or PNG by its suffix, whole or not at all."""
    path = check_file(path, FIGURES)
    if path.suffix.lower() == ".svg":
        write_whole(path, write_text, to_svg(figure))
    else:
        look: dict[str, Any] = {"format": "png", "dpi": 200, "metadata": {"Software": None}}
        write_whole(path, lambda file: figure.savefig(file, **look))


@drawn
def save(figure: Figure, folder: str | Path, name: str) -> list[Path]:
    """Writes `name.svg` and `name.png` into the folder, made if need be; returns the two paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    svg, png = folder / f"{name}.svg", folder / f"{name}.png"
    write(figure, svg)
    figure.set_layout_engine("none")  # finding places took half the time
    write(figure, png)
    return [svg, png]


def put_text(axes: Any, x: Real, y: Real, text: str, size: Real, **look: Any) -> None:
    """One line of text; dollar signs are dollar signs."""
    look = {"ha": "center", "va": "center_baseline", **look}
    axes.text(x, y, text, fontsize=size, parse_math=False, **look)


@cache
def text_width(text: str, size: Real) -> float:
    """Width in inches in the present font."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    renderer = RendererAgg(1, 1, 72)
    width, _, _ = renderer.get_text_width_height_descent(text, FontProperties(size=size), False)
    return float(width) / 72


def mention(token: Label) -> str:
    """A token in running words, in quotes."""
    shown = readable([token])[token]
    return f"“{cut(shown, 24)}”"


def label(token: Label) -> str:
    """The same where matplotlib would read dollar signs as formulas: in legends, titles and ticks."""
    return mention(token).replace("$", r"\$")
