"""The report of a verification: one page that needs nothing else, the same as Markdown, and its pictures as files.

A record is the `Checked` evidence of one claim; the `Header` says what made the records.
"""

from attomaton.report.figures.verification import report_figures
from attomaton.report.html.verification import report_page
from attomaton.report.text.markdown import report_markdown
from attomaton.report.text.verification import Header

__all__ = ["Header", "report_figures", "report_markdown", "report_page"]
