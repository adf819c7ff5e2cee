"""Placeholder."""

from attomaton.lab.view import Screen, View


async def build(view: View) -> None:
    """Fill the page."""


SCREEN = Screen("/data", "Data", "table_chart", build, "")
