"""Placeholder."""

from attomaton.lab.view import Screen, View


async def build(view: View) -> None:
    """Fill the page."""


SCREEN = Screen("/sweep", "Sweep", "grid_on", build, "")
