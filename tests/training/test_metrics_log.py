"""Metrics on disk, in TensorBoard and on the terminal."""

from __future__ import annotations

import json
import logging
import struct
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from tensorboardX.proto.event_pb2 import Event

from attention.training.metrics_log import MetricsLog
from attention.training.run_directory import RunDirectory

pytestmark = pytest.mark.fast


def events(file: Path) -> list[Event]:
    """Reads an event file: each record is a length, its sum, the event, and the event's sum."""
    data, offset, found = file.read_bytes(), 0, []
    while offset < len(data):
        (length,) = struct.unpack_from("<Q", data, offset)
        found.append(Event.FromString(data[offset + 12 : offset + 12 + length]))
        offset += 12 + length + 4
    return found


def scalars(run: RunDirectory) -> list[tuple[int, str, float]]:
    """What a reader of the event files keeps: a start event drops all from its step on."""
    kept: list[tuple[int, str, float]] = []
    for file in sorted(run.tensorboard.iterdir(), key=lambda f: f.stat().st_mtime_ns):
        for event in events(file):
            if event.HasField("session_log"):
                kept = [row for row in kept if row[0] < event.step]
            kept += [(event.step, v.tag, v.simple_value) for v in event.summary.value]
    return kept


def test_each_call_is_one_line_with_step_and_time_first(run):
    before = time.time()
    with MetricsLog(run) as log:
        log.write(1, {"train/loss": np.float32(0.1), "train/count": np.int32(4)})
        log.write(np.int64(2), {"train/loss": jnp.float32(1 / 3), "eval/f1": float("nan")})
        # Before it is closed: a killed run keeps its rows.
        lines = run.metrics_file.read_text().splitlines()
    assert [list(json.loads(line))[:2] for line in lines] == [["step", "time"]] * 2
    rows = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert all(before <= row.pop("time") <= time.time() for row in rows)
    assert rows == [
        {"step": 1, "train/loss": float(np.float32(0.1)), "train/count": 4},
        {"step": 2, "train/loss": float(np.float32(1 / 3)), "eval/f1": None},
    ]
    assert run.rows()[1]["step"] == 2


def test_a_resumed_log_equals_an_uninterrupted_one(run, tmp_path):
    def write(log, steps):
        for step in steps:
            log.write(step, {"train/loss": 1 / step})

    with MetricsLog(run) as log:
        write(log, range(1, 8))  # killed after step 7; the newest checkpoint is of step 4
    run.truncate_metrics(4)
    with MetricsLog(run, resume_step=4) as log:
        write(log, range(5, 11))
    straight = RunDirectory(tmp_path / "straight")
    straight.create()
    with MetricsLog(straight) as log:
        write(log, range(1, 11))

    def without_time(rows):
        return [{k: v for k, v in row.items() if k != "time"} for row in rows]

    assert without_time(run.rows()) == without_time(straight.rows())
    assert scalars(run) == scalars(straight)
    assert [step for step, _, _ in scalars(run)] == list(range(1, 11))


def test_tensorboard_gets_the_numbers_and_no_complaint(run, caplog):
    with caplog.at_level(logging.WARNING), MetricsLog(run) as log:
        log.write(3, {"train/loss": 0.25, "eval/f1": float("inf"), "note": "text", "n": True})
    assert scalars(run) == [(3, "train/loss", 0.25), (3, "n", 1.0)]
    assert not caplog.records


def test_elsewhere_than_on_a_terminal_each_call_is_one_plain_line(run, caplog, capsys, monkeypatch):
    # A command run in this process before leaves its handler, which writes the line itself.
    monkeypatch.setattr(logging.getLogger(), "handlers", [caplog.handler])
    with caplog.at_level(logging.INFO), MetricsLog(run, total_steps=50, terminal=False) as log:
        log.progress(5)
        log.write(
            10,
            {
                "train/loss": 0.123456,
                "time/tokens_per_second": 12345.678,
                "time/peak_memory_bytes": 5,
            },
        )
    assert [record.getMessage() for record in caplog.records] == [
        "step 10/50  train/loss 0.1235  time/tokens_per_second 12346"
    ]
    assert capsys.readouterr().err == ""


def test_on_a_terminal_a_bar_shows_the_main_numbers(run, caplog, capsys):
    with (
        caplog.at_level(logging.INFO),
        MetricsLog(run, total_steps=50, resume_step=4, terminal=True) as log,
    ):
        log.progress(5)
        log.write(10, {"train/loss": 0.123456})
        log.write(10, {"eval/accuracy": 0.5})
    assert [record.getMessage() for record in caplog.records] == ["step 10/50  eval/accuracy 0.5"]
    shown = capsys.readouterr().err
    assert "4/50" in shown and "10/50" in shown
    assert "train/loss=0.1235, eval/accuracy=0.5" in shown
