"""What a sweep's command and its workers share: made once, sent as JSON, opened by each."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, NamedTuple

from attention.sweeping.board import Board, PointBoard
from attention.sweeping.directory import SweepDirectory
from attention.sweeping.ledger import FileLedger, Ledger
from attention.sweeping.plan import Sweep, Trial, read_sweep
from attention.sweeping.running import TRAINER
from attention.sweeping.standing import Standings


@dataclasses.dataclass(frozen=True)
class Setting:
    """A sweep as one command runs it.

    `trials` are those of its points; None: `wanted` trials of its search space. `since` is when
    the command was started, in seconds since 1970; `train` is the function that trains, as
    `module:name`; `vectorize`: how many trials a worker trains at once, or "auto".
    """

    spec: str
    flags: tuple[tuple[str, str], ...]
    workdir: str
    trials: tuple[Trial, ...] | None
    wanted: int
    since: float
    retries: int
    storage: str | None = None
    train: str = TRAINER
    vectorize: str = "1"

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Setting:
        values: dict[str, Any] = json.loads(text)
        trials = values.pop("trials")
        flags = tuple((key, value) for key, value in values.pop("flags"))
        made = None if trials is None else tuple(_trial(each) for each in trials)
        return cls(**values, flags=flags, trials=made)


def _trial(values: dict[str, Any]) -> Trial:
    overrides = tuple((key, value) for key, value in values["overrides"])
    return Trial(**{**values, "overrides": overrides})


class Scene(NamedTuple):
    """The parts of a sweep, in one process."""

    directory: SweepDirectory
    board: Board
    ledger: Ledger
    standings: Standings


def open_scene(setting: Setting, sweep: Sweep | None = None) -> Scene:
    """Opens a sweep whose folder has been made.

    Args:
      sweep: its definition, where it has been read already.
    """
    directory = SweepDirectory(setting.workdir)
    ledger: Ledger = FileLedger(directory.claims)
    board: Board = PointBoard(setting.trials or ())
    if setting.storage is not None or setting.trials is None:
        from attention.sweeping import database  # Optuna and SQLAlchemy: only where needed

        sweep = sweep or read_sweep(setting.spec, setting.flags)
        name = database.study_name(sweep, directory.path.name)
        if setting.storage is not None:
            ledger = database.DatabaseLedger(setting.storage, name)
        if setting.trials is None:
            from attention.sweeping.search import Search

            url = setting.storage or f"sqlite:///{directory.study_file}"
            storage = database.open_storage(url)
            if setting.storage is None:
                name = database.only_study(storage, name)
            board = Search(storage, name, sweep, directory, wanted=setting.wanted)
    standings = Standings(directory, ledger, since=setting.since, retries=setting.retries)
    return Scene(directory, board, ledger, standings)
