"""A predictor on the automaton's screen: type a context, read what comes next and why, in words and as bars."""

import shlex
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from nicegui import ui

from attomaton.corpus.files import identity
from attomaton.corpus.text import EOS
from attomaton.corpus.vocabulary import Label
from attomaton.disk.holdings import KIND_FILE
from attomaton.lab.automaton.attention import share
from attomaton.lab.kit.contexts import read_context, visible, write_context
from attomaton.lab.kit.page import Page
from attomaton.lab.kit.parts import card, emptied, note, place, tokens_field
from attomaton.lab.kit.table import numbers
from attomaton.lab.kit.text import Text, Word, text_key
from attomaton.lab.view import in_thread
from attomaton.predictor.model import Predictor
from attomaton.predictor.reasons import Reasons
from attomaton.report.text.reasons import Why, story, whys
from attomaton.report.words import signed


class PredictorPage(Page):
    """One context on one page: the story, the shares behind it, the terms of every token."""

    TITLE = "What comes next, and why"
    STYLES = ("predictor.css",)

    async def fill(self) -> None:
        """The field of the context, and what is told of it."""
        self.predictor = await in_thread(opened, self.view.item.path)
        text = self.view.get("context") or self._first()
        with card("Context"):
            said = "Context: tokens between spaces, the last one last; or a JSON array"
            self.field = tokens_field(said, text).on("keydown.enter", self._show)
            self.wrong = place()
        self.below = ui.element("div").classes("contents")
        await self._show()

    def _first(self) -> str:
        """A context to begin with: the most frequent token."""
        vocabulary = self.predictor.vocabulary
        first = int(self.predictor.baselines.ngrams.one.argmax())
        return write_context([vocabulary[first]], vocabulary)

    async def _show(self) -> None:
        text = str(self.field.value)
        self.below.clear()  # what is shown is not the answer to this
        with self.view.checked(self.wrong):
            words = read_context(text, self.predictor.vocabulary)
            reasons = await in_thread(self.predictor.explain, words)
            self.view.put(context=text)
            self.view.says(*commands(self.view.item.path, words))
            with self.below:
                _told(reasons, words)


LEGEND = {
    "shade": "share of the answer, at each place",
    "faint": "no share, or not looked at",
    "last": "the last word",
    "unknown": "not in the vocabulary",
}


def attended(r: Reasons, words: Sequence[Label]) -> list[Word]:
    """The context as text: each word with its token's share of the answer over the places it stands at."""
    terms, begin = {t.token: t for t in r.terms}, len(words) - len(r.context)
    unknown = {x.token for x in r.unknown}
    gate = 1.0 if r.gate is None else r.gate
    shown = []
    for i, word in enumerate(words):
        term = terms.get(word) if i >= begin else None
        p = None if term is None else gate * term.p / term.count
        marks = ("last",) * (i == len(words) - 1)
        marks += ("unknown",) if word in unknown else ("faint",) * (not p)
        said = "not looked at" if term is None else f"{share(gate * term.p)} of the answer in all"
        shown.append(Word(visible(word), p, share(p) if p else "", False, marks, said, word == EOS))
    return shown


def _text(r: Reasons, words: Sequence[Label]) -> None:
    """The context as text; a word that is chosen shows its terms."""
    terms = {t.token: t for t in r.terms}
    with card("The context, with attention on it"):
        place_of_text = place()
        text_key(LEGEND)
        below = place()

    def ask(i: int) -> None:
        if not 0 <= i < len(words):
            return
        text.choose(i)
        with emptied(below):
            term = terms.get(words[i])
            if term is None:
                note(f"‘{visible(words[i])}’ has no share: it was not looked at.")
                return
            note(
                f"‘{visible(term.token)}’ has {share(term.p)} of the share of the context. The terms of its score:"
            )
            parts = {"θ log m": term.count_term, **term.prior}
            parts |= {"learned": term.learned, **term.stage}
            _bars(tuple(Why(name, value, "") for name, value in parts.items()))

    with place_of_text:
        text = Text("The context, with attention on it", attended(r, words), on_choose=ask)
    best = [i for i, word in enumerate(words) if word == r.prediction]
    if best:
        ask(best[-1])


def _told(r: Reasons, words: Sequence[Label]) -> None:
    _text(r, words)
    with card("In words"):
        for line in takewhile(bool, story(r)):
            note(line.strip()).classes("story")
    if r.against is not None:
        first, second = visible(r.against.winner), visible(r.against.runner_up)
        with card(f"Why ‘{first}’ and not ‘{second}’?"):
            note(f"Shares in their log-odds, {signed(r.against.log_odds)}, which is their sum.")
            _bars(whys(r))
    with card("Every token of the context"):
        note("Terms of the scores, as `attomaton explain` prints them.")
        names, groups = [*r.terms[0].prior], [*r.terms[0].stage]
        header = ["token", "count", "share", "θ log m", *names, "learned", *groups]
        rows = [
            [visible(t.token), t.count, t.p, t.count_term, *t.prior.values(), t.learned, *t.stage.values()]
            for t in r.terms
        ]  # fmt: skip
        numbers(header, rows)


def _bars(told: tuple[Why, ...]) -> None:
    """Every share as a bar to the right or to the left of the middle."""
    widest = max(abs(w.share) for w in told) or 1.0
    with ui.element("div").classes("why-rows"):
        for w in told:
            ui.label(w.term).classes("why-term")
            with ui.element("div").classes("why-track"):
                length = 50 * abs(w.share) / widest
                left = 50.0 if w.share >= 0 else 50 - length
                bar = ui.element("div").classes("why-bar" + " against" * (w.share < 0))
                bar.style(f"left: {left:.2f}%; width: {length:.2f}%")
            ui.label(signed(w.share)).classes("why-share")
            ui.label(w.words).classes("why-words")


def commands(folder: Path, words: list[Label]) -> tuple[str, str]:
    """The command line and the Python code that give what the page shows."""
    line = f"attomaton explain {shlex.quote(str(folder))} -- {shlex.join(map(str, words))}"
    code = f"print(Predictor.open({str(folder)!r}).explain({words!r}))"
    return line, f"from attomaton import Predictor\n\n{code}"


def opened(folder: Path) -> Predictor:
    """The predictor of a folder; the newest ones stay in memory."""
    return _opened(str(folder), identity(folder / KIND_FILE))


@lru_cache(maxsize=2)
def _opened(folder: str, sign: object) -> Predictor:
    return Predictor.open(folder)
