"""The one step, wrapped two ways: jit over a mesh with a `data` axis, or pmap.

Both give the same three things: a place for the state, a place for a batch, and a compiled step.
Everything else in the program is blind to the difference.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import (
    AbstractMesh,
    AxisType,
    NamedSharding,
    PartitionSpec,
    SingleDeviceSharding,
)

from attention.errors import UserError
from attention.training import flops
from attention.training.step import Across

DATA_AXIS = "data"


# From the trace of a program (None where it cannot be had) and its arguments to FLOPs.
CountFlops = Callable[[Any, tuple[Any, ...]], int]


class Compiled:
    """Compiles ahead of time, once for each shape of batch, and counts the seconds.

    Args:
      wrapped: a function under jit or pmap.
      batch_argument: which argument the batch is.
      count_flops: counts a program; None: nobody asks.
    """

    def __init__(
        self, wrapped: Any, *, batch_argument: int, count_flops: CountFlops | None = None
    ) -> None:
        self._wrapped = wrapped
        self._batch_argument = batch_argument
        self._count_flops = count_flops
        self._programs: dict[Any, Any] = {}
        self._flops: dict[Any, int] = {}
        self._lock = threading.Lock()  # threads that share it compile once
        self.compile_seconds = 0.0
        self.idle_seconds = 0.0  # it never waits for another run

    @property
    def num_programs(self) -> int:
        return len(self._programs)

    @property
    def memory_bytes(self) -> int:
        """What the largest program takes on a device: arguments, results and between; 0 where the
        compiler does not say."""
        analyses = [program.memory_analysis() for program in self._programs.values()]
        return max((_bytes(analysis) for analysis in analyses if analysis), default=0)

    def flops(self, batch: Any) -> int:
        """The floating-point operations of a run's step with such a batch, which has been taken."""
        return self._flops[batch_shape(batch)]

    def __call__(self, *arguments: Any) -> Any:
        shape = batch_shape(arguments[self._batch_argument])
        with self._lock:
            if shape not in self._programs:
                start = time.perf_counter()
                self._programs[shape] = self._compile(shape, arguments)
                self.compile_seconds += time.perf_counter() - start
        return self._programs[shape](*arguments)

    def _compile(self, shape: Any, arguments: tuple[Any, ...]) -> Any:
        # What pmap gives has no `trace`.
        traced = self._wrapped.trace(*arguments) if hasattr(self._wrapped, "trace") else None
        if self._count_flops is not None:
            self._flops[shape] = self._count_flops(traced, arguments)
        lowered = self._wrapped.lower(*arguments) if traced is None else traced.lower()
        return lowered.compile()


def batch_shape(batch: Any) -> Any:
    """What a batch has its own program for."""
    leaves, structure = jax.tree.flatten(batch)
    return structure, tuple(leaf.shape for leaf in leaves)


def flops_of_trace(traced: Any, arguments: tuple[Any, ...]) -> int:
    """The count of a program under jit, whose shapes are those of all devices together."""
    del arguments
    return flops.count(traced.jaxpr).flops


def _bytes(analysis: Any) -> int:
    sizes = (analysis.argument_size_in_bytes, analysis.output_size_in_bytes)
    # Results that reuse the memory of arguments are counted in both.
    return sum(sizes) + analysis.temp_size_in_bytes - analysis.alias_size_in_bytes


class Jit:
    """One program over a mesh of all devices: parameters on each, rows of the batch shared out.

    jit sees the global batch, so sums are global and random numbers do not depend on the number
    of devices.
    """

    across = Across()
    runs_at_once = 1

    def __init__(self) -> None:
        self.num_devices = jax.device_count()
        # Embedding look-ups do not pass through explicitly typed mesh axes.
        self.mesh = jax.make_mesh((self.num_devices,), (DATA_AXIS,), axis_types=(AxisType.Auto,))
        self.replicated = NamedSharding(self.mesh, PartitionSpec())
        self.by_rows = NamedSharding(self.mesh, PartitionSpec(DATA_AXIS))

    @property
    def base(self) -> Jit:
        """What later runs can use too: this, and for one of a group what the group stands on."""
        return self

    def place(self, tree: Any) -> Any:
        """Puts a copy on every device."""
        return jax.device_put(tree, self.replicated)

    def place_batch(self, batch: Any) -> Any:
        """Shares the rows out, of each array of a tree; each process brings its own."""
        return jax.tree.map(
            lambda rows: jax.make_array_from_process_local_data(self.by_rows, rows), batch
        )

    def one_copy(self, tree: Any) -> Any:
        """The tree as it is saved: without a device axis."""
        return tree

    def abstract(self, tree: Any) -> Any:
        """Shapes, types and places of a saved tree, for restoring it onto these devices."""
        return _abstract(tree, self.replicated)

    def train_step(self, step: Callable) -> Compiled:
        """Wraps `(state, batch, hyper) -> (state, metrics)`; the old state's memory is reused."""
        with_shardings = jax.jit(
            step,
            in_shardings=(self.replicated, self.by_rows, self.replicated),
            out_shardings=self.replicated,
            donate_argnums=0,
        )
        return Compiled(with_shardings, batch_argument=1, count_flops=flops_of_trace)

    def predict_step(self, step: Callable) -> Compiled:
        """Wraps `(params, batch, rates) -> outputs`."""
        with_shardings = jax.jit(
            step,
            in_shardings=(self.replicated, self.by_rows, self.replicated),
            out_shardings=self.by_rows,
        )
        return Compiled(with_shardings, batch_argument=1)

    def to_host(self, outputs: Any) -> Any:
        """This process's rows of a prediction, as NumPy arrays in the same tree."""
        return jax.tree.map(_local_rows, outputs)


