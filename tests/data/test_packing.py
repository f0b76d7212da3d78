"""Packing: rows that hold what they should, and are full."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.data.packing import (
    best_fit,
    bucket_lengths,
    check_batch,
    fullest_fit,
    pack_rows,
    round_up,
    rows_per_batch,
)
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


def test_an_item_goes_into_the_fullest_row_with_room_in_each_dimension():
    # (6, 2) leaves (4, 8) of row 0; (5, 9) opens row 1 and leaves (5, 1); (1, 1) fits both, and
    # row 1 is fuller; (4, 2) fits row 0 alone.
    sizes = np.array([(6, 2), (5, 9), (1, 1), (4, 2), (10, 10), (0, 1)])
    assert fullest_fit(sizes, (10, 10)) == [(0, 3, 5), (1, 2), (4,)]
    assert fullest_fit(sizes[:0], (10, 10)) == []
    ones = np.concatenate([sizes, np.ones((6, 1), int)], axis=1)
    assert fullest_fit(ones, (10, 10, 2)) == [(0, 3), (1, 2), (4,), (5,)]


def test_the_fullest_row_is_closed_when_too_many_are_open(monkeypatch):
    monkeypatch.setattr("attention.data.packing.OPEN_ROWS", 2)
    sizes = np.array([(6, 6), (7, 7), (8, 8), (3, 3), (2, 2)])
    # Row 1 was closed for row 2; else it, not row 0, would take (3, 3).
    assert fullest_fit(sizes, (10, 10)) == [(0, 3), (1,), (2, 4)]


def test_one_dimension_is_packed_as_it_always_was():
    lengths = np.random.default_rng(0).integers(0, 31, 300)
    assert pack_rows(lengths[:, None], [30]) == best_fit(lengths.tolist(), 30)
    with pytest.raises(ValueError, match="an item of 31 positions does not fit rows of 30"):
        pack_rows(np.array([[4, 31]]), [31, 30])


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 30)), max_size=300),
    st.integers(1, 5),
)
def test_no_pair_is_lost_or_repeated_and_no_row_overflows(pairs, slots):
    sizes = np.array([(*pair, 1) for pair in pairs], np.int64).reshape(-1, 3)
    capacities = (20, 30, slots)
    rows = pack_rows(sizes, capacities)
    assert sorted(item for row in rows for item in row) == list(range(len(pairs)))
    assert all((sizes[list(row)].sum(axis=0) <= capacities).all() for row in rows)


def test_rows_of_pairs_are_nearly_full():
    random = np.random.default_rng(0)
    source = random.normal(14, 4.5, 8000).clip(3, 60).astype(int)
    target = (source + random.normal(0, 2.5, 8000)).clip(3, 60).astype(int)
    sizes = np.stack([source, target], axis=1)
    rows = pack_rows(sizes, (64, 64))
    assert sizes.sum() / (len(rows) * 128) > 0.93


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


def check(**sizes):
    chosen = {"rows": None, "tokens": None, "max_length": 32, "pack": True, "multiple_of": 1}
    check_batch(**(chosen | {"what": "3 devices × 2 accumulation steps"} | sizes))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"rows": 8}, "batch_size=8 makes 8 rows, .* over 3 devices × 2 .* batch_size to 6 or 12$"),
        ({"rows": 4, "pack": False}, "batch_size=4 makes 4 rows, .* batch_size to 6$"),
        (
            {"tokens": 256},
            r"batch_tokens=256 makes 8 rows of data\.max_length=32, .* over 3 devices × 2 "
            r"accumulation steps: set batch_tokens to 192 or 384$",
        ),
        ({"tokens": 31}, r"batch_tokens=31 is less than one .*data\.max_length=32"),
        ({"tokens": 0, "pack": False}, "batch_tokens=0"),
        ({"rows": 0}, "batch_size=0"),
        ({"rows": 4, "tokens": 4}, "batch_size=4 and batch_tokens=4"),
        ({}, "batch_size=None and batch_tokens=None"),
    ],
)
def test_batches_that_cannot_be_are_named(sizes, message):
    with pytest.raises(UserError, match=message):
        check(multiple_of=6, **sizes)


@pytest.mark.parametrize(
    "sizes",
    [
        {"rows": 12},
        {"rows": 12, "pack": False},
        {"tokens": 6 * 32},
        {"tokens": 6 * 32 + 31},
        {"tokens": 256, "pack": False},  # the rows of each bucket are rounded
        {"tokens": 20, "pack": False},
    ],
)
def test_batches_that_can_be(sizes):
    check(multiple_of=6, **sizes)


@given(st.integers(1, 2000), st.integers(1, 200), st.booleans(), st.integers(1, 9), st.booleans())
def test_what_the_check_lets_by_divides(number, max_length, pack, multiple_of, count_rows):
    size = {"rows": number, "tokens": None} if count_rows else {"rows": None, "tokens": number}
    try:
        check(**size, max_length=max_length, pack=pack, multiple_of=multiple_of)
    except UserError:
        assert pack or count_rows
        return
    for length in (max_length,) if pack else bucket_lengths(max_length):
        rows = rows_per_batch(length, **size, multiple_of=multiple_of)
        assert rows > 0 and rows % multiple_of == 0
        assert not pack or count_rows or rows == number // max_length


@given(st.integers(0, 100), st.integers(1, 20))
def test_round_up(number, multiple):
    rounded = round_up(number, multiple)
    assert rounded % multiple == 0 and number <= rounded < number + multiple
