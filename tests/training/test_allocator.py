"""The allocator is told once, unless the user has said otherwise."""

import os
import subprocess
import sys

import pytest

from attention.training import allocator

pytestmark = pytest.mark.fast


def test_the_users_own_settings_win(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    assert allocator.keep_freed_memory() is False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_freed_memory_stays_mapped():
    """A large block freed and allocated again is the same memory, without new page faults."""
    script = """
import ctypes, resource, sys
from attention.training.allocator import keep_freed_memory
if sys.argv[1] == "keep" and not keep_freed_memory():
    print("other C library"); sys.exit()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
libc.malloc.argtypes = [ctypes.c_size_t]
size = 256 << 20
def use():
    block = libc.malloc(size); ctypes.memset(block, 1, size); libc.free(block)
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    faults = []
    for mode in ("keep", "default"):
        done = subprocess.run(
            [sys.executable, "-c", script, mode], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr
        if done.stdout.startswith("other"):
            pytest.skip("another C library")
        faults.append(int(done.stdout))
    assert faults[0] < 100 < faults[1]
