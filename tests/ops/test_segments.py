"""Positions restart at each segment."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from attention.ops.segments import default_positions, positions_in_segments

pytestmark = pytest.mark.fast


def test_positions_restart():
    ids = jnp.array([[1, 1, 1, 2, 2, 0, 0], [3, 1, 1, 1, 2, 2, 2], [0] * 7])
    want = [[0, 1, 2, 0, 1, 0, 1], [0, 0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 4, 5, 6]]
    np.testing.assert_array_equal(positions_in_segments(ids), want)


def test_without_segments_positions_count_on():
    np.testing.assert_array_equal(default_positions(3, None), [[0, 1, 2]])


def test_one_position():
    np.testing.assert_array_equal(positions_in_segments(jnp.array([[5]])), [[0]])
