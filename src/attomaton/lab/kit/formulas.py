r"""Formulas as browsers typeset them by themselves: MathML, from a little of TeX's notation.

    W_{svm}   x^2   \frac{a}{b}   \sum_i x_i   \sqrt{x}   \text{if}   \hat{p}   e_x^\top   \| W \|   A \le B

Letters of Greek stand as themselves or by name. What is not known is refused, so that no page shows half a formula.
"""

import re
from functools import lru_cache
from html import escape

from nicegui import ui
from nicegui.elements.markdown import prepare_content

SIGNS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eta": "η", "theta": "θ", "lambda": "λ",
    "mu": "μ", "nu": "ν", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "psi": "ψ", "omega": "ω",
    "xi": "ξ", "Delta": "Δ", "Lambda": "Λ", "ell": "ℓ",
}  # fmt: skip
OPERATORS = {
    "le": "≤", "ge": "≥", "ne": "≠", "to": "→", "cdot": "·", "times": "×", "in": "∈", "notin": "∉", "propto": "∝",
    "approx": "≈", "infty": "∞", "top": "⊤", "perp": "⊥", "|": "‖", "ldots": "…", "pm": "±", "mid": "|", "circ": "∘",
    "quad": "\u2003", ",": "\u2009", "succ": "≻", "sim": "∼", "forall": "∀", "cup": "∪", "{": "{", "}": "}",
}  # fmt: skip
LARGE = {"sum": "∑", "prod": "∏", "int": "∫"}
INNER = {"frac": ("mfrac", 2, ""), "sqrt": ("msqrt", 1, ""), "hat": ("mover", 1, "<mo>^</mo>")}
UNDER = ("max", "min", "argmax", "argmin", "lim", "sup")  # what they run over stands below them
UPRIGHT = (*UNDER, "log", "exp", "softmax", "arccos", "cos", "Pr", "rank")
_PIECE = re.compile(
    r"\\text\s*\{(?P<words>[^}]*)\}|\\(?P<name>[A-Za-z]+|.)|(?P<letter>[A-Za-zͰ-Ͽℓ])|"
    r"(?P<number>[0-9]+(?:\.[0-9]+)?)|(?P<brace>[{}_^])|(?P<space>\s+)|(?P<other>.)",
    re.DOTALL,
)
_BETWEEN = re.compile(r"\$([^$\n]+(?:\n[^$\n]+)*)\$")
# A letter with an index, as it is typed: W_svm, e_x, η_Y. Markdown would take its underscore for emphasis.
_INDEXED = re.compile(r"(?<![\w$`.-])([A-Za-zͰ-Ͽ])_([A-Za-zͰ-Ͽ0-9*]+)(ᵀ?)(?![\w(])")


@lru_cache(1024)
def mathml(tex: str) -> str:
    """A formula as a `<math>` element.

    >>> mathml("x_i")
    '<math><msub><mi>x</mi><mi>i</mi></msub></math>'
    """
    return f"<math>{_Reader(tex).row(end=False)}</math>"


class _Reader:
    """Reads a formula from left to right."""

    def __init__(self, tex: str):
        self.tex = tex
        self.pieces = [m for m in _PIECE.finditer(tex) if m["space"] is None]
        self.at = 0

    def row(self, end: bool) -> str:
        """All up to a closing brace, or up to the end."""
        found: list[str] = []
        while self.at < len(self.pieces):
            if self.pieces[self.at]["brace"] == "}":
                if not end:
                    break
                self.at += 1
                return _row(found)
            found.append(self.scripted())
        if end or self.at < len(self.pieces):
            raise ValueError(f"braces do not match: {self.tex}")
        return "".join(found)

    def scripted(self) -> str:
        """One part with what stands below and above it."""
        base, under = self.atom()
        scripts: dict[str, str] = {}
        while self.at < len(self.pieces) and (sign := self.pieces[self.at]["brace"]) in ("_", "^"):
            self.at += 1
            scripts[sign], _ = self.atom()
        if not scripts:
            return base
        low, high = ("under", "over") if under else ("sub", "sup")
        name = "m" + low * ("_" in scripts) + high * ("^" in scripts)
        return f"<{name}>{base}{scripts.get('_', '')}{scripts.get('^', '')}</{name}>"

    def atom(self) -> tuple[str, bool]:
        """One part, and whether its scripts stand right below and above it."""
        if self.at >= len(self.pieces):
            raise ValueError(f"something is missing at the end: {self.tex}")
        piece = self.pieces[self.at]
        self.at += 1
        kind = piece.lastgroup or ""
        text = piece[kind]
        match kind:
            case "name":
                return self.named(text)
            case "words":  # a plain space at an end would be dropped
                made = f"<mtext>{escape(text)}</mtext>".replace(" ", "\u00a0")
            case "letter":
                made = f"<mi>{text}</mi>"
            case "number":
                made = f"<mn>{text}</mn>"
            case "brace":
                if text != "{":
                    raise ValueError(f"{text} stands alone: {self.tex}")
                made = self.row(end=True)
            case _:
                still = ' stretchy="false"' if text in "‖|()[]" else ""
                text = {"-": "−", "*": "∗", "'": "′"}.get(text, text)
                made = f"<mo{still}>{escape(text)}</mo>"
        return made, False

    def named(self, name: str) -> tuple[str, bool]:
        """What begins with a backslash."""
        if name in INNER:
            kind, parts, more = INNER[name]
            made = "".join(self.atom()[0] for _ in range(parts))
            return f"<{kind}>{made}{more}</{kind}>", False
        if name in LARGE:
            return f'<mo largeop="true">{LARGE[name]}</mo>', True
        if name in UPRIGHT:
            return f"<mi>{name}</mi>", name in UNDER
        if name in SIGNS:
            return f"<mi>{SIGNS[name]}</mi>", False
        if name not in OPERATORS:
            raise ValueError(f"\\{name} is not known: {self.tex}")
        return f'<mo stretchy="false">{escape(OPERATORS[name])}</mo>', False


def _row(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"<mrow>{''.join(parts)}</mrow>"


@lru_cache(256)
def typeset(text: str) -> str:
    """Markdown as HTML, its formulas (between dollar signs, or a letter with an index) typeset.

    >>> typeset("$x_1$ and W_svm").count("<math>")
    2
    """
    kept: list[str] = []

    def keep(formula: str) -> str:
        kept.append(formula)
        return f"\x02{len(kept) - 1}\x03"

    text = _BETWEEN.sub(lambda m: keep(mathml(" ".join(m[1].split()))), text)
    text = _INDEXED.sub(lambda m: keep(_indexed(*m.groups())), text)
    text = re.sub(r"(?<=\w)_(?=\w)", "\x04", text)  # inside a word it is no emphasis
    made = prepare_content(text, "fenced-code-blocks tables").replace("\x04", "_")
    return re.sub("\x02([0-9]+)\x03", lambda m: kept[int(m[1])], made)


def _indexed(letter: str, index: str, turned: str) -> str:
    low = index if len(index) == 1 else rf"\text{{{index}}}"
    return mathml(f"{letter}_{{{low}}}" + (r"^\top" if turned else ""))


def explained(text: str) -> ui.html:
    """Markdown with formulas on a page; `text` is ours, never a user's."""
    return ui.html(typeset(text), sanitize=False).classes("nicegui-markdown")
