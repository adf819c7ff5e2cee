"""One tab on a screen: its title and styles, the model it needs, errors of ours as a sentence."""

from inspect import getfile
from typing import ClassVar

from nicegui import ui

from attomaton.base.assets import beside
from attomaton.lab.kit.parts import title
from attomaton.lab.opened import Opened
from attomaton.lab.view import View


class Page:
    """What a screen shows in one tab; work belongs to the lab, settings to the address, so a reload finds both."""

    TITLE: ClassVar[str] = ""
    STYLES: ClassVar[tuple[str, ...]] = ()  # files beside the module of the page

    def __init__(self, view: View):
        self.view, self.lab = view, view.lab

    @classmethod
    async def build(cls, view: View) -> None:
        """Fill the page; a `Screen` is given this."""
        ui.add_css("".join(beside(getfile(cls), name) for name in cls.STYLES))
        if cls.TITLE:
            title(cls.TITLE)
        page = await cls.opened(view)
        if page is not None:
            with view.checked():
                await page.fill()

    @classmethod
    async def opened(cls, view: View) -> "Page | None":
        """The page, once what it needs is there."""
        return cls(view)

    async def fill(self) -> None:
        """Put the parts of the page together."""
        raise NotImplementedError


class ModelPage(Page):
    """A page on a model; while it is being fitted, progress is shown instead."""

    def __init__(self, view: View, model: Opened):
        super().__init__(view)
        self.model = model

    @classmethod
    async def opened(cls, view: View) -> Page | None:
        """The page, once the model is there."""
        model = await view.model()
        return None if model is None else cls(view, model)
