"""A split as flat arrays, and its items."""

from __future__ import annotations

import numpy as np
import pytest

from attention.data.encoded import EncodedSplit

pytestmark = pytest.mark.fast

EXAMPLES = [{"n": 3}, {"n": 7}, {"n": 0}]


def encode(example):
    words = 10 * example["n"] + np.arange(example["n"])
    return {"words": words, "chars": np.stack([words, words], axis=1)}


def test_whole_items_are_cut_at_the_limit():
    split = EncodedSplit(EXAMPLES, encode, max_length=4, whole=True)
    assert split.item_lengths.tolist() == [3, 4, 0]
    assert split.item(1)["words"].tolist() == [70, 71, 72, 73]
    assert split.item(1)["chars"].shape == (4, 2)
    assert split.num_tokens == 10


def test_pieces_hold_every_token():
    split = EncodedSplit(EXAMPLES, encode, max_length=4, whole=False)
    assert split.item_lengths.tolist() == [3, 3, 4, 0]
    words = [split.item(i)["words"].tolist() for i in range(4)]
    assert words == [[30, 31, 32], [70, 71, 72], [73, 74, 75, 76], []]
    assert split.flat["words"][split.tokens_of(1)].tolist() == list(range(70, 77))


def test_arrays_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="different lengths"):
        EncodedSplit([0], lambda _: {"a": np.zeros(2), "b": np.zeros(3)}, max_length=4, whole=True)
