"""Attention in blocks of queries: equal to one piece, and linear in memory."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention import variants

B, T, N, K, H = 2, 37, 4, 2, 8
GIGABYTE = 10**9


def random(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def inputs():
    return random(B, T, N, H), random(B, T, K, H, seed=1), random(B, T, K, H, seed=2)


def results(arrays, *, name="scaled_dot", **given):
    def loss(arrays):
        return jnp.sum(jnp.sin(variants.get(name).attend(*arrays, **given)))

    return jax.jit(jax.value_and_grad(loss))(arrays)


MASK = np.random.default_rng(3).random((B, N, T, T)) < 0.8
IDS = np.sort(np.random.default_rng(4).integers(0, 4, (B, T)), axis=1)
CONDITIONS = {
    "nothing": {},
    "causal": {"causal": True},
    "mask": {"mask": MASK},
    "mask of heads": {"mask": MASK[:1, :, :1]},
    "mask of queries": {"mask": MASK[:, :1, :, :1]},
    "segments": {"segment_ids": IDS, "causal": True},
    "offset": {"causal": True, "query_offset": np.array([3, 0])},
}


# 4: three stages of a written-out loop each with a compiled one; 37: one block of everything.
@pytest.mark.parametrize("block_size", [4, 16, 37])
@pytest.mark.parametrize("given", CONDITIONS)
def test_blocks_give_what_one_piece_gives(given, block_size):
    conditions = CONDITIONS[given]
    want = results(inputs(), implementation="plain", **conditions)
    got = results(inputs(), implementation="chunked", block_size=block_size, **conditions)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=5e-6)


def own_arrays(name: str) -> dict:
    arrays = {"additive": {"score_vector": random(8, 64)}, "sink": {"sink": random(8)}}
    return arrays.get(name, {})


def temporary_bytes(length: int, name: str, **given) -> int:
    """What the compiled forward and backward pass needs besides inputs and outputs."""
    shapes = [jax.ShapeDtypeStruct((1, length, 8, 64), jnp.float32)] * 3

    def loss(q, k, v, own):
        attend = variants.get(name).attend
        return jnp.sum(attend(q, k, v, implementation="chunked", **own, **given))

    own = own_arrays(name)
    if given.pop("segmented", False):
        given["segment_ids"] = np.repeat(np.arange(1, 5), length // 4)[None].astype(np.int32)
    if given.pop("sloped", False):
        own["slopes"] = random(8)
    if given.pop("bucketed", False):
        own["bias_table"] = random(32, 8)
    if given.pop("tabled", False):
        own |= {"key_table": random(33, 64), "value_table": random(33, 64)}
    compiled = jax.jit(jax.grad(loss, argnums=(0, 1, 2))).lower(*shapes, own).compile()
    return compiled.memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("scaled_dot", {}),
        ("scaled_dot", {"causal": True, "segmented": True}),
        ("scaled_dot", {"sloped": True}),
        ("scaled_dot", {"bucketed": True, "causal": True}),
        ("scaled_dot", {"tabled": True}),
        ("additive", {}),
        ("entmax15", {}),
        ("sigmoid", {"causal": True}),
        ("sink", {"softcap": 20.0}),
    ],
    ids=str,
)
def test_memory_is_linear_in_the_length(name, given):
    """At 8,192 tokens one head's scores are 268 MB, all eight's 2.1 GB, and several are needed."""
    long = temporary_bytes(8192, name, **given)
    short = temporary_bytes(4096, name, **given)
    assert long < 2 * GIGABYTE
    assert long < 2.3 * short


@pytest.mark.parametrize("block_size", [8, 2])
def test_dropout_is_drawn_anew_for_each_block_head_and_row(block_size):
    """Keys that all weigh the same: what is dropped shows in the result."""
    rate, dim = 0.5, 32
    given = {"dim": dim, "num_heads": N, "dropout_rate": rate, "rngs": nnx.Rngs(0)}
    layer = variants.make("scaled_dot", implementation="chunked", block_size=block_size, **given)
    layer.query.kernel[...] = jnp.zeros_like(layer.query.kernel[...])
    layer.value.kernel[...] = jnp.zeros_like(layer.value.kernel[...])
    layer.value.bias[...] = jnp.ones_like(layer.value.bias[...])
    layer.out.kernel[...] = jnp.eye(dim)
    x = random(B, 32, dim)
    y = np.asarray(layer(x, rngs=nnx.Rngs(dropout=1)))[..., :: dim // N]  # [b t n]
    assert len(np.unique(np.round(y, 5).reshape(-1, 32), axis=0)) == B * N * 32 // 32
    assert abs(y.mean() - 1.0) < 0.06
    again = np.asarray(layer(x, rngs=nnx.Rngs(dropout=1)))[..., :: dim // N]
    np.testing.assert_array_equal(y, again)
    rows = y.transpose(0, 2, 1).reshape(-1)
    shares = np.bincount(np.round(rows * 32 * (1 - rate)).astype(int), minlength=33)
    assert shares.max() < 0.3 * len(rows), "each query drops keys of its own"
