"""A document as text: every word shaded by what the answer to the words before it gives to it, wrong answers marked."""

from nicegui import ui

from attomaton.corpus.text import EOS
from attomaton.lab.automaton.attention import LEGEND, LEGEND_LABEL, attended, share, verdict
from attomaton.lab.kit.contexts import visible, write_context
from attomaton.lab.kit.parts import abreast, card, emptied, icon_button, note, place
from attomaton.lab.kit.text import Text, Word, text_key
from attomaton.lab.lens.records import ReadDocument
from attomaton.lab.opened import Opened
from attomaton.lab.view import View, in_thread
from attomaton.summaries.document import ReadWord, window_words

PAGE = 400  # words at once
KEY = {
    "shade": "probability of the word, from what stands before it",
    "wrong": "another word is likelier",
    "absent": "not in its context: no attention can name it",
    "faint": "without an answer",
}


def read_word(read: ReadWord) -> Word:
    """One word of a document as it is drawn."""
    ends = read.word == EOS
    if read.outcome is None or read.answer is None:
        return Word(visible(read.word), marks=("faint",), title="without an answer", ends=ends)
    said = f"answer ‘{visible(read.answer)}’ with {share(read.answer_p)}"
    if read.outcome == "absent":
        return Word(
            visible(read.word), marks=("absent",), title=f"not in its context; {said}", ends=ends
        )
    marks = () if read.right else ("wrong",)
    title = f"{read.outcome}: {share(read.p)}; {said}"
    return Word(visible(read.word), read.p or None, "", False, marks, title, ends)


class DocumentText:
    """The card with the text of a document, some hundred words at a time; a word that is chosen shows its window."""

    def __init__(self, view: View, model: Opened, read: ReadDocument):
        self.view, self.model, self.read = view, model, read
        self.words = [read_word(word) for word in read.words]
        self.at = 0
        with card("The text, word by word"):
            text_key(KEY)
            with abreast():
                self.back = icon_button("navigate_before", "Words before", lambda: self._turn(-1))
                self.on = icon_button("navigate_next", "Words behind", lambda: self._turn(1))
                self.wrong = icon_button("error_outline", "Next wrong answer", self._next_wrong)
                self.said = note().props('role="status"')
            self.text = Text("The document, word by word", on_choose=self._ask)
            self.below = place().props('aria-label="The window of the word" role="region"')
        self._show()

    def _show(self, chosen: int | None = None) -> None:
        self.text.show(self.words[self.at : self.at + PAGE], chosen)
        end = min(self.at + PAGE, len(self.words))
        right = sum(word.right for word in self.read.words)
        asked = sum(word.outcome not in (None, "absent") for word in self.read.words)
        self.said.set_text(
            f"Words {self.at + 1:,} to {end:,} of {len(self.words):,}. Of {asked:,} words that stand in their context "
            f"{right:,} are the likeliest answer."
        )
        self.back.set_enabled(self.at > 0)
        self.on.set_enabled(end < len(self.words))

    def _turn(self, step: int) -> None:
        self.at = min(max(self.at + step * PAGE, 0), len(self.words) // PAGE * PAGE)
        self.below.clear()
        self._show()

    async def _next_wrong(self) -> None:
        """Go to the next wrong answer behind the word that is chosen, or from the first."""
        begin = self.at + self.text.chosen + 1 if self.text.chosen is not None else self.at
        wrong = [i for i, word in enumerate(self.words) if "wrong" in word.marks]
        if wrong:
            i = next((i for i in wrong if i >= begin), wrong[0])
            self.at = i // PAGE * PAGE
            self._show(i - self.at)
            await self._ask(i - self.at)

    async def _ask(self, place: int) -> None:
        i = self.at + place
        if not 0 <= i < len(self.read.words):
            return
        self.text.choose(place)
        read = self.read.words[i]
        self.below.clear()
        words = [self.model.read(str(x)) for x in window_words(self.read.windows, i)]
        if read.outcome is None or not words:
            with self.below:
                note("No context of the model’s length stands before this word.")
            return
        automaton = await in_thread(self.model.automaton, words[-1])
        explained = await in_thread(automaton.explain, words)
        came = self.model.read(str(read.word))
        with emptied(self.below):
            Text("What stands before it, with attention on it", attended(explained, words, came))
            ui.label(verdict(explained, came)).classes("lead")
            text_key(LEGEND | LEGEND_LABEL)
            text = write_context(words, self.model.vocabulary)
            ui.link("Ask why on the automaton’s screen", self.view.link("/automaton", context=text))
