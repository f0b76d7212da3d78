"""Keeps compiled programs on disk, so that a second run starts in seconds."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

import jax

from attention.cache_directory import cache_directory

OFF_SWITCH = "ATTENTION_LAB_COMPILATION_CACHE"  # set to 0 to compile everything anew
_MIN_COMPILE_SECONDS = 0.1  # below that, reading is no faster than compiling


def enable_compilation_cache() -> Path | None:
    """Turns on JAX's persistent cache under the user's cache directory; returns where it is.

    A directory that the user chose with `JAX_COMPILATION_CACHE_DIR` (or in JAX's config) stays as
    it is. None: switched off by `ATTENTION_LAB_COMPILATION_CACHE=0`.
    """
    if os.environ.get(OFF_SWITCH, "").lower() in ("0", "off", "false", "no"):
        return None
    chosen = jax.config.jax_compilation_cache_dir
    if chosen:
        return Path(chosen)
    directory = cache_directory("xla", _machine_key())
    directory.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _MIN_COMPILE_SECONDS)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return directory


def _machine_key() -> str:
    """Programs for a CPU hold its instructions: a home directory shared by different machines, or
    a container that moves, must not run another's."""
    lines: set[str] = set()
    info = Path("/proc/cpuinfo")
    if info.exists():
        wanted = ("model name", "flags", "Features", "CPU part")
        lines = {line for line in info.read_text().splitlines() if line.startswith(wanted)}
    parts = [platform.machine(), platform.processor(), *sorted(lines)]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return f"{digest}-jax-{jax.__version__}"
