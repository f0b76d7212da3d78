"""A sweep's memory in a database: Optuna's storage, and claims for machines that share no files."""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError

from attention.errors import UserError
from attention.sweeping.ledger import Try, new_try
from attention.sweeping.plan import Sweep

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 60
GRACE_SECONDS = 180  # without a heartbeat, after which a worker is taken for dead
_FRESH_SECONDS = 1.0
_OPENINGS, _SECONDS_BETWEEN_OPENINGS = 10, 0.5
_LOST = "lost"
_TRIES = "/tries"
# SQLAlchemy hides no password behind the "?".
_QUERIED = re.compile(r"([?&][^=&]*(?:pass|pwd|secret|token|key)[^=&]*=)[^&]*", re.IGNORECASE)


def open_storage(url: str, *, heartbeat: bool = False) -> Any:
    """Opens a database for Optuna, for a ledger with heartbeats.

    Raises:
      UserError: the URL is none, its driver is missing, or the database does not answer.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    try:
        patient = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {}
        return _opened(
            url,
            engine_kwargs=patient,
            heartbeat_interval=HEARTBEAT_SECONDS if heartbeat else None,
            grace_period=GRACE_SECONDS if heartbeat else None,
        )
    except Exception as error:  # SQLAlchemy's, Optuna's and each driver's own
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = lines[0].replace(url, without_password(url))
        raise UserError(f"--storage={without_password(url)} cannot be opened: {reason}") from error


def _opened(url: str, **options: Any) -> Any:
    """Optuna's storage, whose tables another host may be making at the same moment."""
    for left in reversed(range(_OPENINGS)):
        try:
            return optuna.storages.RDBStorage(url, **options)
        except Exception as error:
            # An AssertionError: there is a table of versions, and nothing in it yet.
            at_once = isinstance(error, IntegrityError | AssertionError)
            if not left or not (at_once or "already exists" in str(error)):
                raise
        time.sleep(_SECONDS_BETWEEN_OPENINGS)


def without_password(url: str) -> str:
    """The address of a database as it may be written down."""
    try:
        shown = make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        # Where a password stands in what is no URL, nobody knows.
        start = f"{url.partition(':')[0]}:…" if "@" in url or "?" in url else url
        raise UserError(
            f"--storage={start}: expected a database URL, such as postgresql://user@host/name"
        ) from None
    return _QUERIED.sub(r"\1***", shown)


def study_name(sweep: Sweep, folder: str) -> str:
    """The same on every host that was given the same command."""
    text = repr((sweep.spec, [list(pair) for pair in sweep.flags]))
    return f"{folder}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def only_study(storage: Any, name: str) -> str:
    """The name of the study in a sweep's own file, or, where there is none yet, `name`: a folder
    that was renamed goes on with its search."""
    names = [each for each in optuna.get_all_study_names(storage) if not each.endswith(_TRIES)]
    return names[0] if names else name


class DatabaseLedger:
    """Claims as trials of a study of their own: RUNNING while somebody is at it.

    Whoever wants a trial enters itself as RUNNING and then looks: if another is RUNNING too, it
    gives way. Two that come at once may both give way, and try again; never do both stay.
    """

    far = True

    def __init__(self, url: str, name: str) -> None:
        self._storage = open_storage(url, heartbeat=True)
        self._study = optuna.create_study(
            storage=self._storage, study_name=f"{name}{_TRIES}", load_if_exists=True
        )
        self._entering: int | None = None
        self._seen: tuple[float, dict[str, list[FrozenTrial]]] | None = None

    def claim(self, name: str, *, wanted: Callable[[], bool]) -> DatabaseClaim | None:
        if self.held(name):
            return None
        begun = new_try()
        waiting = create_trial(
            state=TrialState.WAITING, user_attrs={"name": name, **begun.to_record()}
        )
        number = self._storage.create_new_trial(self._study._study_id, template_trial=waiting)
        self._storage.record_heartbeat(number)  # before it counts, so that it can go stale
        self._storage.set_trial_state_values(number, state=TrialState.RUNNING)
        self._entering = number
        self._seen = None
        try:
            free = not self.held(name) and wanted()
        finally:
            self._entering, self._seen = None, None
        if free:
            return DatabaseClaim(self._storage, number)
        self._storage.set_trial_user_attr(number, _LOST, True)
        self._storage.set_trial_state_values(number, state=TrialState.FAIL)
        return None

    def held(self, name: str) -> bool:
        return any(each.state == TrialState.RUNNING for each in self._all().get(name, []))

    def tries(self, name: str) -> list[Try]:
        return [Try.from_record(each.user_attrs) for each in self._all().get(name, [])]

    def _all(self) -> dict[str, list[FrozenTrial]]:
        """The tries by name, without the one being entered; read again after a while."""
        now = time.monotonic()
        if self._seen is None or now - self._seen[0] > _FRESH_SECONDS:
            optuna.storages.fail_stale_trials(self._study)
            by_name: dict[str, list[FrozenTrial]] = {}
            for each in self._study.get_trials(deepcopy=False):
                counts = each.state != TrialState.WAITING and _LOST not in each.user_attrs
                if counts and each._trial_id != self._entering:
                    by_name.setdefault(each.user_attrs["name"], []).append(each)
            self._seen = (now, by_name)
        return self._seen[1]


class DatabaseClaim:
    """A try that is RUNNING, kept alive by heartbeats from a thread until `end`."""

    def __init__(self, storage: Any, number: int) -> None:
        self._storage = storage
        self._number = number
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not self._over.wait(HEARTBEAT_SECONDS):
            try:
                self._storage.record_heartbeat(self._number)
            except Exception as error:  # a database that is away for a while; training goes on
                log.warning("no heartbeat: %s", error)

    def end(self, outcome: Try) -> None:
        self._over.set()
        self._thread.join()
        good = outcome.status in ("complete", "pruned") and outcome.metric is not None
        state = TrialState.COMPLETE if good else TrialState.FAIL
        values = [outcome.metric] if good else None
        try:
            for key, value in outcome.to_record().items():
                self._storage.set_trial_user_attr(self._number, key, value)
            self._storage.set_trial_state_values(self._number, state=state, values=values)
        except optuna.exceptions.UpdateFinishedTrialError:
            log.warning("taken for dead after %d seconds without a heartbeat", GRACE_SECONDS)
