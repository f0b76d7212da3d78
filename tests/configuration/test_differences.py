"""What may change in an old run directory."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from ml_collections import ConfigDict

from attention.configuration import Difference, config_hash, continue_with, differences
from attention.configuration.check import CHOICES
from attention.configuration.differences import LENGTH_DEPENDENT_SCHEDULES
from attention.configuration.fields import normalized
from attention.configuration.overrides import apply_overrides
from attention.errors import UserError

pytestmark = pytest.mark.fast


@pytest.fixture
def saved(config: ConfigDict) -> ConfigDict:
    config = normalized(config)
    config.eval_batch_size = 8
    config.parallelism = "jit"
    config.data = ConfigDict({"num_threads": 2, "max_length": 8})
    config.mesh = ConfigDict({"data": 1})
    config.optimizer.schedule = "constant"
    config.optimizer.warmup_steps = 5
    config.train_steps, config.train_epochs = 100, None
    return config.lock()


def _changed(saved: ConfigDict, key: str, value: Any) -> ConfigDict:
    return apply_overrides(saved, [(key, value)])


def test_equal_configs_do_not_differ(saved: ConfigDict) -> None:
    assert differences(saved, normalized(saved)) == []
    assert continue_with(saved, saved, where="runs/x") is saved


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("log_every_steps", 99),
        ("eval_batch_size", 64),
        ("parallelism", "pmap"),
        ("mesh.data", 4),
        ("data.num_threads", 0),
        ("train_steps", 101),
    ],
)
def test_what_may_change(
    saved: ConfigDict, key: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    new = _changed(saved, key, value)
    assert differences(saved, new) == [Difference(key, saved[key], value, True)]
    assert continue_with(saved, new, where="runs/x") is new
    assert not caplog.records


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("train_steps", 99),
        ("seed", 1),
        ("optimizer.learning_rate", 0.2),
        ("optimizer.warmup_steps", 6),
        ("batch_tokens", 4096),
        ("data.max_length", 16),
        ("model.attention.num_kv_heads", 2),
    ],
)
def test_what_may_not_change_is_named_with_both_values(
    saved: ConfigDict, key: str, value: Any
) -> None:
    new = _changed(saved, key, value)
    with pytest.raises(UserError, match=r"^runs/x holds a run with another config") as caught:
        continue_with(saved, new, where="runs/x")
    assert f"{key}: {saved[key]!r} -> {value!r}" in str(caught.value)


def test_all_differing_keys_are_named_and_only_those_that_may_not(saved: ConfigDict) -> None:
    new = apply_overrides(
        saved, [("seed", 1), ("optimizer.learning_rate", 0.2), ("log_every_steps", 99)]
    )
    with pytest.raises(UserError) as caught:
        continue_with(saved, new, where="runs/x")
    assert "(optimizer.learning_rate: 0.1 -> 0.2; seed: 0 -> 1)" in str(caught.value)


def test_steps_in_place_of_epochs_cannot_be_compared(saved: ConfigDict) -> None:
    new = _changed(saved, "train_epochs", 1000.0)
    assert {d.key: d.allowed for d in differences(saved, new)} == {
        "train_epochs": False,
        "train_steps": False,
    }


def test_a_key_that_one_of_them_lacks_is_a_difference(saved: ConfigDict) -> None:
    new = normalized(saved)
    new.extra = None
    assert differences(saved, new) == [Difference("extra", "(absent)", None, False)]
    assert differences(new, saved) == [Difference("extra", None, "(absent)", False)]


@pytest.mark.parametrize(
    ("key", "value", "cause"),
    [
        ("optimizer.schedule", "cosine", "optimizer.schedule=cosine"),
        ("optimizer.warmup_steps", "5%", "optimizer.warmup_steps=5%"),
    ],
)
def test_a_longer_run_warns_where_the_schedule_depends_on_it(
    saved: ConfigDict, key: str, value: Any, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    saved = _changed(saved, key, value)
    continue_with(saved, _changed(saved, "train_steps", 200), where="runs/x")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "train_steps was raised from 100 to 200" in record.getMessage()
    assert cause in record.getMessage()


def test_what_may_change_is_no_part_of_the_hash(saved: ConfigDict) -> None:
    before = config_hash(saved)
    for key in ("log_every_steps", "eval_batch_size", "mesh.data", "data.num_threads"):
        new = _changed(saved, key, 99)
        assert config_hash(new) == before and differences(saved, new)[0].allowed, key
    assert config_hash(_changed(saved, "data.max_length", 99)) != before


@pytest.mark.parametrize("schedule", CHOICES["optimizer.schedule"])
def test_the_schedules_said_to_depend_on_the_length_do(schedule: str) -> None:
    from attention.training.optimizer import Hyper, learning_rate

    numbers = dict.fromkeys(Hyper._fields, 1.0)
    rates = [
        float(learning_rate(8, Hyper(**{**numbers, "total_steps": total}), schedule=schedule))
        for total in (10.0, 20.0)
    ]
    assert (rates[0] != rates[1]) == (schedule in LENGTH_DEPENDENT_SCHEDULES)


def test_raised_epochs_are_allowed_too(config: ConfigDict) -> None:
    assert [d.allowed for d in differences(config, _changed(config, "train_epochs", 2.5))] == [True]
    assert [d.allowed for d in differences(config, _changed(config, "train_epochs", 1.5))] == [
        False
    ]
