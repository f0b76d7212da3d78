"""What a process sets before JAX computes anything: memory, compiled programs, precision."""

from __future__ import annotations

from typing import Any

import jax

from attention.training.allocator import keep_freed_memory
from attention.training.compilation_cache import enable_compilation_cache


def set_up_runtime(config: Any) -> None:
    """Prepares this process for the programs of a config."""
    keep_freed_memory()
    enable_compilation_cache()
    jax.config.update("jax_default_matmul_precision", config.matmul_precision)
