"""Small training runs for tests, in this process or by the commands a user types."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as ocp
import pytest
from support.treebank import write_treebank

from attention import configuration

REPOSITORY = Path(__file__).parent.parent.parent
SPEC = "configs/pos_tagging.py:dataset=files,size=tiny"
SMALL = {
    "model.dim": 16,
    "model.num_heads": 2,
    "model.mlp_dim": 32,
    "model.word_dim": 8,
    "model.char_dim": 8,
    "data.max_length": 32,
    "data.max_word_length": 6,
    "batch_tokens": 256,
    "train_steps": 12,
    "log_every_steps": 1,
    "eval_every_steps": 6,
    "checkpoint_every_steps": 4,
}


def small_overrides(folder: Path, **overrides: Any) -> dict[str, Any]:
    """Overrides for a run of a dozen steps on a made-up treebank written in `folder`."""
    given = {key.replace("__", "."): value for key, value in overrides.items()}
    return {**SMALL, **write_treebank(folder), **given}


def small_config(folder: Path, *, spec: str = "", **overrides: Any) -> Any:
    """The config of such a run; `model__dim=8` sets model.dim.

    Args:
      folder: where the treebank is written.
      spec: more of the config's argument, such as "variant=rnn".
      overrides: of the config.
    """
    whole = f"{SPEC},{spec}" if spec else SPEC
    return configuration.load_config(whole, small_overrides(folder, **overrides))


def flags(overrides: dict[str, Any]) -> list[str]:
    """Overrides as a command line has them."""
    return [f"--config.{key}={value}" for key, value in overrides.items()]


def command(script: str, *arguments: str, **environment: str) -> list[str]:
    """The command line of a script of the repository (the environment goes to `environ`)."""
    return [sys.executable, str(REPOSITORY / script), *arguments]


def environ(*, devices: int = 1, **more: str) -> dict[str, str]:
    """The environment of a subprocess with so many host devices."""
    flag = f"--xla_force_host_platform_device_count={devices}"
    return {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flag, **more}


def run(
    script: str, *arguments: str, devices: int = 1, stdin: str | bytes = b"", **more: Any
) -> subprocess.CompletedProcess[str]:
    """Runs a script to its end; its output is text."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        command(script, *arguments),
        env=environ(devices=devices),
        input=data,
        capture_output=True,
        timeout=600,
        **more,
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


@contextlib.contextmanager
def counting_programs() -> Iterator[list[tuple[int, int]]]:
    """A list that each run trained inside adds to: programs of its step and of its predictions."""
    from attention.training import loop

    programs = []

    class Watched(loop.Trainer):
        def close(self):
            programs.append((self._train_step.num_programs, self._predictor.num_programs))
            super().close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "Trainer", Watched)
        yield programs


def metrics_rows(workdir: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without what depends on the clock."""
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("time")} for row in rows]


def losses(workdir: Path) -> list[float]:
    """The training loss of each step."""
    return [row["train/loss"] for row in metrics_rows(workdir) if "train/loss" in row]


def saved_arrays(workdir: Path, step: int) -> dict[str, np.ndarray]:
    """Every array of a checkpoint, read by Orbax alone, by its path."""
    path = (workdir / "checkpoints" / str(step) / "state").absolute()
    with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as reader:
        tree = reader.restore(path)
    flat: dict[str, np.ndarray] = {}

    def visit(node: Any, name: str) -> None:
        if isinstance(node, dict):
            for key, value in node.items():
                visit(value, f"{name}/{key}")
        elif isinstance(node, list | tuple):
            for index, value in enumerate(node):
                visit(value, f"{name}/{index}")
        elif node is not None:
            flat[name] = np.asarray(node)

    visit(tree, "")
    return flat
