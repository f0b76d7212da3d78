"""Positions from a dynamical system: SciPy's solver, gradients, memory, options."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from reference import positions as reference

from attention import positions
from attention.errors import UserError
from attention.positions.floater import Config


def make(width=7, max_length=40, **options):
    """A scheme whose dynamics bend much more than the initial ones."""
    scheme = positions.make(Config(**options), width, max_length=max_length, rngs=nnx.Rngs(0))
    random = np.random.default_rng(1)
    for name in ("start", "hidden_kernel", "hidden_bias", "out_kernel", "out_bias"):
        array = getattr(scheme, name)
        scale = 1.0 if array.ndim == 1 else array.shape[0] ** -0.5
        array[...] = jnp.asarray(random.normal(size=array.shape) * scale, jnp.float32)
    return scheme


def arrays(scheme) -> dict[str, np.ndarray]:
    state = nnx.to_flat_state(nnx.state(scheme, nnx.Param))
    return {path[-1]: np.asarray(leaf[...], np.float64) for path, leaf in state}


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({}, 1e-4),
        ({"hidden_dim": 5, "step": 0.2, "substeps": 2}, 1e-4),
        ({"step": 0.5, "substeps": 8}, 1e-4),
    ],
)
def test_floater_is_the_path_of_the_system(options, tolerance):
    scheme = make(**options)
    step = options.get("step", 0.1)
    want = reference.floater(arrays(scheme), [i * step for i in range(40)])
    np.testing.assert_allclose(scheme.path(), want, rtol=0, atol=tolerance)
    at = np.array([[0, 39, 3], [2, 0, 1]])
    np.testing.assert_allclose(scheme.vectors(jnp.asarray(at)), want[at], rtol=0, atol=tolerance)
    # The path goes somewhere, and turns.
    assert np.abs(want[39] - want[0] - 39 * (want[1] - want[0])).max() > 0.5


def test_substeps_make_it_more_exact_by_the_fourth_order():
    def error(substeps):
        scheme = make(step=1.0, substeps=substeps, max_length=6)
        want = reference.floater(arrays(scheme), [float(i) for i in range(6)])
        return np.abs(scheme.path() - want).max()

    coarse, fine = error(2), error(4)
    assert coarse > 1e-4 and 8 < coarse / fine < 32  # 2⁴ = 16


def test_the_step_is_the_time_between_positions():
    slow, fast = make(step=0.1, substeps=1), make(step=0.2, substeps=2)
    np.testing.assert_allclose(slow.path()[::2], fast.path()[:20], rtol=0, atol=1e-5)


def test_gradients_are_those_of_the_path():
    scheme = make(max_length=12)
    graphdef, state = nnx.split(scheme)
    at, given = jnp.array([[0, 3, 11]]), np.random.default_rng(2).normal(size=(1, 3, 7))

    def loss(state):
        return jnp.sum(nnx.merge(graphdef, state).vectors(at) * given)

    gradients = jax.jit(jax.grad(loss))(state)
    found = {p[-1]: leaf[...] for p, leaf in nnx.to_flat_state(gradients)}
    values = arrays(scheme)
    times = [0.1 * i for i in range(12)]
    for name, array in values.items():
        index = (1,) * array.ndim

        def moved(by, name=name, array=array, index=index):
            changed = array.copy()
            changed[index] += by
            path = reference.floater({**values, name: changed}, times)
            return float(np.sum(path[np.asarray(at)] * given))

        want = (moved(1e-4) - moved(-1e-4)) / 2e-4
        assert abs(float(found[name][index]) - want) < 1e-3 * max(1.0, abs(want))


def test_the_backward_pass_keeps_points_only():
    scheme = make(width=4, hidden_dim=64, max_length=100, substeps=2)
    graphdef, state = nnx.split(scheme)
    _, back = jax.vjp(lambda state: nnx.merge(graphdef, state).path(), state)
    kept = sum(leaf.size for leaf in jax.tree.leaves(back))
    # One step's hidden layers alone would be 2 · 4 · 64 numbers, 100 times.
    assert kept < 100 * 4 * 4 + 2 * 6 * 64


def test_jit_is_no_jit_and_one_position_is_enough():
    scheme, at = make(), jnp.array([[5, 39]])
    inside = jax.jit(lambda at: scheme.vectors(at))(at)
    np.testing.assert_allclose(inside, scheme.vectors(at), rtol=0, atol=1e-5)
    one = make(max_length=1)
    np.testing.assert_array_equal(one.vectors(jnp.array([[0]]))[0, 0], one.start[...])


def test_initial_path_tells_positions_apart_and_stays_small():
    scheme = positions.make("floater", 64, max_length=512, rngs=nnx.Rngs(0))
    path = np.asarray(scheme.path())
    steps = np.linalg.norm(np.diff(path, axis=0), axis=-1)
    assert steps.min() > 5e-3 and np.sqrt(np.mean(path[-1] ** 2)) < 8


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hidden_dim": 0}, r"model\.positions\.floater\.hidden_dim=0"),
        ({"step": 0.0}, r"model\.positions\.floater\.step=0\.0"),
        ({"substeps": 0}, r"model\.positions\.floater\.substeps=0"),
        ({"hidden_dim": 2**40}, r"hidden_dim=1099511627776"),
        ({"substeps": 2**40}, r"substeps=1099511627776: .*from 1 to 256"),
        ({"step": True}, r"step=True"),
        ({"substeps": 1.5}, r"model\.positions\.floater\.substeps=1\.5"),
    ],
)
def test_wrong_options_are_named(options, words):
    with pytest.raises(UserError, match=words):
        Config(**options)
