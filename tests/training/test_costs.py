"""What a run spends, told without running it, against what it spends."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.runs import small_config

from attention.training import costs as module
from attention.training.costs import Costs
from attention.training.loop import train

KINDS = {
    "packed": {},
    "epochs": {"spec": "variant=rnn", "train_epochs": 0.5, "train_steps": None},
    "alone": {"data__pack": "never"},
    "parts": {"optimizer__accumulation_steps": 2, "model__dropout_rate": 0.0, "train_steps": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_amounts_are_those_of_result_json(tmp_path: Path, kind: str) -> None:
    config = small_config(tmp_path / "data", **KINDS[kind])
    costs = Costs(tmp_path / "costs")
    steps = costs.total_steps(config)
    batches = Counter(itertools.islice(costs.shapes(config), steps))
    result = train(config, str(tmp_path / "run"))
    assert result["step"] == steps == sum(batches.values())
    assert (len(batches) > 1) == (kind == "alone")
    assert result["num_params"] == costs.parameters(config)
    assert result["flops"] == costs.flops(config, batches)


def test_a_shape_is_traced_once_and_more_of_the_same_costs_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(tmp_path / "data")
    costs, traced = Costs(tmp_path / "costs"), []
    real = costs._step_flops
    monkeypatch.setattr(
        costs, "_step_flops", lambda config, shape: traced.append(shape) or real(config, shape)
    )
    small, large = (4, 32, 1), (8, 32, 1)
    one = costs.flops(config, {small: 1})
    both = costs.flops(config, {small: 2, large: 1})
    assert traced == [small, large]
    # Twice the rows are less than twice the work: the update is the same.
    assert one < both - 2 * one < 2 * one
    other_seed = small_config(tmp_path / "data", seed=3)
    assert costs.flops(other_seed, {small: 1}) == one and len(traced) == 2
    wider = small_config(tmp_path / "data", model__mlp_dim=33)
    assert costs.flops(wider, {small: 1}) > one and len(traced) == 3


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
