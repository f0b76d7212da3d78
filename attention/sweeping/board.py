"""The trials of a sweep: those its points name, or those a search has chosen so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from attention.sweeping.plan import Trial
from attention.sweeping.standing import Standing


class Known(NamedTuple):
    """The trials known so far, each config once, and how many more are to be chosen."""

    trials: Sequence[Trial]
    left: int


class Board(Protocol):
    """Where workers look for trials."""

    def known(self) -> Known:
        """The trials so far."""
        ...

    def ask(self) -> Trial | None:
        """Chooses one more trial; None: there are as many as wanted."""
        ...

    def pruner(self, trial: Trial) -> Any:
        """What training calls after each evaluation, or None."""
        ...

    def settle(self, standings: Mapping[str, Standing]) -> None:
        """Learns from trials that have ended; by name."""
        ...


class PointBoard:
    """Trials that were all known from the start."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._trials = tuple(trials)

    def known(self) -> Known:
        return Known(self._trials, 0)

    def ask(self) -> None:
        return None

    def pruner(self, trial: Trial) -> None:
        return None

    def settle(self, standings: Mapping[str, Standing]) -> None:
        pass
