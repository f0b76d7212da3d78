"""Stands in for training in tests of sweeps: as quick as a sweep can be, and as bad as told.

A run counts up to `config.steps` in steps.txt, a line a step with the process that took it, and
goes on from there when it is begun again. The score is `config.rate`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from attention import command
from attention.errors import Failure, Interrupted, UserError
from attention.sweeping import closing, plan, sweep
from attention.training.atomic import to_json
from attention.training.interrupt import interruptible
from attention.training.run_directory import RunDirectory

RECIPE = """
from ml_collections import ConfigDict

def get_config(arg=""):
    config = ConfigDict()
    config.task = "fake"
    config.seed = 0
    config.rate = 1.0
    config.steps = 2
    config.step_seconds = 0.0
    config.eval_every_steps = 1
    config.behaviour = "good"
    config.dtype = "float32"
    return config
"""


def write_recipe(folder: Path, sweep: str, *, head: str = "") -> Path:
    """Writes a config file with the body of its sweep(), and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    body = "\n".join(f"    {line}" for line in sweep.strip().splitlines())
    path = folder / "recipe.py"
    path.write_text(f"{head}\n{RECIPE}\n\ndef sweep():\n{body}\n", encoding="utf-8")
    return path


def train(config: Any, workdir: str, *, prune: Any = None) -> dict[str, Any]:
    run = RunDirectory(workdir)
    with run.lock(), interruptible() as interrupt:
        run.write_config(json.dumps(config.to_dict()))
        if (run.read_result() or {}).get("status") == "complete":
            return run.read_result() or {}
        misbehave(config.behaviour, run.path)
        return _count(config, run, prune, interrupt)


def misbehave(behaviour: str, workdir: Path) -> None:
    """Does what the config says: crashes once or always, diverges, …"""
    first = not (workdir.parent.parent / f"{workdir.name}.begun").exists()
    (workdir.parent.parent / f"{workdir.name}.begun").touch()
    if behaviour == "crash" or (behaviour == "crash once" and first):
        raise RuntimeError("out of luck")
    if behaviour == "die" or (behaviour == "die once" and first):
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour == "diverge":
        raise Failure("step 1: the loss is nan")
    if behaviour == "wrong file":
        raise UserError("no file data.conllu")


def _count(config: Any, run: RunDirectory, prune: Any, interrupt: Any) -> dict[str, Any]:
    result = {"status": "running", "eval": {"accuracy": 0.0, "loss": 1.0}}
    for step in range(steps_taken(run.path) + 1, config.steps + 1):
        time.sleep(config.step_seconds)
        _append(run.path / "steps.txt", f"{step} {os.getpid()}")
        score = config.rate * step / config.steps
        _append(run.metrics_file, to_json({"step": step, "time": 0.0, "eval/accuracy": score}))
        result = {"status": "running", "eval": {"accuracy": score, "loss": 1.0}}
        run.write_result(result)
        if interrupt.requested:
            raise Interrupted("stopped")
        if prune is not None and step < config.steps and prune(step, {"accuracy": score}):
            run.write_result({**result, "status": "pruned"})
            return {**result, "status": "pruned"}
    result = {"status": "complete", "eval": {"accuracy": config.rate, "loss": 1.0}}
    run.write_result(result)
    return result


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def steps_taken(workdir: Path) -> int:
    """Whole steps so far."""
    path = workdir / "steps.txt"
    return path.read_text("utf-8").count("\n") if path.exists() else 0


def main(arguments: argparse.Namespace) -> None:
    """sweep.py with this trainer."""
    swept = plan.read_sweep(arguments.config, arguments.overrides)
    setting = sweep.make_setting(
        swept,
        arguments.workdir,
        sweep.Selection(),
        storage=arguments.storage,
        train="support.fake_training:train",
    )
    seen = sweep.run_sweep(swept, setting, workers=arguments.workers)
    closing.raise_failure(setting, seen)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--config")
    parser.add_argument("--workdir")
    parser.add_argument("--storage")
    parser.add_argument("--workers", type=int, default=1)
    command.run(main, parser)
