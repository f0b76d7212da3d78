"""Checkpoints of a run: saved in the background, whole or not at all; latest, best and some kept.

Orbax writes and reads them. What is added here: a seal by which a damaged checkpoint is known, the
fall-back to an older one, and that an old one is deleted only after the new one is whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint.checkpoint_managers import PreservationPolicy

from attention.errors import UserError
from attention.training.abstract_state import check_shapes, placed
from attention.training.seal import seal
from attention.training.step_folders import StepFolders, is_step_name

logger = logging.getLogger(__name__)

# The folders that Orbax makes in a checkpoint.
_STATE = "state"
_DATA = "data"
# Files that Orbax rewrites after the seal. Nothing is read from them.
_REWRITTEN = ("_CHECKPOINT_METADATA", "commit_success.txt")
# Orbax moves what is no longer kept here, in one go; deleting file by file could be killed half-way
# and would leave a damaged checkpoint.
_DELETED = "deleted"
_POLL_SECONDS = 0.005


class Restored(NamedTuple):
    """A checkpoint read back."""

    step: int
    state: Any  # a pytree like the abstract one it was read into
    data_state: dict[str, Any]  # the JSON given to `save`


class Checkpoints:
    """The checkpoints of one run, in folders named by their step.

    Args:
      directory: relative paths and `~` are resolved here, once. Made at the first `save`.
      best: picks the best of the steps it is given, or None where none is known.
      read_only: changes nothing below `directory`: for all but the one process that trains. That
        one moves damaged checkpoints aside when it starts, as `<step>.broken`, so that the same
        step can be saved again.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        best: Callable[[Sequence[int]], int | None] | None = None,
        read_only: bool = False,
    ):
        self.directory = Path(directory).expanduser().absolute()
        self._folders = StepFolders(self.directory)
        self._best = best or (lambda steps: None)
        self._read_only = read_only
        self._manager: ocp.CheckpointManager | None = None
        self._keep = _KeepLatestAnd()
        if not read_only:
            self._remove_deleted()
            self._move_damaged_aside()

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def steps(self) -> list[int]:
        """Returns the steps of all whole checkpoints, in numeric order."""
        return self._folders.whole()

    def save(
        self,
        step: int,
        state: Any,
        data_state: dict[str, Any],
        *,
        best_step: int | None = None,
        others: Collection[int] = (),
    ) -> bool:
        """Starts to save in the background; returns False if the step is saved already.

        Arrays and JSON may be donated or changed as soon as this returns. Once the new checkpoint
        is whole, all but it, the best one and those asked for are deleted.

        Args:
          step: of the training state; no lower than the newest one saved.
          state: a pytree of JAX arrays.
          data_state: JSON: where the data iterator and everything else outside `state` stands.
          best_step: the other step to keep. Write the evaluation of a step to metrics.jsonl before
            saving the step: that row is how the best checkpoint is found again.
          others: steps to keep besides, as far as they are there.

        Raises:
          ValueError: the step is lower than the newest one, which Orbax would silently skip.
          Exception: whatever made the save before this one fail.
        """
        if self._read_only:
            raise ValueError("these checkpoints were opened with read_only=True")
        self.wait()
        manager = self._open_manager()
        saved = manager.all_steps()
        if step in saved:
            return False
        if saved and step < max(saved):
            raise ValueError(f"{step=} is lower than step {max(saved)}, saved in {self.directory}")
        self._keep.steps = {best_step, *others}
        # Orbax writes the JSON in the background, when the loop may have changed what it came from.
        snapshot = copy.deepcopy(data_state)
        items = {_STATE: ocp.args.StandardSave(state), _DATA: ocp.args.JsonSave(snapshot)}
        with _TURNS.taken_by(manager):
            begun = manager.save(step, args=ocp.args.Composite(**items))
        if not begun:
            raise RuntimeError(f"Orbax did not save {step=} in {self.directory}")
        return True

    def restore(self, abstract_state: Any, step: str | int | None = None) -> Restored | None:
        """Reads a checkpoint into a state's structure, types and current device placement.

        Where the newest (or best) checkpoint is damaged, the newest whole one is used instead, and
        a warning names both.

        Args:
          abstract_state: arrays or `jax.ShapeDtypeStruct`s; the number of devices may differ from
            that of the run that saved. Without a sharding, the first device is meant.
          step: "latest", "best" (the latest where no best is known), or the number of a step. None
            is the latest too, but gives None where there is no whole checkpoint.

        Raises:
          UserError: no such checkpoint; the message lists those there.
        """
        self.wait()
        if step not in (None, "latest", "best"):
            return self._restore_exactly(abstract_state, str(step))
        damaged: list[str] = []
        for candidate in self._candidates(best_first=step == "best"):
            reason = self._folders.fault(candidate, content=True)
            if reason is None:
                try:
                    restored = self._read(candidate, abstract_state)
                except Exception:
                    # The process that trains may have deleted it since.
                    reason = self._folders.fault(candidate, content=False)
                    if reason is None:
                        raise
                else:
                    self._warn(damaged, f"using step {candidate} instead")
                    return restored
            damaged.append(reason)
            if not self._read_only:
                self._move_aside(candidate)
        self._warn(damaged, "no other one is left")
        if step is None:
            return None
        raise UserError(f"there is no whole checkpoint in {self.directory}; train first")

    def newest_data_state(self) -> dict[str, Any]:
        """Returns the JSON of the newest whole checkpoint; empty where there is none."""
        steps = self.steps()
        if not steps:
            return {}
        with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as reader:
            items = ocp.args.Composite(**{_DATA: ocp.args.JsonRestore()})
            return reader.restore(self._folders.path(steps[-1]), args=items)[_DATA]

    def wait(self) -> None:
        """Waits until the save under way is whole; raises what made it fail."""
        if self._manager is not None:
            self._manager.wait_until_finished()
            self._remove_deleted()

    def close(self) -> None:
        """Waits for the save under way and ends the background threads."""
        if self._manager is not None:
            try:
                self.wait()
            finally:
                manager, self._manager = self._manager, None
                manager.close()
                _TURNS.forget(manager)

    # -- writing -------------------------------------------------------------------------------

    def _open_manager(self) -> ocp.CheckpointManager:
        if self._manager is None:
            options = ocp.CheckpointManagerOptions(
                preservation_policy=self._keep,
                todelete_subdir=_DELETED,
                cleanup_tmp_directories=True,
                temporary_path_class=_SealedBeforeRename,
            )
            self._manager = ocp.CheckpointManager(self.directory, options=options)
        return self._manager

    def _remove_deleted(self) -> None:
        if jax.process_index() == 0:
            shutil.rmtree(self.directory / _DELETED, ignore_errors=True)

    def _move_damaged_aside(self) -> None:
        damaged = []
        for step in self._folders.all():
            reason = self._folders.fault(step, content=False)
            if reason is not None:
                damaged.append(f"{reason}, now named {step}.broken")
                self._move_aside(step)
        steps = self.steps()
        self._warn(damaged, f"using step {steps[-1]} instead" if steps else "no other one is left")

    def _move_aside(self, step: int) -> None:
        if jax.process_index() == 0:
            self._folders.move_aside(step)
        if self._manager is not None:
            self._manager.reload()

    # -- reading -------------------------------------------------------------------------------

    def _candidates(self, *, best_first: bool) -> list[int]:
        """The steps to try, in turn."""
        steps = self._folders.all()
        # Of all steps, also damaged ones: that the best checkpoint is lost has to be told.
        best = self._best(steps) if best_first else None
        return sorted(steps, key=lambda step: (step != best, -step))

    def _restore_exactly(self, abstract_state: Any, step: str) -> Restored:
        steps = self.steps()
        best = self._best(steps)
        listed = ", ".join(f"{one} (best)" if one == best else str(one) for one in steps)
        there = f"{self.directory} has {f'steps {listed}' if steps else 'no whole checkpoint'}"
        if not is_step_name(step):
            raise UserError(f"no checkpoint '{step}': name best, latest or a step; {there}")
        if int(step) not in self._folders.all():
            raise UserError(f"no checkpoint of step {step}; {there}")
        reason = self._folders.fault(int(step), content=True)
        if reason is not None:
            raise UserError(f"{reason}; {there}")
        return self._read(int(step), abstract_state)

    def _read(self, step: int, abstract_state: Any) -> Restored:
        path = self._folders.path(step)
        items = {
            _STATE: ocp.args.StandardRestore(jax.tree.map(placed, abstract_state)),
            _DATA: ocp.args.JsonRestore(),
        }
        handlers = {_STATE: ocp.StandardCheckpointHandler(), _DATA: ocp.JsonCheckpointHandler()}
        with ocp.Checkpointer(ocp.CompositeCheckpointHandler(**handlers)) as reader:
            check_shapes(path, reader.metadata(path).item_metadata[_STATE], abstract_state)
            try:
                found = reader.restore(path, args=ocp.args.Composite(**items))
            except Exception as error:
                error.add_note(f"while reading {path}")
                raise
        return Restored(step, found[_STATE], found[_DATA])

    def _warn(self, damaged: Sequence[str], consequence: str) -> None:
        if damaged:
            logger.warning("%s: %s", "; ".join(damaged), consequence)


