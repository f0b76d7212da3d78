"""Position schemes: what they share, and those for the model's input that need no solver."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from reference import positions as reference

from attention import positions
from attention.errors import UserError
from attention.ops.relative import Relative
from attention.positions import none, rope, t5

pytestmark = pytest.mark.fast


def make(position, width=8, max_length=16, **sizes):
    return positions.make(position, width, max_length=max_length, rngs=nnx.Rngs(0), **sizes)


def configs() -> list:
    """The default Config of each scheme, and one for each example of a field."""
    found = []
    for name in positions.names():
        default = positions.resolve(name)
        found.append(pytest.param(default, id=name))
        for field in dataclasses.fields(default):
            for value in field.metadata.get("examples", ()):
                config = dataclasses.replace(default, **{field.name: value})
                found.append(pytest.param(config, id=f"{name}-{field.name}={value}"))
    return found


def test_names_and_places():
    places = {name: positions.place(name) for name in positions.names()}
    assert places == {
        "none": "nowhere",
        "sinusoidal": "input",
        "learned": "input",
        "floater": "input",
        "rope": "attention",
        "alibi": "attention",
        "t5": "attention",
        "shaw": "attention",
    }
    with pytest.raises(UserError, match="did you mean 'sinusoidal'"):
        positions.get("sinusodal")


def test_a_scheme_is_a_name_a_config_or_none():
    assert positions.resolve(None) == positions.resolve("none") == none.Config()
    assert positions.name_of(None) == positions.name_of("none") == "none"
    config = t5.Config(num_buckets=8)
    assert positions.resolve(config) is config and positions.name_of(config) == "t5"
    assert positions.resolve("t5") == t5.Config() and positions.place(config) == "attention"
    assert make(config).arrays()["bias_table"].shape == (8, 1)
    for wrong in ("scheme", ""):
        with pytest.raises(UserError, match="choose one of alibi, floater"):
            positions.resolve(wrong)
    for wrong in (3, rope.Config, UserError("no"), make("rope")):
        with pytest.raises(UserError, match=r"type \w+, neither a name nor.*alibi, floater"):
            positions.resolve(wrong)


@pytest.mark.long
@pytest.mark.parametrize("config", configs())
def test_every_scheme_acts_at_its_place_only(config):
    scheme = make(config, 12, num_heads=3)
    at, x = jnp.array([[0, 5, 2]]), jnp.ones((2, 3, 3, 12), jnp.bfloat16)
    place = positions.place(config)
    vectors, turned, relative = scheme.vectors(at), scheme.rotate(x, at), scheme.relative()
    assert (vectors is None) == (place != "input")
    if vectors is not None:
        assert vectors.shape == (1, 3, 12) and vectors.dtype == jnp.float32
    assert turned.shape == x.shape and turned.dtype == x.dtype
    if place != "attention":
        assert turned is x and relative is None
    else:
        assert (turned is x) == isinstance(relative, Relative)
    assert set(scheme.arrays()) == set(relative.ARRAYS if relative else ())
    assert positions.get(positions.name_of(config)).Config is type(config)


@pytest.mark.long
@pytest.mark.parametrize("config", configs())
def test_positions_that_restart_give_what_separate_rows_give(config):
    scheme = make(config, 12, num_heads=3)
    packed, alone = jnp.array([[0, 1, 2, 0, 1], [7, 8, 0, 1, 2]]), jnp.array([[0, 1, 2]])
    x = jax.random.normal(jax.random.key(1), (2, 5, 3, 12))
    turned = scheme.rotate(x, packed)
    np.testing.assert_allclose(turned[:1, :3], scheme.rotate(x[:1, :3], alone), atol=1e-6)
    np.testing.assert_allclose(turned[1:, 2:], scheme.rotate(x[1:, 2:], alone), atol=1e-6)
    vectors = scheme.vectors(packed)
    if vectors is not None:
        np.testing.assert_array_equal(vectors[0, :2], vectors[0, 3:])
        np.testing.assert_array_equal(vectors[1:, 2:], scheme.vectors(alone))


def test_none_changes_nothing():
    x, at = jnp.ones((2, 3, 1, 8)), jnp.arange(3)[None]
    scheme = make("none")
    assert scheme.vectors(at) is None and scheme.rotate(x, at) is x
    assert scheme.relative() is None and scheme.arrays() == {}


@pytest.mark.parametrize("width", [1, 2, 7, 8])
def test_sinusoidal_is_the_formula(width):
    at = np.array([[0, 1, 5], [3000, 2, 3]])
    got = make("sinusoidal", width).vectors(jnp.asarray(at))
    # float32 angles: an error of 2⁻²⁴ of the angle.
    error = np.abs(got - reference.sinusoidal(at, width))
    assert np.all(error < 1e-6 + at[:, :, None] * 2.0**-23)


def test_sinusoidal_tells_far_positions_apart():
    rows = make("sinusoidal", 64).vectors(jnp.arange(4096)[None])[0].astype(jnp.bfloat16)
    assert len(np.unique(np.asarray(rows, np.float32), axis=0)) == 4096


def test_learned_looks_rows_up():
    scheme = make("learned")
    at = jnp.array([[0, 15, 3]])
    np.testing.assert_array_equal(scheme.vectors(at)[0], scheme.embedding[...][at[0]])


@pytest.mark.parametrize("name", ["learned", "floater"])
def test_past_the_last_position(name):
    scheme = make(name)
    at = jnp.array([[15, 16]])
    with pytest.raises(UserError, match=rf"position 16.*{name}.*15.*data\.max_length"):
        scheme.vectors(at)
    inside = jax.jit(lambda at: scheme.vectors(at))(at)
    assert np.all(np.isfinite(inside[0, 0])) and np.all(np.isnan(inside[0, 1]))
    # Known positions and an unknown table, as where a loss is derived.
    graphdef, state = nnx.split(scheme)
    with pytest.raises(UserError, match="position 16"):
        jax.jit(lambda state: nnx.merge(graphdef, state).vectors(at))(state)
    with pytest.raises(UserError, match=rf"{name}.*data\.max_length"):
        make(name, max_length=None)
