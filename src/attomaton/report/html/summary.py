"""What was learned as one self-contained page."""

from typing import Any

from attomaton.report.html.page import page
from attomaton.report.text.summary import in_words, sections, title
from attomaton.summaries.records import Summary


def summary_page(record: Summary, svg: str | None = None, footer: str = "") -> str:
    """The page of a record of `summaries`: sentences, the picture where there is one, every table."""
    first: dict[str, Any] = {"text": in_words(record)}
    if svg is not None:
        first |= {"svg": svg, "caption": _CAPTION[record.subject]}
    rest = [
        {"heading": s["heading"], "text": s["note"],
         "table": {"header": s["header"], "rows": s["rows"]}}
        if s["rows"] else {"heading": s["heading"], "text": "None."}
        for s in sections(record)
    ]  # fmt: skip
    return page(title(record), [first, *rest], footer)


_CAPTION = {
    "model": "Hard: retrieval leaves one token. Soft: it leaves several that are tied, and mixes them. "
    "Absent: the label is not in its context, so no attention can name it.",
    "last token": "Each mark is a token seen with this last token. Distinct tokens were seen with one "
    "label only, common ones with several. Named are the first of either order and the widest disagreements.",
    "document": "Each mark is a word of the document. Distinct words were seen with one label only, "
    "common ones with several. Named are the first of either order and the widest disagreements.",
}
