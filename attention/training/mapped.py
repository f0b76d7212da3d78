"""The training step of several runs at once: `jax.vmap` of the one step over states and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from attention.training import flops
from attention.training.parallel import (
    DATA_AXIS,
    Compiled,
    Jit,
    batch_shape,
    without_axes,
)
from attention.training.step import Batch


class MappedStep:
    """The training step mapped over a fixed number of runs.

    Args:
      step: `(state, batch, hyper) -> (state, metrics)` of one run.
      base: whose devices share out the rows of a batch.
    """

    def __init__(self, step: Callable, base: Jit) -> None:
        self._mesh = base.mesh
        # Under jit of its own, so that its trace is there to be counted.
        alone = jax.jit(step)
        self._with_one_batch = _mapped(alone, base.mesh, batch_axis=None)
        self._with_own_batches = _mapped(alone, base.mesh, batch_axis=0)
        self._flops: dict[Any, int] = {}

    @property
    def compile_seconds(self) -> float:
        return self._with_one_batch.compile_seconds + self._with_own_batches.compile_seconds

    @property
    def num_programs(self) -> int:
        return self._with_one_batch.num_programs + self._with_own_batches.num_programs

    def flops(self, batch: Batch) -> int:
        """The floating-point operations of one run's step with such a batch, as it would take it
        alone; it has been taken. (At once they may be fewer: what comes from a batch that all
        share is computed once.)"""
        return self._flops[batch_shape(batch)]

    def __call__(
        self, states: Any, batches: Sequence[Batch], hypers: Any, *, own_batches: bool = False
    ) -> tuple[Any, Any]:
        """Takes a step of all runs.

        Args:
          states: with a leading axis of runs; their memory is reused.
          batches: on the host, one a run.
          hypers: with a leading axis of runs.
          own_batches: they may differ; else the first is placed and serves all.
        """
        if own_batches:
            program, rows = self._with_own_batches, PartitionSpec(None, DATA_AXIS)
            batch = jax.tree.map(lambda *arrays: np.stack(arrays), *batches)
        else:
            program, batch, rows = self._with_one_batch, batches[0], PartitionSpec(DATA_AXIS)
        placed = jax.device_put(batch, NamedSharding(self._mesh, rows))
        outcome = program(states, placed, hypers)
        self._flops[batch_shape(batches[0])] = program.flops(placed)
        return outcome


def _mapped(alone: Any, mesh: Any, *, batch_axis: int | None) -> Compiled:
    def count_flops(traced: Any, arguments: tuple[Any, ...]) -> int:
        del traced
        axes = (1, 0 if batch_axis is None else 1, 1)
        # On the same devices, or the step would be traced again.
        anywhere = NamedSharding(mesh, PartitionSpec())
        one = [without_axes(*each, anywhere) for each in zip(arguments, axes, strict=True)]
        return flops.count(alone.trace(*one).jaxpr).flops

    mapped = jax.jit(jax.vmap(alone, in_axes=(0, batch_axis, 0)), donate_argnums=0)
    return Compiled(mapped, batch_argument=1, count_flops=count_flops)


def all_equal(batches: Sequence[Batch]) -> bool:
    """Whether one batch can serve all."""
    first = jax.tree.leaves(batches[0])
    return all(all(map(np.array_equal, first, jax.tree.leaves(other))) for other in batches[1:])


@jax.jit
def stack(*trees: Any) -> Any:
    """Joins trees of equal shapes on a new leading axis of runs."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@jax.jit
def take(tree: Any, index: Any) -> Any:
    """Returns the part of one run."""
    return jax.tree.map(lambda leaf: leaf[index], tree)
