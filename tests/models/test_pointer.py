"""The copy head, against loops over positions and tokens in float64."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention import variants
from attention.losses import token_cross_entropy
from attention.models import pointer
from attention.models.pointer import PointerHead
from attention.models.recurrence import RecurrentConfig
from attention.models.recurrent_seq2seq import RecurrentSeq2Seq

B, T, S, D, C, V, END = 2, 3, 5, 6, 4, 9, 3
TOKENS = np.array([[4, 5, 4, 4, 8], [7, 7, 5, 0, 0]])  # a token stands in several places
VISIBLE = np.broadcast_to((TOKENS != 0)[:, None], (B, T, S)).copy()
VISIBLE[1, 2] = False
MODES = [("alone", None), ("alone", END), ("mixed", None)]
over_modes = pytest.mark.parametrize(("mode", "end_id"), MODES)


@functools.cache
def make(mode, end_id):
    head = PointerHead(mode, dim=D, context_dim=C, end_id=end_id, rngs=nnx.Rngs(0))
    random = np.random.default_rng(1)
    for _, leaf in nnx.to_flat_state(nnx.state(head, nnx.Param)):
        leaf[...] += random.normal(size=leaf.shape).astype(np.float32)
    return head


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def run(head, x, states, logits, visible=VISIBLE):
    logits = logits if head.gate is not None else None
    return head(x, head.keys(states), TOKENS, logits, visible=visible, size=V)


def expected(head, x, states, logits, end_id):
    """Returns the probability of each token, one position at a time."""
    p = {
        ".".join(path): np.asarray(leaf[...], np.float64)
        for path, leaf in nnx.to_flat_state(nnx.state(head, nnx.Param))
    }
    result = np.zeros((B, T, V))
    for b, i in np.ndindex(B, T):
        places = [
            (TOKENS[b, j], states[b, j] @ p["key.kernel"] + p["key.bias"])
            for j in range(S)
            if VISIBLE[b, i, j]
        ]
        if end_id is not None:
            places.append((end_id, p["end_key"]))
        query = x[b, i] @ p["query.kernel"] + p["query.bias"]
        scores = np.array([p["score_vector"][0] @ np.tanh(query + key) for _, key in places])
        powers = np.exp(scores - scores.max(initial=-np.inf))
        copied = np.zeros(V)
        for (token, _), power in zip(places, powers, strict=True):
            copied[token] += power / powers.sum()
        if head.gate is None:
            result[b, i] = copied
            continue
        generated = np.exp(logits[b, i].astype(np.float64))
        generated /= generated.sum()
        gate = 1 / (1 + np.exp(-(x[b, i] @ p["gate.kernel"] + p["gate.bias"])))
        result[b, i] = gate * generated + (1 - gate) * copied if places else generated
    return result


@over_modes
def test_probabilities(mode, end_id):
    head, given = make(mode, end_id), (random(B, T, D), random(B, S, C, seed=1), random(B, T, V))
    got, want = run(head, *given), expected(head, *given, end_id)
    assert got.shape == (B, T, V) and got.dtype == jnp.float32
    np.testing.assert_allclose(np.exp(got), want, rtol=0, atol=3e-6)
    some = VISIBLE.any(-1) | (end_id is not None) | (mode == "mixed")
    np.testing.assert_allclose(np.exp(got).sum(-1)[some], 1.0, rtol=2e-6)
    assert np.all(np.isfinite(got))


@over_modes
def test_gradients_are_finite_and_are_slopes(mode, end_id):
    head, given = make(mode, end_id), (random(B, T, D), random(B, S, C, seed=1), random(B, T, V))
    labels = np.array([[4, 8, 5], [7, 5, END if end_id else -1]])

    @jax.jit
    @jax.value_and_grad
    def loss(given):
        return jnp.sum(token_cross_entropy(run(head, *given), labels))

    _, gradients = loss(given)
    for index, gradient in enumerate(gradients):
        assert np.all(np.isfinite(gradient))
        direction, ends = random(*gradient.shape, seed=7), []
        for sign in (1, -1):
            moved = list(given)
            moved[index] = given[index] + sign * 1e-2 * direction
            ends.append(float(loss(tuple(moved))[0]))
        slope = (ends[0] - ends[1]) / 2e-2
        assert abs(slope - np.sum(gradient * direction)) < 2e-2 * (np.linalg.norm(gradient) + 0.1)
    if mode == "alone":
        assert np.all(gradients[2] == 0.0)


def test_a_token_without_mass_costs_much_and_breaks_nothing():
    """A label that is nowhere in the source: the loss is finite, and so are all gradients."""
    head, given = make("alone", None), (random(B, T, D), random(B, S, C, seed=1), None)
    labels = np.full((B, T), 6)
    loss, gradients = jax.value_and_grad(
        lambda x: jnp.sum(token_cross_entropy(run(head, x, *given[1:]), labels))
    )(given[0])
    assert np.isfinite(loss) and loss > 80.0 * (B * T - 1)
    assert np.all(np.isfinite(gradients))


def test_mixed_keeps_what_is_all_but_impossible():
    """In probabilities, e^−95 times a half would be 0, and have no slope."""
    logits = np.array([[[0.0, -95.0, -95.0]]], np.float32)
    copied, half = np.array([[[0.0, 0.0, 1e-30]]], np.float32), np.log(np.full((1, 1, 1), 0.5))
    half = half.astype(np.float32)

    def of_token(logits, token):
        return pointer.mixed(logits, copied, generate=half, copy=half)[0, 0, token]

    np.testing.assert_allclose(of_token(logits, 1), np.log(0.5) - 95.0, rtol=1e-6)
    np.testing.assert_allclose(of_token(logits, 2), np.log(0.5) + np.log(1e-30), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(of_token)(logits, 1)[0, 0], [-1, 1, 0], atol=1e-6)


def test_ids_past_the_vocabulary_count_nowhere():
    weights = np.full((1, 1, 3), 1 / 3, np.float32)
    got = pointer.sum_by_token(weights, np.array([[1, 7, 1]]), size=3)
    np.testing.assert_allclose(got[0, 0], [0, 2 / 3, 0], rtol=1e-6)


@over_modes
def test_padding_never_shows(mode, end_id):
    head, given = make(mode, end_id), (random(B, T, D), random(B, S, C, seed=1), random(B, T, V))
    other = np.where((TOKENS != 0)[..., None], given[1], 77.0)
    np.testing.assert_array_equal(run(head, given[0], other, given[2]), run(head, *given))


# -- in a model -----------------------------------------------------------------------------------

SOURCE = np.array([[4, 5, 6, 7, 8], [4, 5, 6, 0, 0], [7, 8, 0, 0, 0]])
INPUTS = np.array([[2, 5, 5, 2, 7], [2, 5, 5, 0, 0], [2, 7, 0, 0, 0]])
SOURCE_IDS = np.array([[1, 1, 1, 2, 2], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]])
IDS = np.array([[1, 1, 1, 2, 2], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]])


@functools.cache
def model(mode, style="luong"):
    def attention(layer_index, rngs):
        return variants.make("additive", dim=8, num_heads=1, rngs=rngs)

    return RecurrentSeq2Seq(
        RecurrentConfig(8, style=style),
        attention,
        source_size=V,
        target_size=V,
        pointer=mode,
        end_id=END,
        rngs=nnx.Rngs(0),
    )


@pytest.mark.parametrize("mode", ["alone", "mixed"])
def test_a_model_that_copies_packs_and_steps(mode):
    one, call = model(mode), nnx.jit(RecurrentSeq2Seq.__call__)
    packed = call(one, SOURCE, INPUTS, source_segment_ids=SOURCE_IDS, target_segment_ids=IDS)
    np.testing.assert_allclose(np.exp(packed).sum(-1)[IDS > 0], 1.0, rtol=1e-5)
    y = call(one, SOURCE[1:], INPUTS[1:])
    np.testing.assert_allclose(packed[0, :3], y[0, :3], rtol=0, atol=2e-5)
    np.testing.assert_allclose(packed[0, 3:], y[1, :2], rtol=0, atol=2e-5)
    memory = one.encode(SOURCE[1:])
    state, step = one.start(memory, 3), nnx.jit(RecurrentSeq2Seq.step)
    assert all(leaf.shape[0] == 2 for leaf in jax.tree.leaves((memory, state)))
    for i in range(3):
        logits, state = step(one, memory, state, INPUTS[1:, i])
        real = INPUTS[1:, i] > 0
        np.testing.assert_allclose(logits[real], y[real, i], rtol=0, atol=2e-5)
    if mode == "alone":
        possible = np.exp(y[0, 0]) > 1e-30
        assert set(np.flatnonzero(possible)) == {END, 4, 5, 6}


def test_states_alone_do_not_make_its_output():
    with pytest.raises(ValueError, match="pointer"):
        model("mixed").states(SOURCE, INPUTS)
