"""What follows from a run's result and its tries: how a trial stands, and whether it is run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from attention.sweeping.directory import SweepDirectory
from attention.sweeping.ledger import Try
from attention.sweeping.plan import Trial
from attention.sweeping.standing import Standings

pytestmark = pytest.mark.fast

START = 100.0
TRIAL = Trial(0, {}, "x.py", (), "abc")


class FakeLedger:
    def __init__(self, tries: list[Try], *, held: bool = False, far: bool = False) -> None:
        self._tries, self._held, self.far = tries, held, far

    def tries(self, name: str) -> list[Try]:
        return self._tries

    def held(self, name: str) -> bool:
        return self._held

    def claim(self, name: str, **_: Any) -> None:
        raise AssertionError


def tried(status: str, kind: str = "", *, at: float = START + 1) -> Try:
    alive = status == "running"
    return Try(status, at if alive else at - 2, None if alive else at, kind, "why", 0.5, "bleu")


def standing(folder: Path, ledger: FakeLedger, *, trial: Trial = TRIAL, retries: int = 1) -> Any:
    directory = SweepDirectory(folder)
    return Standings(directory, ledger, since=START, retries=retries).of(trial)


CRASH, DEAD = tried("failed", "crash"), tried("running")
OLD_CRASH, OLD_INPUT = tried("failed", "crash", at=START - 1), tried("failed", "input", at=90.0)


@pytest.mark.parametrize(
    ("tries", "status", "again"),
    [
        ([], "planned", True),
        ([tried("interrupted")], "interrupted", True),
        ([DEAD], "interrupted", True),
        ([CRASH], "failed", True),
        ([CRASH, CRASH], "failed", False),
        ([CRASH, DEAD], "failed", False),
        ([DEAD, DEAD], "failed", False),
        ([tried("interrupted")] * 5, "interrupted", True),
        ([OLD_CRASH] * 5, "failed", True),
        ([OLD_CRASH, CRASH], "failed", True),
        ([OLD_CRASH, CRASH, CRASH], "failed", False),
        ([tried("failed", "together")] * 5, "failed", True),
        ([tried("failed", "together"), CRASH, CRASH], "failed", False),
        ([tried("failed", "input")], "failed", False),
        ([OLD_INPUT], "failed", True),
        ([tried("failed", "diverged")], "failed", False),
        ([tried("failed", "diverged", at=1.0)], "failed", False),
        ([tried("complete")], "interrupted", True),  # its run directory has been removed
    ],
)
def test_without_a_result_the_tries_decide(
    tmp_path: Path, tries: list[Try], status: str, again: bool
) -> None:
    found = standing(tmp_path, FakeLedger(tries))
    assert (found.status, found.open, found.attempts) == (status, again, len(tries))


def test_the_retries_are_counted_by_the_sweep(tmp_path: Path) -> None:
    assert standing(tmp_path, FakeLedger([CRASH] * 2), retries=2).open
    assert not standing(tmp_path, FakeLedger([CRASH]), retries=0).open
    killed = standing(tmp_path, FakeLedger([DEAD, DEAD]))
    assert "killed, 2 times" in killed.error


@pytest.mark.parametrize("status", ["complete", "pruned"])
def test_a_result_that_says_it_has_ended_is_believed(tmp_path: Path, status: str) -> None:
    run = SweepDirectory(tmp_path).run(TRIAL)
    run.create()
    run.write_result({"status": status, "eval": {"bleu": 21.5, "loss": 1.0}})
    found = standing(tmp_path, FakeLedger([DEAD], held=True))
    assert (found.status, found.open, found.metric, found.metric_name) == (
        *(status, False),
        *(21.5, "bleu"),
    )


@pytest.mark.parametrize("status", ["running", "interrupted", "failed"])
def test_other_results_are_not_the_end(tmp_path: Path, status: str) -> None:
    run = SweepDirectory(tmp_path).run(TRIAL)
    run.create()
    run.write_result({"status": status, "eval": None})
    assert standing(tmp_path, FakeLedger([tried("interrupted")])).open


def test_a_held_trial_is_running_and_a_refused_one_has_failed(tmp_path: Path) -> None:
    assert standing(tmp_path, FakeLedger([DEAD], held=True))[:2] == ("running", False)
    refused = standing(tmp_path, FakeLedger([]), trial=Trial(1, {}, "x.py", (), None, "no key"))
    assert (refused.status, refused.open, refused.error) == ("failed", False, "no key")


def test_a_result_on_another_machine_is_known_from_the_ledger(tmp_path: Path) -> None:
    found = standing(tmp_path, FakeLedger([tried("complete")], far=True))
    assert (found.status, found.open, found.metric) == ("complete", False, 0.5)


def test_a_trial_took_what_all_its_tries_did(tmp_path):
    tries = [tried("interrupted"), DEAD, tried("interrupted")]  # two of two seconds each
    assert standing(tmp_path, FakeLedger(tries)).seconds == 4.0
    assert standing(tmp_path, FakeLedger([DEAD])).seconds is None


def test_trials_at_once_share_what_their_try_took(tmp_path):
    four = dataclasses.replace(tried("interrupted"), runs_at_once=4)  # two seconds of all
    assert standing(tmp_path, FakeLedger([four])).seconds == 0.5
    assert standing(tmp_path, FakeLedger([four, tried("interrupted")])).seconds == 2.5
