"""The tables of a summary with every token, last token and document in them a link."""

from collections.abc import Callable, Sequence
from typing import Any

from attomaton.lab.kit.table import Part
from attomaton.lab.opened import Opened
from attomaton.lab.view import View
from attomaton.report.graphs import readable
from attomaton.report.text.summary import Section
from attomaton.report.words import give_or_take
from attomaton.summaries.records import (
    DocumentSummary,
    LastTokenSummary,
    Leading,
    ModelSummary,
    Next,
    Summary,
)

Cells = dict[tuple[int, int], Sequence[Part]]


class Links:
    """Where the words of one model lead."""

    def __init__(self, view: View, model: Opened, document: Callable[[int], str]):
        self.view, self.model, self.document_name = view, model, document
        # A chosen size of tables goes along.
        self.kept = {k: view.get(k) for k in ("top", "max_df")}

    def lens(self, token: str | int) -> str:
        """The lens on a last token; nowhere for a token that never is one."""
        if not self.model.is_last(token):
            return ""
        return self.view.link("/lens", None, last=token, **self.kept)

    def graph(self, last: str | int, token: str | int | None = None) -> str:
        """The graph of a last token, and in it a token."""
        return self.view.link("/graph", last=last, chosen=token) if self.model.is_last(last) else ""

    def token(self, token: str | int, last: str | int | None = None, after: str = "") -> Part:
        """A token seen after `last`; without one it is a last token itself."""
        place = self.graph(token) if last is None else self.graph(last, token)
        return Part(readable([token])[token], self.lens(token), place, after)

    def term(self, row: Any, last: str | int | None) -> Part:
        """A term after a last token, or of a document: of two words, the second after the first."""
        if last is not None:
            return Part(row.term, self.lens(row.token), self.graph(last, row.token))
        first, _, second = row.term.partition(" ")
        if row.words == 1:
            return self.token(row.term)
        if self.model.vocabulary.id_of(self.model.read(second)) is None:
            return Part(row.term)
        return Part(row.term, self.lens(second), self.graph(first, second))

    def weighted(self, rows: Sequence[Next | Leading], last: str | int) -> list[Part]:
        """Tokens with how often they came next, where they did."""

        def often(weight: float) -> str:
            whole = float(weight).is_integer()
            return f" ({int(weight) if whole else weight:,})" if weight else ""

        return [self.token(x.token, last, often(x.weight)) for x in rows]

    def document(self, number: int, text: str) -> Part:
        """A document of the same text."""
        doc, split = self.document_name(number), self.view.get("split")
        return Part(text, self.view.link("/lens", None, doc=doc, split=split, **self.kept))


def linked_cells(record: Summary, tables: Sequence[Section], to: Links) -> list[Cells]:
    """The cells with links of each table of a record: what its row names in columns that name something."""
    own = record.last if isinstance(record, LastTokenSummary) else None
    return [
        {
            (i, j): COLUMNS[name](to, row, getattr(row, "last", own))
            for i, row in enumerate(rows)
            for j, name in enumerate(table["header"])
            if name in COLUMNS
        }
        for table, rows in zip(tables, _rows(record), strict=True)
    ]


def _rows(r: Summary) -> list[Sequence[object]]:
    """What the rows of each table tell of; nothing where they name no token and no document."""
    if isinstance(r, ModelSummary):
        return [(), (), (), r.priorities, r.token_priorities, r.components, r.last_tokens]
    apart: tuple[Sequence[object], Sequence[object]]
    apart = r.disagreement.text_over_attention, r.disagreement.attention_over_text
    if isinstance(r, DocumentSummary):
        return [(), (), r.terms, *apart, r.strongest_edges, r.similar]
    edges = r.strongest_edges, r.outrank_it, r.outranked_by_it
    return [(), r.levels, r.terms, *apart, *edges, r.similar.by_attention, r.similar.by_text]


# Columns that lead somewhere: the parts of a cell, by its row and the last token that this is about.
COLUMNS: dict[str, Callable[[Links, Any, Any], Sequence[Part]]] = {
    "after": lambda to, row, last: [to.token(row.last)],
    "last token": lambda to, row, last: [to.token(row.last)],
    "winner": lambda to, row, last: [to.token(row.winner, last)],
    "over": lambda to, row, last: [to.token(row.loser, last)],
    "loser": lambda to, row, last: [to.token(row.loser, last)],
    "token": lambda to, row, last: [to.token(row.token, last)],
    "term": lambda to, row, last: [to.term(row, last)],
    "title": lambda to, row, last: [to.document(row.document, row.title)],
    "next": lambda to, row, last: to.weighted(row.next, last),
    "leading": lambda to, row, last: to.weighted(row.leading or (), last),
    "leading by log π": lambda to, row, last: [
        to.token(m.token, last, f" ({m.log_pi:+.2f}{give_or_take(m.se)})") for m in row.members
    ],
}


def own_sections(record: Summary) -> list[int]:
    """Which tables of a last token need no other last token: outcomes, levels, and edges in and out."""
    return [0, 1, 5, 6, 7] if record.subject == "last token" else []
