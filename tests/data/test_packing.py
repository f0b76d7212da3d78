"""Packing: rows that hold what they should, and are full."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.data.packing import best_fit, bucket_lengths, round_up, rows_per_batch
from attention.errors import UserError

pytestmark = pytest.mark.fast


def test_an_item_goes_into_the_tightest_row():
    #  6 opens row 0 (4 free), 7 opens row 1 (3 free), 3 fits both: row 1 is tighter.
    assert best_fit([6, 7, 3, 4, 10, 1], 10) == [(0, 3), (1, 2), (4,), (5,)]
    assert best_fit([5, 0, 5, 0], 5) == [(0, 1), (2, 3)]
    assert best_fit([], 5) == []
    with pytest.raises(ValueError, match="6 positions does not fit rows of 5"):
        best_fit([6], 5)


@given(st.lists(st.integers(0, 30), max_size=80))
def test_no_item_is_lost_or_repeated_and_no_row_overflows(lengths):
    rows = best_fit(lengths, 30)
    assert sorted(item for row in rows for item in row) == list(range(len(lengths)))
    assert all(len(row) > 0 and sum(lengths[i] for i in row) <= 30 for row in rows)
    # At most one row can be half empty: else an item of one would have gone into the other.
    assert sum(sum(lengths[i] for i in row) * 2 <= 30 and any(lengths[i] for i in row)
               for row in rows) <= 1  # fmt: skip


def test_rows_of_sentence_like_items_are_nearly_full():
    lengths = np.random.default_rng(0).geometric(1 / 16, 4000).clip(max=128)
    rows = best_fit(lengths.tolist(), 128)
    assert lengths.sum() / (len(rows) * 128) > 0.98


@pytest.mark.parametrize("max_length", [1, 7, 8, 9, 64, 65, 100, 128, 129, 256, 1000])
def test_buckets_end_at_the_longest_and_stay_few(max_length):
    buckets = bucket_lengths(max_length)
    assert buckets[-1] == max_length
    assert list(buckets) == sorted(set(buckets))
    assert len(buckets) <= 10
    # No item above 8 positions is padded to more than twice its length.
    lengths = np.arange(8, max_length + 1)
    assert (np.asarray(buckets)[np.searchsorted(buckets, lengths)] <= 2 * lengths).all()


def test_rows_per_batch():
    assert rows_per_batch(128, rows=6, tokens=None, multiple_of=3) == 6
    assert rows_per_batch(128, rows=None, tokens=1000, multiple_of=1) == 7
    assert rows_per_batch(128, rows=None, tokens=1000, multiple_of=4) == 4
    # A row longer than the tokens asked for still gets a place on every device.
    assert rows_per_batch(2048, rows=None, tokens=100, multiple_of=1) == 1
    assert rows_per_batch(2048, rows=None, tokens=100, multiple_of=4) == 4


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ({"rows": 6, "tokens": None}, ["batch_size=6", "4"]),
        ({"rows": 0, "tokens": None}, ["batch_size=0"]),
        ({"rows": None, "tokens": 0}, ["batch_tokens=0"]),
        ({"rows": 4, "tokens": 4}, ["batch_size=4", "batch_tokens=4"]),
        ({"rows": None, "tokens": None}, ["batch_size", "batch_tokens"]),
    ],
)
def test_sizes_that_cannot_be_are_named(sizes, parts):
    with pytest.raises(UserError) as caught:
        rows_per_batch(128, **sizes, multiple_of=4)
    assert all(part in str(caught.value) for part in parts)


@given(st.integers(0, 100), st.integers(1, 20))
def test_round_up(number, multiple):
    rounded = round_up(number, multiple)
    assert rounded % multiple == 0 and number <= rounded < number + multiple
