"""What the tests of training share."""

from __future__ import annotations

import pytest

from attention.training.run_directory import RunDirectory


@pytest.fixture
def run(tmp_path) -> RunDirectory:
    """A new run directory."""
    directory = RunDirectory(tmp_path / "run")
    directory.create()
    return directory
