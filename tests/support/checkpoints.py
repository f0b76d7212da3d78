"""A small training state, different at every step, and scripts run in their own process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from attention.training.checkpoint import Checkpoints


class State(NamedTuple):
    step: Any
    params: Any
    optimizer: Any


_OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))


def make_state(step: int) -> State:
    """A small state, different in every number at every step."""
    params = nnx.state(nnx.Linear(3, 5, rngs=nnx.Rngs(step)), nnx.Param)
    optimizer = jax.tree.map(lambda x: x + step, _OPTIMIZER.init(params))
    return State(jnp.asarray(step, jnp.int32), params, optimizer)


def assert_equal(actual: Any, expected: Any) -> None:
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def save_steps(directory: Path, *steps: int, best_step: int | None = None) -> None:
    with Checkpoints(directory) as checkpoints:
        for step in steps:
            checkpoints.save(step, make_state(step), {"step": step}, best_step=best_step)


def run_python(source: str, *arguments: Any, devices: int = 1) -> str:
    """Runs a script in a new process; returns what it printed."""
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout
