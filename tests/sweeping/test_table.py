"""What a sweep shows of itself."""

from __future__ import annotations

import io
from typing import Any

import pytest

from attention.sweeping.plan import Trial
from attention.sweeping.standing import Standing
from attention.sweeping.table import Seen, Table, best, duration, summary

pytestmark = pytest.mark.fast


def seen(number: int, status: str, metric: float | None = None, **more: Any) -> Seen:
    row = more.pop("row", {})
    trial = Trial(number, {"optimizer.learning_rate": number / 10}, "x.py", (), f"hash{number}")
    again = more.pop("open", status in ("planned", "interrupted"))
    return Seen(trial, Standing(status, again, metric, "bleu" if metric else "", **more), row)


SEEN = [
    seen(0, "complete", 20.0, seconds=10.0),
    seen(1, "complete", 21.0, seconds=30.0),
    seen(2, "pruned", 25.0, seconds=20.0),
    seen(3, "running", row={"step": 30, "eval/bleu": 12.3456}),
    seen(4, "running"),
    seen(5, "failed", error="step 3: the loss is nan"),
    seen(6, "failed", open=True, error="will be tried again"),
    seen(7, "planned"),
]


def test_the_summary_counts_each_trial_once() -> None:
    # Two to come and two half done, at 20 s each, by two workers: 30 s.
    assert summary(SEEN, wanted=8, workers=2) == (
        "3 of 8 done, 2 running, 1 failed, best bleu 21.0000 (trial 1), about 30 s left"
    )
    assert summary(SEEN[-1:], wanted=1, workers=1) == "0 of 1 done, 0 running"
    assert summary(SEEN[:3], wanted=3, workers=1).endswith("best bleu 21.0000 (trial 1)")


def test_the_best_is_complete_and_the_first_of_equals() -> None:
    top = best([seen(0, "complete", 1.0), seen(1, "complete", 1.0), seen(2, "pruned", 2.0)])
    assert top is not None and top.trial.number == 0
    assert best([seen(0, "complete", None)]) is None


def test_plain_lines_tell_each_change_once() -> None:
    stream = io.StringIO()
    table = Table(stream, terminal=False)
    table.show([seen(0, "complete", 1.0), seen(1, "planned")], wanted=2, workers=1)
    assert "1 of 2 done" in stream.getvalue() and "hash0" not in stream.getvalue()
    running = [seen(0, "complete", 1.0), seen(1, "running", row={"step": 3, "train/loss": 0.5})]
    table.show(running, wanted=2, workers=1)
    table.show(running, wanted=2, workers=1)
    table.show([seen(0, "complete", 1.0), seen(1, "complete", 2.0)], wanted=2, workers=1)
    lines = [line.partition(" ")[2] for line in stream.getvalue().splitlines()]
    assert lines[1:] == [
        "trial 1  hash1  optimizer.learning_rate=0.1  running  step 3  train/loss 0.5",
        "trial 1  hash1  optimizer.learning_rate=0.1  complete: bleu 2.0000",
        "2 of 2 done, 0 running, best bleu 2.0000 (trial 1)",
    ]


def test_a_terminal_shows_the_summary_above_what_runs_and_what_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    stream = io.StringIO()
    table = Table(stream, terminal=True)
    table.show(SEEN, wanted=8, workers=2)
    first = stream.getvalue()
    assert [line[:9] for line in first.split("\n")[1:-1]] == [
        *("  trial 3", "  trial 4", "  trial 5", "  trial 6"),
    ]
    assert "failed, to be tried again: will" in first
    assert "step 30  eval/bleu 12.35" in first and "starting" in first
    table.show(SEEN, wanted=8, workers=2)
    assert stream.getvalue().removeprefix(first).startswith("\x1b[5A\r\x1b[J3 of 8")


@pytest.mark.parametrize(("seconds", "text"), [(5, "5 s"), (600, "10 min"), (9000, "2.5 h")])
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text
