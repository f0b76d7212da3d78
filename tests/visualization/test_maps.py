"""Effective weights, and Jacobians where a layer has none."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from attention import variants
from attention.models.pooling import Max
from attention.visualization.maps import EFFECTIVE, JACOBIAN, WEIGHTS, jacobian_norm, map_of
from attention.visualization.places import Call, Place

PLACE = Place("encoder-1", "encoder layer 1", "tokens", "tokens")
X = np.random.default_rng(0).normal(size=(2, 7, 8)).astype(np.float32)
IDS = np.array([[1] * 7, [1] * 5 + [0] * 2], np.int32)


def shown(name, x=X, **options):
    layer = variants.make(name, dim=8, num_heads=2, rngs=nnx.Rngs(0), **options)
    given = {"segment_ids": jnp.asarray(IDS), "positions": None, "rngs": None}
    return layer, *map_of(Call(PLACE, layer, (jnp.asarray(x),), given))


def test_kinds():
    for name, kind in (("scaled_dot", WEIGHTS), ("gated", WEIGHTS), ("mla", EFFECTIVE)):
        _, found, values = shown(name)
        assert (found.kind, found.variant, found.note) == (kind, name, "")
        assert values.shape == (2, 2, 7, 7) and values.dtype == jnp.float32
    for name in ("rnn", "cnn"):
        _, found, values = shown(name)
        assert found.kind == JACOBIAN and values.shape == (2, 1, 7, 7)
        assert found.note == (
            f"variant {name!r} has no attention weights: it reads its input in order, and weighs "
            "no key for a query"
        )


def test_the_norm_is_that_of_the_whole_jacobian():
    layer, _, values = shown("rnn")

    def first_row(x):
        return layer(x[None], segment_ids=jnp.asarray(IDS[:1]))[0]

    whole = jax.jacrev(first_row)(jnp.asarray(X[0]))  # [t d s d]
    norms = np.sqrt(np.sum(np.square(whole), axis=(1, 3)))
    np.testing.assert_allclose(values[0, 0], norms, rtol=1e-4, atol=1e-6)


def test_a_convolution_depends_on_its_window_alone():
    _, _, values = shown("cnn", width=3)
    near = np.abs(np.arange(7)[:, None] - np.arange(7)) <= 1
    assert np.array_equal(np.asarray(values[0, 0]) > 0.0, near)


def test_padding_is_not_looked_at():
    _, _, values = shown("cnn")
    assert np.all(values[1, 0, :5, :5].sum(axis=1) > 0.0)
    assert not np.any(values[1, 0, 5:]) and not np.any(values[1, 0, :, 5:])


def test_of_a_maximum_the_norm_counts_the_features_that_a_token_wins():
    x = jnp.asarray([[[3.0, 0.0, 2.0], [1.0, 4.0, 0.0]]])
    call = Call(PLACE, Max(), (x, jnp.ones((1, 2), jnp.int32), 1), {})
    found, values = map_of(call)
    assert found.kind == JACOBIAN and "'max'" in found.note
    np.testing.assert_allclose(values[0, 0], [[np.sqrt(2.0), 1.0]])


def test_of_a_linear_map_the_norm_is_known():
    mix = jnp.asarray([[1.0, -2.0, 0.0], [0.0, 0.5, 3.0]])  # [t s], for each of two features
    values = jacobian_norm(lambda x: jnp.einsum("ts,bsd->btd", mix, x), jnp.ones((1, 3, 2)))
    np.testing.assert_allclose(values[0], np.abs(mix) * np.sqrt(2.0), rtol=1e-6)


def test_bfloat16_is_shown_as_float32():
    _, _, values = shown("cnn", x=X.astype(jnp.bfloat16), dtype="bfloat16")
    assert values.dtype == jnp.float32 and np.all(np.isfinite(values))
