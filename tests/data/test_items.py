"""Pieces of long examples, and what is said of them."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.data.items import LongWarnings, piece_items, warn_long

pytestmark = pytest.mark.fast

lengths_strategy = st.lists(st.integers(0, 40), max_size=20)


def test_pieces_of_a_long_example_are_of_one_size():
    assert piece_items([3, 11, 0, 10], 5).tolist() == [
        [0, 0, 3],
        [1, 0, 3],
        [1, 3, 7],
        [1, 7, 11],
        [2, 0, 0],
        [3, 0, 5],
        [3, 5, 10],
    ]


@given(lengths_strategy, st.integers(1, 12))
def test_pieces_hold_every_position_once(lengths, max_length):
    items = piece_items(lengths, max_length)
    sizes = items[:, 2] - items[:, 1]
    assert (sizes <= max_length).all()
    held = [(e, p) for e, start, stop in items.tolist() for p in range(start, stop)]
    assert held == [(e, p) for e, length in enumerate(lengths) for p in range(length)]
    assert sorted(set(items[:, 0].tolist())) == list(range(len(lengths)))


def test_no_example_gives_no_item():
    assert piece_items([], 5).shape == (0, 3)


@pytest.mark.parametrize("number", [0, 3, 5, 8])
def test_a_line_for_each_long_example_then_a_total(number, caplog):
    lengths = np.array([5] + [9] * number)
    with caplog.at_level(logging.WARNING):
        found = warn_long(
            lengths,
            5,
            where=lambda i: ("x.conllu", 10 * i),
            consequence="runs in pieces",
            unit="words",
        )
    assert found == number
    assert len(caplog.messages) == min(number, 5) + (number > 5)
    if number:
        assert caplog.messages[0] == "x.conllu:10: 9 words, over data.max_length=5: runs in pieces"
    if number > 5:
        assert caplog.messages[-1].startswith("8 examples in all are over data.max_length=5")


@pytest.mark.parametrize("number", [4, 5, 13])
def test_a_stream_in_chunks_is_warned_of_as_if_it_were_whole(number, caplog):
    lengths = [9] * number + [1] * 3

    def chunks(size):
        caplog.clear()
        warnings = LongWarnings(5, consequence="is truncated", unit="tokens")
        for start in range(0, len(lengths), size):
            found = warnings.report(
                lengths[start : start + size], where=lambda i, at=start: ("stdin", at + i + 1)
            )
            assert found == max(0, min(number - start, size))
        warnings.close()
        assert warnings.total == number
        assert caplog.messages[0].endswith("9 tokens, over data.max_length=5: is truncated")
        return list(caplog.messages)

    with caplog.at_level(logging.WARNING):
        whole = chunks(len(lengths))
        assert len(whole) == min(number, 5) + (number > 5)
        assert chunks(1) == chunks(3) == whole
