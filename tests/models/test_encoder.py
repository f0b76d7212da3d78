"""The encoder: segments, norms, positions, dropout, and what its config refuses."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention import positions, variants
from attention.core.dropout import Rate
from attention.errors import UserError
from attention.models.encoder import ACTIVATIONS, Encoder, EncoderConfig

DIM, LENGTH = 8, 10


def make(causal=False, **settings):
    config = EncoderConfig(
        **{"dim": DIM, "num_layers": 2, "mlp_dim": 12, "max_length": 16, **settings}
    )
    inner = config.position if positions.place(config.position) == "attention" else None

    def make_attention(layer_index, rngs):
        return variants.make(
            "scaled_dot",
            dim=DIM,
            num_heads=2,
            causal=causal,
            position=inner,
            dropout_rate=config.dropout_rate,
            dtype=config.dtype,
            layer_index=layer_index,
            rngs=rngs,
        )

    return Encoder(config, make_attention, rngs=nnx.Rngs(0))


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("position", positions.names())
def test_packed_rows_equal_separate_rows(norm, position):
    encoder = make(norm=norm, position=position)
    x = random(3, LENGTH, DIM)
    x[1, :4], x[2, :5] = x[0, :4], x[0, 4:9]
    ids = np.zeros((3, LENGTH), np.int32)
    ids[0, :4], ids[0, 4:9], ids[1, :4], ids[2, :5] = 1, 2, 1, 1
    y = nnx.jit(encoder)(x, segment_ids=ids)
    np.testing.assert_allclose(y[0, :4], y[1, :4], rtol=0, atol=5e-6)
    np.testing.assert_allclose(y[0, 4:9], y[2, :5], rtol=0, atol=5e-6)
    alone = encoder(x[2:, :5])
    np.testing.assert_allclose(alone, y[2:, :5], rtol=0, atol=5e-6)


@pytest.mark.fast
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_causal_encoder_sees_no_future(norm):
    encoder = make(causal=True, norm=norm)
    x = random(1, LENGTH, DIM)
    run = nnx.jit(encoder)
    later = x.copy()
    later[:, 5:] = 9.0
    np.testing.assert_array_equal(run(later)[:, :5], run(x)[:, :5])
    assert np.abs(run(later)[:, 5:] - run(x)[:, 5:]).max() > 1e-3


@pytest.mark.fast
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_block_is_the_formula(activation):
    encoder = make(num_layers=1, activation=activation, position="none")
    x = random(2, LENGTH, DIM)
    block = encoder.blocks[0]
    hidden = x + block.attention(block.attention_norm(x))
    up = block.mlp.up(block.mlp_norm(hidden))
    want = encoder.norm(hidden + block.mlp.down(ACTIVATIONS[activation](up)))
    np.testing.assert_allclose(encoder(x), want, rtol=0, atol=1e-6)


@pytest.mark.fast
def test_post_norm_ends_normed():
    y = np.asarray(make(norm="post")(random(2, LENGTH, DIM)))
    np.testing.assert_allclose(y.mean(-1), 0.0, atol=1e-5)
    np.testing.assert_allclose(y.var(-1), 1.0, atol=1e-3)


@pytest.mark.fast
def test_dropout_needs_rngs_and_has_one_rate_everywhere():
    encoder, x = make(dropout_rate=0.4), random(2, LENGTH, DIM)
    np.testing.assert_array_equal(encoder(x), make()(x))
    first, second = (encoder(x, rngs=nnx.Rngs(dropout=seed)) for seed in (0, 1))
    assert np.abs(first - second).max() > 1e-2
    # Embedding dropout, and in each block: attention weights and one of each sublayer's output.
    rates = jax.tree.leaves(nnx.state(encoder, Rate))
    assert len(rates) == 1 + 2 * 2 and all(rate == np.float32(0.4) for rate in rates)


@pytest.mark.fast
def test_bfloat16_near_float32():
    x = random(2, LENGTH, DIM)
    wide, narrow = make()(x), make(dtype="bfloat16")(x)
    assert narrow.dtype == jnp.bfloat16
    assert np.abs(np.asarray(narrow, np.float32) - wide).max() < 0.05 * np.abs(wide).max()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"norm": "prex"}, r"model\.norm='prex'.*did you mean 'pre'"),
        ({"activation": "glu"}, r"model\.activation='glu'"),
        ({"num_layers": 0}, r"model\.num_layers=0"),
        ({"position": "rotary"}, "model.position='rotary'"),
        ({"position": "learned", "max_length": None}, "max_length"),
        ({"position_merge": "join"}, r"model\.position_merge='join'.*add, concat"),
        ({"position": "rope", "position_merge": "concat"}, r"model\.position_merge.*'rope'"),
        ({"position": "none", "position_merge": "concat"}, r"model\.position_merge.*'none'"),
        ({"position": None, "position_merge": "concat"}, r"model\.position_merge.*'none'"),
    ],
)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises(UserError, match=words):
        make(**settings)


@pytest.mark.fast
@pytest.mark.parametrize("position", ["sinusoidal", "learned", "floater"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_positions_are_added_or_concatenated(position, dtype):
    x, at = jnp.asarray(random(2, LENGTH, DIM), dtype), jnp.arange(LENGTH)[None] + 3
    for merge in ("add", "concat"):
        encoder = make(position=position, position_merge=merge, dtype=dtype)
        vectors = jnp.broadcast_to(encoder.position.vectors(at).astype(dtype), x.shape)
        if merge == "add":
            want = x + vectors
        else:
            assert encoder.merge.kernel.shape == (2 * DIM, DIM)
            want = encoder.merge(jnp.concatenate([x, vectors], axis=-1))
        # What the blocks make of an input without positions.
        encoder.merge, got = None, encoder(x, positions=at)
        encoder.position = positions.make("none", DIM, rngs=nnx.Rngs(0))
        np.testing.assert_array_equal(got, encoder(want))


@pytest.mark.fast
def test_only_concatenation_has_a_map():
    assert make(position_merge="add").merge is None
    assert make(position_merge="add", position="rope").merge is None
    kernel = make(position_merge="concat").merge.kernel[...]
    assert np.abs(kernel[DIM:]).max() > 0.1  # positions count from the start


@pytest.mark.fast
def test_position_is_a_name_or_a_config():
    config = positions.get("floater").Config(hidden_dim=3)
    encoder = make(position=config)
    assert encoder.position.hidden_kernel.shape == (DIM + 1, 3)
    x = random(2, LENGTH, DIM)
    np.testing.assert_array_equal(make(position=None)(x), make(position="none")(x))


@pytest.mark.fast
def test_parameters_are_float32_and_counted_by_name():
    state = nnx.to_flat_state(nnx.state(make(position="learned", dtype="bfloat16"), nnx.Param))
    assert {path[-1] for path, _ in state} == {"kernel", "bias", "scale", "embedding"}
    assert all(leaf[...].dtype == jnp.float32 for _, leaf in state)
    kernels = sum(leaf[...].size for path, leaf in state if path[-1] == "kernel")
    assert kernels == 2 * (4 * DIM * DIM + 2 * DIM * 12)


def test_gradients_do_not_leak_tracers():
    """Model state passes through jit as an argument; nothing of a trace stays behind."""
    encoder, x = make(dropout_rate=0.1), random(2, LENGTH, DIM)
    graphdef, parameters, rest = nnx.split(encoder, nnx.Param, ...)

    def loss(parameters, key):
        model = nnx.merge(graphdef, parameters, rest)
        return jnp.sum(jnp.square(model(x, rngs=nnx.Rngs(dropout=key))))

    with jax.checking_leaks():
        step = jax.jit(jax.grad(loss))
        for seed in range(2):
            step(parameters, jax.random.key(seed))
    assert np.all(np.isfinite(encoder(x)))
