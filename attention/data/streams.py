"""Streams: the sequences that an example is made of, and what a batch of them has room for.

A tagger has one stream of tokens, a translator two; a classifier has a stream of tokens and one
with exactly one entry an example, its label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

# A packed row holds one example for so many of its positions, on average, or fewer.
POSITIONS_PER_SLOT = 4

Arrays = dict[str, np.ndarray]  # [t ...] by name: they share their leading axis
Encoded = Mapping[str, Mapping[str, np.ndarray]]  # an example: arrays by stream and name


class Stream(NamedTuple):
    """One sequence of each example.

    Attributes:
      name: the key of its arrays in examples, batches and outputs.
      fill: what stands where a batch has no item, by the array's name (0 for names not there).
      one_each: each example has exactly one entry. Such a stream may be without arrays: then it
        only says where outputs of whole examples go.
    """

    name: str
    fill: Mapping[str, int] = MappingProxyType({})
    one_each: bool = False


def token_streams(streams: Sequence[Stream]) -> tuple[Stream, ...]:
    """Returns those with an entry a token, whose lengths decide what fits into a row."""
    return tuple(stream for stream in streams if not stream.one_each)


def slots_per_row(streams: Sequence[Stream], max_length: int) -> int | None:
    """Returns how many examples a packed row may hold; None where nothing limits them."""
    if len(token_streams(streams)) == len(streams):
        return None
    return max(1, max_length // POSITIONS_PER_SLOT)


def lengths_of(example: Encoded, streams: Sequence[Stream]) -> list[int]:
    """Returns the length of each stream of an encoded example: 1 of those with one entry each.

    Raises:
      ValueError: names the stream that is missing, or whose arrays differ in length.
    """
    return [_length(stream, example.get(stream.name, {})) for stream in streams]


def _length(stream: Stream, arrays: Mapping[str, Any]) -> int:
    lengths = {name: len(array) for name, array in arrays.items()}
    if stream.one_each:
        if set(lengths.values()) - {1}:
            raise ValueError(f"stream '{stream.name}' has one entry an example, not {lengths}")
        return 1
    if not lengths:
        raise ValueError(f"stream '{stream.name}' of an encoded example has no array")
    if len(set(lengths.values())) != 1:
        raise ValueError(f"the arrays of stream '{stream.name}' differ in length: {lengths}")
    return next(iter(lengths.values()))
