"""The recurrent encoder-decoder: against a float64 loop, packed, and step by step."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from reference import recurrent_seq2seq as reference

from attention import variants
from attention.errors import UserError
from attention.losses import token_cross_entropy
from attention.models.recurrence import RecurrentConfig
from attention.models.recurrent_seq2seq import RecurrentSeq2Seq

D, N, V, W = 8, 2, 13, 11  # width, heads, target and source vocabulary
KINDS = [
    ("luong", "gru", 2, "additive"),
    ("bahdanau", "lstm", 2, "additive"),
    ("luong", "lstm", 1, None),
    ("bahdanau", "gru", 1, None),
]
# Attention with a state of its own, and that of another score.
OTHERS = [
    ("luong", "gru", 1, "location_sensitive"),
    ("bahdanau", "gru", 1, "monotonic"),
    pytest.param("luong", "lstm", 1, "general", marks=pytest.mark.slow),
    pytest.param("luong", "gru", 1, "dot", marks=pytest.mark.slow),
]
over_kinds = pytest.mark.parametrize(("style", "cell", "num_layers", "attention"), KINDS)
over_all = pytest.mark.parametrize(("style", "cell", "num_layers", "attention"), KINDS + OTHERS)
# Row 0 packs a pair of 4 and 3 tokens and one of 2 and 2; rows 1 and 2 have them alone.
SOURCE = np.array([[4, 5, 6, 4, 7, 8, 0], [4, 5, 6, 4, 0, 0, 0], [7, 8, 0, 0, 0, 0, 0]])
INPUTS = np.array([[2, 9, 5, 2, 12, 0], [2, 9, 5, 0, 0, 0], [2, 12, 0, 0, 0, 0]])
SOURCE_IDS = np.array([[1, 1, 1, 1, 2, 2, 0], [1, 1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0]])
IDS = np.array([[1, 1, 1, 2, 2, 0], [1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0]])
PACKED = {"source_segment_ids": SOURCE_IDS, "target_segment_ids": IDS}


def attention_factory(name, **options):
    def make(layer_index, rngs):
        return variants.make(
            name, dim=D, num_heads=N, layer_index=layer_index, rngs=rngs, **options
        )

    return make if name else None


@functools.cache
def make(style, cell, num_layers, attention, dropout_rate=0.0, dtype="float32", **options):
    config = RecurrentConfig(
        D, num_layers, cell=cell, style=style, dropout_rate=dropout_rate, dtype=dtype
    )
    sizes = {"source_size": W, "target_size": V}
    make_attention = attention_factory(attention, dtype=dtype, **options)
    model = RecurrentSeq2Seq(config, make_attention, **sizes, rngs=nnx.Rngs(0))
    random = np.random.default_rng(1)
    for _, leaf in nnx.to_flat_state(nnx.state(model, nnx.Param)):
        leaf[...] += 0.2 * random.normal(size=leaf.shape).astype(np.float32)
    return model


@functools.cache
def compiled(style, cell, num_layers, attention, method="__call__"):
    graphdef, state = nnx.split(make(style, cell, num_layers, attention))
    return jax.jit(
        lambda *args, **given: getattr(nnx.merge(graphdef, state), method)(*args, **given),
        static_argnames="max_length",
    )


def wide(model):
    state = nnx.to_flat_state(nnx.state(model, nnx.Param))
    return {".".join(map(str, path)): np.asarray(leaf[...], np.float64) for path, leaf in state}


@over_kinds
def test_it_is_the_float64_loop(style, cell, num_layers, attention):
    kind = (style, cell, num_layers, attention)
    parameters, given = wide(make(*kind)), {"style": style, "cell": cell, "num_layers": num_layers}
    given["num_heads"] = N if attention else 0
    got = compiled(*kind)(SOURCE[1:], INPUTS[1:])
    assert got.dtype == jnp.float32
    weights = make(*kind).alignments(SOURCE[1:], INPUTS[1:]) if attention else None
    for row, (s, t) in enumerate(((4, 3), (2, 2))):
        source, inputs = SOURCE[1 + row, :s], INPUTS[1 + row, :t]
        want, aligned = reference.logits(parameters, source, inputs, **given)
        np.testing.assert_allclose(got[row, :t], want, rtol=0, atol=5e-6)
        if weights is not None:
            np.testing.assert_allclose(weights[row, :, :t, :s], aligned, rtol=0, atol=3e-6)


@over_all
def test_packed_rows_give_what_separate_rows_give(style, cell, num_layers, attention):
    run = compiled(style, cell, num_layers, attention)
    y = run(SOURCE, INPUTS, **PACKED)
    np.testing.assert_allclose(y[0, :3], y[1, :3], rtol=0, atol=5e-6)
    np.testing.assert_allclose(y[0, 3:5], y[2, :2], rtol=0, atol=5e-6)
    np.testing.assert_allclose(run(SOURCE[1:], INPUTS[1:])[0, :3], y[1, :3], rtol=0, atol=5e-6)


@over_all
def test_steps_are_the_full_pass(style, cell, num_layers, attention):
    kind, source, inputs = (style, cell, num_layers, attention), SOURCE[1:], INPUTS[1:]
    y = compiled(*kind)(source, inputs)
    memory = compiled(*kind, "encode")(source)
    state = compiled(*kind, "start")(memory, max_length=3)
    step, order = compiled(*kind, "step"), np.array([1, 0])
    assert all(leaf.shape[0] == 2 for leaf in jax.tree.leaves((memory, state)))
    for i in range(3):
        logits, state = step(memory, state, inputs[:, i])
        real = inputs[:, i] > 0
        np.testing.assert_allclose(logits[real], y[real, i], rtol=0, atol=5e-6)
        # Beams change places between steps.
        state, memory = jax.tree.map(lambda leaf: leaf[order], (state, memory))
        inputs, y = inputs[order], y[order]


@over_all
def test_padding_and_the_future_never_show(style, cell, num_layers, attention):
    run = compiled(style, cell, num_layers, attention)
    y = run(SOURCE, INPUTS, **PACKED)
    source = np.where(SOURCE_IDS == 0, 9, SOURCE)
    inputs = np.where(IDS == 0, 9, INPUTS)
    got = run(source, inputs, **PACKED)
    np.testing.assert_array_equal(np.asarray(got)[IDS > 0], np.asarray(y)[IDS > 0])
    longer = (np.pad(a, ((0, 0), (0, 3)), constant_values=c) for a, c in ((source, 9), (inputs, 9)))
    ids = {key: np.pad(value, ((0, 0), (0, 3))) for key, value in PACKED.items()}
    got = run(*longer, **ids)[:, : IDS.shape[1]]
    np.testing.assert_allclose(np.asarray(got)[IDS > 0], np.asarray(y)[IDS > 0], rtol=0, atol=5e-6)
    later = np.where(np.arange(6)[None] == 2, 7, INPUTS)
    got = run(SOURCE, later, **PACKED)
    np.testing.assert_array_equal(got[:, :2], y[:, :2])
    assert np.abs(got[0, 2] - y[0, 2]).max() > 1e-4
    # The other pair of a packed row is another text.
    other = np.where(IDS == 2, 6, INPUTS)
    got = run(np.where(SOURCE_IDS == 2, 3, SOURCE), other, **PACKED)
    np.testing.assert_array_equal(got[0, :3], y[0, :3])


@over_all
def test_gradients_are_slopes(style, cell, num_layers, attention):
    model = make(style, cell, num_layers, attention)
    graphdef, state = nnx.split(model, nnx.Param)
    labels = np.where(IDS > 0, np.roll(INPUTS, -1, axis=1), -1)

    @jax.jit
    @jax.value_and_grad
    def loss(state):
        logits = nnx.merge(graphdef, state)(SOURCE, INPUTS, **PACKED)
        return jnp.sum(token_cross_entropy(logits, labels))

    _, gradients = loss(state)
    random, leaves, structure = np.random.default_rng(3), *jax.tree.flatten(state)
    for index, (path, gradient) in enumerate(jax.tree.leaves_with_path(gradients)):
        assert np.all(np.isfinite(gradient)) and np.any(gradient != 0.0), path
        direction = random.normal(size=gradient.shape).astype(np.float32)
        direction /= np.linalg.norm(direction)
        slopes = []
        for width in (1e-2, 2e-2):
            ends = []
            for sign in (1, -1):
                moved = [
                    leaf + sign * width * direction if i == index else leaf
                    for i, leaf in enumerate(leaves)
                ]
                ends.append(float(loss(jax.tree.unflatten(structure, moved))[0]))
            slopes.append((ends[0] - ends[1]) / (2 * width))
        slope, got = (4 * slopes[0] - slopes[1]) / 3, float(np.sum(gradient * direction))
        assert abs(got - slope) < 0.02 * (float(np.linalg.norm(gradient)) + 0.1), path


@pytest.mark.parametrize(
    ("style", "attention"),
    [("luong", None), ("bahdanau", "additive"), ("luong", "location_sensitive")],
)
def test_an_empty_source_gives_finite_values_and_gradients(style, attention):
    graphdef, state = nnx.split(make(style, "gru", 1, attention), nnx.Param)
    source = np.zeros_like(SOURCE)

    def loss(state):
        logits = nnx.merge(graphdef, state)(source, INPUTS)
        return jnp.sum(jax.nn.log_softmax(logits))

    value, gradients = jax.jit(jax.value_and_grad(loss))(state)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves((value, gradients)))


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[1], OTHERS[0]])
def test_bfloat16_is_near(kind):
    model = make(*kind, dtype="bfloat16")
    nnx.update(model, nnx.state(make(*kind), nnx.Param))
    got = nnx.jit(RecurrentSeq2Seq.__call__)(model, SOURCE, INPUTS, **PACKED)
    want = compiled(*kind)(SOURCE, INPUTS, **PACKED)
    assert got.dtype == jnp.float32
    assert np.abs(got - want)[IDS > 0].max() < 0.03 * np.abs(want).max()


def test_dropout_needs_rngs():
    model, plain = (make("luong", "gru", 2, "additive", dropout_rate=rate) for rate in (0.4, 0.0))
    nnx.update(model, nnx.state(plain, nnx.Param))
    np.testing.assert_array_equal(model(SOURCE, INPUTS), plain(SOURCE, INPUTS))
    outputs = [model(SOURCE, INPUTS, rngs=nnx.Rngs(dropout=seed)) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert np.abs(outputs[0] - outputs[2]).max() > 1e-2


def test_attention_may_draw_at_each_step_of_training():
    """With noise before the sigmoid, and nothing else that is random."""
    model = make("luong", "gru", 1, "monotonic", noise=3.0)
    plain = make("luong", "gru", 1, "monotonic")
    np.testing.assert_array_equal(model(SOURCE, INPUTS), plain(SOURCE, INPUTS))
    first, again, other = (model(SOURCE, INPUTS, rngs=nnx.Rngs(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3
    quiet = plain(SOURCE, INPUTS, rngs=nnx.Rngs(0))
    np.testing.assert_allclose(quiet, plain(SOURCE, INPUTS), rtol=0, atol=5e-6)


def test_what_ties_share():
    config, sizes = RecurrentConfig(D), {"source_size": V, "target_size": V}
    counts = {}
    for tied in ("all", "output", "none"):
        model = RecurrentSeq2Seq(config, None, **sizes, tied_embeddings=tied, rngs=nnx.Rngs(0))
        counts[tied] = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)))
        assert model(SOURCE, INPUTS).shape == (3, 6, V)
    assert counts["output"] - counts["all"] == counts["none"] - counts["output"] == V * D


def test_states_make_the_logits():
    model = make("luong", "gru", 1, "additive")
    states = model.states(SOURCE, INPUTS, **PACKED)
    want = model(SOURCE, INPUTS, **PACKED)
    np.testing.assert_allclose(model.output_embed.logits(states), want, rtol=0, atol=1e-6)


def test_the_source_is_no_part_of_what_the_loop_carries():
    """Keys and values in a cache stay constants of the loop: they are neither copied nor kept."""
    model = make("luong", "gru", 1, "location_sensitive")
    graphdef, state = nnx.split(model)
    long = np.ones((1, 97), np.int32)
    ids = {"source_segment_ids": long, "target_segment_ids": IDS[:1]}
    jaxpr = jax.make_jaxpr(lambda s: nnx.merge(graphdef, s)(long, INPUTS[:1], **ids))(state)
    loops = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "scan"]
    loops = [eqn for eqn in loops if eqn.params["length"] == IDS.shape[1]]
    given_back = [var.aval.shape for eqn in loops for var in eqn.outvars]
    assert (1, N, 97) in given_back, "the alignment is carried"
    assert (1, 97, N, D // N) not in given_back


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dim": 7}, "model.dim=7 must be even"),
        ({"num_layers": 0}, "model.num_layers=0"),
        ({"cell": "gruu"}, "did you mean 'gru'"),
        ({"style": "luongs"}, "did you mean 'luong'"),
        ({"dropout_rate": 1.0}, "dropout_rate=1.0"),
        ({"tied_embeddings": "both"}, "tied_embeddings='both'"),
        ({"tied_embeddings": "all"}, "one vocabulary.*11 ids.*13"),
        ({"pointer": "mixed"}, "one vocabulary.*model.pointer"),
        ({"pointer": "mix"}, "did you mean 'mixed'"),
    ],
)
def test_wrong_options_are_named(change, words):
    own = {"dim": D} | {k: v for k, v in change.items() if k not in ("tied_embeddings", "pointer")}
    rest = {k: v for k, v in change.items() if k not in own}
    with pytest.raises(UserError, match=words):
        RecurrentSeq2Seq(
            RecurrentConfig(**own), None, source_size=W, target_size=V, **rest, rngs=nnx.Rngs(0)
        )


def test_no_alignments_without_attention():
    with pytest.raises(UserError, match="no alignments"):
        make("luong", "gru", 1, None).alignments(SOURCE, INPUTS)
