"""The automaton screen: type a context and see what the limit of training makes of it."""

import asyncio
import math
from collections.abc import Callable

from nicegui import ui

from attomaton.corpus.vocabulary import Label
from attomaton.errors import AttomatonError, UsageError
from attomaton.lab.automaton import tokens
from attomaton.lab.automaton import why as why_not
from attomaton.lab.automaton.attention import LEGEND, LEGEND_LABEL, attended, verdict
from attomaton.lab.automaton.chooser import Chooser
from attomaton.lab.automaton.norm import Norm
from attomaton.lab.automaton.predictor import PredictorPage
from attomaton.lab.kit import contexts
from attomaton.lab.kit.contexts import visible, write_context
from attomaton.lab.kit.page import ModelPage
from attomaton.lab.kit.parts import (
    abreast,
    button,
    card,
    emptied,
    icon_button,
    note,
    place,
    tokens_field,
)
from attomaton.lab.kit.table import numbers
from attomaton.lab.kit.text import Text, text_key
from attomaton.lab.opened import Opened
from attomaton.lab.view import Screen, View, in_thread
from attomaton.mechanics.theory.automaton import NOT_A_TOKEN, Explanation, Fate
from attomaton.report.words import interval
from attomaton.summaries.windows import Window, of_sample, window

FEW = 12  # tokens of a context that are also shown one by one
LONGEST = 100  # tokens drawn at once
SEEDS = 2**31


