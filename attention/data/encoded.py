"""A split turned into numbers once, kept flat in memory, and cut into items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from attention.data.items import piece_items, whole_items

Example = Mapping[str, Any]


class EncodedSplit:
    """Arrays of all examples end to end, and items `(example, start, stop)` over them.

    Args:
      examples: what `encode` reads.
      encode: example -> arrays that share a leading axis, one row a token.
      max_length: the longest an item may be, in tokens.
      whole: True for training (one item an example, cut at `max_length`); False for evaluation
        (pieces, so that every token is in exactly one item).
    """

    def __init__(
        self,
        examples: Iterable[Example],
        encode: Callable[[Example], Mapping[str, np.ndarray]],
        *,
        max_length: int,
        whole: bool,
    ) -> None:
        encoded = [encode(example) for example in examples]
        self.lengths = np.array([_length(arrays) for arrays in encoded], dtype=np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        names = encoded[0] if encoded else {}
        self.flat = {name: np.concatenate([arrays[name] for arrays in encoded]) for name in names}
        cut = whole_items if whole else piece_items
        self.items = cut(self.lengths, max_length)
        self.item_lengths = self.items[:, 2] - self.items[:, 1]

    def item(self, index: int) -> dict[str, np.ndarray]:
        """The arrays of one item: views, nothing is copied."""
        where = self.where(index)
        return {name: values[where] for name, values in self.flat.items()}

    def where(self, index: int) -> slice:
        """The place of an item among all tokens of the split."""
        example, start, stop = self.items[index]
        return slice(int(self.offsets[example] + start), int(self.offsets[example] + stop))

    def tokens_of(self, example: int) -> slice:
        """The place of an example among all tokens of the split."""
        return slice(int(self.offsets[example]), int(self.offsets[example + 1]))

    @property
    def num_tokens(self) -> int:
        """Tokens of the split, long examples included whole."""
        return int(self.offsets[-1])


def _length(arrays: Mapping[str, np.ndarray]) -> int:
    lengths = {len(values) for values in arrays.values()}
    if len(lengths) != 1:
        raise ValueError(f"an encoder gave arrays of different lengths: {sorted(lengths)}")
    return lengths.pop()
