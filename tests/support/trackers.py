"""Trackers for tests: modules that stand in for the packages, and what the packages stored."""

from __future__ import annotations

import importlib
import json
import sqlite3
import struct
import sys
import threading
import types
from pathlib import Path
from typing import Any, NamedTuple

NAMES = ("wandb", "mlflow", "trackio")


class Stored(NamedTuple):
    """A run as a tracker has it."""

    id: str
    project: str
    name: str
    group: str | None
    config: dict[str, Any]
    rows: list[tuple[int, dict[str, float]]]
    ended: list[Any]  # how, each time
    results: dict[str, Any]


class Fake:
    """A module that keeps what it is given in `runs`, by id."""

    def __init__(self, name: str) -> None:
        self.runs: dict[str, Stored] = {}
        self.broken = False
        self.module: Any = types.ModuleType(name)
        self.modules = {name: self.module}
        getattr(self, f"_be_{name}")()

    def stored(self) -> list[Stored]:
        return list(self.runs.values())

    def _open(self, project, name, group, config, run_id) -> str:
        self._work()
        run_id = run_id or f"id{len(self.runs)}"
        new = Stored(run_id, project, name, group, {}, [], [], {})
        self.runs.setdefault(run_id, new).config.update(config)
        return run_id

    def _work(self) -> None:
        if self.broken:
            raise ConnectionError("the server\nis gone")

    def _log(self, run_id: str, row: dict[str, Any], step: int) -> None:
        self._work()
        self.runs[run_id].rows.append((step, row))

    def _be_wandb(self) -> None:
        fake = self

        class Run:
            def __init__(self, run_id):
                self.id = run_id
                self.summary = fake.runs[run_id].results

            def log(self, data, step=None):
                fake._log(self.id, data, step)

            def finish(self, exit_code=None):
                fake._work()
                fake.runs[self.id].ended.append(exit_code)

        def init(
            *, project, dir, id, name, config, allow_val_change, group, reinit, resume, settings
        ):
            assert reinit == "create_new" and allow_val_change and Path(dir).is_dir()
            assert resume == ("allow" if id else None)
            return Run(fake._open(project, name, group, config, id))

        self.module.init, self.module.Settings = init, lambda console: None
        self.module.Run = Run

    def _be_trackio(self) -> None:
        fake = self

        class Run:
            def __init__(self, run_id):
                self.id = run_id

            def log(self, metrics, step=None):
                if "status" in metrics:
                    fake._work()
                    fake.runs[self.id].results.update(metrics)
                else:
                    fake._log(self.id, metrics, step)

            def finish(self):
                fake.runs[self.id].ended.append(None)

        current = threading.local()

        def finish():
            current.run.finish()

        def init(project, name=None, group=None, config=None, resume="never", embed=True):
            same = [run.id for run in fake.stored() if (run.project, run.name) == (project, name)]
            run_id = same[-1] if resume == "must" else None
            current.run = Run(fake._open(project, name, group, config, run_id))
            return current.run

        self.module.init, self.module.Run, self.module.finish = init, Run, finish

    def _be_mlflow(self) -> None:
        fake = self
        experiments: dict[str, str] = {}
        entities: Any = types.ModuleType("mlflow.entities")
        for kind in ("Metric", "Param", "RunTag"):
            fields = {"Metric": ["key", "value", "timestamp", "step"]}.get(kind, ["key", "value"])
            setattr(entities, kind, NamedTuple(kind, [(field, Any) for field in fields]))

        class Client:
            def get_experiment_by_name(self, name):
                found = experiments.get(name)
                return types.SimpleNamespace(experiment_id=found) if found else None

            def create_experiment(self, name):
                experiments[name] = name
                return name

            def create_run(self, experiment_id, run_name=None, tags=None):
                run_id = fake._open(experiment_id, run_name, tags.get("group"), {}, None)
                return types.SimpleNamespace(info=types.SimpleNamespace(run_id=run_id))

            def get_run(self, run_id):
                data = types.SimpleNamespace(params=dict(fake.runs[run_id].config))
                return types.SimpleNamespace(data=data)

            def update_run(self, run_id, status=None):
                assert run_id in fake.runs and status == "RUNNING"

            def log_batch(self, run_id, metrics=(), params=(), tags=()):
                fake._work()
                run = fake.runs[run_id]
                assert len(params) <= 100 and not {p.key for p in params} & set(run.config)
                run.config.update({p.key: p.value for p in params})
                run.results.update({tag.key: tag.value for tag in tags})
                final = {m.key: m.value for m in metrics if m.key.startswith("result/")}
                run.results.update(final)
                if metrics and not final:
                    fake._log(run_id, {m.key: m.value for m in metrics}, metrics[0].step)

            def set_terminated(self, run_id, status=None):
                fake.runs[run_id].ended.append(status)

        self.module.MlflowClient, self.module.entities = Client, entities
        self.module.exceptions = types.SimpleNamespace(MlflowException=RuntimeError)
        self.modules["mlflow.entities"] = entities


