"""Writes the numbers of a run to metrics.jsonl, TensorBoard, a tracker and the terminal."""

from __future__ import annotations

import contextlib
import logging
import math
import numbers
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import tensorboardX
import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from attention.training.atomic import to_json
from attention.training.run_directory import RunDirectory
from attention.training.tracking import Tracked

logger = logging.getLogger(__name__)

# What a progress bar has room for, and all that a log line tells of the clock.
_MAIN_NUMBERS = ("train/loss", "eval/accuracy", "eval/bleu", "time/tokens_per_second")


class MetricsLog:
    """The metrics of one run, from `resume_step` on.

    On a terminal a progress bar shows the main numbers; elsewhere each call is one plain log line.

    Args:
      run: where metrics.jsonl and tensorboard/ are. When resuming, first call
        `run.truncate_metrics(resume_step)`.
      total_steps: the length of the run, for the progress bar.
      resume_step: the step training starts from, 0 for a new run. TensorBoard is told to forget
        what an interrupted run wrote after it.
      terminal: whether stderr can show a progress bar; None looks.
      tracked: the same run in a tracker; None: in none.
    """

    def __init__(
        self,
        run: RunDirectory,
        *,
        total_steps: int | None = None,
        resume_step: int = 0,
        terminal: bool | None = None,
        tracked: Tracked | None = None,
    ):
        self._file = run.metrics_file.open("a", encoding="utf-8", newline="\n")
        purge_step = resume_step + 1 if resume_step else None
        # The suffix: a name is made of the second, and a run may be resumed within one.
        self._tensorboard = tensorboardX.SummaryWriter(
            str(run.tensorboard), purge_step=purge_step, filename_suffix=f".{resume_step}"
        )
        self._tracked = tracked or Tracked()
        self._total_steps = total_steps
        self._closing = contextlib.ExitStack()
        self._bar: tqdm.tqdm | None = None
        self._shown: dict[str, str] = {}
        if _shows_bars() if terminal is None else terminal:
            self._bar = tqdm.tqdm(
                total=total_steps, initial=resume_step, unit="step", file=sys.stderr
            )
            self._closing.enter_context(logging_redirect_tqdm())

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Records numbers of one step.

        Args:
          step: updates done.
          values: numbers by name, such as "train/loss"; NumPy and JAX scalars are taken too. What
            depends on the clock or the machine is named "time/…"; all else must repeat exactly.
        """
        row = {"step": int(step), "time": time.time(), **values}
        self._file.write(to_json(row) + "\n")
        # Now, so that a killed run keeps it; and before the checkpoint of the same step.
        self._file.flush()
        for name, value in values.items():
            if _is_number(value) and math.isfinite(value):
                self._tensorboard.add_scalar(name, float(value), step)
        self._tracked.log(row["step"], row["time"], values)
        self._show(int(step), values)

    def progress(self, step: int) -> None:
        """Moves the progress bar, if there is one."""
        if self._bar is not None:
            self._bar.update(step - self._bar.n)

    def end(self, result: Mapping[str, Any]) -> None:
        """Tells the tracker how the run ended: the content of result.json."""
        self._tracked.end(result)

    def close(self) -> None:
        """Writes what is left and removes the progress bar's hooks."""
        self._closing.close()
        if self._bar is not None:
            self._bar.close()
        self._tracked.close()
        self._tensorboard.close()
        self._file.close()

    def _show(self, step: int, values: Mapping[str, Any]) -> None:
        texts = {
            name: _short(value)
            for name, value in values.items()
            if name in _MAIN_NUMBERS or not name.startswith(("time/", "eval/num_"))
        }
        evaluated = any(name.startswith("eval/") for name in values)
        if self._bar is None or evaluated:
            of = f"/{self._total_steps}" if self._total_steps else ""
            listed = "  ".join(f"{name} {text}" for name, text in texts.items())
            logger.info("step %d%s  %s", step, of, listed)
        if self._bar is not None:
            self._shown.update({name: texts[name] for name in _MAIN_NUMBERS if name in texts})
            self._bar.set_postfix(self._shown, refresh=False)
            self.progress(step)


def _shows_bars() -> bool:
    """Runs in threads, several at once, have no bar."""
    return sys.stderr.isatty() and threading.current_thread() is threading.main_thread()


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) or (hasattr(value, "item") and value.ndim == 0)


def _short(value: Any) -> str:
    """Four digits are what a reader compares; the exact number is in the file."""
    value = value.item() if hasattr(value, "item") else value
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
