"""Ends: a stream of rows is read once, wherever the run stopped in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.data.ends import Ends

pytestmark = pytest.mark.fast


def test_a_batch_stops_at_an_end_and_the_next_begins_there():
    ends = Ends([7, 10], rows_per_step=3)
    assert [ends.rows_of(step) for step in range(6)] == [
        *((0, 3), (3, 6), (6, 7)),
        *((7, 10), (10, 13), (13, 16)),
    ]
    assert ends.steps == (3, 4)
    assert [ends.reached_by(step) for step in (0, 2, 3, 4, 9)] == [(), (), (7,), (7, 10), (7, 10)]


@given(st.sets(st.integers(1, 60)), st.integers(1, 9))
def test_rows_follow_each_other(rows, rows_per_step):
    ends = Ends(sorted(rows), rows_per_step=rows_per_step)
    spans = [ends.rows_of(step) for step in range(80)]
    assert [start for start, _ in spans] == [0, *(stop for _, stop in spans[:-1])]
    for row, step in zip(ends.rows, ends.steps, strict=True):
        assert spans[step - 1][1] == row
