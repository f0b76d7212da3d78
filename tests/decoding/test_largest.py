"""The largest numbers are those of lax.top_k, in its order."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention.decoding.largest import largest

pytestmark = pytest.mark.fast


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    # Of whole blocks, with a rest, with a rest of one, and too short for blocks.
    size=st.sampled_from([3, 64, 1280, 1281, 2047]),
    count=st.sampled_from([1, 2, 3]),
    values=st.sampled_from([2, 30, 10**6]),
    share=st.sampled_from([0.0, 0.5, 0.999]),
)
def test_same_as_top_k(seed, size, count, values, share):
    """Few different values make ties; −inf fills a share of the row."""
    generator = np.random.default_rng(seed)
    row = generator.integers(0, values, (4, size)).astype(np.float32)
    row[generator.random((4, size)) < share] = -np.inf
    for got, want in zip(largest(row, count), jax.lax.top_k(row, count), strict=True):
        np.testing.assert_array_equal(got, want)


def test_ties_between_blocks_go_to_the_left():
    """The second block has the larger maximum, the first one the tie that comes first."""
    row = np.zeros((1, 1280), np.float32)
    row[0, [5, 70, 71, 1279]] = [3.0, 4.0, 3.0, 3.0]
    assert largest(row, 3)[1].tolist() == [[70, 5, 71]]


@pytest.mark.parametrize("place", [0, 63, 64, 1279, 1280, 1282])
def test_the_largest_may_stand_anywhere(place):
    row = np.zeros((1, 1283), np.float32)
    row[0, place] = 1.0
    assert largest(row, 1)[1].tolist() == [[place]]


def test_zeros_of_both_signs_tie():
    assert largest(np.array([[-0.0, 0.0]], np.float32), 1)[1].tolist() == [[0]]
