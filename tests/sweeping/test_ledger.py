"""Claims on files: one holder at a time, none after death, and a record that survives."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from attention.sweeping.ledger import FileLedger, Try, new_try

pytestmark = pytest.mark.fast

HOLDER = """
import sys, time
from pathlib import Path
from attention.sweeping.ledger import FileLedger
claim = FileLedger(Path(sys.argv[1])).claim("a", wanted=lambda: True)
print(claim is not None, flush=True)
time.sleep(60)
"""


def yes() -> bool:
    return True


def ended(status: str) -> Try:
    begun = new_try()
    return dataclasses.replace(begun, status=status, ended=begun.started + 2)


def test_one_claim_at_a_time_and_one_record_of_all(tmp_path: Path) -> None:
    ledger, other = FileLedger(tmp_path / "claims"), FileLedger(tmp_path / "claims")
    assert ledger.tries("a") == [] and not ledger.held("a")
    claim = ledger.claim("a", wanted=yes)
    assert claim is not None
    assert other.held("a") and other.claim("a", wanted=yes) is None
    assert [each.status for each in other.tries("a")] == ["running"]
    free = other.claim("b", wanted=yes)
    assert free is not None
    claim.end(ended("failed"))
    assert not other.held("a") and other.held("b")
    again = other.claim("a", wanted=yes)
    assert again is not None
    again.end(dataclasses.replace(ended("complete"), metric=0.5))
    assert [(each.status, each.metric) for each in ledger.tries("a")] == [
        ("failed", None),
        ("complete", 0.5),
    ]


def test_what_is_no_longer_wanted_is_not_begun(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path)
    assert ledger.claim("a", wanted=lambda: False) is None
    assert ledger.tries("a") == [] and not ledger.held("a")


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "True\n"
        assert ledger.held("a") and ledger.claim("a", wanted=yes) is None
        process.kill()
        process.wait()
    assert not ledger.held("a")
    claim = ledger.claim("a", wanted=yes)
    assert claim is not None
    assert [each.status for each in ledger.tries("a")] == ["running", "running"]
    assert ledger.tries("a")[0].pid == process.pid


def test_of_many_who_come_at_once_one_gets_it(tmp_path: Path) -> None:
    barrier = threading.Barrier(8)
    won: list[object] = []

    def come() -> None:
        barrier.wait()
        if claim := FileLedger(tmp_path).claim("a", wanted=yes):
            won.append(claim)

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and len(FileLedger(tmp_path).tries("a")) == 1


@pytest.mark.parametrize("text", ["", "[{", "{}x", '[{"status": "running"}]', '[{"new": 1}]'])
def test_a_damaged_record_is_passed_over_with_a_word(tmp_path: Path, text: str, caplog) -> None:
    ledger = FileLedger(tmp_path)
    (tmp_path / "a.json").write_text(text)
    assert ledger.tries("a") == [] and "a.json is damaged" in caplog.text
    claim = ledger.claim("a", wanted=yes)
    assert claim is not None
    claim.end(ended("complete"))
    assert [each.status for each in ledger.tries("a")] == ["complete"]


def test_records_of_earlier_and_later_versions_are_read(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path)
    (tmp_path / "a.json").write_text('[{"status": "failed", "started": 1.0, "ended": 3.0}]')
    (tmp_path / "b.json").write_text('[{"status": "failed", "started": 1.0, "later": "more"}]')
    assert ledger.tries("a") == [Try("failed", 1.0, 3.0)] and ledger.tries("a")[0].runs_at_once == 1
    assert ledger.tries("b") == [Try("failed", 1.0)]


def test_what_earlier_versions_do_not_know_is_written_only_of_trials_at_once(
    tmp_path: Path,
) -> None:
    ledger = FileLedger(tmp_path)
    for runs in (1, 4):
        claim = ledger.claim("a", wanted=yes)
        assert claim is not None
        claim.end(dataclasses.replace(ended("complete"), runs_at_once=runs))
    assert [each.runs_at_once for each in ledger.tries("a")] == [1, 4]
    alone, four = json.loads((tmp_path / "a.json").read_text())
    assert "runs_at_once" not in alone and four["runs_at_once"] == 4
