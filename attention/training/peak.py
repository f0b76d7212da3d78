"""What this machine can do, and how much of it a training step is: FLOP/s."""

from __future__ import annotations

import functools
import time
from typing import Any

import jax
import jax.numpy as jnp

# Square sizes tried in turn. The last needs 3 · 8192² · 4 B = 0.8 GB, no trouble where it is fast.
_SIZES = (512, 1024, 2048, 4096, 8192)
_REPEATS = 3
_BUDGET_SECONDS = 0.5


@functools.cache
def peak_flops(dtype: str) -> float:
    """Measures the FLOP/s of a large square matrix product, on all devices of this process at once.

    Takes less than a second on a CPU; measured once in a process for each dtype (the name of both
    factors' type), at JAX's default matmul precision as it is then.
    """
    devices = jax.local_devices()
    multiply = jax.jit(jnp.matmul)
    best, spent = 0.0, 0.0
    for size in _SIZES:
        # Not constant: some chips run faster on factors that cost them little power.
        factor = jnp.sin(jnp.arange(size * size, dtype=jnp.float32)).reshape(size, size)
        factors = [jax.device_put(factor.astype(dtype), device) for device in devices]
        jax.block_until_ready([multiply(x, x) for x in factors])  # compiles, warms up
        seconds = min(_seconds(multiply, factors) for _ in range(_REPEATS))
        best = max(best, 2 * size**3 * len(devices) / seconds)
        spent += (_REPEATS + 1) * seconds
        # Twice the size is eight times the work.
        if spent + (_REPEATS + 1) * 8 * seconds > _BUDGET_SECONDS:
            break
    return best


def _seconds(multiply: Any, factors: list[jax.Array]) -> float:
    start = time.perf_counter()
    jax.block_until_ready([multiply(x, x) for x in factors])
    return time.perf_counter() - start


def matmul_parameters(params: Any) -> int:
    """Counts the parameters that multiply every token: those named `kernel`.

    Embedding tables are looked up, and biases and norms added or scaled, at next to no cost.
    """
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return sum(leaf.size for path, leaf in leaves if _name(path) == "kernel")


def model_flops(matmul_params: int, tokens: float) -> float:
    """Returns the operations that training on `tokens` real tokens needs for the parameters alone.

    A parameter is multiplied and added once forward and twice backward: 6 · parameters · tokens
    (Kaplan et al. 2020, arXiv:2001.08361, section 2.1). What is done to compute attention, padding
    or a value again is left out: `flops.count` has all of it.
    """
    return 6 * matmul_params * tokens


def _name(path: tuple[Any, ...]) -> str:
    """The last name on the path; the variables of Flax add a `value` of their own."""
    names = [getattr(key, "key", getattr(key, "name", None)) for key in path]
    while names and (names[-1] is None or names[-1] == "value"):
        names.pop()
    return str(names[-1]) if names else ""
