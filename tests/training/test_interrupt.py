"""Ctrl-C and SIGTERM: a flag first, then at once."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from attention.training.interrupt import interruptible

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_sets_the_flag_and_the_work_goes_on(name, capfd):
    with interruptible() as interrupt:
        assert interrupt.requested is None
        os.kill(os.getpid(), getattr(signal, name))
        assert interrupt.requested == name
    assert name in capfd.readouterr().err


def test_a_second_ctrl_c_stops_at_once(capfd):
    with interruptible() as interrupt, pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert interrupt.requested == "SIGINT"
    capfd.readouterr()


def test_ctrl_c_after_sigterm_is_not_the_second(capfd):
    with interruptible() as interrupt:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert interrupt.requested == "SIGINT"
    capfd.readouterr()


@pytest.mark.parametrize("fail", [False, True])
def test_the_former_handlers_come_back(fail):
    def mine(*_):
        raise AssertionError

    former = signal.signal(signal.SIGTERM, mine)
    try:
        try:
            with interruptible():
                assert signal.getsignal(signal.SIGTERM) is not mine
                if fail:
                    raise RuntimeError
        except RuntimeError:
            assert fail
        assert signal.getsignal(signal.SIGTERM) is mine
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, former)


def test_outside_the_main_thread_there_is_no_flag_and_no_error():
    seen = []

    def work():
        with interruptible() as interrupt:
            seen.append(interrupt.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [None]
