"""What a run spends, told without running it, against what it spends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.runs import small_config

from attention.training import costs as module
from attention.training.costs import Costs
from attention.training.loop import train

SHAPES = [
    {},
    {"spec": "variant=rnn", "train_epochs": 0.5, "train_steps": None},
    {"data__pack": "never"},
]


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=["packed", "epochs", "alone"])
def test_the_amounts_are_those_of_result_json(tmp_path: Path, shape: dict[str, Any]) -> None:
    config = small_config(tmp_path / "data", **shape)
    costs = Costs(tmp_path / "costs")
    steps = costs.total_steps(config)
    tokens = sum(number for number, _ in zip(costs.step_tokens(config), range(steps), strict=False))
    result = train(config, str(tmp_path / "run"))
    assert result["step"] == steps
    assert result["num_params"] == costs.parameters(config)
    assert result["flops"] == round(costs.flops(config, tokens))


def test_an_epoch_has_each_token_once(tmp_path: Path) -> None:
    config = small_config(tmp_path / "data", train_epochs=1.0, train_steps=None)
    words = (tmp_path / "data" / "train.conllu").read_text().count("_\t_\t_\t_\n")
    costs = Costs(tmp_path / "costs")
    assert sum(costs.step_tokens(config)) == words > 100


def test_a_step_is_the_mean_over_the_shapes_of_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shape counts as often as it comes."""
    config = small_config(tmp_path / "data", data__pack="never", train_steps=1)
    costs = Costs(tmp_path / "costs")
    measured: list[int] = []

    def seconds(x: Any, batch: Any) -> float:
        measured.append(batch["tokens"]["segment_ids"].shape[1])
        return float(measured[-1] ** 2)

    monkeypatch.setattr(module, "_step_seconds", seconds)
    mean = costs.seconds_per_step(config)
    plan = costs._plan(config)
    lengths = [plan.batch(step).length for step in range(200)]
    assert mean == pytest.approx(sum(length**2 for length in lengths) / 200)
    assert sorted(measured) == sorted(set(lengths)) and len(measured) > 1


@pytest.mark.slow
def test_the_compiled_step_is_timed(tmp_path: Path) -> None:
    config = small_config(tmp_path / "data")
    assert 0 < Costs(tmp_path / "costs").seconds_per_step(config) < 60
