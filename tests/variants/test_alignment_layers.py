"""The layers that carry an alignment: steps, beams, caches, noise, and what they refuse."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention import variants
from attention.errors import UserError

B, T, S, D, C, N = 3, 6, 7, 8, 10, 2
CASES = [
    ("location_sensitive", ()),
    ("location_sensitive", (("location_input", "cumulative"), ("width", 4))),
    ("monotonic", ()),
    ("monotonic", (("test_mode", "hard"), ("initial_offset", 0.3))),
]
over_cases = pytest.mark.parametrize(("name", "options"), CASES)
over_names = pytest.mark.parametrize("name", ["location_sensitive", "monotonic"])
SHOWN = np.arange(S)[None, None, None] < np.array([3, 5, 7])[:, None, None, None]


@functools.cache
def make(name, options=(), **settings):
    given = {"dim": D, "num_heads": N, "context_dim": C, "rngs": nnx.Rngs(0)}
    layer = variants.make(name, **{**given, **settings}, **dict(options))
    random = np.random.default_rng(1)
    for _, leaf in nnx.to_flat_state(nnx.state(layer, nnx.Param)):
        leaf[...] += 0.3 * random.normal(size=leaf.shape).astype(np.float32)
    return layer


@functools.cache
def compiled(name, options=(), method="__call__"):
    graphdef, state = nnx.split(make(name, options))
    return jax.jit(
        lambda *args, **given: getattr(nnx.merge(graphdef, state), method)(*args, **given)
    )


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@over_cases
def test_steps_and_a_prompt_before_them_are_the_full_pass(name, options):
    x, context = random(B, T, D), random(B, S, C, seed=1)
    y = compiled(name, options)(x, context=context, mask=SHOWN)
    step = compiled(name, options, "decode")
    for prompt in (1, 3):
        cache, outputs = make(name, options).init_cache(B, T, context=context), []
        for start, stop in [(0, prompt), *((i, i + 1) for i in range(prompt, T))]:
            given = {"context": context} if start else {}  # which changes nothing
            out, cache = step(x[:, start:stop], cache, mask=SHOWN, **given)
            outputs.append(out)
        np.testing.assert_allclose(np.concatenate(outputs, axis=1), y, rtol=0, atol=3e-6)


@over_cases
def test_padding_that_the_cache_was_told_of_is_seen_by_no_step(name, options):
    x, context, real = random(B, T, D), random(B, S, C, seed=1), SHOWN[:, 0, 0]
    y = compiled(name, options)(x, context=context, mask=SHOWN)
    for content in (np.float32(9.0), np.nan):
        other = np.where(real[..., None], context, content).astype(np.float32)
        given = {"context": other, "context_segment_ids": real.astype(np.int32)}
        cache = make(name, options).init_cache(B, T, **given)
        out, cache = compiled(name, options, "decode")(x[:, :2], cache)
        after, _ = compiled(name, options, "decode")(x[:, 2:], cache)
        np.testing.assert_allclose(np.concatenate([out, after], 1), y, rtol=0, atol=3e-6)
    with pytest.raises(ValueError, match="context_segment_ids has shape"):
        make(name, options).init_cache(B, T, context=context, context_segment_ids=real[:, :1])


@over_cases
def test_beams_are_indexed(name, options):
    x, context, order = random(B, T, D), random(B, S, C, seed=1), np.array([2, 2, 0])
    y = compiled(name, options)(x, context=context, mask=SHOWN)
    step = compiled(name, options, "decode")
    cache = make(name, options).init_cache(B, T, context=context)
    assert all(leaf.shape[0] == B for leaf in jax.tree.leaves(cache))
    _, cache = step(x[:, :3], cache, mask=SHOWN)
    cache = jax.tree.map(lambda leaf: leaf[order], cache)
    out, _ = step(x[order][:, 3:4], cache, mask=SHOWN[order])
    np.testing.assert_allclose(out[:, 0], y[order, 3], rtol=0, atol=3e-6)


@over_names
def test_past_the_end_of_the_cache(name):
    x, context = random(B, T, D), random(B, S, C, seed=1)
    layer = make(name)
    _, cache = layer.decode(x[:, :2], layer.init_cache(B, 2, context=context))
    with pytest.raises(UserError, match="max_length=2"):
        layer.decode(x[:, 2:3], cache)
    for mask in ({}, {"mask": SHOWN}):
        _, after = compiled(name, (), "decode")(x[:, 2:3], cache, **mask)
        assert not np.any(cache.overflow) and np.all(after.overflow)
        np.testing.assert_array_equal(after.alignment, cache.alignment)


@over_cases
def test_packed_rows_give_what_separate_rows_give(name, options):
    run, x, context = compiled(name, options), random(1, T, D), random(1, S, C, seed=1)
    ids, key_ids = np.array([[1, 1, 2, 2, 2, 0]]), np.array([[1, 1, 1, 1, 2, 2, 0]])
    y = run(x, context=context, segment_ids=ids, context_segment_ids=key_ids)
    for queries, keys in ((slice(0, 2), slice(0, 4)), (slice(2, 5), slice(4, 6))):
        alone = run(x[:, queries], context=context[:, keys])
        np.testing.assert_allclose(alone, y[:, queries], rtol=0, atol=3e-6)


@over_cases
def test_padding_of_the_context_never_shows(name, options):
    run, x, context = compiled(name, options), random(B, T, D), random(B, S, C, seed=1)
    ids = np.ones((B, T), np.int32)
    key_ids = SHOWN[:, 0, 0].astype(np.int32)
    y = run(x, context=context, segment_ids=ids, context_segment_ids=key_ids)
    np.testing.assert_allclose(run(x, context=context, mask=SHOWN), y, rtol=0, atol=3e-6)
    graphdef, state = nnx.split(make(name, options), nnx.Param)

    @jax.jit
    @functools.partial(jax.grad, argnums=(0, 1))
    def gradients(state, context):
        layer = nnx.merge(graphdef, state)
        return jnp.sum(jnp.sin(layer(x, context=context, mask=SHOWN)))

    for content in (9.0, np.nan, np.inf):
        other = np.where(key_ids[..., None] > 0, context, np.float32(content))
        got = run(x, context=other, segment_ids=ids, context_segment_ids=key_ids)
        np.testing.assert_array_equal(got, y)
        of_state, of_context = gradients(state, other)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(of_state))
        assert np.all(np.asarray(of_context)[key_ids == 0] == 0.0)


@over_names
def test_weights_are_those_of_the_call(name):
    layer, x, context = make(name), random(B, T, D), random(B, S, C, seed=1)
    weights = layer.weights(x, context=context, mask=SHOWN)
    assert weights.shape == (B, N, T, S)
    value = layer.value(context).reshape(B, S, N, -1)
    heads = jnp.einsum("bnts,bsnh->btnh", weights, value)
    y = layer.out(heads.reshape(B, T, -1))
    np.testing.assert_allclose(layer(x, context=context, mask=SHOWN), y, rtol=0, atol=3e-6)


@over_names
def test_dropout_needs_rngs_and_leaves_the_alignment_alone(name):
    x, context = random(B, T, D), random(B, S, C, seed=1)
    layer, plain = make(name, dropout_rate=0.5), make(name)
    np.testing.assert_array_equal(layer(x, context=context), plain(x, context=context))
    first, second = (layer(x, context=context, rngs=nnx.Rngs(dropout=seed)) for seed in (0, 1))
    assert np.abs(first - second).max() > 1e-2
    caches = []
    for one, rngs in ((layer, nnx.Rngs(0)), (plain, None)):
        _, cache = one.decode(x[:, :3], one.init_cache(B, T, context=context), rngs=rngs)
        caches.append(cache.alignment)
    np.testing.assert_allclose(*caches, rtol=0, atol=1e-6)


def test_noise_and_soft_weights_are_for_training():
    options = (("noise", 2.0), ("test_mode", "hard"), ("initial_offset", 0.3))
    x, context = random(B, T, D), random(B, S, C, seed=1)
    layer, plain = make("monotonic", options), make("monotonic", options[2:])
    hard = layer.weights(x, context=context)
    assert set(np.unique(hard)) == {0.0, 1.0}
    outputs = [layer(x, context=context, rngs=nnx.Rngs(dropout=seed)) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert np.abs(outputs[0] - outputs[2]).max() > 1e-2
    quiet = make("monotonic", options[1:])
    soft = quiet(x, context=context, rngs=nnx.Rngs(0))
    np.testing.assert_allclose(soft, plain(x, context=context), rtol=0, atol=3e-6)
    assert np.abs(soft - quiet(x, context=context)).max() > 1e-3


@over_names
def test_bfloat16_is_near(name):
    layer, x, context = make(name, dtype="bfloat16"), random(B, T, D), random(B, S, C, seed=1)
    nnx.update(layer, nnx.state(make(name)))
    want = make(name)(x, context=context)
    y = layer(x, context=context)
    assert y.dtype == jnp.bfloat16
    assert np.abs(np.asarray(y, np.float32) - want).max() < 0.03 * np.abs(want).max()


@over_names
def test_it_needs_another_sequence(name):
    layer, x = make(name), random(B, T, D)
    for attempt in (
        lambda: layer(x),
        lambda: layer.weights(x),
        lambda: layer.init_cache(B, T),
    ):
        with pytest.raises(UserError, match=f"{name}.*context="):
            attempt()
    with pytest.raises(UserError, match="batch of 2, and the cache of 3"):
        layer.init_cache(B, T, context=random(2, S, C))
    with pytest.raises(UserError, match=r"\(3, 6\).*\(3, 7\)"):
        cache = layer.init_cache(B, T, context=random(B, S, C))
        layer.decode(x, cache, context=random(B, S - 1, C))
    with pytest.raises(UserError, match="cannot be causal"):
        variants.make(name, dim=D, num_heads=N, causal=True, rngs=nnx.Rngs(0))
    with pytest.raises(UserError, match="rope"):
        variants.make(name, dim=D, num_heads=N, position="rope", rngs=nnx.Rngs(0))


def test_initial_parameters():
    parameters = {
        name: {key: array[...] for key, array in variants.make(
            name, dim=D, num_heads=N, rngs=nnx.Rngs(0)).own.items()}
        for name in ("location_sensitive", "monotonic")
    }  # fmt: skip
    shapes = {key: array.shape for key, array in parameters["location_sensitive"].items()}
    wanted = {"score_vector": (2, 4), "location_filters": (2, 31, 10)}
    assert shapes == {**wanted, "location_matrix": (2, 10, 4)}
    np.testing.assert_allclose(parameters["monotonic"]["score_gain"], 0.5)
    np.testing.assert_allclose(parameters["monotonic"]["score_offset"], -1.0)
