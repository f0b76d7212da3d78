"""How many runs train at once is chosen by memory and by what a step takes."""

from __future__ import annotations

import logging

import pytest
from support.runs import small_config

from attention.training import vectorize_width
from attention.training.shared import Shared


@pytest.fixture
def chosen(tmp_path, monkeypatch):
    """Chooses, where a step of 1, 2, … runs at once takes the given seconds."""

    def choose(seconds, *, most=8, memory=None):
        alone, *at_once = seconds
        left = iter(at_once)
        monkeypatch.setattr(vectorize_width, "_seconds_alone", lambda *_: alone)
        monkeypatch.setattr(vectorize_width, "_seconds_at_once", lambda *_: next(left))
        if memory is not None:
            monkeypatch.setattr(vectorize_width, "_fits", lambda x, width: width <= memory)
        else:
            monkeypatch.setattr(vectorize_width, "_fits", lambda x, width: True)
        config = small_config(tmp_path / "data")
        return vectorize_width.choose_width(config, most=most, shared=Shared())

    return choose


def test_it_doubles_as_long_as_that_pays(chosen):
    assert chosen([1.0, 1.2, 1.5, 4.0]) == 4
    assert chosen([1.0, 2.0, 4.0]) == 1
    assert chosen([1.0, 2.0, 2.0, 8.0]) == 4  # where 2 did not pay
    assert chosen([1.0, 1.0, 1.0, 1.0]) == 8


def test_never_more_than_there_are_or_than_fit(chosen):
    assert chosen([1.0, 1.0, 1.0, 1.0], most=3) == 2
    assert chosen([1.0, 1.0, 1.0, 1.0], memory=4) == 4
    assert chosen([1.0], most=1) == 1


def test_it_measures_and_says_what(tmp_path, caplog):
    config = small_config(tmp_path / "data")
    with caplog.at_level(logging.INFO):
        width = vectorize_width.choose_width(config, most=2, shared=Shared())
    assert width in (1, 2)
    assert f"--vectorize=auto: {width} at once" in caplog.text
    assert "ms at 1" in caplog.text and "ms at 2" in caplog.text


def test_memory_is_that_of_the_program_times_the_runs(tmp_path, monkeypatch):
    class OfBytes:
        def __init__(self, number):
            self.memory_bytes = number

    class Made:
        def __init__(self, number):
            self._step = OfBytes(number)

        def train_step(self):
            return self._step

    assert vectorize_width._fits(Made(1000), 8)
    assert not vectorize_width._fits(Made(1 << 40), 8)
