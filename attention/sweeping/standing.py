"""How each trial of a sweep stands, read from its run directory and the ledger."""

from __future__ import annotations

from typing import Any, NamedTuple

from attention.sweeping.directory import SweepDirectory
from attention.sweeping.ledger import Ledger, Try
from attention.sweeping.plan import Trial

ENDED = ("complete", "pruned")


class Standing(NamedTuple):
    """A trial as it stands.

    `status` is planned, running, interrupted, failed, complete or pruned; `open`: it is to be run,
    or run again, by this sweep.
    """

    status: str
    open: bool
    metric: float | None = None
    metric_name: str = ""
    attempts: int = 0
    error: str = ""
    seconds: float | None = None  # of a worker, for all tries that have ended
    process: tuple[str, int] | None = None  # the host and the process that run it, once written


class Standings:
    """Looks at trials.

    Args:
      since: when the sweep was started, in seconds since 1970. What failed before is tried again.
      retries: how often a trial that crashes is tried again by one sweep.
    """

    def __init__(
        self, directory: SweepDirectory, ledger: Ledger, *, since: float, retries: int
    ) -> None:
        self._directory = directory
        self._ledger = ledger
        self._since = since
        self._retries = retries

    def wanted(self, trial: Trial) -> bool:
        """Whether a trial is to be run, for who holds it already."""
        return self._of(trial, held=False).open

    def of(self, trial: Trial) -> Standing:
        """How a trial stands."""
        return self._of(trial, held=self._ledger.held(trial.name))

    def _of(self, trial: Trial, *, held: bool) -> Standing:
        if trial.config_hash is None:
            return Standing("failed", open=False, error=trial.error)
        tries = self._ledger.tries(trial.name)
        seconds = sum(each.seconds for each in tries) or None
        result = self._directory.run(trial).read_result() or {}
        if result.get("status") in ENDED:
            name, value = first_metric(result)
            return Standing(result["status"], False, value, name, len(tries), seconds=seconds)
        if held:
            return Standing("running", False, attempts=len(tries), process=_process(tries))
        if tries and self._ledger.far and tries[-1].status in ENDED:
            last = tries[-1]
            return Standing(
                last.status, False, last.metric, last.metric_name, len(tries), seconds=seconds
            )
        return self._unfinished(tries)._replace(seconds=seconds)

    def _unfinished(self, tries: list[Try]) -> Standing:
        if not tries:
            return Standing("planned", open=True)
        last = tries[-1]
        again = self._may_try_again(tries)
        if last.status == "failed":
            return Standing("failed", again, attempts=len(tries), error=last.error)
        if again:
            return Standing("interrupted", open=True, attempts=len(tries))
        error = f"its process was killed, {self._retries + 1} times"
        return Standing("failed", open=False, attempts=len(tries), error=error)

    def _may_try_again(self, tries: list[Try]) -> bool:
        if tries[-1].kind == "diverged":  # the same numbers would come again
            return False
        recent = [each for each in tries if each.time >= self._since]
        if any(each.kind == "input" for each in recent):
            return False
        crashes = sum(each.kind == "crash" or each.status == "running" for each in recent)
        return crashes <= self._retries


def _process(tries: list[Try]) -> tuple[str, int] | None:
    """Who is at a trial that is held; None before it has written its try down."""
    return (tries[-1].host, tries[-1].pid) if tries and tries[-1].status == "running" else None


def first_metric(result: dict[str, Any]) -> tuple[str, float | None]:
    """The name and value of a result's first metric on dev; None where there is no such split."""
    return next(iter((result.get("eval") or {}).items()), ("", None))
