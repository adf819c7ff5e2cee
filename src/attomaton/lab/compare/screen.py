"""Two models or runs: edges gained, lost, turned into ties; changed odds and answers; in one picture and in two."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from attomaton.claims.comparison import Comparison
from attomaton.corpus.vocabulary import Label
from attomaton.errors import UsageError
from attomaton.folders.differ.folders import Difference, difference
from attomaton.folders.differ.last_token import CHANGES, AfterOne, last_token_difference
from attomaton.folders.differ.models import Found, Graphs
from attomaton.jobs.compare import compare_runs
from attomaton.lab.compare.picture import SAID, union_scene
from attomaton.lab.graph.data import TokenGraph, top_part
from attomaton.lab.graph.drawing import Drawing, line_key
from attomaton.lab.graph.scene import scene
from attomaton.lab.jobs import Job
from attomaton.lab.kit.cache import Cache, Shared
from attomaton.lab.kit.contexts import visible
from attomaton.lab.kit.find import Find
from attomaton.lab.kit.page import Page
from attomaton.lab.kit.parts import abreast, card, dense, emptied, figures, note, place
from attomaton.lab.kit.table import linked_table
from attomaton.lab.kit.work import made
from attomaton.lab.opened import Opened
from attomaton.lab.shelf import Item
from attomaton.lab.view import Screen, in_thread
from attomaton.report.graphs import readable
from attomaton.report.text.comparison import in_words, sections

KEPT = 8  # comparisons that stay in memory
MOST = 50  # rows of each table
BESIDE = 15  # tokens of each of two pictures


@dataclass(frozen=True, eq=False)
class Compared:
    """What was found of two items: models have graphs, runs of training stand beside their exact limit."""

    told: Difference
    runs: Comparison | None = None


KNOWN = Shared[Cache[tuple[str, str], Compared]](lambda: Cache(KEPT))


class ComparePage(Page):
    """The item that is open as A, another one as B."""

    TITLE = "Compare two"
    STYLES = ("../graph/drawing.css", "screen.css")

    async def fill(self) -> None:
        """The choice of B, and what the two differ in."""
        view, own = self.view, self.view.item
        # Runs stand beside runs, models and data beside models and data.
        others = {
            i.id: i.title
            for i in view.lab.shelf.items()
            if i.kind in SCREEN.wants and (i.kind == "run") == (own.kind == "run")
        }
        others.pop(own.id, None)
        with card(label="What to compare"), abreast():
            ui.label(f"A: {own.title}")
            asked = view.get("with")
            known = asked if asked in others else None
            self.other = dense(ui.select(others, value=known, label="B: compare with"), "w-72")
            self.other.on_value_change(lambda: view.go(None, None, **{"with": self.other.value}))
            if not others:
                note(
                    "Nothing else of its kind is open: drop another file on the start page, or train once more."
                )
        self.place = ui.element("div").classes("contents cmp")
        if self.other.value:
            with view.checked(self.place):
                await self._compare(view.lab.shelf.find(str(self.other.value)))

    async def _compare(self, other: Item) -> None:
        """Compare the two, in the background where it takes a while."""
        view, own = self.view, self.view.item
        if own.kind != "run":
            with self.place:
                for item in (own, other):
                    if await view.model(item) is None:
                        return

        def work(job: Job) -> Compared:
            job.progress(0, 1, "reading both")
            return compared(self.lab.shelf, own, other)

        key = own.id, other.id
        job = f"compare {key}", f"Comparing with {other.title}"
        with self.place:
            found = await made(view, KNOWN.of(view.lab), key, job, work)
            if found is not None:
                await self._show(found, other)

    async def _show(self, found: Compared, other: Item) -> None:
        told = found.told
        a, b = str(told.a), str(told.b)
        self.view.says(shlex.join(["attomaton", "diff", a, b]), (
            "from pathlib import Path\nfrom attomaton.folders.differ.folders import difference\n\n"
            f"print(difference(Path({a!r}), Path({b!r})))"
        ))  # fmt: skip
        if told.same:
            note(
                "No difference: settings, versions, figures and all that was learned are the same."
            )
        if told.graphs is not None:
            await self._graphs(told.graphs, other)
        if found.runs is not None:
            ui.label(in_words(found.runs)).classes("lead")
            for i, s in enumerate(sections(found.runs)):
                linked_table(s["heading"], s["note"], s["header"], s["rows"], name=f"runs-{i + 1}")
        moved = [x for x in told.figures if not x.same]
        rows = [[x.name, _cell(x.a), _cell(x.b), _cell(x.difference)] for x in moved]
        header = ["figure", "A", "B", "B − A"]
        linked_table("Figures that differ", "", header, rows, name="figures")
        rows = [[x.name, _cell(x.a), _cell(x.b)] for x in (*told.settings, *told.versions)]
        header = ["", "A", "B"]
        linked_table("Settings and versions that differ", "", header, rows, name="settings")

    # Models

    async def _graphs(self, told: Graphs, other: Item) -> None:
        """What changed in all graphs, then after one last token."""
        changes = {**told.edges, **told.orders}
        answers = told.answers["of_a"]
        with card("What changed from A to B"):
            figures([
                ("edges gained", f"{told.edges['gained'].count:,}"),
                ("edges lost", f"{told.edges['lost'].count:,}"),
                ("turned into ties", f"{told.orders['tied'].count:,}"),
                ("ties that became strict", f"{told.orders['apart'].count:,}"),
                ("reversed", f"{told.orders['reversed'].count:,}"),
                ("answers that changed", f"{answers.likeliest:,} of {answers.contexts:,}"),
                ("same retrieval, by weight", f"{answers.same:.1%}"),
            ])  # fmt: skip
        both = self.view.item, other
        self.models = [await in_thread(self.lab.fitted, item) for item in both]
        self.one = place().classes("contents")
        await self._after(self.view.get("last") or str(self._first(changes)))
        with ui.element("div").classes("grid2"):
            for change, part in changes.items():
                edges = [
                    [visible(e.last), visible(e.winner), visible(e.loser), e.weight]  # type: ignore[union-attr]
                    for e in part.examples
                ]
                few = f" (the {len(edges):,} heaviest of {part.count:,})"
                title = f"Edges: {SAID[change]}{few if part.count > len(edges) else ''}"
                if edges:
                    header = ["last token", "winner", "loser", "samples"]
                    linked_table(title, "", header, edges, name=change)
        rows = [
            [" ".join(map(visible, x.tokens)), visible(x.last), _cell(x.a), _cell(x.b), x.weight]
            for x in answers.examples
        ]
        linked_table(
            "Answers that changed",
            "In the contexts of A (the first of their tokens): another token is likeliest, or others are retrieved.",
            ["context", "last", "likeliest in A", "in B", "samples"], rows, name="answers",
        )  # fmt: skip

    def _first(self, changes: dict[str, Found]) -> Label:
        """The last token of the heaviest change, of the sorts that say most first."""
        for change in ("reversed", "tied", "apart", "lost", "gained"):
            for edge in changes[change].examples:
                return edge.last  # type: ignore[union-attr]
        return self.models[0].heaviest()

    async def _after(self, text: str) -> None:
        """The graphs of one last token: as one picture, side by side, and the odds that moved."""
        a = self.models[0]
        with emptied(self.one), self.view.checked():
            last = a.read(text)
            limits = [await in_thread(m.limit, last) for m in self.models]
            found = await in_thread(last_token_difference, *limits, last)
            self.view.put(last=text)
            self._union(found, text, a)
            await self._beside(limits, last)
            self._odds(found)

    def _union(self, found: AfterOne, text: str, model: Opened) -> None:
        with card(f"After “{readable([found.last])[found.last]}”: both in one picture"):
            with abreast():
                Find("Last token", text, model.suggested, self._after)
                said = [f"{found.count(x):,} {SAID[x]}" for x in CHANGES if found.count(x)]
                note("Edges: " + ", ".join(said) + ".")
            drawn = union_scene(found)
            drawing = Drawing()
            drawing.show(
                drawn, f"What changed after {found.last}; + and − zoom, 0 shows all, arrows move"
            )
            line_key({change: SAID[change] for change in CHANGES}).classes("cmp-key")
            note(
                f"Drawn are {len(drawn.nodes):,} of {len(found.tokens):,} tokens and {len(drawn.edges):,} of "
                f"{len(found.edges):,} edges, changes first, on the levels of B."
            )

    async def _beside(self, limits: Sequence[Any], last: Label) -> None:
        with ui.element("div").classes("grid2"):
            for name, limit in zip("AB", limits, strict=True):
                with card(f"{name} alone"):
                    k = limit.graph.vocabulary.id_of(last)
                    if k is None or k not in limit.graph.last_tokens:
                        note(f"‘{visible(last)}’ is never a last token here.")
                        continue
                    graph = await in_thread(TokenGraph, limit, k)
                    part = await in_thread(top_part, graph, 0.0, False, BESIDE)
                    Drawing().show(await in_thread(scene, graph, part), f"Priority graph of {name}")
                    other = self.lab.shelf.find(str(self.other.value))
                    item = self.view.item if name == "A" else other
                    ui.link("Open this graph", self.view.link("/graph", item, last=last))

    def _odds(self, found: AfterOne) -> None:
        rows = [
            [visible(t.token), *(round(x or 0.0, 6) for x in t.odds), round((t.odds[1] or 0.0) - (t.odds[0] or 0.0), 6),
             *t.came]
            for t in sorted(found.tokens, key=lambda t: -t.moved)[:MOST]
            if t.moved > 0
        ]  # fmt: skip
        linked_table(
            "Odds that changed", "Shares among the tokens tied with each, the largest changes first.",
            ["token", "odds in A", "in B", "B − A", "came next in A", "in B"], rows, name="odds",
        )  # fmt: skip


def compared(shelf: Any, own: Item, other: Item) -> Compared:
    """All that is told of two items; seconds for large models, so from a job only."""
    if own.kind != "run":
        a, b = (shelf.model_folder(item) for item in (own, other))
        return Compared(difference(a, b, MOST))
    told = difference(own.path, other.path)
    if told.training is not None:
        with suppress(UsageError):  # of other data: they have no limit in common
            return Compared(told, compare_runs([own.path, other.path]))
    return Compared(told)


def _cell(x: object) -> object:
    """A value of a folder in a cell."""
    if x is None:
        return "–"
    return x if isinstance(x, (int, float)) and not isinstance(x, bool) else visible(str(x))


SCREEN = Screen("/compare", "Compare", "compare_arrows", ComparePage.build)
