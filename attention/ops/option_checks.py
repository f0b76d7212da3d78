"""Checks of single options; a refusal is one line: the key, its value and what is allowed."""

from __future__ import annotations

import math
import numbers
from typing import Any

from attention.errors import UserError, did_you_mean

# Beyond any size that fits in a memory, and far enough from 2³¹ that sums of a few do not overflow.
LARGEST = 2**20


def is_whole(value: Any) -> bool:
    """Returns whether the value is a whole number by its type, and not a bool."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Returns whether the value is a finite number, and not a bool."""
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    # An int may be too large for a float.
    return is_real and (is_whole(value) or math.isfinite(value))


def refuse(key: str, value: Any, expected: str) -> None:
    """Raises UserError."""
    raise UserError(f"{key}={value!r}: expected {expected}")


def check_count(
    key: str, value: Any, *, least: int = 1, most: int = LARGEST, or_none: bool = False
) -> None:
    """Raises UserError unless the value is an int from `least` to `most`, or None where allowed."""
    if or_none and value is None:
        return
    if not is_whole(value) or not least <= value <= most:
        refuse(key, value, f"an int from {least} to {most}" + (" or None" if or_none else ""))


def check_number(
    key: str, value: Any, *, least: float = -1e9, most: float = 1e9, or_none: bool = False
) -> None:
    """Raises UserError unless the value is a number from `least` to `most`, or None if allowed."""
    if or_none and value is None:
        return
    if not is_number(value) or not least <= value <= most:
        words = f"a number from {least:g} to {most:g}" + (" or None" if or_none else "")
        refuse(key, value, words)


def check_rate(key: str, value: Any) -> None:
    """Raises UserError unless the value is a number in [0, 1)."""
    if not is_number(value) or not 0 <= value < 1:
        refuse(key, value, "a number in [0, 1)")


def check_flag(key: str, value: Any) -> None:
    """Raises UserError unless the value is True or False."""
    if not isinstance(value, bool):
        refuse(key, value, "True or False")


def check_choice(key: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raises UserError unless the value is one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        refuse(key, value, f"one of {', '.join(allowed)}{did_you_mean(str(value), allowed)}")
