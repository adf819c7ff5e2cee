"""The tables of a summary with every token, last token and document in them a link."""

from collections.abc import Callable, Sequence
from typing import Any

from attomaton.lab.kit.table import Part
from attomaton.lab.opened import Opened
from attomaton.lab.view import View
from attomaton.report.graphs import readable
from attomaton.report.words import give_or_take
from attomaton.summaries.records import (
    DocumentSummary,
    DocumentTerm,
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
        return (
            self.view.link("/lens", None, last=token, **self.kept)
            if self.model.is_last(token)
            else ""
        )

    def graph(self, last: str | int, token: str | int | None = None) -> str:
        """The graph of a last token, and in it a token."""
        return self.view.link("/graph", last=last, chosen=token) if self.model.is_last(last) else ""

    def token(self, token: str | int, last: str | int | None = None, after: str = "") -> Part:
        """A token seen after `last`; without one it is a last token itself."""
        place = self.graph(token) if last is None else self.graph(last, token)
        return Part(readable([token])[token], self.lens(token), place, after)

    def term(self, row: DocumentTerm) -> Part:
        """A term of a document: of two words, the second after the first."""
        first, _, second = row.term.partition(" ")
        if row.words == 1:
            return self.token(row.term)
        if self.model.vocabulary.id_of(self.model.read(second)) is None:
            return Part(row.term)
        return Part(row.term, self.lens(second), self.graph(first, second))

    def document(self, number: int, text: str) -> Part:
        """A document of the same text."""
        settings = {
            "doc": self.document_name(number),
            "split": self.view.get("split"),
            **self.kept,
        }
        return Part(text, self.view.link("/lens", None, **settings))


def linked_cells(record: Summary, links: Links) -> list[Cells]:
    """The cells with links of each table of `report.summary_text.sections`, in its order."""
    match record:
        case ModelSummary():
            tables = _model(record, links)
        case LastTokenSummary():
            tables = _last(record, links)
        case DocumentSummary():
            tables = _document(record, links)
    return [
        {(i, j): parts(row) for i, row in enumerate(rows) for j, parts in columns.items()}
        for rows, columns in tables
    ]


Columns = dict[int, Callable[[Any], Sequence[Part]]]  # of a row of the table
Tables = list[tuple[Sequence[object], Columns]]
NONE: tuple[Sequence[object], Columns] = ((), {})


def _model(r: ModelSummary, to: Links) -> Tables:
    last: Columns = {0: lambda row: [to.token(row.last)]}
    return [
        NONE,
        NONE,
        NONE,
        (r.priorities, {**last, 1: lambda e: [to.token(e.winner, e.last)],
                           2: lambda e: [to.token(e.loser, e.last)]}),
        (r.token_priorities, {0: lambda e: [to.token(e.winner)], 1: lambda e: [to.token(e.loser)]}),
        (r.components, {**last, 4: lambda c: [
            to.token(m.token, c.last, f" ({m.log_pi:+.2f}{give_or_take(m.se)})") for m in c.members]}),
        (r.last_tokens, {**last, 7: lambda row: _weighted(to, row.next, row.last)}),
    ]  # fmt: skip


def _last(r: LastTokenSummary, to: Links) -> Tables:
    own = r.last
    winner: Columns = {0: lambda e: [to.token(e.winner, own)]}
    token: Columns = {0: lambda t: [to.token(t.token, own)]}
    last: Columns = {0: lambda row: [to.token(row.last)]}
    return [
        NONE,
        (r.levels, {5: lambda row: _weighted(to, row.leading or (), own)}),
        (
            r.terms,
            {0: lambda t: [Part(t.term, to.lens(t.token), to.graph(own, t.token))]},
        ),
        (r.disagreement.text_over_attention, token),
        (r.disagreement.attention_over_text, token),
        (r.strongest_edges, {**winner, 1: lambda e: [to.token(e.loser, own)]}),
        (r.outrank_it, winner),
        (r.outranked_by_it, {0: lambda e: [to.token(e.loser, own)]}),
        (r.similar.by_attention, last),
        (r.similar.by_text, last),
    ]


def _document(r: DocumentSummary, to: Links) -> Tables:
    token: Columns = {0: lambda t: [to.token(t.token)]}
    edge: Columns = {
        0: lambda e: [to.token(e.last)],
        1: lambda e: [to.token(e.winner, e.last)],
        2: lambda e: [to.token(e.loser, e.last)],
    }
    return [
        NONE,
        NONE,
        (r.terms, {0: lambda t: [to.term(t)]}),
        (r.disagreement.text_over_attention, token),
        (r.disagreement.attention_over_text, token),
        (r.strongest_edges, edge),
        (r.similar, {1: lambda d: [to.document(d.document, d.title)]}),
    ]


def _weighted(to: Links, rows: Sequence[Next | Leading], last: str | int) -> list[Part]:
    """Tokens with how often they came next, where they did."""

    def often(weight: float) -> str:
        whole = float(weight).is_integer()
        return f" ({int(weight) if whole else weight:,})" if weight else ""

    return [to.token(x.token, last, often(x.weight)) for x in rows]


def own_sections(record: Summary) -> list[int]:
    """Which tables of a last token need no other last token: outcomes, levels, and edges in and out."""
    return [0, 1, 5, 6, 7] if record.subject == "last token" else []
