"""The mean of the parameters of several checkpoints, which often scores better than each of them.

Vaswani et al. 2017 (arXiv 1706.03762), section 6.1, average the last 5 or 20 checkpoints.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import jax
import numpy as np
from flax import nnx

from attention.errors import UserError
from attention.training.checkpoint import Checkpoints
from attention.training.run_directory import RunDirectory

AVERAGE = "average"  # as --checkpoint=average has it
KEY = "average_checkpoints"


def wanted(config: Any) -> bool:
    """Returns whether a run keeps checkpoints to average."""
    return config.get(KEY, 0) > 0


def check(config: Any, splits: Collection[str]) -> None:
    """Raises UserError where checkpoints are to be averaged and there is no dev split."""
    if wanted(config) and "dev" not in splits:
        raise UserError(
            f"{KEY}={config[KEY]} averages the checkpoints that dev was last scored at, and "
            f"dataset={config.dataset} has no dev split here: set {KEY} to 0, or give one"
        )


def last_evaluated(config: Any, evaluated: Collection[int]) -> list[int]:
    """Returns the steps whose checkpoints are averaged: the last so many that dev was scored at.

    A resumed run averages what an uninterrupted one does: where it was stopped plays no part.
    """
    return sorted(evaluated)[-config[KEY] :] if wanted(config) else []


def steps_of(run: RunDirectory, config: Any) -> list[int]:
    """Returns `last_evaluated` of a run directory; raises UserError where it keeps none for it."""
    if not wanted(config):
        raise UserError(
            f"--checkpoint={AVERAGE}: {run.path} keeps the latest and the best checkpoint alone "
            f"({KEY}=0): train with --config.{KEY}=5, or name best, latest or a step"
        )
    return last_evaluated(config, {row["step"] for row in run.eval_rows()})


def average(
    checkpoints: Checkpoints, abstract_state: Any, steps: Sequence[int]
) -> tuple[list[int], nnx.State]:
    """Returns those of the steps that are there, and the mean of their parameters.

    The sum is taken in float64; the mean has the parameters' types, as NumPy arrays.

    Args:
      checkpoints: of the run.
      abstract_state: of a `TrainState`, as `Checkpoints.restore` takes it.
      steps: one that was damaged may be missing.

    Raises:
      UserError: none of them is there.
    """
    there = checkpoints.steps()
    found = [step for step in steps if step in there]
    if not found:
        raise UserError(f"{checkpoints.directory} has no checkpoint yet that was scored on dev")
    total: Any = None
    for step in found:
        restored = checkpoints.restore(abstract_state, step)
        assert restored is not None  # only a restore without a step gives None
        exact = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), restored.state.params)
        total = exact if total is None else jax.tree.map(np.add, total, exact)
    dtypes = jax.tree.map(lambda leaf: leaf.dtype, abstract_state.params)
    return found, jax.tree.map(lambda x, dtype: (x / len(found)).astype(dtype), total, dtypes)
