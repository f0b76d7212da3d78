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


SPACE = "SearchSpace({'rate': Real(0.5, HIGH), 'seed': Whole(0, 9)}, sampler='random', trials=N)"


def searching(folder: Path, *, high: str = "1.0", trials: str = "1") -> Path:
    head = "from attention.configuration.search_space import Real, SearchSpace, Whole\n"
    return write_recipe(
        folder, f"{head}return {SPACE.replace('HIGH', high).replace('N)', f'{trials})')}"
    )


def test_a_search_keeps_its_space_and_may_grow(tmp_path: Path, run_here: Any) -> None:
    workdir = tmp_path / "s"
    run_here(searching(tmp_path / "r"), workdir)
    before = (workdir / "sweep.json").read_text()
    with pytest.raises(UserError, match=r"holds a search with another rate, and draws"):
        run_here(searching(tmp_path / "r", high="2.0"), workdir)
    assert (workdir / "sweep.json").read_text() == before
    assert len(run_here(searching(tmp_path / "r", trials="2"), workdir)) == 2


def test_rows_of_points_that_are_solved_later_stay(tmp_path: Path) -> None:
    """Two jobs of one array, each of which solves its own point of a budget alone."""
    directory = SweepDirectory(tmp_path)
    rows = [{"trial": n, "overrides": {"seed": n, "model.mlp_dim": 8}} for n in range(2)]
    for own in range(2):
        points = {n: rows[n]["overrides"] if n == own else {"seed": n} for n in range(2)}
        directory.write_rows([rows[own]], points=points, solved="model.mlp_dim")
    assert directory.rows() == rows
