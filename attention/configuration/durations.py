"""Durations: lengths of training as steps, epochs, or a share of the whole run."""

from __future__ import annotations

import math
import re

from attention.errors import UserError

_PATTERN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(%|epochs?)")
EXPECTED = 'an int (steps), or a string such as "3epochs" or "5%" (of the whole run)'

# These keys end in _steps but count something else, or are what a share is a share of.
_PLAIN_STEPS = frozenset({"train_steps", "optimizer.accumulation_steps"})


def is_duration(key: str) -> bool:
    """Returns whether the dotted key takes a duration: `*_steps` outside the model's own keys."""
    return key.endswith("_steps") and key not in _PLAIN_STEPS and not key.startswith("model.")


def canonical(value: int | str, *, key: str) -> int | str:
    """Returns the one spelling of a duration: 100, "3epochs" or "5%".

    Raises:
      UserError: names the key if `value` is no duration, or is negative.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return int(value)
    if isinstance(value, str):
        text = value.strip()
        if text.isascii() and text.isdigit():
            return int(text)
        match = _PATTERN.fullmatch(text)
        if match:
            return f"{float(match[1]):.15g}{'%' if match[2] == '%' else 'epochs'}"
    raise UserError(f"{key}={value!r}: expected {EXPECTED}")


def steps(duration: int | str, *, total_steps: int, steps_per_epoch: float) -> int:
    """Returns a duration in steps, rounded; only a duration of zero is 0 steps.

    Args:
      duration: 100 (steps), "3epochs", or "5%" of `total_steps`.
      total_steps: Steps of the whole run.
      steps_per_epoch: Steps in which each example is seen once.
    """
    value = canonical(duration, key="duration")
    if isinstance(value, int):
        return value
    if value.endswith("%"):
        exact = float(value[:-1]) / 100 * total_steps
    else:
        exact = float(value.removesuffix("epochs")) * steps_per_epoch
    return max(1, math.floor(exact + 0.5)) if exact > 0 else 0


def depends_on_total(duration: int | str) -> bool:
    """Returns whether the duration is a share of the whole run."""
    return isinstance(duration, str) and duration.endswith("%")
