"""The report of a verification: one page that needs nothing else, the same as Markdown, and its pictures as files.

A record is one `Evidence` as a dictionary, with `seconds`, `command` and, where its check broke, `error`. The header
says what made the records: `command`, `quick` (or `mode`), `date`, `device`, `data`, `versions`, and whatever else is
worth a row.
"""

from attomaton.report.verification_figures import report_figures
from attomaton.report.verification_markdown import report_markdown
from attomaton.report.verification_page import report_page

__all__ = ["report_figures", "report_markdown", "report_page"]
