"""The decoder around every variant: nothing of the future shows, and steps give the full pass."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from support.transformers import (
    DIM,
    MAX_LENGTH,
    compiled,
    jiggle,
    make_config,
    make_factory,
    make_transformer,
    rows,
)

from attention import positions, variants
from attention.errors import UserError
from attention.models.decoder import Decoder, Memory

BASE = ("additive", "rnn")  # one with a cache of keys, one with a state
LENGTH = 8


def names(*modes: str, base: tuple[str, ...] = BASE):
    """Returns the variants that have all these modes; all but two are slow."""
    found = [name for name in variants.names() if set(modes) <= variants.get(name).MODES]
    return [n if n in base else pytest.param(n, marks=pytest.mark.slow) for n in found]


def make_decoder(name="scaled_dot", cross="scaled_dot", **settings) -> Decoder:
    config = make_config(**settings)
    inner = config.position if positions.place(config.position) == "attention" else None
    decoder = Decoder(
        config,
        make_factory(name, config, causal=True, inner=inner),
        make_factory(cross, config),
        rngs=nnx.Rngs(0),
    )
    jiggle(decoder)
    return decoder


def make_memory(batch=2, length=6) -> Memory:
    """Returns a memory of one example a row, the first row's shorter than the others'."""
    states = np.random.default_rng(3).normal(size=(batch, length, DIM)).astype(np.float32)
    ids = np.ones((batch, length), np.int32)
    ids[0, 4:] = 0
    return Memory(jnp.asarray(states), jnp.asarray(ids))


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def step_by_step(model, source, inputs):
    """Returns the logits [b t v] of one step after the other, and the last state."""
    step = compiled(model, "step")
    memory, logits = compiled(model, "encode")(source), []
    state = jax.jit(lambda memory: model.start(memory, inputs.shape[1]))(memory)
    assert all(leaf.shape[0] == len(source) for leaf in jax.tree.leaves(state))
    for tokens in inputs.T:
        out, state = step(memory, state, tokens)
        logits.append(out)
    return np.stack(logits, 1), state


def check_steps(**places):
    """Steps give what the full pass gives, in a batch whose sources differ in length."""
    model = make_transformer(**places)
    tokens = np.random.default_rng(1).integers(4, 19, (2, 3, LENGTH))
    source, inputs = tokens
    source[0, 3:] = 0
    source[1] = 0  # a blank line
    want = compiled(model)(source, inputs)
    got, _ = step_by_step(model, source, inputs)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", names("causal", "decode"))
def test_steps_are_the_full_pass_for_self_attention(name):
    check_steps(decoder=name)


@pytest.mark.parametrize("name", names("cross", base=("additive", "differential")))
def test_steps_are_the_full_pass_for_cross_attention(name):
    check_steps(cross=name)


@pytest.mark.parametrize(
    "settings",
    [
        {"position": "floater", "norm": "post", "position_merge": "concat"},
        {"position": "rope", "tied": "none"},
        pytest.param({"position": "alibi", "norm": "post"}, marks=pytest.mark.slow),
        pytest.param({"position": "t5", "tied": "output"}, marks=pytest.mark.slow),
        pytest.param({"position": "learned", "position_merge": "concat"}, marks=pytest.mark.slow),
        pytest.param({"position": "shaw"}, marks=pytest.mark.slow),
    ],
)
def test_steps_are_the_full_pass_for_positions_norms_and_ties(settings):
    check_steps(num_layers=2, **settings)


@pytest.mark.parametrize("name", names("causal"))
def test_logits_know_nothing_of_later_inputs(name):
    """Case 14, and the same of every other row and of every norm."""
    model = make_transformer(decoder=name)
    batch = rows([(0, 1), (2,)], 12)
    run = compiled(model)
    logits = np.asarray(run(**batch))
    for row, t in ((0, 2), (0, 6), (1, 1)):
        other = {**batch, "inputs": batch["inputs"].copy()}
        other["inputs"][row, t] = 4 + (other["inputs"][row, t] - 3) % 15
        changed = np.asarray(run(**other)) != logits
        segment = batch["target_segment_ids"][row]
        own = (segment == segment[t]) & (np.arange(12) >= t)
        assert np.all(changed[row, t]), "what was changed counts where it stands"
        assert not np.any(changed[row, ~own]) and not np.any(changed[1 - row])


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("name", names("causal"))
def test_the_jacobian_is_lower_triangular(name, norm):
    decoder = make_decoder(name, norm=norm)
    memory = make_memory(1)
    ids = np.ones((1, LENGTH), np.int32)
    graphdef, state = nnx.split(decoder)

    def outputs(x):
        y = nnx.merge(graphdef, state)(x[None], memory, segment_ids=ids)[0]
        return y @ jnp.linspace(1.0, 2.0, DIM)  # the plain sum of normed features is a constant

    sensitivity = np.abs(jax.jit(jax.jacrev(outputs))(random(LENGTH, DIM))).max(-1)
    assert np.all(np.triu(sensitivity, 1) == 0.0)
    assert np.all(np.diag(sensitivity) > 0.0)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_block_is_the_formula(norm):
    decoder = make_decoder(norm=norm, position="none")
    x, memory = random(2, 5, DIM), make_memory()
    ids = np.ones((2, 5), np.int32)
    block = decoder.blocks[0]

    def to_self(x):
        return block.self_attention(x, segment_ids=ids)

    def to_memory(x):
        return block.cross_attention(
            x,
            context=memory.states,
            segment_ids=ids,
            context_segment_ids=memory.segment_ids,
        )

    want = x
    for sublayer, own in (
        (to_self, block.self_attention_norm),
        (to_memory, block.cross_attention_norm),
        (block.mlp, block.mlp_norm),
    ):
        want = want + sublayer(own(want)) if norm == "pre" else own(want + sublayer(want))
    want = decoder.norm(want) if norm == "pre" else want
    np.testing.assert_allclose(decoder(x, memory, segment_ids=ids), want, rtol=0, atol=1e-5)


@pytest.mark.fast
def test_alignments_are_the_weights_of_the_last_attention_to_the_memory():
    decoder, memory = make_decoder(num_layers=2), make_memory()
    x, ids = random(2, 5, DIM), np.ones((2, 5), np.int32)
    ids[1, 3:] = 0
    last = decoder.blocks[1]
    layer, asked = last.cross_attention, []

    def recording(x, **given):
        asked.append(layer.weights(x, **{k: v for k, v in given.items() if k != "rngs"}))
        return layer(x, **given)

    last.cross_attention = recording
    decoder(x, memory, segment_ids=ids)
    last.cross_attention = layer
    found = decoder.alignments(x, memory, segment_ids=ids)
    np.testing.assert_array_equal(found, asked[0])
    np.testing.assert_allclose(found[0].sum(-1), 1.0, rtol=1e-5)
    assert not found[0, :, :, 4:].any(), "the first row's memory ends there"
    assert not found[1, :, 3:].any(), "padding asks for nothing"


@pytest.mark.fast
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_dropout_acts_on_what_a_sublayer_adds(norm):
    block = make_decoder(norm=norm, dropout_rate=0.5).blocks[0]
    x, y = random(2, 50, DIM), random(2, 50, DIM, seed=1)
    got = block.after(x, y, lambda x: x, nnx.Rngs(dropout=0))
    dropped, kept = np.isclose(got, x), np.isclose(got, x + 2.0 * y, rtol=1e-5, atol=1e-6)
    assert np.all(dropped | kept) and abs(dropped.mean() - 0.5) < 0.05


@pytest.mark.fast
def test_each_place_counts_its_layers_from_zero():
    """What depends on depth (differential's λ₀) gets it right."""
    seen = []

    def recording(place, causal):
        make = make_factory("differential", make_config(), causal=causal)

        def factory(index, rngs):
            seen.append((place, index))
            return make(index, rngs)

        return factory

    decoder = Decoder(
        make_config(num_layers=3),
        recording("self", True),
        recording("cross", False),
        rngs=nnx.Rngs(0),
    )
    assert sorted(seen) == [(place, i) for place in ("cross", "self") for i in range(3)]
    for i, block in enumerate(decoder.blocks):
        assert block.self_attention.settings.layer_index == i
        assert block.cross_attention.settings.layer_index == i


def test_beams_reorder_by_indexing():
    model = make_transformer()
    tokens = np.random.default_rng(1).integers(4, 19, (2, 3, 5))
    want = compiled(model)(tokens[0], tokens[1])
    memory = compiled(model, "encode")(tokens[0])
    state = model.start(memory, 5)
    step = compiled(model, "step")
    for t in range(4):
        _, state = step(memory, state, tokens[1][:, t])
    order = np.array([2, 2, 0])
    memory, state = jax.tree.map(lambda leaf: leaf[order], (memory, state))
    logits, _ = step(memory, state, tokens[1][order, 4])
    np.testing.assert_allclose(logits, want[order, 4], rtol=0, atol=1e-5)


@pytest.mark.fast
def test_decoding_past_the_end_is_refused():
    decoder, memory = make_decoder(), make_memory()
    state = decoder.start(memory, 2)
    for _ in range(2):
        _, state = decoder.step(random(2, 1, DIM), memory, state)
    with pytest.raises(UserError, match="max_length=2"):
        decoder.step(random(2, 1, DIM), memory, state)


@pytest.mark.fast
@pytest.mark.parametrize("position", ["learned", "floater"])
def test_a_table_of_positions_that_ends_before_is_refused_at_the_start(position):
    decoder, memory = make_decoder(position=position), make_memory()
    decoder.start(memory, MAX_LENGTH)
    with pytest.raises(UserError, match=rf"'{position}', 15: raise data\.max_length"):
        jax.jit(lambda memory: decoder.start(memory, MAX_LENGTH + 1))(memory)
