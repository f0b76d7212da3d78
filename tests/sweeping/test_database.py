"""Claims in a database: one holder at a time, and dead ones found by their missing heartbeat."""

from __future__ import annotations

import dataclasses
import threading
import time
from pathlib import Path

import optuna
import pytest
from sqlalchemy.exc import OperationalError

from attention.errors import UserError
from attention.sweeping import database
from attention.sweeping.ledger import Try, new_try
from attention.sweeping.plan import Sweep


def yes() -> bool:
    return True


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(database, "_FRESH_SECONDS", 0.0)
    return f"sqlite:///{tmp_path}/tries.db"


def ended(status: str, **more: object) -> Try:
    begun = new_try()
    return dataclasses.replace(begun, status=status, ended=begun.started + 2, **more)  # type: ignore[arg-type]


def test_one_claim_at_a_time_and_one_record_of_all(url: str) -> None:
    here, there = database.DatabaseLedger(url, "s"), database.DatabaseLedger(url, "s")
    claim = here.claim("a", wanted=yes)
    assert claim is not None
    assert there.held("a") and there.claim("a", wanted=yes) is None
    other = there.claim("b", wanted=yes)
    assert other is not None
    claim.end(ended("failed", kind="crash", error="why"))
    assert not there.held("a") and there.claim("a", wanted=lambda: False) is None
    again = there.claim("a", wanted=yes)
    assert again is not None
    again.end(ended("complete", metric=0.5, metric_name="bleu"))
    assert [(t.status, t.kind, t.metric) for t in here.tries("a")] == [
        ("failed", "crash", None),
        ("complete", "", 0.5),
    ]
    other.end(ended("interrupted"))
    assert [each.status for each in here.tries("b")] == ["interrupted"]


def test_how_many_ran_at_once_is_kept(url: str) -> None:
    ledger = database.DatabaseLedger(url, "s")
    for runs in (4, 1):  # of one alone it is not written down, as by earlier versions
        claim = ledger.claim("a", wanted=yes)
        assert claim is not None
        claim.end(ended("failed", runs_at_once=runs))
    assert [each.runs_at_once for each in ledger.tries("a")] == [4, 1]


def test_who_gives_no_heartbeat_is_taken_for_dead(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "GRACE_SECONDS", 1)
    dead, other = database.DatabaseLedger(url, "s"), database.DatabaseLedger(url, "s")
    claim = dead.claim("a", wanted=yes)
    assert claim is not None and other.held("a")
    end = time.monotonic() + 30
    while other.held("a") and time.monotonic() < end:
        time.sleep(0.1)
    again = other.claim("a", wanted=yes)
    assert again is not None and len(other.tries("a")) == 2
    claim.end(ended("complete", metric=1.0))  # it had only slept; what it says comes too late
    assert [each.status for each in other.tries("a")] == ["running", "running"]
    again.end(ended("complete", metric=2.0))
    assert [each.metric for each in other.tries("a")] == [None, 2.0]


@pytest.mark.slow
def test_heartbeats_keep_a_long_trial(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "GRACE_SECONDS", 2)
    monkeypatch.setattr(database, "HEARTBEAT_SECONDS", 0.2)
    claim = database.DatabaseLedger(url, "s").claim("a", wanted=yes)
    assert claim is not None
    time.sleep(3.5)
    assert database.DatabaseLedger(url, "s").held("a")
    claim.end(ended("interrupted"))


def test_of_many_who_come_at_once_at_most_one_gets_it(url: str) -> None:
    ledgers = [database.DatabaseLedger(url, "s") for _ in range(4)]
    barrier = threading.Barrier(len(ledgers))
    won: list[object] = []

    def come(ledger: database.DatabaseLedger) -> None:
        barrier.wait()
        if claim := ledger.claim("a", wanted=yes):
            won.append(claim)

    threads = [threading.Thread(target=come, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) <= 1 and len(ledgers[0].tries("a")) == len(won)


def test_a_database_whose_tables_another_makes_is_opened_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, right = "table studies already exists", optuna.storages.RDBStorage
    failures: list[Exception] = [AssertionError(), OperationalError("", {}, Exception(made))]

    def storage(*arguments: object, **options: object) -> object:
        if failures:
            raise failures.pop()
        return right(*arguments, **options)

    monkeypatch.setattr(optuna.storages, "RDBStorage", storage)
    monkeypatch.setattr(database, "_SECONDS_BETWEEN_OPENINGS", 0.0)
    assert database.open_storage(url) is not None and not failures
    failures += [OperationalError("", {}, Exception(made)) for _ in range(99)]
    with pytest.raises(UserError, match="already exists"):
        database.open_storage(url)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", ["--storage=nonsense", "database URL"]),
        ("sqlite:////nowhere/at/all.db", ["/nowhere/at/all.db", "cannot be opened"]),
        ("postgresql://me:secret@host/x", ["postgresql://me:***@host/x", "cannot be opened"]),
        ("postgresql://host/x?password=secret", ["host/x?password=***", "cannot be opened"]),
        ("postgresql:/me:secret@host/x", ["--storage=postgresql:…", "database URL"]),
        ("me:secret@host/x", ["--storage=me:…", "database URL"]),
    ],
)
def test_a_database_that_does_not_open_is_named_without_its_password(
    url: str, words: list[str]
) -> None:
    with pytest.raises(UserError) as caught:
        database.without_password(url)
        database.open_storage(url)
    assert all(word in str(caught.value) for word in words) and "secret" not in str(caught.value)


def test_the_same_command_has_the_same_study_everywhere() -> None:
    sweep = Sweep("x.py:a=1", (("seed", "1"),), ({},))
    name = database.study_name(sweep, "rates")
    assert name == database.study_name(dataclasses.replace(sweep, points=({"seed": 2},)), "rates")
    assert name.startswith("rates-") and name != database.study_name(sweep, "other")
    assert name != database.study_name(dataclasses.replace(sweep, flags=()), "rates")
