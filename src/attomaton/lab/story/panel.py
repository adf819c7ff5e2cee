"""The story on the first screen: a sentence in, an answer out, why; then six steps, one at a time."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from nicegui import ui

from attomaton.base.assets import beside
from attomaton.corpus.vocabulary import Label
from attomaton.errors import UsageError
from attomaton.lab.graph.data import TokenGraph, part_of
from attomaton.lab.graph.drawing import Drawing
from attomaton.lab.graph.scene import scene
from attomaton.lab.jobs import DONE, Job
from attomaton.lab.kit.cache import Shared
from attomaton.lab.kit.charts import Canvas, Picture
from attomaton.lab.kit.contexts import first_context, read_context, visible, write_context
from attomaton.lab.kit.formulas import explained
from attomaton.lab.kit.parts import abreast, button, card, chip, note, place, tokens_field
from attomaton.lab.opened import Opened
from attomaton.lab.shelf import EXAMPLE
from attomaton.lab.story.figures import ASKED, RADII, TIED, Cafe, bars, scan, snap
from attomaton.lab.view import View, in_thread
from attomaton.mechanics.theory.automaton import Explanation, unknown_note
from attomaton.report.words import percent

CAFE = Shared[Cafe](Cafe)
TRAIN = "story training"
MOST = 12  # tokens of the sentence a page begins with


# One sentence in, one answer out


async def ask(view: View, model: Opened) -> None:
    """A context, what comes next by the layer, and why."""
    last = model.heaviest()
    words: list[Label] = list(ASKED)
    if view.item.id != EXAMPLE:
        found, _ = first_context(await in_thread(model.limit, last), last)
        words = found[-MOST:]
    with card("What comes next?", "ask"):
        text = write_context(words, model.vocabulary)
        field = tokens_field("a sentence: tokens between spaces", text)
        wrong = place()
        shown = place()

    async def answer() -> None:
        shown.clear()  # an old answer is none to a new question
        with view.checked(wrong):
            asked = read_context(field.value or "", model.vocabulary)
            if not asked:
                raise UsageError("type at least one token.")
            automaton = await in_thread(model.automaton, asked[-1])
            found = await in_thread(automaton.explain, asked)
            with shown:
                _answered(view, found, field.value)

    field.on("keydown.enter", answer).on("blur", answer)
    await answer()


def _answered(view: View, found: Explanation, typed: str) -> None:
    kept = [f for f in found.fates if f.probability]
    if found.prediction is None:
        ui.label("No answer").classes("ask-answer")
        note(unknown_note(found.unknown, answered=False))
        return
    said = ", ".join(f"{visible(f.token)} {percent(f.probability or 0)}" for f in kept[:4])
    ui.label(f"→ {said}").classes("ask-answer")
    with ui.element("ul").classes("ask-why"):
        for line in reasons(found):
            with ui.element("li"):
                ui.label(line)
    ui.link("See every token and its evidence", view.link("/automaton", context=typed))


def reasons(found: Explanation) -> list[str]:
    """Why this is the answer, in a few lines."""
    kept = [f for f in found.fates if f.probability]
    lines = [
        f"“{visible(found.last)}” stands last, so it asks: its priority graph decides who is looked at."
    ]
    beaten = [f for f in found.fates if f.reason == "outranked" and f.path]
    for fate in beaten[:2]:
        edge = fate.path[0]
        often = f"{edge.weight:g} sample{'' if edge.weight == 1 else 's'}"
        lines.append(
            f"{visible(fate.token)} is outranked: {visible(edge.winner)} came next in {often} where "
            f"{visible(edge.loser)} was there too, never the other way round."
        )
    if len(beaten) > 2:
        lines.append(f"So are {len(beaten) - 2} more.")
    if len(kept) > 1:
        tied = ", ".join(visible(f.token) for f in kept[:4])
        lines.append(f"{tied} are not in a strict order: they share the attention by their odds.")
    if found.unknown:
        lines.append(unknown_note(found.unknown, answered=True))
    return lines


# Six steps


@dataclass(frozen=True)
class Step:
    """One step: its name, where it leads, and what it draws."""

    name: str
    screen: str
    settings: dict[str, str]
    draw: Callable[["Story"], Awaitable[None]]

    @property
    def text(self) -> str:
        """What it says: a file of its name."""
        return beside(__file__, f"{self.name}.md")


class Story:
    """The six steps; one is open at a time, the address says which."""

    def __init__(self, view: View):
        self.view, self.cafe = view, CAFE.of(view.lab)
        asked = view.number("step", 1)
        self.at = int(asked) if 1 <= asked <= len(STEPS) else 1

    async def build(self) -> None:
        """The card with the steps."""
        with card("The story in six steps, on the café’s counter", "story"):
            with (
                ui.element("div")
                .classes("story-steps")
                .props('role="group" aria-label="Steps of the story"')
            ):
                self.buttons = [
                    ui.button(f"{i} · {step.name}", on_click=partial(self.open, i))
                    for i, step in enumerate(STEPS, 1)
                ]
            self.body = ui.element("div").classes("story-body").props('aria-live="polite"')
            with abreast():
                self.back = button(
                    "Back", lambda: self.open(self.at - 1), "arrow_back", more="outline"
                )
                self.next = button("Next", lambda: self.open(self.at + 1), "arrow_forward")
        await self.show()

    async def open(self, at: int) -> None:
        """Go to a step."""
        self.at = at
        self.view.put(step=str(at))
        await self.show()

    async def show(self) -> None:
        """The step that is open."""
        step = STEPS[self.at - 1]
        for i, one in enumerate(self.buttons, 1):
            here = i == self.at
            one.props(f"no-caps dense aria-current={'step' if here else 'false'}")
            one.props("unelevated" if here else "flat", remove="flat" if here else "unelevated")
            one.classes(**{"add" if here else "remove": "here"})
        self.back.set_enabled(self.at > 1)
        self.next.set_enabled(self.at < len(STEPS))
        self.body.clear()
        example = self.view.lab.shelf.find(EXAMPLE)
        with self.body:
            with ui.element("div"):
                explained(step.text)
                chip(f"Open it: {step.name}", self.view.link(step.screen, example, **step.settings))
            self.figure = ui.element("div").classes("story-figure")
        with self.figure:
            await step.draw(self)

    def canvas(self, picture: Picture, label: str) -> Canvas:
        """A chart of a step."""
        return Canvas(picture, label).style("height: 16rem; width: 100%")

    # What the steps draw

    async def graph(self) -> None:
        """The priority graph of one last token."""
        limit = (await in_thread(lambda: self.cafe.automaton)).limit
        last = limit.graph.vocabulary.id_of("guest")
        token = TokenGraph(limit, last)
        drawn = await in_thread(lambda: scene(token, part_of(token, most=100)))
        Drawing().style("height: 17rem").show(drawn, "priority graph after guest")

    async def hard(self) -> None:
        """Attention as the weights grow."""
        shares = partial(self.cafe.attention, ASKED)
        await self._slide(RADII, shares, lambda r: f"weights {r:g} beyond their soft part")

    async def soft(self) -> None:
        """Attention among tied tokens, as one of them comes more often."""
        await self._slide(
            (1.0, 2.0, 3.0, 4.0, 5.0),
            lambda n: self.cafe.attention((*["bill"] * (int(n) - 1), *TIED)),
            lambda n: f"{n:g} × bill in the context",
        )

    async def _slide(
        self,
        values: tuple[float, ...],
        shares: Callable[[float], dict[Label, float]],
        said: Callable[[float], str],
    ) -> None:
        pictures = await in_thread(lambda: [bars(shares(v)) for v in values])
        label = note(said(values[0])).props('role="status"')
        slider = ui.slider(min=0, max=len(values) - 1, value=0, step=1)
        slider.props('aria-label="Move it and see" label-always=false')
        chart = self.canvas(pictures[0], "attention on each token")

        def moved() -> None:
            at = int(slider.value)
            label.set_text(said(values[at]))
            chart.show(pictures[at])

        slider.on_value_change(moved)

    async def training(self) -> None:
        """A run, started here."""
        jobs = self.view.lab.jobs
        before = jobs.find(TRAIN)
        if before is not None and before.state == DONE:
            self.canvas(before.result, "loss over its floor and 1 − cosine, by step")
            return
        if not self.view.lab.allow_run:
            note("This lab is read only, so nothing can be trained in it.")
            return

        async def ended(_: Job) -> None:
            if STEPS[self.at - 1].name == "training":
                await self.show()

        job = jobs.start(TRAIN, "Training on the café’s counter", self.cafe.train)
        self.view.watch(job, ended)

    async def scan(self) -> None:
        """Attention of one class over time."""
        self.canvas(scan(await in_thread(lambda: self.cafe.dynamics)), "attention over time")

    async def snap(self) -> None:
        """Entropy of attention over time for two learning rates."""
        self.canvas(
            snap(await in_thread(lambda: self.cafe.dynamics)), "entropy of attention over time"
        )


STEPS = (
    Step("graph", "/graph", {"last": "guest"}, Story.graph),
    Step("hard", "/automaton", {"context": " ".join(map(str, ASKED))}, Story.hard),
    Step("soft", "/automaton", {"context": " ".join(map(str, TIED))}, Story.soft),
    Step("training", "/training", {}, Story.training),
    Step("scan", "/scan-snap", {}, Story.scan),
    Step("snap", "/scan-snap", {}, Story.snap),
)
