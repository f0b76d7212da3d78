"""What docs/results/sweep/measure.py notes of the code that it measures."""

from __future__ import annotations

import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.fast


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")
    command = ["git", *who, *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_rows_have_the_commit_and_none_outside_git(tmp_path: Path, repository: Path) -> None:
    script = repository / "docs" / "results" / "sweep" / "measure.py"
    commit: Any = runpy.run_path(str(script))["commit"]
    assert commit(tmp_path) is None
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "--message=one")
    assert commit(tmp_path) == git(tmp_path, "rev-parse", "--short", "HEAD").strip()
