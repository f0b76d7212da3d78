"""Seconds, tokens and FLOPs of training, apart from compilation, evaluation and saving."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator


class Clock:
    """Adds up the training sections of a run, also over resumes.

    Args:
      compile_seconds: reads the seconds compiled so far; they are left out of training.
      idle_seconds: reads other seconds that are, such as those spent waiting for another run.
      past: what an earlier sitting of the same run had added up (`record`).
    """

    def __init__(
        self,
        compile_seconds: Callable[[], float],
        past: dict[str, float] | None = None,
        *,
        idle_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        past = past or {}
        self._read_compile_seconds = compile_seconds
        self._read_left_out = lambda: compile_seconds() + idle_seconds()
        self._past_compile_seconds = past.get("compile_seconds", 0.0)
        self.train_seconds = past.get("train_seconds", 0.0)
        self.wait_seconds = past.get("wait_seconds", 0.0)
        self.tokens = int(past.get("tokens", 0))
        self.positions = int(past.get("positions", 0))
        self.steps = int(past.get("steps", 0))
        # Unknown of a run whose first steps were taken before they were counted.
        known = "flops" in past or not self.steps
        self.flops: int | None = int(past.get("flops", 0)) if known else None

    @property
    def compile_seconds(self) -> float:
        """Seconds of compilation of all sittings."""
        return self._past_compile_seconds + self._read_compile_seconds()

    @contextlib.contextmanager
    def training(self) -> Iterator[None]:
        """A section that counts as training, but for what is left out."""
        start, left_out = time.perf_counter(), self._read_left_out()
        yield
        seconds = time.perf_counter() - start
        self.train_seconds += seconds - (self._read_left_out() - left_out)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """A section, inside training, that waits for input."""
        start = time.perf_counter()
        yield
        self.wait_seconds += time.perf_counter() - start

    def count(self, *, tokens: int, positions: int, flops: int) -> None:
        """Adds one step of so many FLOPs, with so many real tokens in so many positions."""
        self.steps += 1
        self.tokens += tokens
        self.positions += positions
        self.flops = None if self.flops is None else self.flops + flops

    def record(self) -> dict[str, float]:
        """What a later sitting needs to go on counting."""
        known = {} if self.flops is None else {"flops": self.flops}
        return {
            **known,
            "compile_seconds": self.compile_seconds,
            "train_seconds": self.train_seconds,
            "wait_seconds": self.wait_seconds,
            "tokens": self.tokens,
            "positions": self.positions,
            "steps": self.steps,
        }

    def rates_since(self, start: dict[str, float]) -> dict[str, float]:
        """Steps and real tokens a second since `start` (an earlier `record`), and the share of
        that time spent waiting for input."""
        now = self.record()
        passed = {name: now[name] - start[name] for name in now}
        seconds = max(passed["train_seconds"], 1e-9)
        return {
            "time/steps_per_second": passed["steps"] / seconds,
            "time/tokens_per_second": passed["tokens"] / seconds,
            "time/input_wait_fraction": passed["wait_seconds"] / seconds,
            "time/compile_seconds": now["compile_seconds"],
        }
