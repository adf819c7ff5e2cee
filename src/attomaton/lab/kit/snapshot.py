"""A page as one HTML file: what is seen, as it is seen, with the numbers of its charts; no script, nothing to load."""

import json

from nicegui import ui

from attomaton.base.assets import beside
from attomaton.lab.kit.charts import charts_here
from attomaton.report.text.spreadsheets import csv_text

# Styles come along as text, pictures as data, fonts and pictures of buttons do not; addresses of the lab are left out,
# since they hold its secret step.
_SCRIPT = beside(__file__, "snapshot.js")


def save_page(title: str, name: str) -> None:
    """Let the browser save the page that asked as one file."""
    told = [(c.title.text, c.picture) for c in charts_here() if c.picture.header]
    data = [[title, csv_text(picture.header, picture.rows, "\n")] for title, picture in told]
    given = ", ".join(map(json.dumps, (data, title, name)))
    ui.run_javascript(f"({_SCRIPT.strip()})({given})")
