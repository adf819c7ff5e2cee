"""What was learned, told to a person: sentences and tables from the records of `summaries`.

A section is `{"heading", "note", "header", "rows"}`: the terminal and the page show the same ones.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attomaton.errors import counted, visible
from attomaton.report.figures.canvas import mention
from attomaton.report.text.terminal import table
from attomaton.report.words import give_or_take, share_text
from attomaton.summaries.records import (
    DocumentSummary,
    LastTokenSummary,
    Leading,
    LikeLast,
    ModelSummary,
    Next,
    Predictions,
    Summary,
)

Section = dict[str, Any]

OUTCOME = {
    "hard": "Hard: the label is retrieved alone.",
    "soft": "Soft: it is retrieved with tokens tied to it, and mixed with them.",
    "lost": "Lost: only other tokens are retrieved.",
    "absent": "Absent: the label is not in its context, so attention cannot name it.",
}
LABELS = "With 1 label a term is distinct, with more it is common; % first is the share of the commonest."
NAMED = 5  # terms named in a sentence


def summary_text(record: Summary) -> str:
    """The whole record for a terminal."""
    return as_text(title(record), in_words(record), sections(record))


def as_text(title: str, words: str, tables: Sequence[Section]) -> str:
    """A heading, sentences and tables for a terminal."""
    parts = [title, words]
    for s in tables:
        body = table(s["header"], s["rows"]) if s["rows"] else "none"
        line = "─" * len(s["heading"])
        parts.append("\n".join([s["heading"], line, *([s["note"]] if s["note"] else []), body]))
    return "\n\n".join(parts)


def title(record: Summary) -> str:
    """What the record is about."""
    match record:
        case ModelSummary():
            return "What attention learned"
        case LastTokenSummary():
            return f"What attention learned to do after {mention(record.last)}"
        case DocumentSummary():
            return f"{mention_title(record.title)} under the lens"


def in_words(record: Summary) -> str:
    """A record in a few sentences, every number of which is in it."""
    return _TOLD[type(record)][0](record)


def sections(record: Summary) -> list[Section]:
    """The tables of a record."""
    return _TOLD[type(record)][1](record)


def mention_title(text: str) -> str:
    """A document's title in quotes."""
    return f"“{visible(text)}”"


# --- sentences -----------------------------------------------------------------------------------


def _model_words(r: ModelSummary) -> str:
    share = {row.kind: share_text(row.share) for row in r.last_token_kinds}
    weight = {row.kind: share_text(row.weight_share) for row in r.last_token_kinds}
    p = r.predictions
    return (
        f"Of {r.counts.last_tokens:,} last tokens, {share['hard']} are purely hard, "
        f"{share['soft']} purely soft and {share['mixed']} mixed (by samples {weight['hard']}, "
        f"{weight['soft']} and {weight['mixed']}). Of {_number(p.windows):,} windows, "
        f"{share_text(p.realizable_share)} hold their label; {_decided(p)}"
    )


def _decided(p: Predictions) -> str:
    """How the windows that hold their label end, as the rest of a sentence."""
    share = {row.outcome: row.share_of_realizable for row in p.outcomes}
    if share["hard"] is None:
        return "no window holds its label, so there is nothing to judge."
    lost = f", {share_text(share['lost'])} are lost" if share["lost"] else ""
    mean = p.label_probability.mean_where_soft
    mixed = "" if mean is None else f" (the label then gets {mean:.2f} on average)"
    return (
        f"of those, {share_text(share['hard'])} are decided by retrieval alone and "
        f"{share_text(share['soft'])} by mixing{mixed}{lost}. The likeliest token is the label in "
        f"{share_text(p.right)}."
    )


def _last_words(r: LastTokenSummary) -> str:
    follow = ", ".join(f"{mention(x.token)} ({_number(x.weight):,})" for x in r.next)
    kind = {
        "hard": "with no two tokens tied",
        "soft": "all of them tied",
        "mixed": "some of them tied",
    }[r.kind]
    levels = len(r.levels)
    return (
        f"After {mention(r.last)} ({_number(r.weight):,} samples, "
        f"{share_text(r.weight_share)} of all) attention ranks {r.tokens:,} tokens on "
        f"{counted(levels, 'level')}, {kind}; what comes next most often is {follow}. "
        f"Of its samples, {_decided(r.predictions).removeprefix('of those, ')} "
        f"{r.distinct_tokens:,} of its tokens are distinct (seen with one label only). "
        f"{_agreement(r)}"
    )


def _document_words(r: DocumentSummary) -> str:
    p = r.predictions
    terms = ", ".join(f"“{visible(t.term)}”" for t in r.terms[:NAMED])
    near = f" Most like it: {mention_title(r.similar[0].title)}." if r.similar else ""
    return (
        f"{mention_title(r.title)} is document {r.document} of {r.documents:,}, with "
        f"{r.words:,} words, {r.distinct_words:,} of them different; its key terms are "
        f"{terms or 'none'}. Of {_number(p.windows):,} windows, "
        f"{share_text(p.realizable_share or 0)} hold their label; {_decided(p)} {_agreement(r)}{near}"
    )


