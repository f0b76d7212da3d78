"""What a training step changes, and how it begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Int

from attention.core.dropout import Rate
from attention.training.optimizer import init_optimizer


class TrainState(NamedTuple):
    """All that the next step depends on, besides its batch and the run's fixed numbers.

    Randomness needs no entry: the key of a step is folded from the run's key and `step`.
    """

    step: Int[Array, ""]  # updates done
    params: nnx.State
    optimizer: Any


class ModelParts(NamedTuple):
    """A model taken apart: its structure (hashable), parameters, and dropout rates."""

    structure: nnx.GraphDef
    params: nnx.State
    rates: nnx.State


def take_apart(model: nnx.Module) -> ModelParts:
    """Splits a model so that a pure step can put it together again inside jit."""
    return ModelParts(*nnx.split(model, nnx.Param, Rate))


class Initializer(NamedTuple):
    """How a model begins, whatever its seed and dropout rates: runs of one program share it."""

    structure: nnx.GraphDef
    params: Callable[[jax.Array], nnx.State]  # compiled; of a random key


def make_initializer(make_model: Callable[[nnx.Rngs], nnx.Module]) -> Initializer:
    """Traces a model; its parameters come from one compiled program."""
    return Initializer(
        abstract_model(make_model).structure,
        jax.jit(lambda key: take_apart(make_model(nnx.Rngs(key))).params),
    )


def init_model(
    make_model: Callable[[nnx.Rngs], nnx.Module],
    seed: int,
    initializer: Initializer | None = None,
) -> ModelParts:
    """Initialises a model from a seed.

    Args:
      initializer: that of a model which differs in its dropout rates alone; None = make it here.
    """
    structure, params = initializer or make_initializer(make_model)
    # What else the model has is traced and dropped; only the rates are computed.
    rates = jax.jit(lambda: take_apart(make_model(nnx.Rngs(0))).rates)()
    return ModelParts(structure, params(jax.random.fold_in(jax.random.key(seed), 0)), rates)


def abstract_model(make_model: Callable[[nnx.Rngs], nnx.Module]) -> ModelParts:
    """A model without numbers, to be filled from a checkpoint: shapes instead of arrays."""
    return take_apart(nnx.eval_shape(lambda: make_model(nnx.Rngs(0))))


def init_state(params: nnx.State) -> TrainState:
    """The state before the first update."""
    return TrainState(jnp.zeros((), jnp.int32), params, init_optimizer(params))


def count_parameters(params: nnx.State) -> int:
    """Number of trained numbers."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))
