"""Keeps compiled programs on disk, so that a second run starts in seconds."""

from __future__ import annotations

import hashlib
import os
import platform
import time
import zlib
from pathlib import Path

import jax

from attention.cache_directory import cache_directory

OFF_SWITCH = "ATTENTION_LAB_COMPILATION_CACHE"  # set to 0 to compile everything anew
_MIN_COMPILE_SECONDS = 0.1  # below that, reading is no faster than compiling
_CHECKED = "checked"  # its time of change is when torn entries were last looked for
_ZLIB_FIRST_BYTE = 0x78
_OVERLAP_SECONDS = 60.0


def enable_compilation_cache() -> Path | None:
    """Turns on JAX's persistent cache under the user's cache directory; returns where it is.

    A directory that the user chose with `JAX_COMPILATION_CACHE_DIR` (or in JAX's config) stays as
    it is. None: switched off by `ATTENTION_LAB_COMPILATION_CACHE=0`.
    """
    if os.environ.get(OFF_SWITCH, "").lower() in ("0", "off", "false", "no"):
        return None
    chosen = getattr(jax.config, "jax_compilation_cache_dir", None)
    if chosen:
        return Path(chosen)
    directory = cache_directory("xla", _machine_key())
    directory.mkdir(parents=True, exist_ok=True)
    _remove_torn_entries(directory)
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


def _remove_torn_entries(directory: Path) -> None:
    """Removes what a process killed while writing has left.

    JAX writes entries in place and never replaces one, so that it would warn of a torn entry, and
    compile the program again, in every run to come. Only what is new since the last look is read.
    """
    marker, now = directory / _CHECKED, time.time()
    since = marker.stat().st_mtime - _OVERLAP_SECONDS if marker.exists() else 0.0
    for entry in directory.glob("*-cache"):
        try:
            if entry.stat().st_mtime >= since and _is_torn(entry.read_bytes()):
                entry.unlink()
        except OSError:
            continue  # another process was faster
    marker.touch()
    os.utime(marker, (now, now))


def _is_torn(content: bytes) -> bool:
    """JAX compresses with zlib, or zstd where Python has it, whose entries are left alone."""
    if content and content[0] != _ZLIB_FIRST_BYTE:
        return False
    stream = zlib.decompressobj()
    try:
        stream.decompress(content)
    except zlib.error:
        return True
    return not stream.eof