class Real:
    """An installed package, kept to files in a folder, and what it stored there."""

    def __init__(self, name: str, folder: Path, monkeypatch) -> None:
        self.name, self.folder = name, folder
        monkeypatch.setenv("WANDB_MODE", "offline")
        monkeypatch.setenv("WANDB_SILENT", "true")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
        monkeypatch.delenv("TRACKIO_SPACE_ID", raising=False)
        if name == "trackio":
            from trackio import sqlite_storage, utils  # pyright: ignore[reportMissingImports]

            for module in (sqlite_storage, utils, sys.modules["trackio"]):
                monkeypatch.setattr(module, "TRACKIO_DIR", folder, raising=False)

    def stored(self) -> list[Stored]:
        return sorted(getattr(self, f"_stored_{self.name}")(), key=lambda run: run.name)

    def _stored_mlflow(self) -> list[Stored]:
        client = importlib.import_module("mlflow").MlflowClient()
        found = []
        for experiment in client.search_experiments():
            for run in client.search_runs([experiment.experiment_id]):
                rows: dict[tuple[int, int], dict[str, float]] = {}
                results: dict[str, Any] = dict(run.data.tags)
                for key in run.data.metrics:
                    for one in client.get_metric_history(run.info.run_id, key):
                        if key.startswith("result/"):
                            results[key] = one.value
                        else:
                            place = rows.setdefault((one.step, one.timestamp), {})
                            assert key not in place
                            place[key] = one.value
                found.append(
                    Stored(
                        run.info.run_id,
                        experiment.name,
                        run.info.run_name,
                        run.data.tags.get("group"),
                        run.data.params,
                        [(step, rows[step, at]) for step, at in sorted(rows)],
                        [run.info.status],
                        results,
                    )
                )
        return found

    def _stored_trackio(self) -> list[Stored]:
        found = {}
        for file in self.folder.glob("*.db"):
            with sqlite3.connect(file) as data:
                for run_id, name, text in data.execute(
                    "select run_id, run_name, config from configs"
                ):
                    config = json.loads(text)
                    group = config["_Group"]
                    found[run_id] = Stored(run_id, file.stem, name, group, config, [], [None], {})
                query = "select run_id, step, metrics from metrics order by id"
                for run_id, step, text in data.execute(query):
                    row = json.loads(text)
                    if "status" in row:
                        found[run_id].results.update(row)
                    else:
                        found[run_id].rows.append((step, row))
        return list(found.values())

    def _stored_wandb(self) -> list[Stored]:
        proto = importlib.import_module("wandb.proto.wandb_internal_pb2")
        found: dict[str, Stored] = {}
        for file in sorted(self.folder.glob("**/run-*.wandb")):
            run: Any = None
            for text in leveldb_records(file.read_bytes()):
                record = proto.Record.FromString(text)
                kind = record.WhichOneof("record_type")
                if kind == "run":
                    one = record.run
                    new = Stored(
                        one.run_id, one.project, one.display_name, one.run_group, {}, [], [], {}
                    )
                    run = found.setdefault(one.run_id, new)
                    run.config.update({i.key: json.loads(i.value_json) for i in one.config.update})
                elif kind == "history":
                    row = {
                        i.key or i.nested_key[0]: json.loads(i.value_json)
                        for i in record.history.item
                    }
                    step = record.history.step.num
                    kept = {k: v for k, v in row.items() if not k.startswith("_")}
                    if kept:
                        run.rows.append((step, kept))
                elif kind == "summary":
                    for i in record.summary.update:
                        key = i.key or i.nested_key[0]
                        run.results[key] = json.loads(i.value_json)
                elif kind == "exit":
                    run.ended.append(record.exit.exit_code)
        return list(found.values())


def leveldb_records(data: bytes):
    """The records of a LevelDB log after a header of 7 bytes, put together from their parts."""
    place, whole = 7, b""
    while place + 7 <= len(data):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        whole += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield whole
            whole = b""
