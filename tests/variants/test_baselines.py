"""The recurrent and the convolutional layer, against float64 loops and against flax."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from support.baselines import (
    CASES,
    IDS,
    B,
    D,
    H,
    N,
    T,
    compiled,
    expected,
    make,
    over_cases,
    over_directions,
    over_names,
    random,
    wide,
)

from attention import variants
from attention.core.dropout import Rate


@over_directions
@over_cases
def test_values(name, options, causal):
    run, x = compiled(name, options, causal), random(B, T, D)
    everything = np.ones((B, T), np.int32)
    want = expected(name, options, causal, x, everything)
    np.testing.assert_allclose(run(x), want, rtol=0, atol=3e-6)
    want = expected(name, options, causal, x, IDS)
    np.testing.assert_allclose(run(x, segment_ids=IDS), want, rtol=0, atol=3e-6)


@over_directions
@over_cases
def test_a_mask_hides_what_is_read(name, options, causal):
    run, x = compiled(name, options, causal), random(B, T, D)
    visible = np.random.default_rng(2).random((B, T)) < 0.6
    mask = visible[:, None, None, :]
    for ids in (np.ones((B, T), np.int32), IDS):
        want = expected(name, options, causal, x, ids, visible)
        np.testing.assert_allclose(run(x, segment_ids=ids, mask=mask), want, rtol=0, atol=3e-6)
    one_for_all = expected(name, options, causal, x, IDS, np.tile(visible[:1], (B, 1)))
    got = run(x, segment_ids=IDS, mask=mask[:1])
    np.testing.assert_allclose(got, one_for_all, rtol=0, atol=3e-6)


@over_directions
@pytest.mark.parametrize(("name", "options"), CASES[:4])
def test_gradients_are_central_differences(name, options, causal):
    layer, x = make(name, options, causal), random(B, T, D)
    visible = np.random.default_rng(2).random((B, T)) < 0.8
    graphdef, state = nnx.split(layer, nnx.Param)
    cotangent = random(B, T, D, seed=3)

    @jax.jit
    @functools.partial(jax.grad, argnums=(0, 1))
    def gradient(state, x):
        layer = nnx.merge(graphdef, state)
        y = layer(x, segment_ids=IDS, mask=visible[:, None, None, :])
        return jnp.sum(y * cotangent)

    by_state, by_x = gradient(state, x)
    gradients = {".".join(path): leaf[...] for path, leaf in nnx.to_flat_state(by_state)}
    directions = np.random.default_rng(4)

    def slope(move):
        ends = []
        for step in (1e-5, -1e-5):
            parameters, moved = wide(layer), np.asarray(x, np.float64)
            moved = move(parameters, moved, step)
            y = expected(name, options, causal, moved, IDS, visible, parameters)
            ends.append(np.sum(y * cotangent))
        return (ends[0] - ends[1]) / 2e-5

    for path, found in {**gradients, "x": by_x}.items():
        direction = directions.normal(size=found.shape)

        def move(parameters, moved, step, path=path, direction=direction):
            if path == "x":
                return moved + step * direction
            parameters[path] = parameters[path] + step * direction
            return moved

        got = np.sum(np.asarray(found, np.float64) * direction)
        np.testing.assert_allclose(got, slope(move), rtol=2e-4, atol=2e-4, err_msg=path)
    assert np.all(np.asarray(by_x)[(IDS == 0) | ~visible] == 0.0), "what is not read has no slope"


@over_directions
@over_cases
def test_padding_never_shows(name, options, causal):
    run, x = compiled(name, options, causal), random(B, T, D)
    y, real = np.asarray(run(x, segment_ids=IDS)), IDS != 0
    for filling in (1e6, np.nan):
        other = np.where(real[..., None], x, np.float32(filling))
        np.testing.assert_array_equal(run(other, segment_ids=IDS), y)
    more = np.pad(x, ((0, 0), (0, 6), (0, 0)), constant_values=7.0)
    longer = run(more, segment_ids=np.pad(IDS, ((0, 0), (0, 6))))
    np.testing.assert_allclose(longer[:, :T][real], y[real], rtol=0, atol=2e-6)
    bias = make(name, options, causal).out.bias[...]
    np.testing.assert_allclose(y[~real], np.tile(bias, (np.sum(~real), 1)), rtol=0, atol=0)


@over_names
def test_not_even_a_nan_in_padding_reaches_a_gradient(name):
    graphdef, state = nnx.split(make(name), nnx.Param)
    x = np.where((IDS != 0)[..., None], random(B, T, D), np.float32(np.nan))

    @jax.jit
    @functools.partial(jax.grad, argnums=(0, 1))
    def gradients(state, x):
        return jnp.sum(jnp.sin(nnx.merge(graphdef, state)(x, segment_ids=IDS)))

    for gradient in jax.tree.leaves(gradients(state, x)):
        assert np.all(np.isfinite(gradient))


@over_directions
@over_cases
def test_packed_equals_separate(name, options, causal):
    run, x = compiled(name, options, causal), random(B, T, D)
    y = run(x, segment_ids=IDS)
    for start, stop in ((0, 4), (4, 7)):
        alone = run(x[:1, start:stop])
        np.testing.assert_allclose(alone, y[:1, start:stop], rtol=0, atol=2e-6)


def reach(name, options, causal):
    """Returns which input each output may depend on: [t s] of one row."""
    distance = np.arange(T)[None, :] - np.arange(T)[:, None]
    if name == "rnn":
        return distance <= 0 if causal else np.ones((T, T), bool)
    width = dict(options)["width"]
    first = -(width - 1) if causal else -(width // 2)
    return (distance >= first) & (distance < first + width)


@over_directions
@over_cases
def test_depends_on_what_it_may_see_and_on_nothing_else(name, options, causal):
    run, x = compiled(name, options, causal), random(B, T, D)
    for ids, row in ((np.ones((B, T), np.int32), 2), (IDS, 0)):

        def outputs(one, ids=ids, row=row):
            given = jnp.asarray(x).at[row].set(one)
            return jnp.sum(run(given, segment_ids=ids)[row], axis=-1)

        sensitivity = np.abs(jax.jacrev(outputs)(jnp.asarray(x[row]))).max(-1)
        same = (ids[row][:, None] == ids[row][None, :]) & (ids[row][:, None] != 0)
        np.testing.assert_array_equal(sensitivity > 0.0, same & reach(name, options, causal))


@over_cases
def test_the_future_changes_no_bit(name, options):
    run, x = compiled(name, options, True), random(B, T, D)
    later = x.copy()
    later[:, 5:] = 1e3
    np.testing.assert_array_equal(run(later)[:, :5], run(x)[:, :5])


@over_directions
@pytest.mark.parametrize(("name", "options"), CASES[:3])
def test_bfloat16_is_near(name, options, causal):
    layer = variants.make(
        name, dim=D, num_heads=N, head_dim=H, causal=causal, dtype="bfloat16", rngs=nnx.Rngs(0),
        **dict(options),
    )  # fmt: skip
    nnx.update(layer, nnx.state(make(name, options, causal)))
    x = random(B, T, D)
    want = expected(name, options, causal, x, IDS)
    y = jax.jit(lambda x: layer(x, segment_ids=IDS))(x)
    assert y.dtype == jnp.bfloat16
    assert np.abs(np.asarray(y, np.float64) - want).max() < 0.03 * np.abs(want).max()
    gradient = nnx.grad(lambda layer: jnp.sum(layer(x, segment_ids=IDS).astype(jnp.float32)))
    for leaf in jax.tree.leaves(gradient(layer)):
        assert leaf.dtype == jnp.float32 and np.all(np.isfinite(leaf))
    if causal:
        out, cache = layer.decode(x, layer.init_cache(B, T))
        error = np.abs(np.asarray(out, np.float64) - np.asarray(layer(x), np.float64)).max()
        assert error < 0.03 * np.abs(want).max()
        if name == "rnn":
            assert all(state.dtype == jnp.float32 for state in cache.state)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_the_cell_is_flax_own(cell):
    """A second witness: flax's cell, with the same parameters."""
    layer, x = make("rnn", (("cell", cell),), True), random(B, T, D)
    make_cell = {"gru": nnx.GRUCell, "lstm": nnx.OptimizedLSTMCell}[cell]
    other = make_cell(D, N * H, rngs=nnx.Rngs(0))
    other.dense_i.kernel[...] = layer.input.kernel[...]
    other.dense_h.kernel[...] = layer.recurrent.kernel[0]
    with_bias = other.dense_i if cell == "gru" else other.dense_h
    with_bias.bias[...] = layer.input.bias[...]
    zeros = jnp.zeros((B, N * H))
    carry, steps = (zeros if cell == "gru" else (zeros, zeros)), []
    for i in range(T):
        carry, hidden = other(carry, x[:, i])
        steps.append(hidden)
    want = layer.out(jnp.stack(steps, axis=1))
    np.testing.assert_allclose(layer(x), want, rtol=0, atol=3e-6)


