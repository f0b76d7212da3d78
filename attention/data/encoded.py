"""A split turned into numbers once, kept flat in memory, and cut into items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from attention.data.epochs import KeptEpochs
from attention.data.items import piece_items
from attention.data.streams import Arrays, Encoded, Stream, lengths_of, token_streams

Example = Mapping[str, Any]
Encode = Callable[..., Encoded]  # (example), or (example, sample=number)


class EncodedSplit:
    """Arrays of all examples end to end by stream and name, and the items that batches are made of.

    An item is an example or a piece of one, and what `flat` holds is in exactly one item.

    Args:
      examples: what `encode` reads.
      encode: example -> arrays by stream and name; those of a stream share their leading axis.
      streams: of the task.
      max_length: the longest an item may be in any stream.
      pieces: long examples become several items, of the one stream of tokens that there is then;
        else each example is one item and is cut at `max_length` in every stream.
      samples: a number for each example, which `encode` then gets as `sample`.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        encode: Encode,
        *,
        streams: Sequence[Stream],
        max_length: int,
        pieces: bool = False,
        samples: Int[np.ndarray, " n"] | None = None,
    ) -> None:
        if pieces and len(streams) != 1:
            raise ValueError("examples of several streams cannot run in pieces")
        encoded = _encode_all(examples, encode, samples)
        lengths = np.array([lengths_of(one, streams) for one in encoded], np.int64)
        lengths = lengths.reshape(len(encoded), len(streams))
        kept = lengths if pieces else np.minimum(lengths, max_length)
        tokens = [index for index, stream in enumerate(streams) if not stream.one_each]

        self.examples = examples
        # Positions of each example by stream of tokens, before anything was cut.
        self.lengths: Int[np.ndarray, "n s"] = lengths[:, tokens]
        self.longest: Int[np.ndarray, " n"] = self.lengths.max(axis=1, initial=0)
        limit = None if pieces else max_length
        self.flat = {stream.name: _flat(encoded, stream.name, limit) for stream in streams}
        # Where examples, and where items begin and end among all entries of a stream.
        self._ends = {
            stream.name: np.concatenate([[0], np.cumsum(kept[:, index])])
            for index, stream in enumerate(streams)
        }
        self._bounds = {
            name: _piece_bounds(ends, max_length) if pieces else np.stack([ends[:-1], ends[1:]], 1)
            for name, ends in self._ends.items()
        }
        item_lengths = [np.diff(self._bounds[stream.name]) for stream in token_streams(streams)]
        self.item_lengths: Int[np.ndarray, "m s"] = np.concatenate(item_lengths, axis=1)

    def item(self, index: int) -> dict[str, Arrays]:
        """The arrays of one item: views, nothing is copied."""
        found = {}
        for stream, arrays in self.flat.items():
            where = self.where(stream, index)
            found[stream] = {name: values[where] for name, values in arrays.items()}
        return found

    def where(self, stream: str, index: int) -> slice:
        """The place of an item among all entries of a stream."""
        start, stop = self._bounds[stream][index]
        return slice(int(start), int(stop))

    def tokens_of(self, stream: str, example: int) -> slice:
        """The place of an example among all entries of a stream."""
        return slice(int(self._ends[stream][example]), int(self._ends[stream][example + 1]))

    def size(self, stream: str) -> int:
        """Entries of a stream: of all examples, as far as they are not cut."""
        return int(self._ends[stream][-1])


class EncodedEpochs:
    """A split that is encoded anew in each epoch, as subword regularisation does.

    Items count through the epochs: number `epoch · n + i` is example i as it is in that epoch.

    Args:
      encode_epoch: epoch -> the split as it is then: a pure function.
    """

    def __init__(self, encode_epoch: Callable[[int], EncodedSplit]) -> None:
        self._epochs = KeptEpochs(encode_epoch)
        self._number = len(self._epochs[0].item_lengths)

    @property
    def first(self) -> EncodedSplit:
        """The split as it is in the first epoch."""
        return self._epochs[0]

    def item(self, index: int) -> dict[str, Arrays]:
        """The arrays of one item: views, nothing is copied."""
        epoch, example = divmod(index, self._number)
        return self._epochs[epoch].item(example)

    def item_lengths(self, epoch: int) -> Int[np.ndarray, "n s"]:
        """Positions of the items of an epoch."""
        return self._epochs[epoch].item_lengths


def _encode_all(
    examples: Sequence[Example], encode: Encode, samples: np.ndarray | None
) -> list[Encoded]:
    if samples is None:
        return [encode(example) for example in examples]
    pairs = zip(examples, samples.tolist(), strict=True)
    return [encode(example, sample=sample) for example, sample in pairs]


def _flat(encoded: Sequence[Encoded], stream: str, limit: int | None) -> Arrays:
    names = encoded[0].get(stream, {}) if encoded else {}
    return {name: np.concatenate([one[stream][name][:limit] for one in encoded]) for name in names}


def _piece_bounds(ends: np.ndarray, max_length: int) -> Int[np.ndarray, "m 2"]:
    """Where pieces begin and end among all entries of a stream."""
    pieces = piece_items(np.diff(ends), max_length)
    return ends[pieces[:, 0]][:, None] + pieces[:, 1:]
