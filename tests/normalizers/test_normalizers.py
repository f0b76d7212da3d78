"""Normalizers: their values and gradients, and what hidden keys may not do."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import normalizers as reference

from attention import normalizers
from attention.errors import UserError

pytestmark = pytest.mark.fast

RANDOM = np.random.default_rng(0)
B, N, T, S = SHAPE = (2, 3, 4, 7)
SCORES = (1.5 * RANDOM.normal(size=SHAPE)).astype(np.float32)
COTANGENT = RANDOM.normal(size=SHAPE).astype(np.float32)
SINK = np.array([0.3, -1.0, 2.0], np.float32)

ALPHAS = (1.001, 1.3)  # test_entmax.py has more
CASES = [(name, {}) for name in normalizers.names() if name not in ("sink", "entmax")]
CASES += [("sink", {"sink": SINK}), *(("entmax", {"alpha": alpha}) for alpha in ALPHAS)]
every_normalizer = pytest.mark.parametrize(
    "name, own",
    CASES,
    ids=["-".join(map(str, [n, o.get("alpha", "")])).strip("-") for n, o in CASES],
)


def make_masks():
    """Masks of several shapes; the second query of the first example sees nothing in most."""
    shapes = [(B, 1, 1, S), (1, N, T, S), SHAPE, (B, 1, T, 1)]
    masks = [np.random.default_rng(i).random(shape) < 0.6 for i, shape in enumerate(shapes)]
    masks[1][0, :, 1] = masks[2][0, :, 1] = masks[3][0, :, 1] = False
    masks[3][1] = True
    return [None, *masks]


MASKS = make_masks()
every_mask = pytest.mark.parametrize(
    "mask", MASKS, ids=["x".join(map(str, m.shape)) if m is not None else "none" for m in MASKS]
)


@functools.cache
def compiled(name, alpha):
    """The weights of scores, mask and arrays; the gradient of sum(weights · COTANGENT); and the
    derivative of weights and gradient along a direction, which comes first.

    Each shape of a mask is compiled anew, so that most tests give one of SHAPE.
    """
    options = {} if alpha is None else {"alpha": alpha}

    def weights(scores, visible, arrays):
        return normalizers.get(name).normalize(scores, visible, **arrays, **options)

    def loss(*given):
        return jnp.sum(weights(*given) * COTANGENT)

    def moved(direction, scores, visible, arrays):
        def of_scores(scores):
            return [f(scores, visible, arrays) for f in (weights, jax.grad(loss))]

        return jax.jvp(of_scores, (scores,), (direction,))[1]

    return jax.jit(weights), jax.jit(jax.grad(loss)), jax.jit(moved)


def given(scores, mask, own):
    visible = None if mask is None else jnp.asarray(mask)
    arrays = {key: jnp.asarray(a) for key, a in own.items() if key != "alpha"}
    return jnp.asarray(scores), visible, arrays


def normalize(name, scores, mask, own):
    return compiled(name, own.get("alpha"))[0](*given(scores, mask, own))


def scores_gradient(name, scores, mask, own):
    return compiled(name, own.get("alpha"))[1](*given(scores, mask, own))


def derivatives(name, scores, mask, own, direction):
    """How weights and gradient change along a direction."""
    return compiled(name, own.get("alpha"))[2](jnp.asarray(direction), *given(scores, mask, own))


def expected(name, scores, mask, own):
    """The reference, row by row, in float64."""
    visible = np.broadcast_to(True if mask is None else mask, scores.shape)
    out = np.zeros(scores.shape, np.float64)
    for b, n, t in np.ndindex(scores.shape[:3]):
        seen = np.flatnonzero(visible[b, n, t])
        if seen.size:
            given = {key: np.float64(a[n]) if key == "sink" else a for key, a in own.items()}
            row = np.float64(scores[b, n, t, seen])
            out[b, n, t, seen] = getattr(reference, name)(row, **given)
    return out


def central_differences(f, x, step=1e-5):
    moves = step * np.eye(x.size)
    return np.array([f(x + move) - f(x - move) for move in moves]) / (2 * step)


def expected_gradient(name, scores, mask, own):
    """Of sum(weights · COTANGENT), from the reference: a row depends on its own scores only."""
    out = np.zeros(SHAPE)
    for index in np.ndindex(SHAPE[:3]):
        row = tuple(slice(i, i + 1) for i in index)
        seen = None if mask is None else np.broadcast_to(mask, SHAPE)[row]
        own_row = {k: a[index[1] : index[1] + 1] if k == "sink" else a for k, a in own.items()}

        def loss(x, row=row, seen=seen, own_row=own_row):
            weights = expected(name, x[None, None, None], seen, own_row)
            return np.sum(weights * COTANGENT[row])

        out[index] = central_differences(loss, np.float64(scores[index]))
    return out


def test_names():
    assert {name for name, _ in CASES} == set(normalizers.names())
    for name, own in CASES:
        part = normalizers.get(name)
        assert {*(array.name for array in part.ARRAYS), *part.OPTIONS} == set(own)
    with pytest.raises(UserError, match=r"model\.attention\.normalizer.*did you mean 'sparsemax'"):
        normalizers.get("sparsmax")


@every_mask
@every_normalizer
def test_equals_the_reference(name, own, mask):
    got = normalize(name, SCORES, mask, own)
    np.testing.assert_allclose(got, expected(name, SCORES, mask, own), rtol=0, atol=5e-7)
    if mask is not None:
        assert np.all(np.asarray(got)[~np.broadcast_to(mask, SHAPE)] == 0.0)


@every_normalizer
def test_gradients_are_the_reference_s(name, own):
    mask = MASKS[3]
    got = np.asarray(scores_gradient(name, SCORES, mask, own))
    np.testing.assert_allclose(got, expected_gradient(name, SCORES, mask, own), rtol=0, atol=3e-6)
    assert np.all(got[~np.broadcast_to(mask, SHAPE)] == 0.0)


@pytest.mark.long
@every_normalizer
def test_other_derivatives(name, own):
    mask = MASKS[3]
    direction = COTANGENT[::-1]
    gradient = scores_gradient(name, SCORES, mask, own)
    moved, second = derivatives(name, SCORES, mask, own, direction)
    np.testing.assert_allclose(np.sum(moved * COTANGENT), np.sum(gradient * direction), atol=1e-5)
    assert np.all(np.isfinite(second))
    # Where no key enters or leaves the support, so that the gradient does not jump.
    beside = [SCORES + e * direction for e in (1e-2, -1e-2)]
    supports = [np.asarray(normalize(name, scores, mask, own)) > 0.0 for scores in beside]
    steady = np.all(supports[0] == supports[1], axis=-1)
    assert steady.mean() > 0.5
    up, down = [scores_gradient(name, scores, mask, own) for scores in beside]
    want = (up - down)[steady] / 2e-2
    np.testing.assert_allclose(second[steady], want, rtol=0.02, atol=0.02)


def test_gradient_of_the_sink():
    mask = MASKS[3]

    def loss(sink):
        return np.sum(expected("sink", SCORES, mask, {"sink": sink}) * COTANGENT)

    @jax.jit
    def gradient(sink):
        def ours(sink):
            return jnp.sum(normalize("sink", SCORES, mask, {"sink": sink}) * COTANGENT)

        return jax.grad(ours)(sink)

    got = gradient(SINK)
    np.testing.assert_allclose(got, central_differences(loss, SINK), rtol=0, atol=3e-6)
    direction = np.array([1.0, -2.0, 0.5], np.float32)
    _, second = jax.jvp(gradient, (SINK,), (direction,))
    up, down = [gradient(SINK + e * direction) for e in (1e-2, -1e-2)]
    np.testing.assert_allclose(second, (up - down) / 2e-2, rtol=0, atol=1e-3)
    edges = gradient(jnp.array([-jnp.inf, 1e4, -1e4]))
    np.testing.assert_array_equal(edges, 0.0)


@pytest.mark.parametrize("hidden", [np.inf, -np.inf, np.nan, 3e38, -3e38])
@every_normalizer
def test_hidden_scores_do_not_matter(name, own, hidden):
    mask = MASKS[3]
    extreme = np.where(mask, SCORES, np.float32(hidden))
    np.testing.assert_array_equal(
        normalize(name, extreme, mask, own), normalize(name, SCORES, mask, own)
    )
    gradient = np.asarray(scores_gradient(name, extreme, mask, own))
    np.testing.assert_array_equal(gradient, scores_gradient(name, SCORES, mask, own))
    assert np.all(gradient[~mask] == 0.0)


@every_normalizer
def test_a_query_that_sees_nothing(name, own):
    mask = np.zeros(SHAPE, bool)
    np.testing.assert_array_equal(normalize(name, SCORES, mask, own), 0.0)
    np.testing.assert_array_equal(scores_gradient(name, SCORES, mask, own), 0.0)
    for moved in derivatives(name, SCORES, mask, own, COTANGENT):
        np.testing.assert_array_equal(moved, 0.0)


@every_normalizer
def test_a_visible_nan_is_not_hidden(name, own):
    scores = SCORES.copy()
    scores[1, 1, 1, 1] = np.nan
    assert np.isnan(np.asarray(normalize(name, scores, None, own))[1, 1, 1, 1])


@every_normalizer
def test_large_scores_equal_scores_and_one_key(name, own):
    rows = {
        "large": 1e4 * SCORES[0, 0, 0],
        "both signs": np.array([1e4, -1e4, 1e4, 0, -1, 1, 2], np.float32),
        "near ties": np.float32(1e4) + SCORES[0, 0, 1],
        "equal": np.full(S, 1e4, np.float32),
        "equal and low": np.full(S, -1e4, np.float32),
        "zeros": np.zeros(S, np.float32),
        "negative zeros": np.full(S, -0.0, np.float32),
        "small": np.float32(1e-20) * SCORES[0, 0, 2],
    }
    scores = np.broadcast_to(np.stack([*rows.values()]).reshape(B, 1, T, S), SHAPE)
    alone = np.broadcast_to(np.arange(S) == 3, SHAPE)
    for mask in (np.ones(SHAPE, bool), alone):
        want = expected(name, scores, mask, own)
        got = normalize(name, scores, mask, own)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=5e-7)
        assert np.all(np.isfinite(scores_gradient(name, scores, mask, own)))


@every_normalizer
def test_jit_keeps_shape_type_and_values(name, own):
    got = normalize(name, SCORES, MASKS[4], own)
    assert got.shape == SHAPE and got.dtype == jnp.float32
    with jax.disable_jit():
        eager = normalize(name, SCORES, MASKS[4], own)
    np.testing.assert_allclose(got, eager, rtol=0, atol=2e-7)


@every_normalizer
def test_the_backward_pass_keeps_one_array(name, own):
    scores = jnp.asarray(RANDOM.normal(size=(2, 3, 32, 64)).astype(np.float32))
    pull = jax.vjp(lambda s: normalize(name, s, None, own), scores)[1]
    # A constant zero is no memory once the whole step is compiled.
    kept = sum(leaf.nbytes for leaf in jax.tree.leaves(pull) if np.any(leaf))
    assert kept < 1.5 * scores.nbytes, f"{kept / scores.nbytes:.2f} arrays"


def test_sinks_reduce_to_softmax():
    for mask in MASKS:
        none = normalize("sink", SCORES, mask, {"sink": np.full(N, -np.inf, np.float32)})
        np.testing.assert_array_equal(none, normalize("softmax", SCORES, mask, {}))
        zero = normalize("sink", SCORES, mask, {"sink": np.zeros(N, np.float32)})
        np.testing.assert_array_equal(zero, normalize("softmax1", SCORES, mask, {}))


def test_softmax_is_jax_s():
    def derive(f):
        def loss(s):
            return jnp.sum(jnp.sin(3.0 * f(s)))

        return f(SCORES), jax.grad(loss)(SCORES), jax.jvp(f, (SCORES,), (SCORES,))

    ours, theirs = derive(lambda s: normalize("softmax", s, None, {})), derive(jax.nn.softmax)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=3e-7), ours, theirs)


def test_a_sum_too_small_to_divide_by():
    scores = np.full((1, 1, 1, 2), 1e-39, np.float32)
    np.testing.assert_array_equal(normalize("sum", scores, None, {}), 0.0)
    gradient = jax.grad(lambda s: normalize("sum", s, None, {})[0, 0, 0, 0])(scores)
    np.testing.assert_array_equal(gradient, 0.0)
