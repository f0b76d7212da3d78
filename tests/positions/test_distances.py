"""Schemes that act on distances: their arrays, and what their options refuse."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from reference import positions as reference

from attention import positions
from attention.errors import UserError
from attention.ops.relative import T5, Alibi, Shaw
from attention.positions import shaw, t5

pytestmark = pytest.mark.fast


def make(position, width=6, **sizes):
    return positions.make(position, width, rngs=nnx.Rngs(0), **sizes)


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20])
def test_alibi_slopes_are_the_published_ones(heads):
    scheme = make("alibi", num_heads=heads)
    assert scheme.relative() == Alibi() and not nnx.to_flat_state(nnx.state(scheme))
    slopes = scheme.arrays()["slopes"]
    assert slopes.shape == (heads,) and slopes.dtype == jnp.float32
    np.testing.assert_allclose(slopes, reference.alibi_slopes(heads), rtol=1e-6)


def test_alibi_slopes_of_the_paper():
    eight = make("alibi", num_heads=8).arrays()["slopes"]
    np.testing.assert_array_equal(eight, 0.5 ** np.arange(1, 9))
    twelve = make("alibi", num_heads=12).arrays()["slopes"]
    np.testing.assert_allclose(twelve[8:], 0.5 ** np.array([0.5, 1.5, 2.5, 3.5]), rtol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_t5_has_a_table_of_its_layer(causal):
    scheme = make(t5.Config(num_buckets=10, max_distance=50), num_heads=3, causal=causal)
    assert scheme.relative() == T5(bidirectional=not causal, max_distance=50)
    table = scheme.arrays()["bias_table"]
    assert table.shape == (10, 3) and table.dtype == jnp.float32 and len(np.unique(table)) == 30
    distance = np.arange(5)[None, None, :] - np.arange(4)[None, :, None]
    got = scheme.relative().bias(jnp.asarray(distance), **scheme.arrays())
    want = reference.t5(distance, np.asarray(table), max_distance=50, bidirectional=not causal)
    np.testing.assert_array_equal(got, np.float32(want))


def test_t5_is_small_at_first():
    table = make("t5", 32, num_heads=8).arrays()["bias_table"]
    assert 0.7 < float(jnp.std(table)) * 16 < 1.3  # (8 · 32)^−½ = 1/16


def test_shaw_has_two_tables_that_heads_share():
    scheme = make(shaw.Config(max_distance=3), num_heads=5)
    tables = scheme.arrays()
    assert scheme.relative() == Shaw()
    assert {name: table.shape for name, table in tables.items()} == {
        "key_table": (7, 6),
        "value_table": (7, 6),
    }
    assert not np.any(tables["key_table"] == tables["value_table"])
    assert make("shaw").arrays()["key_table"].shape == (33, 6)


def test_parameters_are_those_that_are_learned():
    names = {}
    for name in ("alibi", "t5", "shaw"):
        state = nnx.to_flat_state(nnx.state(make(name, num_heads=2), nnx.Param))
        names[name] = {path[-1] for path, _ in state}
    assert names == {"alibi": set(), "t5": {"bias_table"}, "shaw": {"key_table", "value_table"}}


@pytest.mark.parametrize(
    ("config", "options", "words"),
    [
        (t5.Config, {"num_buckets": 7}, r"model\.positions\.t5\.num_buckets=7.*even"),
        (t5.Config, {"num_buckets": 2}, r"model\.positions\.t5\.num_buckets=2.*at least 4"),
        (t5.Config, {"max_distance": 16}, r"model\.positions\.t5\.max_distance=16.*above.*16"),
        (shaw.Config, {"max_distance": 0}, r"model\.positions\.shaw\.max_distance=0"),
        (t5.Config, {"num_buckets": 2**40}, r"num_buckets=1099511627776"),
        (t5.Config, {"max_distance": 2**40}, r"max_distance=1099511627776"),
        (t5.Config, {"num_buckets": "x"}, r"num_buckets='x'"),
        (shaw.Config, {"max_distance": 2**40}, r"max_distance=1099511627776"),
        (shaw.Config, {"max_distance": 2.5}, r"model\.positions\.shaw\.max_distance=2\.5"),
    ],
)
def test_wrong_options_are_named(config, options, words):
    with pytest.raises(UserError, match=words):
        config(**options)
