"""What a notebook shows of an object: its line, the first and the last rows of its table, what there is to note."""

from typing import Any

from attomaton.report.html.markup import paragraphs, table_box

ENDS = 5  # rows shown of either end
LISTED = 12  # entries shown of a list in a cell


def preview(line: str, table: Any, notes: str = "") -> str:
    """A fragment of HTML; every word of it is escaped, since tokens are users' text."""
    n = table.num_rows
    whole = n <= 2 * ENDS + 1
    parts = [table] if whole else [table.slice(0, ENDS), table.slice(n - ENDS)]
    rows = [[_cell(x) for x in row.values()] for part in parts for row in part.to_pylist()]
    if not whole:
        rows.insert(ENDS, ["…"] * table.num_columns)
    caption = f"{n:,} rows" if n != 1 else "1 row"
    shown = table_box(table.column_names, rows, line, caption)
    return "\n".join([paragraphs([line]), shown, paragraphs(notes)])


def _cell(x: object) -> object:
    """A value of a table, as a page shows it: lists by their first entries."""
    if not isinstance(x, list):
        return x
    return ", ".join(map(str, x[:LISTED])) + (", …" if len(x) > LISTED else "")
