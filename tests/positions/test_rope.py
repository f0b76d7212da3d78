"""Rotary positions: layouts, partial rotation, scalings, and what their options refuse."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from reference import positions as reference

from attention import positions
from attention.errors import UserError
from attention.positions import rope
from attention.positions.rope import Config

pytestmark = pytest.mark.fast

AT = np.array([[0, 1, 7], [100, 2, 2]])
OPTIONS = [
    {},
    {"layout": "interleaved"},
    {"fraction": 0.5},
    {"fraction": 0.25, "layout": "interleaved"},
    {"base": 500.0},
    {"scaling": "linear", "factor": 4.0},
    {"scaling": "ntk", "factor": 3.0},
    {"scaling": "ntk", "factor": 3.0, "fraction": 0.5, "layout": "interleaved"},
    {"scaling": "yarn", "factor": 4.0, "original_max_length": 64},
    {"scaling": "yarn", "factor": 8.0, "original_max_length": 200, "beta_fast": 8.0},
    {"scaling": "yarn", "original_max_length": 300, "beta_slow": 4.0, "attention_factor": 0.5},
    {"scaling": "yarn", "factor": 4.0, "original_max_length": 64, "fraction": 0.75},
]


def make(width=16, max_length=None, **options):
    return positions.make(Config(**options), width, max_length=max_length, rngs=nnx.Rngs(0))


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_rope_is_the_formula(options):
    x = random(2, 3, 2, 16)
    got = make(**options).rotate(jnp.asarray(x), jnp.asarray(AT))
    given = {"factor": 2.0, **options}
    if "original_max_length" in given:
        given["length"] = given.pop("original_max_length")
    np.testing.assert_allclose(got, reference.rope(x, AT, **given), rtol=0, atol=3e-5)


def test_layouts_pair_features_as_they_say():
    x = jnp.asarray([1.0, 2.0, 3.0, 4.0])[None, None, None]
    quarter = np.array([math.pi / 2, 0.0])
    one = jnp.array([[1]])
    half = rope.turn(x, one, quarter, layout="half")[0, 0, 0]
    np.testing.assert_allclose(half, [-3, 2, 1, 4], atol=1e-6)
    interleaved = rope.turn(x, one, quarter, layout="interleaved")[0, 0, 0]
    np.testing.assert_allclose(interleaved, [-2, 1, 3, 4], atol=1e-6)


def test_a_fraction_turns_the_first_features_only():
    x = random(2, 3, 2, 16)
    got = np.asarray(make(fraction=0.25).rotate(jnp.asarray(x), jnp.asarray(AT)))
    np.testing.assert_array_equal(got[..., 4:], x[..., 4:])
    # As a head of that size would turn.
    small = make(4).rotate(jnp.asarray(x[..., :4]), jnp.asarray(AT))
    np.testing.assert_array_equal(got[..., :4], small)


@pytest.mark.parametrize("scaling", ["linear", "ntk", "yarn"])
def test_factor_one_scales_nothing(scaling):
    x, at = jnp.asarray(random(2, 3, 2, 16)), jnp.asarray(AT)
    scaled = make(max_length=100, scaling=scaling, factor=1.0).rotate(x, at)
    np.testing.assert_allclose(scaled, make().rotate(x, at), rtol=0, atol=1e-6)


def test_ntk_keeps_the_first_angle_and_stretches_the_last_by_the_factor():
    plain, _ = rope.frequencies(Config(), 16)
    scaled, _ = rope.frequencies(Config(scaling="ntk", factor=5.0), 16)
    assert scaled[0] == plain[0] and math.isclose(scaled[-1], plain[-1] / 5)


def test_yarn_keeps_fast_pairs_stretches_slow_ones_and_scales_the_product():
    plain, _ = rope.frequencies(Config(), 64)
    config = Config(scaling="yarn", factor=16.0, original_max_length=2048)
    scaled, amplitude = rope.frequencies(config, 64)
    # 32 turns in 2048 positions: pair 8.07; one turn: pair 20.1 (so the ramp is from 8 to 21).
    np.testing.assert_allclose(scaled[:9], plain[:9], rtol=1e-12)
    np.testing.assert_allclose(scaled[21:], plain[21:] / 16, rtol=1e-12)
    assert np.all(scaled[9:21] < plain[9:21]) and np.all(scaled[9:21] > plain[9:21] / 16)
    assert math.isclose(amplitude, 0.1 * math.log(16) + 1)


@pytest.mark.parametrize("length", [300, 1000, 2048, 3000, 8192])
def test_yarn_ramp_runs_between_whole_pairs(length):
    config = Config(scaling="yarn", factor=16.0, original_max_length=length)
    want = reference.rope_angles(64, scaling="yarn", factor=16.0, length=length)
    np.testing.assert_allclose(rope.frequencies(config, 64)[0], want, rtol=1e-12)


def test_yarn_takes_the_original_length_from_max_length():
    given = Config(scaling="yarn", factor=4.0, original_max_length=512)
    derived = Config(scaling="yarn", factor=4.0)
    np.testing.assert_array_equal(
        rope.frequencies(derived, 32, 2048)[0], rope.frequencies(given, 32)[0]
    )
    with pytest.raises(UserError, match=r"rope\.original_max_length=None.*data\.max_length"):
        make(scaling="yarn")


def test_yarn_of_a_short_context_stretches_all_but_the_first_pair():
    # No pair makes a turn in 5 positions; the ramp has no width and is a step.
    scaled, _ = rope.frequencies(Config(scaling="yarn", original_max_length=5), 16)
    plain, _ = rope.frequencies(Config(), 16)
    np.testing.assert_allclose(scaled, [plain[0], *(plain[1:] / 2)], rtol=1e-12)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_products_depend_on_distance_only(options):
    q, k = random(2, 1, 1, 1, 16, seed=1)
    scheme = make(**options)

    def product(i, j):
        rotated = [scheme.rotate(a, jnp.array([[p]])) for a, p in ((q, i), (k, j))]
        return float(jnp.sum(rotated[0] * rotated[1]))

    assert abs(product(2, 5) - product(42, 45)) < 2e-4
    assert abs(product(2, 5) - product(2, 7)) > 1e-3


@pytest.mark.long
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_later_part_is_a_part_of_the_whole(options):
    """Decoding turns a few queries at their own positions."""
    x = jnp.asarray(random(2, 9, 2, 16))
    scheme, at = make(**options), jnp.arange(9)[None]
    part = scheme.rotate(x[:, 4:6], jnp.array([[4, 5], [4, 5]]))
    np.testing.assert_allclose(part, scheme.rotate(x, at)[:, 4:6], rtol=0, atol=1e-6)


def test_angles_are_float32():
    x = jnp.ones((1, 2, 1, 64), jnp.bfloat16)
    turned = make(64).rotate(x, jnp.array([[2049, 2050]]))
    assert turned.dtype == jnp.bfloat16
    want = reference.rope(np.ones((1, 2, 1, 64)), np.array([[2049, 2050]]))
    np.testing.assert_allclose(np.asarray(turned, np.float32), want, rtol=0, atol=0.01)


def test_no_parameters():
    scheme = make(max_length=64, scaling="yarn")
    assert not nnx.to_flat_state(nnx.state(scheme))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layout": "halves"}, r"model\.positions\.rope\.layout='halves'.*did you mean 'half'"),
        ({"scaling": "dynamic"}, r"rope\.scaling='dynamic'.*none, linear, ntk, yarn"),
        ({"fraction": 0.0}, r"rope\.fraction=0\.0.*\(0, 1\]"),
        ({"fraction": 1.5}, r"rope\.fraction=1\.5"),
        ({"base": 1.0}, r"rope\.base=1\.0"),
        ({"scaling": "linear", "factor": 0.5}, r"rope\.factor=0\.5.*at least 1"),
        ({"scaling": "linear", "factor": float("nan")}, r"rope\.factor=nan"),
        ({"scaling": "ntk", "factor": 1e300}, r"rope\.factor=1e\+300.*at most"),
        ({"scaling": "ntk", "factor": 10**400}, r"rope\.factor=10{400}: "),
        ({"base": "x"}, r"rope\.base='x'"),
        ({"factor": 4.0}, r"rope\.factor=4\.0.*scaling='none' does not read it"),
        ({"scaling": "ntk", "beta_fast": 8.0}, r"rope\.beta_fast=8\.0.*does not read it"),
        ({"scaling": "yarn", "beta_fast": 0.5}, r"rope\.beta_fast=0\.5.*beta_slow"),
        ({"scaling": "yarn", "beta_slow": 0.0}, r"rope\.beta_slow=0\.0"),
        ({"scaling": "yarn", "attention_factor": -1.0}, r"rope\.attention_factor=-1\.0"),
        ({"scaling": "yarn", "original_max_length": 0}, r"rope\.original_max_length=0"),
    ],
    ids=str,
)
def test_wrong_options_are_named(options, words):
    with pytest.raises(UserError, match=words):
        Config(**options)


def test_sizes_that_do_not_fit():
    with pytest.raises(UserError, match=r"head_dim=5.*model\.dim.*model\.num_heads"):
        make(5)
    for fraction in (0.3, 0.1, 3 / 16):  # 4.8, 1.6 and 3 of 16 features
        with pytest.raises(UserError, match=r"rope\.fraction=.*head_dim=16.*even"):
            make(16, fraction=fraction)
    with pytest.raises(UserError, match=r"rope\.scaling='ntk'.*2 rotated"):
        make(2, scaling="ntk")
