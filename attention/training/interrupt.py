"""Ctrl-C and SIGTERM as a flag that the training loop looks at between steps."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STDERR = 2


class Interruption:
    """What `interruptible` yields; `requested` is the name of the signal received, or None."""

    def __init__(self) -> None:
        self.requested: str | None = None

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.requested == "SIGINT" and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = signal.Signals(number).name
        again = "; Ctrl-C again stops at once" if number == signal.SIGINT else ""
        # Not logging: a handler may run in the middle of another write to the same stream.
        with contextlib.suppress(OSError):
            os.write(_STDERR, f"\n{self.requested}: saving before the end{again}\n".encode())


@contextlib.contextmanager
def interruptible() -> Iterator[Interruption]:
    """Turns SIGINT and SIGTERM into a flag within the block; a second SIGINT interrupts at once.

    The former handlers come back at the end. Outside the main thread, where Python allows no
    handlers, the flag stays None.
    """
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    former = {number: signal.signal(number, interruption._receive) for number in _SIGNALS}
    try:
        yield interruption
    finally:
        for number, handler in former.items():
            # None: the handler was not installed from Python and cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
