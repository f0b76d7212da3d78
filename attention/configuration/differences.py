"""Differences between two configs, and which of them an old run directory accepts."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from attention.configuration.durations import depends_on_total, is_duration
from attention.configuration.fields import leaves
from attention.errors import UserError

ABSENT = "(absent)"
_MAY_RISE = ("train_steps", "train_epochs")
_HOW_IT_RUNS = ("eval_batch_size", "parallelism", "data.num_threads")
# Schedules under which a longer run has other learning rates at the same steps.
LENGTH_DEPENDENT_SCHEDULES = frozenset({"cosine", "inverse_sqrt_cooldown"})


class Difference(NamedTuple):
    """A key whose values differ. `allowed`: a run may go on with it, after saying `warning`."""

    key: str
    old: Any
    new: Any
    allowed: bool
    warning: str = ""


def differences(old: ConfigDict, new: ConfigDict) -> list[Difference]:
    """Returns the differing keys of two resolved configs, in order of the keys.

    A run may go on with other values of keys that are about running (`is_about_running`), and with
    a raised `train_steps` or `train_epochs`; the warning is set where the learning rate's
    schedule depends on the length of the run.
    """
    before, after = dict(leaves(old)), dict(leaves(new))
    found = []
    for key in sorted(before | after):
        a, b = before.get(key, ABSENT), after.get(key, ABSENT)
        if a != b:
            allowed = _may_change(key, a, b)
            warning = _schedule_warning(new, key, a, b) if allowed and key in _MAY_RISE else ""
            found.append(Difference(key, a, b, allowed, warning))
    return found


def _may_change(key: str, old: Any, new: Any) -> bool:
    if key in _MAY_RISE:
        both_set = isinstance(old, int | float) and isinstance(new, int | float)
        return both_set and new > old
    return is_about_running(key)


def is_about_running(key: str) -> bool:
    """Returns whether the dotted key says how the same computation runs, not what it computes.

    How often things happen, on which devices, in what portions, who is told: no part of the
    config's hash, and free to change in an old directory.
    """
    every = key.endswith("_every_steps") and is_duration(key)
    return every or key in _HOW_IT_RUNS or key.partition(".")[0] in ("mesh", "tracking")


def _schedule_warning(config: ConfigDict, key: str, old: Any, new: Any) -> str:
    optimizer: Any = config.get("optimizer", {})
    parts = []
    schedule = optimizer.get("schedule")
    if schedule in LENGTH_DEPENDENT_SCHEDULES:
        parts.append(f"schedule={schedule}")
    if depends_on_total(optimizer.get("warmup_steps", 0)):
        parts.append(f"warmup_steps={optimizer['warmup_steps']}")
    if not parts:
        return ""
    return (
        f"{key} was raised from {old} to {new}, and optimizer.{' and optimizer.'.join(parts)} "
        "depends on it: the learning rate follows the new, longer schedule from here on"
    )


def continue_with(saved: ConfigDict, config: ConfigDict, *, where: str) -> ConfigDict:
    """Returns the config with which the run in the directory `where` goes on.

    Warnings about what changed are logged.

    Args:
      saved: The config saved in the directory.
      config: The resolved config of this command.
      where: The run directory, for the error.

    Raises:
      UserError: names each key that differs and may not, with both values.
    """
    found = differences(saved, config)
    refused = [f"{d.key}: {d.old!r} -> {d.new!r}" for d in found if not d.allowed]
    if refused:
        raise UserError(
            f"{where} holds a run with another config ({'; '.join(refused)}): choose another "
            "--workdir, or give the old values to go on with that run"
        )
    for difference in found:
        if difference.warning:
            logging.warning("%s", difference.warning)
    return config
