"""What every test shares: a CPU, strict shapes, caches that are not the user's."""

from __future__ import annotations

import os
import signal
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest

# A shell's background jobs ignore Ctrl-C, and hand that on to what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
jax.config.update("jax_numpy_rank_promotion", "raise")

REPOSITORY = Path(__file__).parent.parent


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
