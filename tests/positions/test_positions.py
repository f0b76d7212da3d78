"""Position schemes: closed forms, and what they refuse."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention import positions
from attention.errors import UserError

pytestmark = pytest.mark.fast


def make(name, width=8, max_length=16):
    return positions.make(name, width, max_length=max_length, rngs=nnx.Rngs(0))


def test_names_and_places():
    places = {name: positions.place(name) for name in positions.names()}
    assert places == {
        "none": "nowhere",
        "sinusoidal": "input",
        "learned": "input",
        "rope": "attention",
    }
    with pytest.raises(UserError, match="did you mean 'sinusoidal'"):
        positions.get("sinusodal")


def test_none_changes_nothing():
    x = jnp.ones((2, 3, 8))
    assert make("none").embed(x, jnp.arange(3)[None]) is x


@pytest.mark.parametrize("width", [1, 2, 7, 8])
def test_sinusoidal_is_the_formula(width):
    at = np.array([[0, 1, 5], [3000, 2, 3]])
    got = make("sinusoidal").embed(jnp.zeros((2, 3, width)), jnp.asarray(at))
    for b, t, i in np.ndindex(2, 3, width):
        angle = at[b, t] / 10000 ** (2 * (i // 2) / width)
        want = math.cos(angle) if i % 2 else math.sin(angle)
        # float32 angles: an error of 2⁻²⁴ of the angle.
        assert abs(float(got[b, t, i]) - want) < 1e-6 + at[b, t] * 2.0**-23


def test_sinusoidal_tells_far_positions_apart_in_bfloat16():
    x = jnp.zeros((1, 4096, 64), jnp.bfloat16)
    rows = np.asarray(make("sinusoidal").embed(x, jnp.arange(4096)[None])[0], np.float32)
    assert rows.dtype == np.float32 and len(np.unique(rows, axis=0)) == 4096


def test_learned_adds_its_rows():
    scheme = make("learned")
    at = jnp.array([[0, 15, 3]])
    got = scheme.embed(jnp.ones((1, 3, 8)), at)
    np.testing.assert_array_equal(got[0], 1.0 + scheme.embedding[...][at[0]])


def test_learned_past_its_table():
    scheme = make("learned")
    x, at = jnp.ones((1, 2, 8)), jnp.array([[15, 16]])
    with pytest.raises(UserError, match=r"position 16.*15.*data\.max_length"):
        scheme.embed(x, at)
    inside = jax.jit(lambda at: scheme.embed(x, at))(at)
    assert np.all(np.isfinite(inside[0, 0])) and np.all(np.isnan(inside[0, 1]))
    with pytest.raises(UserError, match=r"data\.max_length"):
        make("learned", max_length=None)


def test_rope_is_a_rotation_of_halves():
    x = np.random.default_rng(0).normal(size=(2, 3, 2, 6)).astype(np.float32)
    at = np.array([[0, 1, 7], [100, 2, 2]])
    got = np.asarray(make("rope", 6).rotate(jnp.asarray(x), jnp.asarray(at)))
    for b, t, n, i in np.ndindex(2, 3, 2, 3):
        turn = np.exp(1j * at[b, t] * 10000.0 ** (-i / 3))
        want = (x[b, t, n, i] + 1j * x[b, t, n, i + 3]) * turn
        assert abs(got[b, t, n, i] - want.real) < 1e-5
        assert abs(got[b, t, n, i + 3] - want.imag) < 1e-5


def test_rope_products_depend_on_distance_only():
    q, k = np.random.default_rng(1).normal(size=(2, 1, 1, 1, 8)).astype(np.float32)
    scheme = make("rope")

    def product(i, j):
        rotated = [scheme.rotate(a, jnp.array([[p]])) for a, p in ((q, i), (k, j))]
        return float(jnp.sum(rotated[0] * rotated[1]))

    assert abs(product(2, 5) - product(42, 45)) < 1e-4
    assert abs(product(2, 5) - product(2, 6)) > 1e-3


def test_rope_angles_are_float32():
    x = jnp.ones((1, 2, 1, 64), jnp.bfloat16)
    turned = np.asarray(make("rope", 64).rotate(x, jnp.array([[2049, 2050]])), np.float32)
    assert np.abs(turned[0, 0] - turned[0, 1]).max() > 0.5


def test_rope_refuses_odd_heads():
    with pytest.raises(UserError, match=r"head_dim=5.*model\.dim.*model\.num_heads"):
        make("rope", 5)