def _agreement(r: LastTokenSummary | DocumentSummary) -> str:
    return (
        "TF-IDF and attention order the tokens with a rank correlation of "
        f"{r.disagreement.rank_correlation:+.2f}."
    )


# --- tables --------------------------------------------------------------------------------------


def _model_sections(r: ModelSummary) -> list[Section]:
    return [
        section(
            "Last tokens, hard and soft",
            "Hard: no two tokens are tied. Soft: all are. Mixed: some are.",
            ["kind", "last tokens", "%", "samples", "% of samples"],
            ([row.kind, row.last_tokens, _percent(row.share), row.weight,
              _percent(row.weight_share)] for row in r.last_token_kinds),
        ),
        _outcomes(r),
        section(
            "Levels of priority",
            "Level 0 holds what nothing outranks; a label on a deeper level wins where nothing above "
            "it is in the context.",
            ["level", "components", "of several tokens", "tokens", "samples with their label here"],
            ([row.level, row.components, row.tied_components, row.tokens, row.weight]
             for row in r.levels),
        ),
        section(
            "Strongest priorities",
            "After the last token, the winner came next where the loser was in the context too, and "
            "never the reverse, on any path.",
            ["after", "winner", "over", "samples", "margin", "contrary at most"],
            ([row.last, row.winner, row.loser, row.weight, _round(row.margin), _round(row.contrary)]
             for row in r.priorities),
        ),
        section(
            "Tokens over tokens, whatever the last token",
            "Samples behind strict priorities, added over last tokens; and with how many last tokens the "
            "winner is above, tied, or below.",
            ["winner", "over", "samples", "above", "tied", "below"],
            ([row.winner, row.loser, row.weight, row.last_tokens, row.tied,
              row.reversed] for row in r.token_priorities),
        ),
        section(
            "Largest ties",
            "Components of tied tokens; within one, log π decides the odds. Behind ± its standard error.",
            ["after", "tokens", "level", "samples", "leading by log π"],
            ([row.last, row.size, row.level, row.weight,
              " ".join(f"{visible(m.token)} ({m.log_pi:+.2f}{give_or_take(m.se)})" for m in row.members)]
             for row in r.components),
        ),
        section(
            "Last tokens with the most samples",
            "",
            ["last token", "samples", "%", "kind", "tokens", "levels", "% hard", "next"],
            ([row.last, row.weight, _percent(row.share), row.kind, row.tokens,
              row.levels, _percent(row.hard_share), _weighted(row.next)]
             for row in r.last_tokens),
        ),
    ]  # fmt: skip


def _last_sections(r: LastTokenSummary) -> list[Section]:
    word = mention(r.last)
    likeness = ["last token", "cosine hard", "cosine soft", "cosine TF-IDF", "shared tokens"]
    return [
        _outcomes(r),
        section(
            "Levels of priority",
            "Leading are the tokens of highest score, tied ones by log π; in brackets, how often they "
            "came next.",
            ["level", "components", "of several tokens", "tokens", "came next", "leading"],
            ([row.level, row.components, row.tied_components, row.tokens, row.weight,
              _weighted(row.leading or ())] for row in r.levels),
        ),
        section(
            "Key terms: TF-IDF beside attention",
            f"The document is the pool of all contexts before {word}, with their labels; two-word terms are "
            f"{word} and the label. Terms in more than {share_text(r.max_df)} of the documents are left out. "
            f"A two-word term has the priority of its second word. {LABELS}",
            ["term", "TF-IDF", "count", "documents", "level", "score", "log π", "labels",
             "% first"],
            ([t.term, _round(t.tfidf), t.count, t.documents, t.level,
              _round(t.svm_score), _round(t.log_pi), t.labels, _percent(t.label_share)]
             for t in r.terms),
        ),
        *_apart(r),
        section(
            "Strongest edges",
            "",
            ["winner", "over", "samples", "relation", "margin"],
            ([e.winner, e.loser, e.weight, e.relation, _round(e.margin)]
             for e in r.strongest_edges),
        ),
        section(
            f"What outranks {word} itself",
            "The last token is in each of its own contexts, so that every other label competes with it.",
            ["winner", "samples", "relation", "margin"],
            ([e.winner, e.weight, e.relation, _round(e.margin)] for e in r.outrank_it),
        ),
        section(
            f"What {word} itself outranks",
            "",
            ["loser", "samples", "relation", "margin"],
            ([e.loser, e.weight, e.relation, _round(e.margin)]
             for e in r.outranked_by_it),
        ),
        section(
            "Last tokens attention treats alike",
            "Cosines of the rows of scores: hard is W_svm, soft is W_fin.",
            likeness,
            map(_like, r.similar.by_attention),
        ),
        section("Last tokens in like company", "By TF-IDF.", likeness,
                 map(_like, r.similar.by_text)),
    ]  # fmt: skip


