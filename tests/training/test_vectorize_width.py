"""How many runs train at once is chosen by memory and by what a step takes."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import jax
import pytest
from support.runs import small_config

from attention.training import vectorize_width
from attention.training.host_memory import host_memory
from attention.training.shared import Shared


@pytest.fixture
def chosen(tmp_path, monkeypatch):
    """Chooses, where a step of 1, 2, … runs at once takes the given seconds, or raises."""

    def choose(seconds, *, most=8, memory=None):
        alone, *at_once = seconds
        left = iter(at_once)

        def next_seconds(*_):
            seconds = next(left)
            if isinstance(seconds, Exception):
                raise seconds
            return seconds

        monkeypatch.setattr(vectorize_width, "_seconds_alone", lambda *_: alone)
        monkeypatch.setattr(vectorize_width, "_seconds_at_once", next_seconds)
        if memory is not None:
            monkeypatch.setattr(vectorize_width, "_fits", lambda x, width: width <= memory)
        else:
            monkeypatch.setattr(vectorize_width, "_fits", lambda x, width: True)
        config = small_config(tmp_path / "data")
        return vectorize_width.choose_width(config, most=most, own_batches=False, shared=Shared())

    return choose


def test_it_doubles_as_long_as_that_pays(chosen):
    assert chosen([1.0, 1.2, 1.5, 4.0]) == (4, None)
    assert chosen([1.0, 2.0, 4.0]) == (1, None)
    assert chosen([1.0, 2.0, 2.0, 8.0]) == (4, None)  # where 2 did not pay
    assert chosen([1.0, 1.0, 1.0, 1.0]) == (8, 16)


def test_never_more_than_fit(chosen):
    assert chosen([1.0, 1.0, 1.0, 1.0], memory=4) == (4, None)


def test_where_there_are_too_few_it_says_what_is_still_to_be_tried(chosen):
    assert chosen([1.0, 1.0, 1.0, 1.0], most=3) == (2, 4)
    assert chosen([1.0, 2.0], most=2) == (1, 4)  # 4 may pay where 2 does not
    assert chosen([1.0], most=1) == (1, 2)


def test_what_runs_out_of_memory_does_not_fit(chosen):
    full = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes.")
    assert chosen([1.0, 1.0, full]) == (2, None)
    assert chosen([1.0, MemoryError()]) == (1, None)
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
        chosen([1.0, jax.errors.JaxRuntimeError("INTERNAL: a fault of the driver")])


@pytest.mark.parametrize("own_batches", [False, True])
def test_it_measures_the_program_that_will_run_and_says_what(tmp_path, caplog, own_batches):
    config, shared = small_config(tmp_path / "data"), Shared()
    with caplog.at_level(logging.INFO):
        width = vectorize_width.choose_width(
            config, most=2, own_batches=own_batches, shared=shared
        ).best
    assert width in (1, 2)
    step = shared.get(("mapped step", 2), dict)
    own, one = step._with_own_batches.num_programs, step._with_one_batch.num_programs
    assert (own, one) == ((1, 0) if own_batches else (0, 1))
    assert f"--vectorize=auto: {width} at once" in caplog.text
    assert "ms at 1" in caplog.text and "ms at 2" in caplog.text


def taking(number: int) -> Any:
    """An experiment whose step takes so many bytes."""
    step = SimpleNamespace(memory_bytes=number)
    return SimpleNamespace(train_step=lambda: step)


def test_memory_is_that_of_the_program_times_the_runs():
    assert vectorize_width._fits(taking(1000), 8)
    assert not vectorize_width._fits(taking(1 << 40), 8)


def test_what_a_device_holds_already_is_not_free(monkeypatch):
    statistics = {"bytes_limit": 10_000}
    device = SimpleNamespace(memory_stats=lambda: statistics)
    monkeypatch.setattr(jax, "local_devices", lambda: [device])
    assert vectorize_width._fits(taking(2000), 4) and not vectorize_width._fits(taking(2001), 4)
    statistics["bytes_in_use"] = 5_000
    assert vectorize_width._fits(taking(1000), 4) and not vectorize_width._fits(taking(1001), 4)


def test_workers_of_a_host_have_a_part_of_its_memory_each(monkeypatch):
    whole = int(0.8 * host_memory())
    assert vectorize_width._fits(taking(whole), 1)
    monkeypatch.setenv("ATTENTION_LAB_WORKERS", "2")
    assert vectorize_width._fits(taking(whole // 2), 1)
    assert not vectorize_width._fits(taking(whole), 1)
