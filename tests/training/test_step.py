"""The training step: one result however the batch is cut, and losses by closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention.core.dropout import Dropout
from attention.core.linear import Linear
from attention.losses import Sum, token_cross_entropy
from attention.training.optimizer import Hyper
from attention.training.state import init_model, init_state
from attention.training.step import make_predict_step, make_train_step

pytestmark = pytest.mark.fast

ROWS, LENGTH, DIM, CLASSES = 8, 5, 6, 3


class Model(nnx.Module):
    def __init__(self, rngs, rate=0.0):
        self.linear = Linear(DIM, CLASSES, rngs=rngs)
        self.dropout = Dropout(rate)

    def __call__(self, x, rngs=None):
        return self.linear(self.dropout(x, rngs=rngs))


def loss(model, batch, *, rngs, label_smoothing):
    tokens = batch["tokens"]
    losses = token_cross_entropy(
        model(tokens["x"], rngs), tokens["labels"], label_smoothing=label_smoothing
    )
    count = jnp.sum(tokens["labels"] >= 0).astype(jnp.float32)
    return {"loss": Sum(jnp.sum(losses), count)}


def batch() -> dict[str, dict[str, jax.Array]]:
    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, (ROWS, LENGTH))
    labels[0, 1:] = -1  # rows of very different real length
    labels[3] = -1
    tokens = {
        "x": jnp.asarray(random.normal(size=(ROWS, LENGTH, DIM)), jnp.float32),
        "labels": jnp.asarray(labels, jnp.int32),
    }
    return {"tokens": tokens}


def make_hyper(parts, seed=0) -> Hyper:
    numbers = dict(learning_rate=0.1, weight_decay=0.0, warmup_steps=0, total_steps=10)
    numbers |= dict(clip_norm=1.0, b1=0.9, b2=0.999, label_smoothing=0.0)
    scalars = {name: jnp.float32(value) for name, value in numbers.items()}
    return Hyper(key=jax.random.key(seed), rates=parts.rates, **scalars)


def run(steps=3, rate=0.0, seed=0, **options):
    parts = init_model(lambda rngs: Model(rngs, rate), seed=0)
    hyper = make_hyper(parts, seed)
    step = jax.jit(make_train_step(parts.structure, loss, schedule="constant", **options))
    state, losses = init_state(parts.params), []
    for _ in range(steps):
        state, metrics = step(state, batch(), hyper)
        losses.append(float(metrics.sums["loss"].total / metrics.sums["loss"].count))
    return state, losses


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_accumulation_changes_nothing(parts):
    whole, losses = run()
    state, accumulated = run(accumulation_steps=parts)
    np.testing.assert_allclose(accumulated, losses, rtol=1e-5)
    for a, b in zip(jax.tree.leaves(whole.params), jax.tree.leaves(state.params), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_the_loss_falls_and_steps_are_counted():
    state, losses = run(steps=10)
    assert losses[-1] < losses[0] and int(state.step) == 10


def test_dropout_depends_on_the_seed_and_the_step_alone():
    first, again, other = (run(rate=0.5, seed=seed)[1] for seed in (0, 0, 1))
    assert first == again and first != other
    assert run(rate=0.0, seed=0)[1] == run(rate=0.0, seed=1)[1]


def test_prediction_is_without_dropout():
    parts = init_model(lambda rngs: Model(rngs, 0.5), seed=0)

    def predict(model, batch):
        return {"tokens": {"y": model(batch["tokens"]["x"]), "z": None}, "other": {"w": None}}

    step = make_predict_step(parts.structure, predict, {"tokens": ("y",)})
    plain = nnx.merge(parts.structure, parts.params, parts.rates).linear(batch()["tokens"]["x"])
    outputs = step(parts.params, batch(), parts.rates)
    assert outputs.keys() == {"tokens"} and outputs["tokens"].keys() == {"y"}
    np.testing.assert_array_equal(outputs["tokens"]["y"], plain)


@pytest.mark.parametrize("labels", [[0, 2, -1, 1], [-1, -1, 3, -1]])
def test_uniform_logits_cost_the_logarithm_of_the_classes(labels):
    labels = jnp.asarray(labels)
    losses = token_cross_entropy(jnp.zeros((4, 7)), labels, label_smoothing=0.3)
    np.testing.assert_allclose(losses, np.where(labels >= 0, np.log(7), 0.0), rtol=1e-6)


def test_cross_entropy_equals_float64_also_from_bfloat16_logits():
    random = np.random.default_rng(1)
    logits = jnp.asarray(random.normal(size=(50, 9)) * 4, jnp.bfloat16)
    labels = random.integers(0, 9, 50)
    wide = np.asarray(logits, np.float64)
    log_z = np.log(np.exp(wide).sum(-1))
    smooth = 0.1
    target = 0.9 * wide[np.arange(50), labels] + smooth * wide.mean(-1)
    losses = token_cross_entropy(logits, jnp.asarray(labels), label_smoothing=smooth)
    assert losses.dtype == jnp.float32
    np.testing.assert_allclose(losses, log_z - target, rtol=1e-5)


@pytest.mark.long
def test_a_batch_without_labels_gives_no_nan():
    parts = init_model(lambda rngs: Model(rngs), seed=0)
    labels = jnp.full((ROWS, LENGTH), -1, jnp.int32)
    empty = {"tokens": {**batch()["tokens"], "labels": labels}}
    step = make_train_step(parts.structure, loss, schedule="constant")
    state, metrics = step(init_state(parts.params), empty, make_hyper(parts))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))
    assert float(metrics.sums["loss"].total) == 0.0
