"""What was learned as one self-contained page."""

from typing import Any

from attomaton.report.html.page import page
from attomaton.report.text import coverage
from attomaton.report.text.summary import Section, in_words, sections, title
from attomaton.summaries.coverage import Coverage
from attomaton.summaries.records import Summary


def summary_page(record: Summary, svg: str | None = None, footer: str = "") -> str:
    """The page of a record of `summaries`: sentences, the picture where there is one, every table."""
    caption = _CAPTION[record.subject]
    return sections_page(title(record), in_words(record), sections(record), svg, caption, footer)


def coverage_page(found: Coverage, top: int = 20, svg: str | None = None, footer: str = "") -> str:
    """The page that says how far data carry what was learned from them."""
    tables = coverage.sections(found, top)
    return sections_page(
        coverage.TITLE, coverage.in_words(found), tables, svg, _CAPTION["coverage"], footer
    )


def sections_page(
    heading: str, words: str, tables: list[Section], svg: str | None, caption: str, footer: str
) -> str:
    """Sentences, the picture where there is one, every table."""
    first: dict[str, Any] = {"text": words}
    if svg is not None:
        first |= {"svg": svg, "caption": caption}
    rest = [
        {"heading": s["heading"], "text": s["note"],
         "table": {"header": s["header"], "rows": s["rows"]}}
        if s["rows"] else {"heading": s["heading"], "text": "None."}
        for s in tables
    ]  # fmt: skip
    return page(heading, [first, *rest], footer)


_CAPTION = {
    "coverage": "Left: strict orders by the number of samples behind them. Right: log-odds of tied tokens by their "
    "standard errors. Between them, where there are new contexts, what the data say of these.",
    "model": "Hard: retrieval leaves one token. Soft: it leaves several that are tied, and mixes them. "
    "Absent: the label is not in its context, so no attention can name it.",
    "last token": "Each mark is a token seen with this last token. Distinct tokens were seen with one "
    "label only, common ones with several. Named are the first of either order and the widest disagreements.",
    "document": "Each mark is a word of the document. Distinct words were seen with one label only, "
    "common ones with several. Named are the first of either order and the widest disagreements.",
}