@over_names
def test_dropout_needs_rngs(name):
    layer, x = make(name, dropout_rate=0.4), random(B, T, D)
    np.testing.assert_array_equal(layer(x), make(name)(x))
    first, second = (layer(x, rngs=nnx.Rngs(dropout=seed)) for seed in (0, 1))
    assert np.abs(first - second).max() > 1e-2
    assert [float(rate) for rate in jax.tree.leaves(nnx.state(layer, Rate))] == [np.float32(0.4)]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "options", "kernels"),
    [
        ("rnn", (("cell", "gru"),), {"input.kernel": (D, 36), "recurrent.kernel": (2, 6, 18)}),
        ("rnn", (("cell", "lstm"),), {"input.kernel": (D, 48), "recurrent.kernel": (2, 6, 24)}),
        ("cnn", (("width", 5),), {"taps.kernel": (5 * D, 24)}),
    ],
)
def test_initial_parameters(name, options, kernels):
    sizes = {"dim": D, "num_heads": N, "head_dim": H}
    layer = variants.make(name, **sizes, rngs=nnx.Rngs(0), **dict(options))
    parameters = wide(layer)
    shapes = {path: array.shape for path, array in parameters.items() if "kernel" in path}
    assert shapes == {**kernels, "out.kernel": (N * H, D)}
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(nnx.state(layer)))
    for way in parameters.get("recurrent.kernel", []):
        for square in np.split(way, way.shape[1] // 6, axis=1):
            np.testing.assert_allclose(square @ square.T, np.eye(6), atol=1e-5)
    for path, bias in parameters.items():
        if path == "input.bias" and dict(options)["cell"] == "lstm":
            gates = bias.reshape(2, 4, 6)
            assert np.all(gates[:, 1] == 1.0), "the forget gate begins open"
            bias = gates[:, [0, 2, 3]]
        assert "bias" not in path or np.all(bias == 0.0)
