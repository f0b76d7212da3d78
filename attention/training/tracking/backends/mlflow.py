"""MLflow. `MLFLOW_TRACKING_URI` says where: a server, or sqlite:///FILE, which needs no network.

A metric that is logged again is kept twice, and a parameter never changes: what differs in a run
that goes on (a raised `train_steps`) becomes a tag.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from attention.training.tracking.tracker import Description

mlflow: Any = import_module("mlflow")  # not this file
entities: Any = import_module("mlflow.entities")

_STATUSES = {"failed": "FAILED", "interrupted": "KILLED"}
_PER_REQUEST = 100  # parameters, or tags
_LONGEST = 5000  # letters of a value; more is refused
# A server that is gone would stop training for minutes at each row: 7 tries of 120 seconds.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}


class Run:
    """A run by its id, without the active run that MLflow keeps for each thread."""

    def __init__(self, client: Any, run_id: str) -> None:
        self._client = client
        self.id = run_id

    def log(self, step: int, seconds: float, numbers: Mapping[str, float]) -> None:
        at = round(1000 * seconds)
        metrics = [entities.Metric(name, number, at, step) for name, number in numbers.items()]
        self._client.log_batch(self.id, metrics=metrics)

    def end(self, status: str, step: int, results: Mapping[str, Any]) -> None:
        numbers = {k: v for k, v in results.items() if isinstance(v, int | float)}
        now = round(1000 * time.time())
        metrics = [
            entities.Metric(name, float(number), now, step) for name, number in numbers.items()
        ]
        texts = {"status": status} | {k: v for k, v in results.items() if k not in numbers}
        self._client.log_batch(self.id, metrics=metrics, tags=_each(entities.RunTag, texts))
        self._client.set_terminated(self.id, _STATUSES.get(status, "FINISHED"))

    def describe(self, config: Mapping[str, Any]) -> None:
        """Keeps the config as parameters; of a run that goes on, what is new as tags."""
        known = self._client.get_run(self.id).data.params
        made = _each(entities.Param, {key: config[key] for key in config if key not in known})
        for begin in range(0, len(made), _PER_REQUEST):
            self._client.log_batch(self.id, params=made[begin : begin + _PER_REQUEST])
        changed = {k: v for k, v in config.items() if known.get(k, _text(v)) != _text(v)}
        if changed:
            self._client.log_batch(self.id, tags=_each(entities.RunTag, changed))


def start(description: Description) -> Run:
    for name, value in _PATIENCE.items():
        os.environ.setdefault(name, value)
    client = mlflow.MlflowClient()
    if description.id:
        run = Run(client, description.id)
        client.update_run(run.id, status="RUNNING")
    else:
        tags = {"group": description.group} if description.group else {}
        made = client.create_run(
            _experiment(client, description.project), run_name=description.name, tags=tags
        )
        run = Run(client, made.info.run_id)
    run.describe(description.config)
    return run


def _experiment(client: Any, name: str) -> str:
    """The id of an experiment, made unless another process was quicker."""
    if found := client.get_experiment_by_name(name):
        return found.experiment_id
    try:
        return client.create_experiment(name)
    except mlflow.exceptions.MlflowException:
        if found := client.get_experiment_by_name(name):
            return found.experiment_id
        raise


def _each(kind: Any, values: Mapping[str, Any]) -> list[Any]:
    return [kind(key, _text(value)) for key, value in values.items()]


def _text(value: Any) -> str:
    return str(value)[:_LONGEST]
