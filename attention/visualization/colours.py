"""The colours of all pictures of weights, in the page and on paper: those of `tools.pictures`.

A cell's hue lies over the ground with the opacity of its value: 0 is the ground itself.
"""

from typing import NamedTuple


class Colours(NamedTuple):
    """Of the ground, of text, of values above and below 0, and of lines."""

    ground: str
    ink: str
    plus: str
    minus: str
    edge: str


LIGHT = Colours("#ffffff", "#1f2328", "#0a3d91", "#a11d1d", "#d0d7de")
DARK = Colours("#0d1117", "#e6edf3", "#79b8ff", "#ff8f85", "#3d444d")
