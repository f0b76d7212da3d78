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


def init_model(make_model: Callable[[nnx.Rngs], nnx.Module], seed: int) -> ModelParts:
    """Initialises a model from a seed, as one compiled program."""
    key = jax.random.fold_in(jax.random.key(seed), 0)
    params, rates = jax.jit(lambda key: take_apart(make_model(nnx.Rngs(key)))[1:])(key)
    return ModelParts(abstract_model(make_model).structure, params, rates)


def abstract_model(make_model: Callable[[nnx.Rngs], nnx.Module]) -> ModelParts:
    """A model without numbers, to be filled from a checkpoint: shapes instead of arrays."""
    return take_apart(nnx.eval_shape(lambda: make_model(nnx.Rngs(0))))


def init_state(params: nnx.State) -> TrainState:
    """The state before the first update."""
    return TrainState(jnp.zeros((), jnp.int32), params, init_optimizer(params))


def count_parameters(params: nnx.State) -> int:
    """Number of trained numbers."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))