class AutomatonPage(ModelPage):
    """One context on one page, and everything that is shown of it."""

    TITLE = "What comes next, and why"
    STYLES = ("screen.css", "tokens.css", "why.css", "norm.css")

    def __init__(self, view: View, model: Opened):
        super().__init__(view, model)
        self.words: list[Label] = []
        self.drawn = 0  # how many of the words, at the end, were drawn
        self.undone: list[tuple[list[Label], int]] = []
        norm = model.record.summary.svm_norm
        self.norm = Norm(norm, view.number("radius", math.inf), self._remember)
        self.why = view.get("why")
        seed = view.number("seed", 0)
        self.seed = int(seed) if 0 <= seed < SEEDS else 0
        self.explained: Explanation  # of what is shown
        self.undo: ui.button
        self.length: ui.number
        self.turn = asyncio.Lock()
        self.window: Window | None = None  # of the data, where the context is one
        self.chooser = Chooser(view, model, self._open_window)

    async def fill(self) -> None:
        """Build the page's parts, then fill them for the context in the address."""
        text, source = self.view.get("context"), None
        asked = "" if text else self.view.get("window")
        if not text:
            last = self.view.get("last") or self.model.heaviest()
            limit = await in_thread(self.model.limit, last)
            first = contexts.first_context, limit, self.model.read(last)
            words, source = await in_thread(*first)
            text = write_context(words, self.model.vocabulary)
        await self._context_card(text)
        with ui.element("div").classes("contents") as self.below:
            with ui.element("div").classes("side"):
                with ui.element("div").classes("stack"):
                    self._hard_card()
                    with card("2 · Soft composition"):
                        note("Among the retrieved tokens, each gets a share ∝ count × e^soft.")
                        self.shares = ui.element("div").classes("twin")
                self.why_card = card(label="Why")
            self.norm.build()
            with card("Every token of the context"):
                note("As `attomaton explain` prints it; choose a row to see why.")
                self.table = ui.element("div").classes("twin")
        self.below.set_visibility(False)

        async def begin() -> None:
            """The window that is asked for, or the one of the first context: in its order."""
            windows = self.chooser.windows
            if windows is not None:
                number = self.chooser.at if asked else of_sample(windows, source or 0)
                if number is not None:
                    with self.view.checked(self.wrong):
                        await self.chooser.open(number)

        with self.view.checked(self.wrong):
            if self.chooser.windows is not None and (asked or source is not None):
                await begin()
                return
            if asked or source is not None:
                self.chooser.ready = begin
            words = contexts.read_context(text, self.model.vocabulary)
            windows, at = self.chooser.windows, self.chooser.at
            if windows is not None and 0 <= at < len(windows):
                self.window = window(windows, at)  # counts where these are its words, see `came`
            await self._show(words, await self._really_drawn(words))
            if self.drawn:
                self.undone.append((words[: -self.drawn], 0))
                self.undo.set_enabled(True)

    async def _really_drawn(self, words: list[Label]) -> int:
        """How many words the address says were drawn, if drawing them again gives the same."""
        n = self.view.number("drawn", 0)
        if not 0 < n < min(len(words), contexts.MOST):
            return 0
        again = await in_thread(contexts.continued, self.model, words[: -int(n)], self.seed, int(n))
        return int(n) if again == words[-int(n) :] else 0

    @property
    def came(self) -> Label | None:
        """What came next, where the words are a window's own."""
        found = self.window
        return None if found is None or list(found.context) != self.words else found.next

    # Parts of the page

    async def _context_card(self, text: str) -> None:
        with card("Context"):
            await self.chooser.build()
            said = "Context: tokens between spaces, the last one last; or a JSON array"
            self.field = tokens_field(said, text)
            self.field.on("keydown.enter", self._typed).on("blur", self._typed)
            self.wrong = place()
            self.text = Text("The context, with attention on it", on_choose=self._asked)
            self.verdict = ui.label().classes("lead verdict").props('role="status"')
            self.key = place()
        with card("Change it"):
            self.adders = ui.element("div").classes("adders")
            with abreast():
                button("Draw the next token", lambda: self._draw(1), "casino")
                more = ui.button("Continue by", icon="fast_forward").props("outline no-caps")
                more.on_click(lambda: self._draw(self.length.value))
                self.length = ui.number("tokens", value=5, min=1, max=LONGEST, precision=0)
                self.seed_field = ui.number("seed", value=self.seed, min=0, precision=0)
                for field in (self.length, self.seed_field):
                    field.props("dense outlined").classes("short")
                self.seed_field.on_value_change(self._reseeded)
                self.undo = icon_button("undo", "Undo the last change of the context", self._undo)
                self.undo.set_enabled(False)
            self.drawn_note = note()

    def _hard_card(self) -> None:
        with card("1 · Hard retrieval"):
            self.by_token = ui.expansion("Token by token: take one out, or what was meant in")
            with self.by_token.props("dense"):
                self.chips = ui.element("div").classes("tokens")
                self.chips.props('role="group" aria-label="Tokens of the context"')
            self.said = ui.label().classes("lead")
            note(
                "Retrieved is what has the highest score of W_svm in this context. The others are left behind, for "
                "the reason below them; a question mark and a broken frame: the model does not know this token. "
                "Choose a token, here or in the text, to see why."
            )

    # What can be done; one change after the other, each on what the one before has left

    async def _open_window(self, found: Window) -> None:
        async with self.turn:
            with self.view.checked(self.wrong):
                self.window = found
                await self._change(list(found.context))

    async def _typed(self) -> None:
        async with self.turn:
            with self.view.checked(self.wrong):
                try:
                    await self._take_up()
                except AttomatonError:  # what is shown is not the answer to this
                    self.text.show([])
                    self.verdict.set_text("")
                    self.key.clear()
                    self.below.set_visibility(False)
                    self.words, self.drawn = [], 0
                    raise

    async def _take_up(self) -> None:
        """What stands in the field is the context, if it was not yet."""
        words = contexts.read_context(self.field.value, self.model.vocabulary)
        if words != self.words or not words:
            await self._change(words)

    async def _edit(self, edit: Callable[[list[Label]], list[Label]]) -> None:
        async with self.turn:
            with self.view.checked(self.wrong):
                await self._change(edit(self.words))

    async def _draw(self, length: int | float | None) -> None:
        async with self.turn:
            with self.view.checked(self.wrong):
                await self._take_up()  # a click may come before the field says that it was left
                self.seed, n = self._read_seed(), int(length or 0)
                if n > LONGEST:
                    raise UsageError(f"length must be at most {LONGEST} on this page, not {n}.")
                typed = self.words[: len(self.words) - self.drawn]
                # What was drawn before is drawn again: n draws and one more are n + 1 of the same seed.
                all_ = n + self.drawn if n > 0 else n
                tail = await in_thread(contexts.continued, self.model, typed, self.seed, all_)
                if not tail:
                    last = visible(typed[-1])
                    raise UsageError(f"nothing can be drawn after ‘{last}’: no sample ends in it.")
                await self._change([*typed, *tail], len(tail))

    async def _undo(self) -> None:
        async with self.turn:
            if self.undone:
                with self.view.checked(self.wrong):
                    await self._show(*self.undone.pop())
                    self._remember()
                self.undo.set_enabled(bool(self.undone))

    async def _change(self, words: list[Label], drawn: int = 0) -> None:
        """Another context, which can be undone."""
        contexts.check_length(words)
        before = (self.words, self.drawn)
        await self._show(words, drawn)
        if before[0]:
            self.undone.append(before)
            self.undo.set_enabled(True)
        self._remember()

    def _reseeded(self) -> None:
        """With another seed, what was drawn so far counts as given."""
        with self.view.checked(self.wrong):
            self.seed, self.drawn = self._read_seed(), 0
            if self.words:
                self._tell_drawn()
                self._show_chips()
                self._remember()

    def _asked(self, place: int) -> None:
        """A word of the text was chosen; behind the last one stands what came next."""
        came = self.came
        if 0 <= place < len(self.words):
            self._choose(self.words[place])
        elif came in self.words:
            self._choose(came)

    def _choose(self, word: Label) -> None:
        self.why = str(word)
        self._show_text()
        self._show_chips()
        self._show_why()
        self._remember()

    # What is shown

    async def _show(self, words: list[Label], drawn: int) -> None:
        """Explain a context and show it; an error leaves the page as it was."""
        last = words[-1] if words else self.model.heaviest()
        automaton = await in_thread(self.model.automaton, last)
        explained = await in_thread(automaton.explain, words)
        near = await in_thread(contexts.companions, automaton.limit, last, tokens.CHIPS)
        self.words, self.drawn, self.explained = words, drawn, explained
        self.below.set_visibility(True)
        self.field.set_value(write_context(words, self.model.vocabulary))
        self._tell_drawn()
        with emptied(self.adders):
            tokens.adders(
                self.model, words[-1], near,
                before=lambda word: self._edit(lambda words: [*words[:-1], word, *words[-1:]]),
                end=lambda word: self._edit(lambda words: [*words, word]),
            )  # fmt: skip
        self._show_text()
        self.by_token.set_value(len(words) <= FEW)
        self._show_chips()
        self.said.set_text(explained.note)
        self._show_why()
        self.norm.show(automaton, words, explained)
        self._show_tables()
        self._say()

    def _show_text(self) -> None:
        came = self.came
        asked = self._asked_fate().token
        chosen = max(i for i, word in enumerate(self.words) if word == asked)
        self.text.show(attended(self.explained, self.words, came), chosen)
        self.verdict.set_text("" if came is None else verdict(self.explained, came))
        self.chooser.tell(None if came is None else self.window)
        with emptied(self.key):
            text_key(LEGEND if came is None else LEGEND | LEGEND_LABEL)

    def _show_chips(self) -> None:
        with emptied(self.chips):
            tokens.chips(
                self.explained, self.words, self.drawn, self._asked_fate(), self._choose,
                remove=lambda i: self._edit(lambda words: words[:i] + words[i + 1 :]),
                replace=lambda i, word: self._edit(lambda words: [*words[:i], word, *words[i + 1 :]]),
            )  # fmt: skip

    def _asked_fate(self) -> Fate:
        """The token whose fate is explained: the chosen one, else an unknown one, else one that was left behind."""
        fates = self.explained.fates
        lost = [fate for fate in fates if fate.reason != "retrieved"]
        lost.sort(key=lambda fate: fate.reason != NOT_A_TOKEN)
        return next((f for f in fates if str(f.token) == self.why), (lost or fates)[0])

    def _show_why(self) -> None:
        with emptied(self.why_card):
            why_not.show(self.view, self.explained, self._asked_fate(), self.chooser.windows)

    def _show_tables(self) -> None:
        fates = self.explained.fates
        with emptied(self.shares):
            if self.explained.prediction is None:
                note("No token is retrieved: there is nothing to share.")
            else:
                numbers(
                    ["token", "count", "soft", "count × e^soft", "share", "95 %"],
                    [[visible(f.token), f.count, f.finite_score, f.count * math.exp(f.finite_score), f.probability,
                      interval(f.low, f.high)]
                     for f in fates if f.reason == "retrieved"],
                )  # fmt: skip
        with emptied(self.table):
            numbers(
                ["token", "count", "p", "hard", "soft", "why"],
                [[visible(f.token), f.count, *_scores(f), why_not.reason(f)] for f in fates],
                on_row=lambda i: self._choose(fates[i].token),
            )  # fmt: skip

    def _tell_drawn(self) -> None:
        n = self.drawn
        tail = " ".join(map(visible, self.words[len(self.words) - n :]))
        self.drawn_note.set_text(f"Drawn with seed {self.seed}: {tail}")
        self.drawn_note.set_visibility(bool(n))

    # The address and the commands

    def _read_seed(self) -> int:
        value = self.seed_field.value
        if value is None or not 0 <= value < SEEDS:
            raise UsageError(f"seed must be a number from 0 to {SEEDS - 1:,}, not {value}.")
        return int(value)

    def _remember(self) -> None:
        with self.below:  # what was clicked may be gone, and nothing can be sent from there
            self.view.put(
                context=write_context(self.words, self.model.vocabulary), last=None, why=self.why,
                window=None if self.came is None else self.chooser.at,
                radius=None if math.isinf(self.norm.radius) else f"{self.norm.radius:g}",
                drawn=self.drawn or None, seed=self.seed or None,
            )  # fmt: skip
        self._say()

    def _say(self) -> None:
        folder = self.view.lab.shelf.model_folder(self.view.item).resolve()
        shown = self.words, self.norm.radius, self.drawn, self.seed
        self.view.says(*contexts.commands(folder, self.model.vocabulary, *shown))


def _scores(fate: Fate) -> tuple[object, object, object]:
    """Probability and scores; of a token without, nothing rather than a number."""
    if fate.probability is None:
        return None, None, None
    return fate.probability, fate.svm_score, fate.finite_score


async def build(view: View) -> None:
    """The page of a model, or of a predictor."""
    page = PredictorPage if view.item.kind == "predictor" else AutomatonPage
    await page.build(view)


SCREEN = Screen(
    "/automaton",
    "Automaton",
    "precision_manufacturing",
    build,
    wants=("data", "model", "run", "predictor"),
)
