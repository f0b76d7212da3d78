"""From the keys `tracking.*` to a run in a tracker, new or gone on with."""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from attention.configuration.fields import leaves
from attention.errors import UserError
from attention.training.run_directory import RunDirectory
from attention.training.tracking.tracked import START, Place, Tracked, end_of
from attention.training.tracking.tracker import Description

_BACKENDS = "attention.training.tracking.backends"
# Runs in threads start one after the other: each may be the first to make a store.
_STARTING = threading.Lock()


class _Setting(NamedTuple):
    backend: str
    project: str


def require(config: Any) -> None:
    """Raises UserError unless the package that `tracking.backend` needs can be imported."""
    _backend(_setting(config).backend)


def start(config: Any, run: RunDirectory, *, resume_step: int) -> Tracked:
    """Begins a run in the tracker that the config names, or goes on with the one of this directory.

    Call it before `run.truncate_metrics`: what metrics.jsonl holds after `resume_step` has been
    sent, and is not sent again.

    Args:
      config: resolved.
      run: its directory, which keeps the tracker's name for the run.
      resume_step: the step that training goes on from.

    Raises:
      UserError: the tracker cannot be reached or does not let us in.
    """
    setting = _setting(config)
    backend = _backend(setting.backend)
    if backend is None or jax.process_index() != 0:
        return Tracked()
    past = _read(run, setting)
    description = Description(
        project=setting.project,
        name=run.path.name,
        group=_group(run),
        config=dict(leaves(config)),
        folder=run.path,
        id=past.get("id"),
    )
    try:
        with _STARTING:
            tracker = backend.start(description)
    except UserError:
        raise
    except Exception as error:
        line = " ".join(str(error).split())
        raise UserError(
            f"tracking.backend={setting.backend} does not start ({type(error).__name__}: {line}): "
            "see to that, or set tracking.backend=none"
        ) from error
    rows = run.rows()
    tracked = Tracked(tracker, file=_file(run), identity=setting._asdict(), sent=_sent(past, rows))
    tracked.catch_up([row for row in rows if row["step"] <= resume_step])
    return tracked


def forget(run: RunDirectory) -> None:
    """Lets the next run in the directory be a new one for the tracker, too."""
    _file(run).unlink(missing_ok=True)


def _setting(config: Any) -> _Setting:
    section = config.get("tracking")
    if section is None:  # a config saved by an earlier version
        return _Setting("none", "")
    return _Setting(section.backend, section.project)


def _backend(name: str) -> Any:
    """The module of a tracker; None for "none"."""
    if name == "none":
        return None
    try:
        return importlib.import_module(f"{_BACKENDS}.{name}")
    except ImportError as error:
        raise UserError(
            f"tracking.backend={name} needs packages that are not installed ({error}): "
            "pip install -e '.[tracking]', or set tracking.backend=none"
        ) from error


def _file(run: RunDirectory) -> Path:
    return run.path / "tracking.json"


def _read(run: RunDirectory, setting: _Setting) -> dict[str, Any]:
    """What is known of an earlier sitting with the same tracker; nothing of one with another."""
    try:
        past = json.loads(_file(run).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    same = all(past.get(key) == value for key, value in setting._asdict().items())
    return past if same else {}


def _sent(past: dict[str, Any], rows: Sequence[dict[str, Any]]) -> Place:
    """The last row that the tracker got. A run that was killed had sent all it wrote down, and an
    earlier sitting may have sent more."""
    if not past:
        return START
    sent = Place(*past["sent"])
    return max(sent, end_of(rows)) if past["open"] else sent


def _group(run: RunDirectory) -> str | None:
    """The name of the sweep's directory, for a trial."""
    return run.path.parent.parent.name if run.path.parent.name == "trials" else None
