"""What the lab's numbers are: each in words, as a formula, and where it comes from. One record for each name.

A page that shows a number under one of these names need not explain it: `parts.figures` and `defined` do, on hover.
"""

from dataclasses import dataclass

from nicegui import ui
from nicegui.element import Element

from attomaton.lab.kit.formulas import mathml

LI = "Li et al. 2024, Mechanics of Next Token Prediction with Self-Attention"
OURS = "counted here"


@dataclass(frozen=True)
class Term:
    """One number: what it is, how it is computed (in TeX, see `formulas`), and whose it is."""

    words: str
    formula: str = ""
    source: str = OURS


TERMS = {
    "contexts": Term("Stretches of tokens with the token that came next, as the data give them."),
    "samples": Term(
        "Contexts that hold their own next token. Only from these can attention learn.",
        r"(X_i, y_i) \quad y_i \in X_i", f"{LI}, Section 2"),
    "distinct samples": Term("Samples that differ in their last token, next token or bag; equal ones are merged."),
    "set aside": Term(
        "Contexts whose next token does not stand in them: attention cannot name it, so they are left out.",
        r"y_i \notin X_i", f"{LI}, the first assumption"),
    "tokens": Term("Different tokens of the data.", r"K"),
    "last tokens": Term("Tokens that stand at the end of a context: the queries of the layer."),
    "priority graphs": Term(
        "One graph for each last token. An edge from i to j says that i came next while j was there too.",
        r"i \to j \quad \text{if } y = i, \; j \in X".replace(r"\;", r"\,"), f"{LI}, Section 2"),
    "components": Term(
        "Groups of tokens that outrank each other in a circle (strongly connected), over all graphs; most hold one.",
        r"i \to \ldots \to j \to \ldots \to i", f"{LI}, Section 2"),
    "of several tokens": Term("Components of two or more tokens: their odds stay finite, the soft part."),
    "‖W_svm‖ (hard)": Term(
        "The size of the direction in which training sends the weights without end: the smallest matrix that keeps "
        "every strict order with a margin of 1. 0 where nothing is strict.",
        r"\argmin_W \| W \| \quad (e_i - e_j)^\top W e_k \ge 1 \text{ if } i \to j", f"{LI}, Graph-SVM, Theorem 2"),
    "‖W_fin‖ (soft)": Term(
        "The size of the part that stays finite: it fixes the odds inside components, by maximum likelihood.",
        r"p(x) \propto m_x \exp(e_x^\top W_{fin} e_q)", f"{LI}, Theorem 2; Luce's choice model"),
    "loss floor L*": Term(
        "The smallest loss that can be approached, in nats a sample: what the ties alone cost.",
        r"L^* = \lim_{r \to \infty} L(W_{fin} + r W_{svm})", f"{LI}, Theorem 2"),
    "tokens in a context": Term("The shortest and the longest context.", r"T"),
    "total weight": Term("The sum of the samples' weights; 1 each unless the data say otherwise."),
    "sequences": Term("Cases, sessions or documents that the contexts were cut from."),
    "too short": Term("Sequences without a context and a next token."),
    "tokens read": Term("Tokens of the file, each as often as it stands there."),
}  # fmt: skip


def defined(element: Element, name: str) -> Element:
    """Say on hover, and to a screen reader, what a number is; nothing where the name is not in the glossary."""
    term = TERMS.get(name)
    if term is None:
        return element
    element.classes("defined").props["tabindex"] = "0"
    element.props["aria-description"] = f"{term.words} {term.source}."
    formula = f"<div class='term-formula'>{mathml(term.formula)}</div>" if term.formula else ""
    with element, ui.tooltip().classes("term").props('max-width="24rem" :delay="150"'):
        source = f"<div class='term-source'>{term.source}</div>"
        ui.html(f"<div>{term.words}</div>{formula}{source}", sanitize=False)
    return element
