"""What a data set is once it is loaded: named splits of examples, read by index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, overload

import numpy as np
from jaxtyping import Int

from attention.errors import UserError, did_you_mean

Example = dict[str, Any]
Record = Mapping[str, Any]  # an example as it is stored

# Decoded examples of a split are kept up to this number: 50 µs a record are little once, and much
# in each of fifty epochs; a million sentences would fill the memory.
MAX_KEPT_EXAMPLES = 250_000
READ_AHEAD = 1024


class Records(Protocol):
    """A TFDS data source: random access to stored examples."""

    def __len__(self) -> int: ...
    def __getitems__(self, keys: Sequence[int], /) -> Sequence[Record]: ...


class Selected:
    """Some records of a data source, by their numbers in it."""

    def __init__(self, records: Records, numbers: Int[np.ndarray, " n"]):
        self._records = records
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitems__(self, keys: Sequence[int], /) -> Sequence[Record]:
        return self._records.__getitems__(self._numbers[list(keys)].tolist())


class Split(Sequence[Example]):
    """The examples of one split, in the order of their source. Do not modify what it returns.

    `content_hash` is a sha256 of the source's content and of the version of its preparation;
    `counts` tells what was read and what was skipped.
    """

    def __init__(
        self,
        records: Records,
        decode: Callable[[Record, int], Example],
        *,
        content_hash: str,
        counts: Mapping[str, int],
    ):
        self.content_hash = content_hash
        self.counts = dict(counts)
        self._records = records
        self._decode = decode
        self._kept: dict[int, Example] = {}

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"example {index} of {len(self)}")
        index = int(index) % len(self)
        example = self._kept.get(index)
        return self._read(range(index, index + 1))[0] if example is None else example

    def __iter__(self):
        for start in range(0, len(self), READ_AHEAD):
            block = range(start, min(start + READ_AHEAD, len(self)))
            kept = [self._kept.get(i) for i in block]
            yield from self._read(block) if None in kept else kept

    def part(self, numbers: Int[np.ndarray, " n"], *, content_hash: str) -> Split:
        """Returns a split of the examples with these numbers; they know their lines as before."""
        counts = {"examples": len(numbers), "skipped_examples": len(self) - len(numbers)}

        def decode(record: Record, index: int) -> Example:
            return self._decode(record, int(numbers[index]))

        records = Selected(self._records, numbers)
        return Split(records, decode, content_hash=content_hash, counts=counts)

    def _read(self, indices: range) -> list[Example]:
        records = self._records.__getitems__(list(indices))
        examples = [self._decode(r, i) for r, i in zip(records, indices, strict=True)]
        if len(self) <= MAX_KEPT_EXAMPLES:
            self._kept.update(zip(indices, examples, strict=True))
        return examples


class Direction(NamedTuple):
    """From which language to which, as the data set names them."""

    source: str
    target: str


@dataclass(frozen=True)
class Dataset:
    """A named data set. A split that does not exist is absent from `splits`.

    `direction` is that of pairs of sentences, where the data set itself knows their languages.
    """

    name: str
    splits: Mapping[str, Split]
    direction: Direction | None = None

    def split(self, name: str) -> Split:
        """Returns a split, or raises a UserError that lists those there are."""
        if name not in self.splits:
            raise UserError(
                f"data set '{self.name}' has no split '{name}'{did_you_mean(name, self.splits)}; "
                f"it has: {', '.join(self.splits)}"
            )
        return self.splits[name]
