"""A sweep's two files for readers, where they are not as they were written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.fake_training import write_recipe

from attention.errors import UserError
from attention.sweeping.directory import SweepDirectory


@pytest.fixture
def swept(tmp_path: Path, run_here: Any) -> tuple[Path, Path]:
    """A recipe of two points, and the folder of its sweep."""
    recipe = write_recipe(tmp_path / "r", "for n in range(2):\n    yield {'seed': n}")
    run_here(recipe, tmp_path / "s")
    return recipe, tmp_path / "s"


@pytest.mark.parametrize("text", ["{", "", "[]", "null"])
def test_a_damaged_sweep_is_refused_by_name(swept: tuple, run_here: Any, text: str) -> None:
    recipe, workdir = swept
    (workdir / "sweep.json").write_text(text)
    with pytest.raises(UserError, match=r"s/sweep\.json is damaged: expected a JSON object"):
        run_here(recipe, workdir)


@pytest.mark.parametrize("text", ["{", "[]", '{"trial": 0}'])
def test_a_damaged_row_is_written_anew(
    swept: tuple, run_here: Any, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    recipe, workdir = swept
    file = workdir / "trials.jsonl"
    whole = file.read_text()
    file.write_text(f"{text}\n{whole.splitlines()[1]}\n")
    assert [row["trial"] for row in SweepDirectory(workdir).rows()] == [1]
    assert "trials.jsonl:1 is damaged and passed over" in caplog.text
    run_here(recipe, workdir)
    assert file.read_text() == whole
