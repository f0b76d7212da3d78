"""A run opened for use: its config, its task, and the parameters of a checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from attention import configuration, tasks
from attention.configuration.overrides import apply_overrides
from attention.training import averaging
from attention.training.checkpoint import Checkpoints
from attention.training.evaluate import Predictor
from attention.training.parallel import Parallel, make_parallel
from attention.training.run_directory import RunDirectory
from attention.training.runtime import set_up_runtime
from attention.training.state import ModelParts, abstract_model, init_state


@dataclasses.dataclass(frozen=True)
class SavedRun:
    """A run with the parameters of one checkpoint, ready to predict."""

    run: RunDirectory
    config: Any
    task: Any
    parallel: Parallel
    parts: ModelParts
    predictor: Predictor
    params: nnx.State  # placed on the devices
    step: int
    averaged: tuple[int, ...] = ()  # the steps of which the parameters are the mean


def open_run(
    workdir: str,
    *,
    checkpoint: str = "best",
    eval_batch_size: int | None = None,
    overrides: Sequence[tuple[str, str]] = (),
) -> SavedRun:
    """Opens a run directory.

    Args:
      checkpoint: `best`, `latest`, `average` or the number of a step.
      eval_batch_size: rows a batch, in place of the config's.
      overrides: (dotted key, text) pairs, as `--config.KEY=VALUE` has them, of keys that do not
        change the model.

    Raises:
      UserError: no run there, no such checkpoint, or a wrong override.
    """
    run = RunDirectory(workdir)
    run.require()
    config: Any = configuration.read_saved(run.path)
    assert config is not None  # `require` has looked
    if eval_batch_size is not None:
        config.eval_batch_size = eval_batch_size
    config = apply_overrides(config, overrides)
    configuration.check(config)
    set_up_runtime(config)
    parallel = make_parallel(config.parallelism)
    task = tasks.get(config.task).Task.load(config, run.tokenizer)
    shapes = abstract_model(task.make_model)
    target = parallel.abstract(jax.eval_shape(init_state, shapes.params))
    best = run.best_of(f"eval/{task.METRICS[0]}")
    with Checkpoints(run.checkpoints, best=best, read_only=True) as checkpoints:
        steps, restored = _parameters(run, config, checkpoints, target, checkpoint)
    # Prediction draws nothing, so the rates do not matter; the step takes them all the same.
    rates = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes.rates)
    parts = ModelParts(shapes.structure, restored, rates)
    predictor = Predictor(task, parts, parallel)
    params = parallel.place(parts.params)
    averaged = tuple(steps) if checkpoint == averaging.AVERAGE else ()
    return SavedRun(run, config, task, parallel, parts, predictor, params, steps[-1], averaged)


def _parameters(
    run: RunDirectory, config: Any, checkpoints: Checkpoints, target: Any, checkpoint: str
) -> tuple[list[int], Any]:
    """The steps asked for, and the parameters of them."""
    if checkpoint == averaging.AVERAGE:
        return averaging.average(checkpoints, target, averaging.steps_of(run, config))
    restored = checkpoints.restore(target, checkpoint)
    assert restored is not None  # only a restore without a step gives None
    return [restored.step], restored.state.params
