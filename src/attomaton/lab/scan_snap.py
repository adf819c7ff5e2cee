"""Placeholder."""

from attomaton.lab.view import Screen, View


async def build(view: View) -> None:
    """Fill the page."""


SCREEN = Screen("/scan-snap", "Scan and snap", "center_focus_strong", build, "")
