"""The sums of the steps since the last log line; they survive a resume."""

from __future__ import annotations

import math
from typing import Any

from attention.errors import Failure
from attention.training.step import StepMetrics


class Window:
    """Adds up step metrics and divides once, so that a logged loss is per token.

    Args:
      past: `record()` of the sitting that this one continues: the next line is then the same as
        if there had been no break.
    """

    def __init__(self, past: dict[str, Any] | None = None) -> None:
        self._sums: dict[str, list[float]] = dict((past or {}).get("sums", {}))
        self._tokens = (past or {}).get("tokens", 0)
        self._positions = (past or {}).get("positions", 0)
        self._last: dict[str, float] = {}

    def add(self, step: int, metrics: StepMetrics, *, tokens: int, positions: int) -> None:
        """Adds one step, fetched from the device. Raises `Failure` where the loss is no number."""
        for name, (total, count) in metrics.sums.items():
            old = self._sums.get(name, [0.0, 0.0])
            self._sums[name] = [old[0] + float(total), old[1] + float(count)]
        norm = float(metrics.gradient_norm)
        loss = float(metrics.sums["loss"].total) / max(float(metrics.sums["loss"].count), 1.0)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise Failure(
                f"step {step}: the loss is {loss} and the gradient norm {norm}; "
                "lower optimizer.learning_rate or optimizer.clip_norm, or lengthen "
                "optimizer.warmup_steps"
            )
        self._tokens += tokens
        self._positions += positions
        self._last = {
            "train/learning_rate": float(metrics.learning_rate),
            "train/gradient_norm": norm,
        }

    def close(self) -> dict[str, float]:
        """The numbers of a log line; the window is empty afterwards."""
        means = {
            f"train/{name}": total / max(count, 1.0) for name, (total, count) in self._sums.items()
        }
        padding = 1.0 - self._tokens / max(self._positions, 1)
        self._sums, self._tokens, self._positions = {}, 0, 0
        return {**means, **self._last, "train/padding_fraction": padding}

    def record(self) -> dict[str, Any]:
        """What continues this window after a resume (JSON)."""
        return {"sums": self._sums, "tokens": self._tokens, "positions": self._positions}
