"""The arrays that a part of a mechanism brings along: learned by a layer, given to a function."""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Array


class OwnArray(NamedTuple):
    """One such array.

    Attributes:
        name: the keyword of `attend`, and the name of the parameter.
        axes: its shape in dimension letters: n query heads, p pairs of them, k key heads, h head
            size.
        init: (key, shape, dtype) → initial value.
    """

    name: str
    axes: str
    init: Callable[..., Array]
