"""What the browser plays by itself: elements whose component mixes in `player.js`, and numbers as that reads them."""

import base64

import numpy as np
from nicegui.element import Element


class Player(Element, dependencies=["player.js"]):
    """An element that is sent all it plays at once; its component imports from "player"."""


def packed(numbers: np.ndarray) -> str:
    """Numbers of 32 bits, row after row, as base64.

    >>> packed(np.array([[0.0, 1.0]]))
    'AAAAAAAAgD8='
    """
    return base64.b64encode(np.ascontiguousarray(numbers, "<f4").tobytes()).decode()
