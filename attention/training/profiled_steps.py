"""Which steps `--profile_steps` names; read before JAX is imported."""

from __future__ import annotations

import re
from typing import NamedTuple

from attention.errors import UserError

FLAG = "--profile_steps"
EXPECTED = f"{FLAG}=FIRST:LAST, such as {FLAG}=10:13 for steps 10, 11, 12 and 13"


class Steps(NamedTuple):
    """The steps to trace, both ends included; the first step of a run is 1."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}:{self.last}"


def read_steps(text: str) -> Steps:
    """Returns what "10:13" names. Raises `UserError` for anything else."""
    match = re.fullmatch(r"([0-9]+):([0-9]+)", text.strip())
    if match is None:
        raise UserError(f"{FLAG}={text}: expected {EXPECTED}")
    steps = Steps(int(match[1]), int(match[2]))
    if not 1 <= steps.first <= steps.last:
        raise UserError(
            f"{FLAG}={text}: expected {EXPECTED}; the first step is 1, and LAST is not before FIRST"
        )
    return steps


def check_steps(steps: Steps | None, *, at_step: int, total_steps: int) -> None:
    """Raises UserError for steps that a run at `at_step` has behind it, or never comes to."""
    if steps is None:
        return
    if steps.last > total_steps:
        raise UserError(f"{FLAG}={steps} goes beyond the run, which has {total_steps} steps")
    if steps.first <= at_step:
        raise UserError(
            f"{FLAG}={steps}: the run is at step {at_step} already; choose steps from "
            f"{at_step + 1} to {total_steps}, or another --workdir"
            if at_step < total_steps
            else f"{FLAG}={steps}: the run has taken all its {total_steps} steps; choose another "
            "--workdir"
        )
