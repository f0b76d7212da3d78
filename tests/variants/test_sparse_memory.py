"""Sparse variants: what they hold in memory is that of the keys they select."""

import jax
import jax.numpy as jnp
import pytest

from attention import variants

HEADS = 4
LONG = 4096
COSTS = [
    ("sliding_window", {"window": 128}),
    ("dilated", {"window": 128, "dilation": 4}),
    ("strided", {"stride": 64, "causal": True}),
    ("fixed", {"stride": 64, "summary": 4}),
    ("bigbird", {"pattern_block": 64}),
    ("longformer", {"window": 128}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), COSTS, ids=lambda value: str(value))
def test_memory_is_that_of_the_selected_keys(name, options):
    """Forward and backward pass hold less than a quarter of one length² array a head.

    That is the most that any of these patterns selects for a query (bigbird: 8 blocks of 64 keys,
    an eighth of the row, and the whole row for an eighth of the queries) as one float32 array; the
    heads are computed one after the other. Computed under a mask it is 4 such arrays a head.
    """
    square = 4 * LONG * LONG
    selected = temporary_bytes(name, LONG, options)
    assert selected < HEADS * square / 4
    assert temporary_bytes("scaled_dot", LONG, {}, way="plain") > 3 * HEADS * square


@pytest.mark.slow
def test_memory_of_a_window_grows_with_the_length():
    short, long = (temporary_bytes("sliding_window", t, {"window": 64}) for t in (2048, 8192))
    assert long < 4.5 * short


def temporary_bytes(name: str, length: int, options: dict, *, way: str = "chunked") -> int:
    """Returns what the compiled gradient holds besides its arguments and results."""
    attend = variants.get(name).attend

    def loss(q, k, v, ids):
        out = attend(q, k, v, segment_ids=ids, implementation=way, **options)
        return jnp.sum(jnp.sin(out))

    array = jax.ShapeDtypeStruct((1, length, HEADS, 16), jnp.float32)
    ids = jax.ShapeDtypeStruct((1, length), jnp.int32)
    compiled = jax.jit(jax.grad(loss, (0, 1, 2))).lower(array, array, array, ids).compile()
    return compiled.memory_analysis().temp_size_in_bytes
