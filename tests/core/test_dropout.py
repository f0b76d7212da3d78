"""Dropout: right on average, independent everywhere, free when off, the same on any devices."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention.core.dropout import Dropout, Rate
from attention.errors import UserError

pytestmark = pytest.mark.fast


def rngs(seed=0):
    return nnx.Rngs(dropout=jax.random.key(seed))


def test_off_without_rngs_and_at_rate_zero():
    x = jnp.ones((2, 3))
    assert Dropout(0.5)(x, rngs=None) is x
    assert Dropout(0.0)(x, rngs=rngs()) is x
    streams = rngs()
    assert not jax.make_jaxpr(lambda x: Dropout(0.0)(x, rngs=streams))(x).eqns


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.97])
def test_share_and_scale(rate):
    x = jnp.ones((100, 1000))
    y = np.asarray(Dropout(rate)(x, rngs=rngs()))
    kept = y != 0
    assert abs(kept.mean() - (1 - rate)) < 6 * np.sqrt(rate * (1 - rate) / y.size)
    np.testing.assert_allclose(y[kept], 1 / (1 - rate), rtol=1e-5)


def test_masks_differ_by_batch_head_position_and_call():
    dropout, streams = Dropout(0.5), rngs()
    first = np.asarray(dropout(jnp.ones((4, 3, 16, 16)), rngs=streams)) != 0
    second = np.asarray(dropout(jnp.ones((4, 3, 16, 16)), rngs=streams)) != 0
    for axis in range(4):
        others = np.roll(first, 1, axis)
        assert 0.4 < (first == others).mean() < 0.6
    assert 0.4 < (first == second).mean() < 0.6


def test_same_key_same_mask():
    x = jnp.ones((5, 7))
    np.testing.assert_array_equal(
        Dropout(0.3)(x, rngs=rngs(1)), jax.jit(lambda x: Dropout(0.3)(x, rngs=rngs(1)))(x)
    )


def test_one_program_serves_every_rate():
    graphdef, state = nnx.split(Dropout(0.5))
    traces = []

    @jax.jit
    def run(state, x):
        traces.append(1)
        return nnx.merge(graphdef, state)(x, rngs=rngs())

    x = jnp.ones((100, 100))
    shares = []
    for rate in (0.0, 0.25, 0.75):
        given = jax.tree.map(lambda _, rate=rate: jnp.float32(rate), state)
        shares.append(float((run(given, x) == 0).mean()))
    assert len(traces) == 1
    np.testing.assert_allclose(shares, [0.0, 0.25, 0.75], atol=0.03)
    many = jax.vmap(run, in_axes=(0, None))(jax.tree.map(lambda _: jnp.array([0.0, 0.5]), state), x)
    np.testing.assert_array_equal(many[0], x)
    assert 0.45 < (many[1] == 0).mean() < 0.55


def test_rate_is_no_parameter():
    dropout = Dropout(0.5)
    assert not jax.tree.leaves(nnx.state(dropout, nnx.Param))
    assert len(jax.tree.leaves(nnx.state(dropout, Rate))) == 1


def test_gradient_passes_through_kept_elements_only():
    x = jnp.arange(1.0, 101.0)[None]
    dropout = Dropout(0.5)
    y = dropout(x, rngs=rngs())
    gradient = jax.grad(lambda x: jnp.sum(dropout(x, rngs=rngs())))(x)
    np.testing.assert_allclose(gradient, y / x, rtol=1e-6)


def test_bfloat16_stays_bfloat16():
    y = Dropout(0.5)(jnp.ones((4, 4), jnp.bfloat16), rngs=rngs())
    assert y.dtype == jnp.bfloat16 and set(np.asarray(y, np.float32).ravel()) <= {0.0, 2.0}


@pytest.mark.parametrize("rate", [-0.1, 1.0, 2.0, float("nan")])
def test_wrong_rates_are_refused(rate):
    with pytest.raises(UserError, match=r"\[0, 1\)"):
        Dropout(rate)


ON_DEVICES = """
import jax, jax.numpy as jnp, numpy as np
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from attention.core.dropout import Dropout
mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
run = jax.jit(lambda x: Dropout(0.5)(x, rngs=nnx.Rngs(dropout=jax.random.key(0))))
x = jnp.ones((16, 6, 10))
one = run(x)
many = run(jax.device_put(x, NamedSharding(mesh, PartitionSpec("data"))))
assert len(many.sharding.device_set) == 8
np.testing.assert_array_equal(one, many)
"""


def test_same_mask_on_one_device_and_on_eight(repository):
    environment = {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "PYTHONPATH": str(repository),
    }
    done = subprocess.run(
        [sys.executable, "-c", ON_DEVICES], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