class _Turns:
    """One save at a time in a process: the threads of Orbax tell them apart by a number that is
    the same for all, and wait for ever where two saves overlap.

    Runs that train at once, in threads, have a manager each.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: ocp.CheckpointManager | None = None

    @contextlib.contextmanager
    def taken_by(self, manager: ocp.CheckpointManager) -> Iterator[None]:
        """Lets a save begin once that of another manager is written."""
        with self._lock:
            # Not `wait_until_finished`: what went wrong there is for the other run to raise.
            while self._last not in (None, manager) and self._last.is_saving_in_progress():
                time.sleep(_POLL_SECONDS)
            self._last = manager
            yield

    def forget(self, manager: ocp.CheckpointManager) -> None:
        """A manager that is closed has nothing under way."""
        with self._lock:
            if self._last is manager:
                self._last = None


_TURNS = _Turns()


class _SealedBeforeRename(ocp.path.atomicity.AtomicRenameTemporaryPath):
    """The folder Orbax writes into, until the renaming that makes it a checkpoint."""

    async def finalize(self) -> None:
        # In the background, once all processes have written; an exception fails the save. Orbax
        # uses this class for the items inside a checkpoint too; one seal covers them all.
        if is_step_name(self.get_final().name):
            await asyncio.to_thread(seal, Path(self.get()), changing=_REWRITTEN)
        await super().finalize()


class _KeepLatestAnd(PreservationPolicy):
    """Which checkpoints Orbax keeps when it adds one: the newest and `steps`."""

    steps: Collection[int | None] = ()

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
        newest = max((info.step for info in checkpoints), default=None)
        return [info.step in (newest, *self.steps) for info in checkpoints]
