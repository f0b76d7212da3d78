"""Hashed bits look random: by element, by key, and between neighbours."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from attention.ops.random_bits import hashed_bits

pytestmark = pytest.mark.fast
COUNT = 1 << 16


@pytest.fixture(scope="module")
def streams():
    """Bits [key, element, bit] of eight keys that follow each other."""
    keys = [jax.random.fold_in(jax.random.key(0), step) for step in range(8)]
    words = np.stack([np.asarray(hashed_bits(key, (COUNT,))) for key in keys])
    return np.unpackbits(words.view(np.uint8), bitorder="little").reshape(8, COUNT, 32)


def test_each_bit_is_fair(streams):
    # 6 standard deviations of a fair coin: a false alarm in 10⁹ bits.
    limit = 6 * 0.5 / np.sqrt(COUNT)
    assert np.abs(streams.mean(1) - 0.5).max() < limit


@pytest.mark.parametrize("lag", [1, 2, 64, 256, 4096])
def test_neighbours_are_independent(streams, lag):
    same = (streams[:, lag:] == streams[:, :-lag]).mean(1)
    assert np.abs(same - 0.5).max() < 6 * 0.5 / np.sqrt(COUNT - lag)


def test_keys_are_independent(streams):
    same = (streams[1:] == streams[:-1]).mean(1)
    assert np.abs(same - 0.5).max() < 6 * 0.5 / np.sqrt(COUNT)


def test_keys_do_not_reorder_one_stream():
    first, second = (np.asarray(hashed_bits(jax.random.key(s), (COUNT,))) for s in (1, 2))
    # Two random sets of 2¹⁶ words of 32 bits share one word; the same stream shares all.
    assert len(np.intersect1d(first, second)) < 20


def test_every_axis_counts():
    bits = np.asarray(hashed_bits(jax.random.key(3), (3, 4, 5, 6)))
    assert len(np.unique(bits)) == bits.size
