"""The compilation cache: found again by the next process, silent, and under the user's control."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
import zlib

import pytest

from attention.training import compilation_cache

_COMPILE = """
    import jax, jax.numpy as jnp
    from jax._src import monitoring
    from attention.training.compilation_cache import enable_compilation_cache
    seen = []
    monitoring.register_event_listener(lambda name, **_: seen.append(name.split("/")[-1]))
    directory = enable_compilation_cache()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    step = jax.jit(lambda x: jnp.tanh(x @ x).sum() + jnp.sin(x), donate_argnums=0)
    x = jnp.ones((8, 8))
    print(step(x)[0, 0], x.is_deleted())
    print(directory, seen.count("cache_hits"), seen.count("cache_misses"))
"""


def compile_once(tmp_path, **variables: str) -> tuple[str, str, int, int]:
    """Compiles in a new process; returns result, directory, hits and misses. Stderr is empty."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_COMP", "XLA_"))}
    environment |= {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "ATTENTION_LAB_CACHE": str(tmp_path / "cache"),
        "JAX_PLATFORMS": "cpu",
        **variables,
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_COMPILE)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    result, counted = done.stdout.splitlines()
    directory, hits, misses = counted.split()
    return result, directory, int(hits), int(misses)


def test_the_second_process_compiles_nothing_and_says_nothing(tmp_path):
    result, directory, hits, misses = compile_once(tmp_path)
    assert directory.startswith(str(tmp_path / "cache" / "xla"))
    assert hits == 0 and misses > 0
    again, _, hits, misses = compile_once(tmp_path)
    assert again == result
    assert hits > 0 and misses == 0
    # A process killed while writing leaves a torn entry: compiled again once, without a word.
    for entry in (tmp_path / "cache").rglob("*-cache"):
        os.truncate(entry, entry.stat().st_size // 2)
    assert compile_once(tmp_path)[2] == 0
    assert compile_once(tmp_path)[3] == 0


def test_the_off_switch_and_the_users_own_directory(tmp_path):
    off = compile_once(tmp_path, ATTENTION_LAB_COMPILATION_CACHE="0")
    assert off[1:] == ("None", 0, 0)
    own = compile_once(tmp_path, JAX_COMPILATION_CACHE_DIR=str(tmp_path / "own"))
    assert own[1] == str(tmp_path / "own") and own[3] > 0
    assert not (tmp_path / "cache").exists()


@pytest.mark.fast
def test_only_torn_entries_that_are_new_are_removed(tmp_path):
    whole = zlib.compress(b"program" * 1000)
    contents = {
        "whole": whole,
        "cut": whole[:-1],
        "changed": whole[:30] + b"?" + whole[31:],
        "empty": b"",
        "zstd": b"\x28\xb5\x2f\xfd and so on",
    }
    for name, data in contents.items():
        (tmp_path / f"{name}-cache").write_bytes(data)
    compilation_cache._remove_torn_entries(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"whole-cache", "zstd-cache", "checked"}
    old = tmp_path / "old-cache"
    old.write_bytes(whole[:-1])
    os.utime(old, (time.time() - 3600,) * 2)
    compilation_cache._remove_torn_entries(tmp_path)
    assert old.exists()