def _document_sections(r: DocumentSummary) -> list[Section]:
    return [
        _outcomes(r),
        section(
            "Levels windows are decided on",
            "The level of what is retrieved, in the graph of the window's last token.",
            ["level", "windows", "label likeliest"],
            (["never seen" if row.level is None else row.level, row.windows, row.right]
             for row in r.levels),
        ),
        section(
            "Key terms: TF-IDF beside attention",
            f"Terms in more than {share_text(r.max_df)} of the documents are left out. What attention makes of a "
            "term is a mean over the windows that hold it; of two words, over those whose last token is the first. "
            f"{LABELS}",
            ["term", "TF-IDF", "count", "documents", "windows", "level", "score", "% retrieved",
             "labels", "% first"],
            ([t.term, _round(t.tfidf), t.count, t.documents, t.windows,
              _round(t.level, 1), _round(t.svm_score), _percent(t.retrieved), t.labels,
              _percent(t.label_share)] for t in r.terms),
        ),
        *_apart(r),
        section(
            "Priorities this document shows most often",
            "The winner came next where the loser was in the context too: in how many windows here, and with "
            "which weight in the model.",
            ["after", "winner", "over", "windows", "in the model", "relation", "margin"],
            ([e.last, e.winner, e.loser, e.weight, e.model_weight, e.relation,
              _round(e.margin)] for e in r.strongest_edges),
        ),
        section(
            "Most similar documents",
            "By TF-IDF.",
            ["document", "title", "cosine", "shared terms", "nearest by"],
            ([d.document, d.title, _round(d.tfidf_cosine), d.shared_terms,
              ", ".join(d.nearest_by)] for d in r.similar),
        ),
    ]  # fmt: skip


def _outcomes(r: Summary) -> Section:
    rows = [row for row in r.predictions.outcomes
            if row.outcome in ("hard", "soft") or row.weight]  # fmt: skip
    return section(
        "How windows are decided" if r.subject != "last token" else "How its samples are decided",
        " ".join(OUTCOME[row.outcome] for row in rows),
        ["outcome", "windows", "%", "% where the label is there"],
        ([row.outcome, row.weight, _percent(row.share_of_windows),
          _percent(row.share_of_realizable)] for row in rows),
    )  # fmt: skip


def _apart(r: LastTokenSummary | DocumentSummary) -> list[Section]:
    """Where TF-IDF and attention disagree, both ways."""
    header = ["token", "place by TF-IDF", "by attention", "TF-IDF", "level", "score", "kind"]
    return [
        section(
            heading,
            "Equal tokens share the mean of their places.",
            header,
            ([t.token, _round(t.tfidf_place, 1), _round(t.priority_place, 1),
              _round(t.tfidf), _round(t.level, 1), _round(t.svm_score),
              "distinct" if t.distinct else "common"] for t in rows),
        )
        for heading, rows in (
            ("Key by TF-IDF, passed over by attention", r.disagreement.text_over_attention),
            ("Preferred by attention, not by TF-IDF", r.disagreement.attention_over_text),
        )
    ]  # fmt: skip


def section(
    heading: str, note: str, header: Sequence[str], rows: Iterable[Sequence[Any]]
) -> Section:
    """One table, whole numbers written as such."""
    plain = [[_number(x) for x in row] for row in rows]
    return {"heading": heading, "note": note, "header": list(header), "rows": plain}


def _like(row: LikeLast) -> list[Any]:
    cosines = (row.svm_cosine, row.finite_cosine, row.tfidf_cosine)
    return [row.last, *map(_round, cosines), row.shared]


def _weighted(rows: Iterable[Next | Leading]) -> str:
    """Tokens with how often they came next, where they did."""
    return " ".join(
        f"{visible(x.token)} ({_number(x.weight):,})" if x.weight else visible(x.token)
        for x in rows
    )


def _number(x: Any) -> Any:
    """Whole numbers without a decimal point; nothing as nothing."""
    if x is None:
        return ""
    return int(x) if isinstance(x, float) and x.is_integer() else x


def _percent(share: float | int | None) -> float | int | None:
    return None if share is None else round(100 * share, 1)


def _round(x: float | int | None, digits: int = 3) -> float | int | None:
    return None if x is None else round(x, digits)


# The sentences and the tables of every record.
_TOLD: dict[type, tuple[Callable[[Any], str], Callable[[Any], list[Section]]]] = {
    ModelSummary: (_model_words, _model_sections),
    LastTokenSummary: (_last_words, _last_sections),
    DocumentSummary: (_document_words, _document_sections),
}
