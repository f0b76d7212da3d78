"""The optimizer: schedules with documented ends, decay that shrinks, numbers that may be traced."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from attention.errors import UserError
from attention.training.optimizer import Hyper, init_optimizer, learning_rate, make_optimizer

pytestmark = pytest.mark.fast


def hyper(**numbers) -> Hyper:
    defaults = dict(
        learning_rate=1.0,
        weight_decay=0.0,
        warmup_steps=4,
        total_steps=20,
        clip_norm=1.0,
        b1=0.9,
        b2=0.999,
        label_smoothing=0.0,
    )
    scalars = {name: jnp.float32(value) for name, value in {**defaults, **numbers}.items()}
    return Hyper(key=jax.random.key(0), rates=nnx.State({}), **scalars)


def rates(schedule: str, **numbers) -> np.ndarray:
    steps = jnp.arange(20)
    return np.asarray(
        jax.vmap(lambda s: learning_rate(s, hyper(**numbers), schedule=schedule))(steps)
    )


@pytest.mark.parametrize(
    "schedule", ["cosine", "inverse_sqrt", "inverse_sqrt_cooldown", "constant"]
)
def test_warmup_is_a_line_from_above_zero_to_the_peak(schedule):
    np.testing.assert_allclose(rates(schedule)[:4], [0.25, 0.5, 0.75, 1.0], rtol=1e-6)


def test_cosine_falls_to_almost_zero_at_the_last_update():
    values = rates("cosine")
    assert np.all(np.diff(values[4:]) < 0)
    # Zero would be reached one update after the last: (1 + cos(π·15/16)) / 2.
    np.testing.assert_allclose(values[-1], 0.5 * (1 + np.cos(np.pi * 15 / 16)), rtol=1e-4)


def test_inverse_sqrt_and_constant():
    np.testing.assert_allclose(rates("inverse_sqrt")[16], np.sqrt(4 / 16), rtol=1e-6)
    np.testing.assert_allclose(rates("constant")[4:], 1.0)


def test_a_cooldown_takes_the_last_quarter_to_zero():
    plain, cooled = rates("inverse_sqrt"), rates("inverse_sqrt_cooldown")
    np.testing.assert_allclose(cooled[:16], plain[:16], rtol=1e-6)
    np.testing.assert_allclose(cooled[16:] / plain[16:], [0.8, 0.6, 0.4, 0.2], rtol=1e-5)
    late = rates("inverse_sqrt_cooldown", warmup_steps=18)  # the cooldown waits for it
    np.testing.assert_allclose(late[17:19], 1.0, rtol=1e-6)


def test_no_warmup_starts_at_the_peak():
    np.testing.assert_allclose(rates("cosine", warmup_steps=0)[0], 1.0, rtol=1e-6)


def test_an_unknown_schedule_names_the_key_and_the_nearest():
    with pytest.raises(UserError, match=r"optimizer\.schedule.*'cosin'.*cosine"):
        learning_rate(jnp.int32(0), hyper(), schedule="cosin")


def update(params, gradients, numbers, rate):
    optimizer = make_optimizer(numbers, jnp.float32(rate))
    updates, _ = optimizer.update(gradients, init_optimizer(params), params)
    return optax.apply_updates(params, updates)


def test_decay_shrinks_matrices_by_the_learning_rate_and_leaves_vectors():
    params = {"kernel": jnp.ones((2, 3)), "bias": jnp.ones(3)}
    zeros = jax.tree.map(jnp.zeros_like, params)
    after = update(params, zeros, hyper(weight_decay=0.5), 0.1)
    np.testing.assert_allclose(after["kernel"], 1 - 0.1 * 0.5, rtol=1e-6)
    np.testing.assert_array_equal(after["bias"], 1.0)


def test_a_rate_of_zero_changes_nothing():
    params = {"kernel": jnp.ones((2, 3))}
    after = update(params, {"kernel": jnp.ones((2, 3))}, hyper(weight_decay=0.5), 0.0)
    np.testing.assert_array_equal(after["kernel"], params["kernel"])


def test_clipping_is_by_the_global_norm():
    params = {"a": jnp.zeros(3), "b": jnp.zeros(4)}
    gradients = {"a": jnp.full(3, 100.0), "b": jnp.full(4, -100.0)}
    # Adam hides a common factor of all steps; its moments show what came through.
    optimizer = make_optimizer(hyper(clip_norm=0.5), jnp.float32(1.0))
    _, state = optimizer.update(gradients, init_optimizer(params), params)
    moments = state[1].mu
    norm = float(optax.tree.norm(moments)) / (1 - 0.9)
    np.testing.assert_allclose(norm, 0.5, rtol=1e-5)


def test_one_program_serves_all_numbers():
    params = {"kernel": jnp.ones((2, 3))}
    traces = []

    @jax.jit
    def step(numbers, rate):
        traces.append(1)
        return update(params, params, numbers, rate)

    step(hyper(weight_decay=0.1), 0.1)
    step(hyper(weight_decay=0.2, clip_norm=3.0, warmup_steps=7), 0.2)
    assert len(traces) == 1
