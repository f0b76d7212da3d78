"""Durations in steps, epochs and percent."""

import pytest

from attention.configuration import steps
from attention.configuration.durations import canonical, depends_on_total, is_duration
from attention.errors import UserError

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (7, 7),
        (0, 0),
        ("12", 12),
        ("3epochs", 31),  # 3 × 10.4 = 31.2
        ("1epoch", 10),
        ("0.25 epochs", 3),  # 2.6, rounded
        ("5%", 25),
        ("2.5%", 13),  # 12.5, rounded up
        ("0.01%", 1),  # never so rare that it does not happen
        ("0%", 0),
    ],
)
def test_steps(duration: int | str, expected: int) -> None:
    assert steps(duration, total_steps=500, steps_per_epoch=10.4) == expected


@pytest.mark.parametrize("value", [-1, 2.5, True, None, "", "-3", "x", "3 weeks", "5%%", "1e3"])
def test_what_is_no_duration_is_refused_by_name(value: object) -> None:
    with pytest.raises(UserError, match=r"log_every_steps=.*3epochs"):
        canonical(value, key="log_every_steps")


def test_one_duration_has_one_spelling() -> None:
    spellings = {canonical(value, key="x") for value in ("5%", "5.0%", " 5 % ", "05%")}
    assert spellings == {"5%"}
    assert canonical("1epoch", key="x") == canonical("1.0epochs", key="x") == "1epochs"


def test_which_keys_are_durations() -> None:
    durations = ["log_every_steps", "optimizer.warmup_steps"]
    others = [
        "train_steps",
        "optimizer.accumulation_steps",
        "model.attention.inverse_steps",
        "seed",
    ]
    assert [key for key in durations + others if is_duration(key)] == durations


def test_which_durations_depend_on_the_length_of_the_run() -> None:
    assert [depends_on_total(value) for value in ("5%", "1epochs", 5)] == [True, False, False]
