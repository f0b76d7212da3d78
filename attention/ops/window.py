"""Windows: a query sees the keys that are near it, or every d-th of those.

Longformer (2020), arXiv 2004.05150, section 3.1. The query itself is always seen and not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Array, Bool

from attention.errors import UserError
from attention.ops.masks import Tokens
from attention.ops.option_checks import check_count
from attention.ops.selection import Blocks, band

# Smaller blocks read fewer keys in vain, larger ones multiply larger matrices.
SMALLEST_BLOCK, LARGEST_BLOCK = 16, 128


# Far beyond any row; and their product, the reach, is far from the end of 32-bit numbers.
FARTHEST, MOST_DILATED = 2**20, 2**10


@dataclass(frozen=True)
class Window:
    """Query i sees key j iff j − i is one of −d·left, …, −d, 0, d, …, d·right.

    Attributes:
        left, right: keys seen on each side.
        dilation: d; the steps between them.
    """

    left: int
    right: int
    dilation: int = 1

    @property
    def reach(self) -> int:
        """How far back a query sees: what decoding has to keep."""
        return self.left * self.dilation

    def features(self, tokens: Tokens) -> dict[str, Array]:
        return {}

    def visible(self, queries: Tokens, keys: Tokens) -> Bool[Array, "#b t s"]:
        distance = keys.index[:, None, :] - queries.index[:, :, None]
        near = (distance >= -self.reach) & (distance <= self.right * self.dilation)
        return near if self.dilation == 1 else near & (distance % self.dilation == 0)

    def groups(self, tokens: Tokens) -> tuple[Blocks, ...]:
        """One group: the tokens of one remainder modulo d after those of another."""
        length, step = tokens.index.shape[1], self.dilation
        left, right = self.left, self.right
        if step >= length:  # then only itself is a multiple of d away
            left, right, step = 0, 0, 1
        size = block_size(min(max(left, right), length))
        reads = band(length, left=left, right=right, size=size, step=step)
        return (Blocks(self, size, reads, step),)

    def full_rows(self, tokens: Tokens) -> None:
        return None


def make_window(window: int | tuple[int, int] | None, *, causal: bool, dilation: int = 1) -> Window:
    """Returns the window of an option `window`: w on each side, or (left, right).

    Raises:
        UserError: not one or two whole numbers of 0 or more, or a dilation below 1.
    """
    sides: Any = (window, window) if isinstance(window, int) else window
    is_pair = isinstance(sides, tuple | list) and len(sides) == 2
    if not is_pair or not all(type(w) is int and 0 <= w <= FARTHEST for w in sides):
        raise UserError(
            f"model.attention.window={window!r}: expected the number of keys seen on each side, "
            f"from 0 to {FARTHEST}, or two of them (left, right)"
        )
    check_count("model.attention.dilation", dilation, most=MOST_DILATED)
    left, right = sides
    return Window(left, 0 if causal else right, dilation)


def block_size(reach: int) -> int:
    """Returns how many queries go together, of which each sees `reach` keys on a side."""
    rounded = -(-reach // SMALLEST_BLOCK) * SMALLEST_BLOCK
    return min(max(rounded, SMALLEST_BLOCK), LARGEST_BLOCK)
