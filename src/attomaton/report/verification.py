"""The report of a verification: one page that needs nothing else, the same as Markdown, and its pictures as files.

A record is one `Evidence` as a dictionary, with `seconds`, `command` and, where its check broke, `error`. The header
says what made the records: `command`, `quick` (or `mode`), `date`, `device`, `data`, `versions`, and whatever else is
worth a row.
"""

from attomaton.report.figures.verification import report_figures
from attomaton.report.html.verification import report_page
from attomaton.report.text.markdown import report_markdown

__all__ = ["report_figures", "report_markdown", "report_page"]
