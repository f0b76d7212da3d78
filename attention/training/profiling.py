"""A trace of some steps for xprof and TensorBoard's profile plugin."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from attention.training.profiled_steps import Steps

log = logging.getLogger(__name__)


class Profile:
    """Traces some steps of a run into a folder; nothing else of it changes.

    Args:
      steps: which; None: no trace.
      folder: where jax.profiler writes, in plugins/profile/.
      compile_seconds: reads the seconds compiled so far, to tell of compilation in the trace.
      finish: waits until the steps taken so far have ended on the device.
    """

    def __init__(
        self,
        steps: Steps | None,
        folder: Path,
        compile_seconds: Callable[[], float],
        finish: Callable[[], None],
    ) -> None:
        self._steps = steps
        self._folder = folder
        self._compile_seconds = compile_seconds
        self._finish = finish
        self._compiled_before = 0.0
        self._is_on = False
        self._last: int | None = None  # step in the trace

    def step(self, number: int) -> Any:
        """Returns the context that takes step `number`; the trace begins before the first."""
        if self._steps is None or not self._steps.first <= number <= self._steps.last:
            return contextlib.nullcontext()
        if not self._is_on:
            self._finish()
            self._compiled_before = self._compile_seconds()
            jax.profiler.start_trace(self._folder)
            self._is_on = True
        self._last = number
        return jax.profiler.StepTraceAnnotation("train", step_num=number)

    def after_step(self, number: int) -> None:
        """Ends the trace if step `number` was the last of it."""
        if self._is_on and self._steps is not None and number == self._steps.last:
            self._finish()
            self._stop()

    def close(self) -> None:
        """Ends a trace that a signal, an error or an early end cuts short."""
        if self._is_on:
            self._stop()
        elif self._steps is not None and self._last is None:
            log.warning("no profile: steps %s were not reached", self._steps)

    def _stop(self) -> None:
        seconds = self._compile_seconds() - self._compiled_before
        self._is_on = False
        jax.profiler.stop_trace()
        assert self._steps is not None
        log.info(
            "profile of steps %d to %s: %s (to see it: pip install xprof; xprof --logdir=%s)",
            self._steps.first, self._last, self._folder / "plugins" / "profile", self._folder,
        )  # fmt: skip
        if seconds > 0:
            log.warning(
                "%.1f s of the profile are compilation: of the first step or evaluation of this "
                "call, or for a batch of a new shape",
                seconds,
            )
