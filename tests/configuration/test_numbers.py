"""Which configs share a program."""

import pytest

from attention.configuration import load_config, program_of, same_program

pytestmark = pytest.mark.fast


def program(**rates):
    overrides = {f"model.{name}_rate": rate for name, rate in rates.items()}
    return program_of(load_config("configs/sentiment.py:size=tiny", overrides))


def test_rates_above_zero_share_a_program():
    assert program(dropout=0.1) == program(dropout=0.4)
    assert program(attention_dropout=0.1) == program(attention_dropout=0.4)


def test_a_rate_of_zero_is_a_program_of_its_own():
    assert program(dropout=0.1) != program(dropout=0.0)
    assert program(attention_dropout=0.1) != program(attention_dropout=0.0)


def test_a_rate_that_follows_another_is_neither():
    # With the other at 0 it drops nothing, above 0 it does: "not given" says neither.
    following = program(dropout=0.4, attention_dropout=None)
    assert following != program(dropout=0.4, attention_dropout=0.0)
    assert following != program(dropout=0.0, attention_dropout=None)
    for rate in (0.0, 0.1):
        assert not same_program("model.attention_dropout_rate", None, rate)