class Pmap:
    """One replica a device, each with its own rows; sums cross the devices by name.

    For those who ask for it; `jax.pmap` is in maintenance. Dropout differs from `Jit`, since each
    replica draws its own numbers.
    """

    across = Across(
        total=lambda tree: jax.lax.psum(tree, DATA_AXIS),
        replica=lambda: jax.lax.axis_index(DATA_AXIS),
    )
    runs_at_once = 1

    def __init__(self) -> None:
        self.num_devices = jax.device_count()
        self._num_local = jax.local_device_count()

    @property
    def base(self) -> Pmap:
        """What later runs can use too."""
        return self

    def place(self, tree: Any) -> Any:
        """Puts a copy on every device: each leaf gets a leading axis of devices."""
        copy = jax.pmap(lambda _, x: x, in_axes=(0, None), axis_name=DATA_AXIS)
        return copy(np.arange(self._num_local), tree)

    def place_batch(self, batch: Any) -> Any:
        """Cuts the rows into one block a device: each [b …] becomes [devices b/devices …]."""
        return jax.tree.map(
            lambda rows: rows.reshape(
                self._num_local, rows.shape[0] // self._num_local, *rows.shape[1:]
            ),
            batch,
        )

    def one_copy(self, tree: Any) -> Any:
        """The tree as it is saved: without the device axis."""
        return jax.tree.map(lambda x: x[0], tree)

    def abstract(self, tree: Any) -> Any:
        """Shapes, types and place of a saved tree, for restoring it onto the first device."""
        return _abstract(tree, SingleDeviceSharding(jax.local_devices()[0]))

    def train_step(self, step: Callable) -> Compiled:
        """Wraps the training step; sums cross the devices inside it."""
        wrapped = jax.pmap(step, axis_name=DATA_AXIS, donate_argnums=0)

        def count_flops(traced: Any, arguments: tuple[Any, ...]) -> int:
            del traced
            return self._flops(step, *arguments)

        return Compiled(wrapped, batch_argument=1, count_flops=count_flops)

    def _flops(self, step: Callable, state: Any, batch: Any, hyper: Any) -> int:
        """The count of the step as one device would take it with all rows: what every replica does
        again, such as the update, counts once, as it does in a run under jit."""

        def all_rows(blocks: Any) -> jax.ShapeDtypeStruct:
            rows = self.num_devices * blocks.shape[1]
            return jax.ShapeDtypeStruct((rows, *blocks.shape[2:]), blocks.dtype)

        # Around the names of axes that the step sums over.
        mesh = AbstractMesh((1,), (DATA_AXIS,), axis_types=(AxisType.Auto,))
        everywhere = PartitionSpec()
        alone = jax.shard_map(
            step, mesh=mesh, in_specs=everywhere, out_specs=everywhere, check_vma=False
        )
        state, hyper = without_axes((state, hyper), 1)
        jaxpr = jax.make_jaxpr(alone)(state, jax.tree.map(all_rows, batch), hyper)
        return flops.count(jaxpr).flops

    def predict_step(self, step: Callable) -> Compiled:
        """Wraps `(params, batch, rates) -> outputs`."""
        return Compiled(jax.pmap(step, axis_name=DATA_AXIS), batch_argument=1)

    def to_host(self, outputs: Any) -> Any:
        """This process's rows of a prediction: each [devices b/devices …] becomes [b …]."""
        return jax.tree.map(
            lambda blocks: np.asarray(blocks).reshape(
                blocks.shape[0] * blocks.shape[1], *blocks.shape[2:]
            ),
            outputs,
        )


Parallel = Jit | Pmap


def make_parallel(parallelism: str) -> Parallel:
    """`jit` (the default) or `pmap`, over every device there is."""
    kinds = {"jit": Jit, "pmap": Pmap}
    if parallelism not in kinds:
        raise UserError(f"parallelism is '{parallelism}'; allowed: {', '.join(kinds)}")
    return kinds[parallelism]()


def without_axes(tree: Any, number: int, sharding: Any = None) -> Any:
    """Shapes and types of a tree's entries without their first axes, those of devices or runs."""
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape[number:], x.dtype, sharding=sharding), tree
    )


def _abstract(tree: Any, sharding: Any) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree)


def _local_rows(value: jax.Array) -> np.ndarray:
    if value.is_fully_addressable:
        return np.asarray(value)
    shards = sorted(value.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return np.concatenate([np.asarray(shard.data) for shard in shards])
