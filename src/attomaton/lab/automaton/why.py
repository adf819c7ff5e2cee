"""Why a token of a context was retrieved or lost: the path that blocks it, edge by edge, with its samples."""

from nicegui import ui

from attomaton.corpus.vocabulary import Label
from attomaton.corpus.windows import Windows
from attomaton.lab.automaton.attention import evidence
from attomaton.lab.kit.contexts import visible
from attomaton.lab.kit.parts import heading, note
from attomaton.lab.kit.text import Text
from attomaton.lab.view import View
from attomaton.mechanics.theory.automaton import NOT_A_TOKEN, Edge, Explanation, Fate
from attomaton.report.words import interval
from attomaton.summaries.windows import edge_windows


def show(view: View, explained: Explanation, fate: Fate, windows: Windows | None = None) -> None:
    """Fill the card of one token; evidence is text where the `windows` of the data are at hand."""
    word = visible(fate.token)
    kept = fate.reason == "retrieved"
    heading(f"Why ‘{word}’?" if kept else f"Why not ‘{word}’?")
    note(in_words(explained, fate)).classes("why-words")
    if fate.tie is not None:
        note(fate.tie.words()).classes("tie-words")
    if fate.path:
        _way(fate.path)
        for edge in fate.path:
            _evidence(edge, explained.last, windows) if edge.tie is None else note(edge.tie.words())
    if explained.known_last and fate.reason != NOT_A_TOKEN:
        place = view.link("/graph", last=explained.last, chosen=fate.token)
        ui.link("See it in the priority graph", place).classes("graph-link")


def in_words(explained: Explanation, fate: Fate) -> str:
    """The reason in a sentence or two, with the scores that decided."""
    word, last = visible(fate.token), visible(explained.last)
    if fate.reason == NOT_A_TOKEN:
        near = next((x.nearest for x in explained.unknown if x.token == fate.token), None)
        meant = "" if near is None else f" The nearest one it knows is ‘{visible(near)}’."
        rest = "the other tokens are weighed as if it were not there"
        if explained.prediction is None:
            rest = f"there is no prediction, since nothing was learned about contexts that end in ‘{last}’"
        return (
            f"‘{word}’ is not in the vocabulary: no sample holds it. It has no score and no probability, and "
            f"{rest}.{meant}"
        )
    if explained.prediction is None:
        return (
            f"No sample ends in ‘{last}’, so nothing was learned about what follows it: no token of this context has "
            "a score or a probability."
        )
    top = max(f.svm_score for f in explained.fates if f.probability is not None)
    kept = [f"‘{visible(f.token)}’" for f in explained.fates if f.reason == "retrieved"]
    best = ", ".join(kept[:3]) + f" and {len(kept) - 3} more" * (len(kept) > 3)
    if fate.reason == "retrieved":
        sure = interval(fate.low, fate.high)
        return (
            f"Its hard score {score(fate.svm_score)} is the highest in this context. Its count {fate.count} and soft "
            f"score {score(fate.finite_score)} give it {fate.probability:.4g} of the probability"
            + (f" (95 %: {sure})." if sure else ".")
        )
    if fate.reason == "outranked":
        return (
            f"After ‘{last}’, the data put ‘{visible(fate.path[0].winner)}’ above it: a path of edges leads down to "
            f"it and none back. Its hard score is {score(fate.svm_score)}, the highest is {score(top)}."
        )
    if fate.reason == "lower score":
        return (
            f"After ‘{last}’, no path of the data leads from {best} to it, so the scores of W_svm decide: it has "
            f"{score(fate.svm_score)}, the highest is {score(top)}."
        )
    return (
        f"No sample that ends in ‘{last}’ holds ‘{word}’, so its hard score is {score(fate.svm_score)}; the highest "
        f"is {score(top)} ({best})."
    )


def score(x: float) -> str:
    """A score for the eye; what is far below any margin is 0.

    >>> score(-1.5), score(1.1e-15)
    ('-1.5', '0')
    """
    return f"{round(x, 9) + 0.0:.4g}"


def reason(fate: Fate) -> str:
    """The reason as `attomaton explain` prints it."""
    if not fate.path:
        return fate.reason
    way = [fate.path[0].winner, *(edge.loser for edge in fate.path)]
    return f"outranked: {' → '.join(map(visible, way))}"


def _way(path: tuple[Edge, ...]) -> None:
    """Boxes from the retrieved token down, an arrow between two with the weight of its samples."""
    with (
        ui.element("div")
        .classes("way")
        .props('role="img" aria-label="path from a retrieved token down"')
    ):
        ui.label(visible(path[0].winner)).classes("stop top")
        for i, edge in enumerate(path):
            with ui.element("div").classes("arrow"):
                ui.label(f"×{edge.weight:g}" if edge.tie is None else "tied")
                ui.icon("arrow_forward" if edge.tie is None else "link")
            ui.label(visible(edge.loser)).classes("stop" + " end" * (i == len(path) - 1))


def _evidence(edge: Edge, last: Label, windows: Windows | None) -> None:
    """The samples that made an edge: in the words of the data, or as bags where these are not at hand."""
    note(f"‘{visible(edge.winner)}’ came next where ‘{visible(edge.loser)}’ was there too:")
    found = [] if windows is None else edge_windows(windows, last, edge.winner, edge.loser)
    told: float = len(found) or sum(sample.weight for sample in edge.evidence)
    with ui.element("ul").classes("evidence"):
        for one in found:
            with ui.element("li"):
                note(one.place)
                Text(f"Evidence: {one.place}", evidence(one, edge.winner, edge.loser))
        for sample in edge.evidence if not found else ():
            bag = " ".join(visible(x) for x, n in sample.tokens.items() for _ in range(n))
            with ui.element("li"):
                ui.label(f"{{{bag}}} → {visible(sample.next)} ×{sample.weight:g}")
        if edge.weight > told:
            with ui.element("li"):
                note(f"and {edge.weight - told:g} more")
    if edge.contrary is not None:
        note(
            f"Never the reverse: at 95 % the contrary has at most probability {edge.contrary:.2g}."
        )
