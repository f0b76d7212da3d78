"""The one training step and the one prediction step: pure functions, wrapped by `parallel`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float

from attention.losses import Sum
from attention.training.optimizer import Hyper, learning_rate, make_optimizer
from attention.training.state import TrainState

Batch = Mapping[str, Mapping[str, Array]]  # by stream and name
Outputs = Mapping[str, Mapping[str, Array]]  # likewise
Reduce = Callable[[Any], Any]
# (model, batch, rngs, label_smoothing) -> sums by name; "loss" is the one that is minimised
LossFunction = Callable[..., Mapping[str, Sum]]


class StepMetrics(NamedTuple):
    """What a training step reports."""

    sums: Mapping[str, Sum]
    learning_rate: Float[Array, ""]
    gradient_norm: Float[Array, ""]  # before clipping


class Across(NamedTuple):
    """How a step meets its replicas: under jit there is one program and nothing to do."""

    total: Reduce = lambda tree: tree
    replica: Callable[[], Array | int] = lambda: 0


def _micro_batches(batch: Batch, parts: int) -> Batch:
    """Rows i, i+parts, … go to micro-batch i, so that each device keeps its own rows."""
    return jax.tree.map(
        lambda x: x.reshape(x.shape[0] // parts, parts, *x.shape[1:]).swapaxes(0, 1), batch
    )


def make_train_step(
    structure: nnx.GraphDef,
    loss_function: LossFunction,
    *,
    schedule: str,
    accumulation_steps: int = 1,
    across: Across = Across(),  # noqa: B008 (immutable)
) -> Callable[[TrainState, Batch, Hyper], tuple[TrainState, StepMetrics]]:
    """Builds the pure step `(state, batch, hyper) -> (state, metrics)`.

    Gradients are those of the summed loss, added over micro-batches and replicas and divided once
    by the global count: the update does not depend on how the batch was cut.
    """

    def sums_and_gradients(params, batch, key, hyper):
        def objective(params):
            model = nnx.merge(structure, params, hyper.rates)
            sums = loss_function(
                model, batch, rngs=nnx.Rngs(key), label_smoothing=hyper.label_smoothing
            )
            return sums["loss"].total, sums

        gradients, sums = jax.grad(objective, has_aux=True)(params)
        return sums, gradients

    def accumulated(params, batch, key, hyper):
        if accumulation_steps == 1:
            return sums_and_gradients(params, batch, key, hyper)
        parts = _micro_batches(batch, accumulation_steps)
        keys = jax.random.split(key, accumulation_steps)
        first = jax.tree.map(lambda x: x[0], parts)
        shapes = jax.eval_shape(sums_and_gradients, params, first, key, hyper)
        zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)

        def add(carry, part):
            new = sums_and_gradients(params, part[0], part[1], hyper)
            return jax.tree.map(jnp.add, carry, new), None

        return jax.lax.scan(add, zeros, (parts, keys))[0]

    def step(state: TrainState, batch: Batch, hyper: Hyper):
        key = jax.random.fold_in(jax.random.fold_in(hyper.key, state.step), across.replica())
        sums, gradients = across.total(accumulated(state.params, batch, key, hyper))
        count = jnp.maximum(sums["loss"].count, 1.0)  # a batch may hold no label
        gradients = jax.tree.map(lambda g: g / count, gradients)
        rate = learning_rate(state.step, hyper, schedule=schedule)
        updates, optimizer = make_optimizer(hyper, rate).update(
            gradients, state.optimizer, state.params
        )
        params: Any = optax.apply_updates(state.params, updates)
        metrics = StepMetrics(sums, rate, optax.tree.norm(gradients))
        return TrainState(state.step + 1, params, optimizer), metrics

    return step


def make_predict_step(
    structure: nnx.GraphDef,
    predict: Callable[[nnx.Module, Batch], Outputs],
    names: Mapping[str, Sequence[str]],
) -> Callable[[nnx.State, Batch, nnx.State], Outputs]:
    """Builds `(params, batch, rates) -> outputs`, each output with the batch's leading axes.

    Args:
      names: which of the outputs of each stream are wanted: no other is computed.
    """

    def step(params, batch, rates):
        outputs = predict(nnx.merge(structure, params, rates), batch)
        return {
            stream: {name: outputs[stream][name] for name in wanted}
            for stream, wanted in names.items()
        }

    return step
