"""What every test shares: a CPU, strict shapes, caches that are not the user's."""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Most of the suite's time is LLVM's, on programs that run once. With 0 in place of 1 programs are
# those that users run: .ci/run tests the fast subset that way too.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

import jax
import pytest

from attention import command

# A shell's background jobs ignore Ctrl-C, and hand that on to what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
jax.config.update("jax_numpy_rank_promotion", "raise")

REPOSITORY = Path(__file__).parent.parent
MOST_MEMORY = 3 << 30


@pytest.fixture(autouse=True)
def bounded_memory(memory_limit: list[int]) -> Iterator[None]:
    """Forgets compiled programs where thousands of tests have left more than a machine may have."""
    yield
    if memory_in_use() > memory_limit[0]:
        jax.clear_caches()
        gc.collect()
        # What stays may be more than that already: each time must be worth its compilations.
        memory_limit[0] = max(MOST_MEMORY, memory_in_use() + MOST_MEMORY // 2)


@pytest.fixture(autouse=True)
def quiet_afterwards() -> Iterator[None]:
    """Takes back what a command, run in this process, sets up for its log lines and signals."""
    root = logging.getLogger()
    handlers, level, on_term = list(root.handlers), root.level, signal.getsignal(signal.SIGTERM)
    yield
    for handler in root.handlers[:]:
        if isinstance(handler, command._StderrHandler) and handler not in handlers:
            root.removeHandler(handler)
    root.setLevel(level)
    signal.signal(signal.SIGTERM, on_term)


@pytest.fixture(scope="session")
def memory_limit() -> list[int]:
    """Bytes above which programs are forgotten."""
    return [MOST_MEMORY]


def memory_in_use() -> int:
    """Bytes that this process holds now; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout, where the scripts and configs lie."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data beside the checkout, for those who have it."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no ../shared/data beside this checkout")
    return folder
