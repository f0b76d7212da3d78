"""A split as flat arrays by stream, and its items."""

from __future__ import annotations

import numpy as np
import pytest

from attention.data.encoded import EncodedEpochs, EncodedSplit
from attention.data.epochs import samples
from attention.data.streams import Stream, lengths_of, slots_per_row

pytestmark = pytest.mark.fast

EXAMPLES = [{"n": 3}, {"n": 7}, {"n": 0}]
TOKENS = (Stream("tokens"),)
PAIRS = (Stream("source"), Stream("target"), Stream("examples", one_each=True))


def encode(example):
    words = 10 * example["n"] + np.arange(example["n"])
    return {"tokens": {"words": words, "chars": np.stack([words, words], axis=1)}}


def encode_pair(example, sample=0):
    """The target is one longer; a sample is added to each source word."""
    words = 10 * example["n"] + np.arange(example["n"])
    return {
        "source": {"ids": words + sample},
        "target": {"inputs": np.append(-1, words), "labels": np.append(words, -2)},
        "examples": {"label": np.array([example["n"]])},
    }


def test_whole_items_are_cut_at_the_limit():
    split = EncodedSplit(EXAMPLES, encode, streams=TOKENS, max_length=4)
    assert split.item_lengths.tolist() == [[3], [4], [0]]
    assert split.lengths.tolist() == [[3], [7], [0]] and split.longest.tolist() == [3, 7, 0]
    assert split.item(1)["tokens"]["words"].tolist() == [70, 71, 72, 73]
    assert split.item(1)["tokens"]["chars"].shape == (4, 2)
    assert split.size("tokens") == len(split.flat["tokens"]["words"]) == 7
    assert split.tokens_of("tokens", 1) == split.where("tokens", 1) == slice(3, 7)
    assert split.examples is EXAMPLES


def test_pieces_hold_every_token():
    split = EncodedSplit(EXAMPLES, encode, streams=TOKENS, max_length=4, pieces=True)
    assert split.item_lengths.tolist() == [[3], [3], [4], [0]]
    words = [split.item(i)["tokens"]["words"].tolist() for i in range(4)]
    assert words == [[30, 31, 32], [70, 71, 72], [73, 74, 75, 76], []]
    whole = split.flat["tokens"]["words"][split.tokens_of("tokens", 1)]
    assert whole.tolist() == list(range(70, 77))
    assert split.size("tokens") == 10


def test_every_stream_of_tokens_is_cut_and_the_label_stays():
    split = EncodedSplit(EXAMPLES, encode_pair, streams=PAIRS, max_length=4)
    assert split.lengths.tolist() == [[3, 4], [7, 8], [0, 1]]
    assert split.longest.tolist() == [4, 8, 1]
    assert split.item_lengths.tolist() == [[3, 4], [4, 4], [0, 1]]
    item = split.item(1)
    assert item["source"]["ids"].tolist() == [70, 71, 72, 73]
    assert item["target"]["inputs"].tolist() == [-1, 70, 71, 72]
    assert item["target"]["labels"].tolist() == [70, 71, 72, 73]
    assert item["examples"]["label"].tolist() == [7]
    assert split.flat["examples"]["label"].tolist() == [3, 7, 0]
    assert [split.size(stream.name) for stream in PAIRS] == [7, 9, 3]
    assert split.tokens_of("examples", 2) == slice(2, 3)


def test_a_stream_with_one_entry_each_may_be_without_arrays():
    streams = (*TOKENS, Stream("examples", one_each=True))
    split = EncodedSplit(EXAMPLES, encode, streams=streams, max_length=9)
    assert split.flat["examples"] == {} and split.item(0)["examples"] == {}
    assert split.size("examples") == 3 and split.where("examples", 1) == slice(1, 2)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"tokens": {"a": np.zeros(2), "b": np.zeros(3)}}, "'tokens' differ in length.*2.*3"),
        ({"tokens": {}}, "'tokens' .* no array"),
        ({"other": {"a": np.zeros(2)}}, "'tokens' .* no array"),
        (
            {"tokens": {"a": np.zeros(2)}, "examples": {"label": np.zeros(2)}},
            "'examples' has one entry an example.*2",
        ),
    ],
)
def test_what_is_no_example_of_these_streams_is_refused(arrays, message):
    streams = (*TOKENS, Stream("examples", one_each=True))
    with pytest.raises(ValueError, match=message):
        EncodedSplit([0], lambda _: arrays, streams=streams, max_length=4)


def test_pairs_do_not_run_in_pieces():
    with pytest.raises(ValueError, match="pieces"):
        EncodedSplit(EXAMPLES, encode_pair, streams=PAIRS, max_length=4, pieces=True)


def test_each_epoch_has_its_own_encoding_by_number():
    made = []

    def encode_epoch(epoch):
        made.append(epoch)
        numbers = samples(len(EXAMPLES), 5, epoch)
        return EncodedSplit(EXAMPLES, encode_pair, streams=PAIRS, max_length=9, samples=numbers)

    epochs = EncodedEpochs(encode_epoch)
    first = [epochs.item(index)["source"]["ids"] for index in range(6)]
    for index, ids in enumerate(first):
        epoch, example = divmod(index, 3)
        expected = encode_pair(EXAMPLES[example], int(samples(3, 5, epoch)[example]))
        np.testing.assert_array_equal(ids, expected["source"]["ids"])
    assert first[0][0] != first[3][0]
    assert epochs.item_lengths(1).tolist() == [[3, 4], [7, 8], [0, 1]]
    # Two epochs are kept; an earlier one is made again, the same.
    epochs.item(0)
    assert made == [0, 1]
    epochs.item(6)
    np.testing.assert_array_equal(epochs.item(0)["source"]["ids"], first[0])
    assert made == [0, 1, 2, 0]


def test_samples_are_the_same_in_every_numpy_version_and_fit_31_bits():
    numbers = samples(1000, 1, 2, 3)
    assert numbers.tolist() == samples(1000, 1, 2, 3).tolist() != samples(1000, 1, 3, 3).tolist()
    assert numbers.min() >= 0 and 2**30 < numbers.max() < 2**31
    assert samples(3, 0).tolist() == [1367864807, 579362556, 87989972]


def test_rows_hold_an_example_for_four_positions():
    assert slots_per_row(TOKENS, 64) is None
    assert slots_per_row(PAIRS, 64) == 16
    assert slots_per_row(PAIRS, 3) == 1
    assert lengths_of(encode_pair({"n": 2}), PAIRS) == [2, 3, 1]
