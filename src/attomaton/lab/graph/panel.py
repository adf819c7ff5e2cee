"""The side panel of the priority graph: a token, an edge, a component or a relation, with numbers and samples."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from nicegui import ui

from attomaton.base.shapes import Int
from attomaton.lab.graph.data import Net, Part, TokenGraph
from attomaton.lab.graph.scene import number_text
from attomaton.lab.kit.contexts import write_context
from attomaton.lab.kit.parts import (
    abreast,
    card,
    chip,
    emptied,
    figures,
    heading,
    icon_button,
    note,
)
from attomaton.lab.kit.table import Rows, numbers
from attomaton.lab.view import View
from attomaton.mechanics.theory.automaton import samples_behind
from attomaton.mechanics.theory.dependency import TieFinder
from attomaton.report.graphs import is_active, readable

MOST_EDGES, MOST_SAMPLES, MOST_TIED = 200, 12, 16  # of a list; what is left out is said

Choose = Callable[[tuple[int, ...]], Any]  # told a token, or the two tokens of an edge


class Panel:
    """Details of what is chosen; `choose` is called with whatever is clicked in them."""

    def __init__(self, view: View, choose: Choose, expand: Choose, centre: Callable[[int], Any]):
        self.view, self.choose, self.expand, self.centre = view, choose, expand, centre
        self.card = card("", "pg-panel", label="Details").props('aria-live="polite"')

    def show(self, graph: TokenGraph, part: Part, chosen: tuple[int, ...]) -> None:
        """Fill it: nothing chosen, a token (by number), or an edge (winner, loser)."""
        self.graph, self.part = graph, part
        with emptied(self.card):
            if not chosen:
                self._whole()
            elif len(chosen) == 1 and part.condensed and len(self._tied(chosen[0])) > 1:
                self._component(chosen[0])
            elif len(chosen) == 1:
                self._token(chosen[0])
            elif part.condensed:
                self._relation(*chosen)
            else:
                self._edge(*chosen)

    # What can be chosen

    def _whole(self) -> None:
        graph = self.graph
        self._head(f"After “{self._last()}”", close=False)
        self._figures(
            ("samples", float(graph.samples.weight.sum())), ("tokens", len(graph)),
            ("edges", len(graph.net.weight)), ("components", graph.components),
            ("of several tokens", int((np.bincount(graph.net.component) > 1).sum())),
            ("levels", int(graph.net.level.max(initial=-1)) + 1),
        )  # fmt: skip
        note("Choose a token or an edge in the picture to see what it stands on.")
        self._title("Came next most often")
        heavy = np.argsort(-graph.net.as_next, kind="stable")[:12]
        heavy = heavy[graph.net.as_next[heavy] > 0]
        self._chips(
            [(int(i), f"{graph.name[i]} {number_text(graph.net.as_next[i])}") for i in heavy]
        )

    def _token(self, i: int) -> None:
        graph, net = self.graph, self.graph.net
        self._head(graph.name[i])
        tied, error = self._tied(i), graph.error(i)
        self._figures(
            ("level", int(net.level[i])), ("component", int(net.component[i])),
            ("W_svm score", float(net.score[i])), ("log π", float(graph.log_pi[i])),
            *([] if error is None else [("± standard error", error)]),
            ("soft odds", float(graph.share[i])), ("came next", float(net.as_next[i])),
            ("in samples", float(graph.present[i])),
        )  # fmt: skip
        if graph.token[i] == graph.last:
            note("This is the last token itself: it can come next once more.")
        self._links(i)
        if len(tied) > 1:
            self._title(f"Tied with {len(tied) - 1:,}")
            others = [int(j) for j in tied if j != i]
            self._chips([(j, f"{graph.name[j]} {graph.share[j]:.3g}") for j in others[:MOST_TIED]])
            self._left_out(len(others), MOST_TIED, "likeliest")
        self._ways(net, i, "Won over", "Lost to", ["token", "weight", "margin"])
        self._samples(
            f"Samples in which {graph.name[i]} came next", np.flatnonzero(graph.labels == i)
        )

    def _edge(self, i: int, j: int) -> None:
        graph, net = self.graph, self.graph.net
        found = np.flatnonzero((net.source == i) & (net.target == j))
        self._head(f"{graph.name[i]} over {graph.name[j]}")
        self._chips([(i, graph.name[i]), (j, graph.name[j])])
        if not len(found):
            note("No sample says so directly.")
            return
        e = int(found[0])
        margin = float(net.score[i] - net.score[j])
        inner = net.component[i] == net.component[j]
        self._figures(("weight", float(net.weight[e])), ("margin", margin))
        note(
            f"{self._why_tied(i, j)}, so the hard part keeps both and the soft part mixes them."
            if inner
            else "The margin is active: exactly 1, it holds W_svm up." if is_active(margin)
            else "The margin is slack: more than the 1 that is asked for."
        )  # fmt: skip
        rows = samples_behind(
            graph.limit.samples, graph.last, int(graph.token[i]), int(graph.token[j])
        )
        self._samples(
            f"Samples where {graph.name[i]} came next and {graph.name[j]} was there",
            rows - graph.first_sample,
        )

    def _component(self, i: int) -> None:
        graph, net = self.graph, self.part.net
        tied, c = self._tied(i), int(graph.net.component[i])
        self._head(f"{len(tied):,} tied tokens")
        self._figures(
            ("level", int(net.level[c])), ("component", c), ("W_svm score", float(net.score[c])),
            ("came next", float(net.as_next[c])),
        )  # fmt: skip
        limit, why = graph.limit, "Each outranks the other along some way"
        if limit.dependent and c in limit.graph.linear_components(graph.last):
            why = "The embeddings tie them: no cycles of the data join them all"
        note(f"{why}; choose one to see it among the others.")
        members = tied[:MOST_EDGES].tolist()
        rows = [
            [graph.name[j], float(graph.share[j]), float(graph.net.as_next[j])] for j in members
        ]
        ends = [(j,) for j in members]
        self._table(["token", "soft odds", "came next"], rows, self.expand, ends, len(tied))
        self._ways(net, c, "Outranks", "Outranked by", ["component of", "weight"])

    def _relation(self, i: int, j: int) -> None:
        graph, net = self.graph, self.graph.net
        a, b = net.component[i], net.component[j]
        between = np.flatnonzero(
            (net.component[net.source] == a) & (net.component[net.target] == b)
        )
        self._head(f"Component {a} over {b}")
        self._figures(
            ("weight", float(net.weight[between].sum())), ("edges", len(between)),
            ("margin", float(net.score[i] - net.score[j])),
        )  # fmt: skip
        note("Choose an edge to see the samples that made it.")
        ranked = net.heaviest(between)[:MOST_EDGES]
        ends = list(zip(net.source[ranked].tolist(), net.target[ranked].tolist(), strict=True))
        weights = net.weight[ranked].tolist()
        rows = [[graph.name[s], graph.name[t], w] for (s, t), w in zip(ends, weights, strict=True)]
        self._table(["winner", "loser", "weight"], rows, self.expand, ends, len(between))

    # Pieces

    def _last(self) -> str:
        graph = self.graph
        at = int(np.searchsorted(graph.token, graph.last))
        there = at < len(graph) and graph.token[at] == graph.last
        return graph.name[at] if there else str(graph.limit.graph.vocabulary[graph.last])

    def _why_tied(self, i: int, j: int) -> str:
        """Why an edge inside a component is none of the order."""
        graph = self.graph
        if graph.limit.dependent:
            tokens = int(graph.token[i]), int(graph.token[j])
            found = TieFinder(graph.limit, graph.last).why(*tokens)
            if found is not None and not found.cycle:
                return found.words().removesuffix(".")
        return "Both are tied: other samples say the opposite"

    def _tied(self, i: int) -> Int[np.ndarray, " members"]:
        return self.graph.members(int(self.graph.net.component[i]))

    def _head(self, text: str, close: bool = True) -> None:
        with abreast().classes("pg-head"):
            heading(text)
            if close:
                icon_button("close", "Close the details", lambda: self.choose(()))

    def _title(self, text: str) -> None:
        ui.label(text).classes("pg-title").props('role="heading" aria-level="3"')

    def _figures(self, *pairs: tuple[str, float]) -> None:
        figures((name, number_text(value)) for name, value in pairs)

    def _links(self, i: int) -> None:
        words = self.graph.limit.graph.vocabulary
        last = words[self.graph.last]
        with abreast():
            context = write_context([self.graph.word[i], last], words)
            chip("In the automaton", self.view.link("/automaton", context=context))
            chip("Under the lens", self.view.link("/lens", last=last))
            if self.part.centre is not None:
                ui.button("Centre here", on_click=lambda: self.centre(i)).props(
                    "flat dense no-caps size=sm"
                )

    def _chips(self, items: Sequence[tuple[int, str]]) -> None:
        with abreast().classes("pg-chips"):
            for i, text in items:
                with ui.element("button").classes("chip can") as made:
                    ui.label(text)
                made.on("click", lambda _, i=i: self.choose((i,)))

    def _ways(self, net: Net, node: int, out: str, into: str, header: list[str]) -> None:
        """Edges out of a node and into it; a row chooses the token at the other end, of a component its likeliest."""
        graph = self.graph
        for title, here, there in ((out, net.source, net.target), (into, net.target, net.source)):
            edges = np.flatnonzero(here == node)
            if not len(edges):
                continue
            self._title(f"{title} ({len(edges):,})")
            ranked = net.heaviest(edges)[:MOST_EDGES]
            others = there[ranked].tolist()
            if net is not graph.net:
                others = [int(graph.members(c)[0]) for c in others]
            names, margins = [graph.name[j] for j in others], net.margin(ranked).round(6).tolist()
            columns = names, net.weight[ranked].tolist(), margins
            rows = list(zip(*columns[: len(header)], strict=True))
            self._table(header, rows, self.choose, [(j,) for j in others], len(edges))

    def _table(
        self, header: list[str], rows: Rows, do: Choose, ends: Sequence[tuple[int, ...]], total: int
    ) -> None:
        """Rows of `total`; one that is chosen does something with its tokens."""
        numbers(header, rows, on_row=lambda k: do(ends[k]), page=8)
        self._left_out(total, MOST_EDGES)

    def _samples(self, title: str, rows: Int[np.ndarray, " rows"]) -> None:
        """Evidence, heaviest first; `rows` are numbers of this last token's own samples."""
        if not len(rows):
            return
        self._title(f"{title} ({len(rows):,})")
        samples = self.graph.samples
        heaviest = rows[np.argsort(-samples.weight[rows], kind="stable")][:MOST_SAMPLES]
        with ui.element("ol").classes("pg-samples"):
            for i in heaviest.tolist():
                bag, label = samples.bag(i), samples.vocabulary[samples.label[i]]
                name, weight = readable(bag), float(samples.weight[i])
                with ui.element("li"):
                    with ui.element("div").classes("pg-sample"):
                        ui.label(
                            "  ".join(name[t] + (f" ×{m}" if m > 1 else "") for t, m in bag.items())
                        )
                        ui.label(f"→ {readable([label])[label]}").classes("pg-next")
                    times = "" if weight == 1 else f", weight {number_text(weight)}"
                    note(f"row {samples.source[i]:,}{times}")
        self._left_out(len(rows), MOST_SAMPLES)

    def _left_out(self, total: int, most: int, kind: str = "heaviest") -> None:
        if total > most:
            note(f"The {most:,} {kind} of {total:,}.")
