"""What a sweep left behind: its rows, how many have each status, and whether all are whole."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any


def rows(workdir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (workdir / "trials.jsonl").read_text().splitlines()]


def statuses(workdir: Path) -> Counter[str]:
    return Counter(row["status"] for row in rows(workdir))


def check_whole(workdir: Path, *, trials: int, steps: int) -> None:
    """Each trial complete, once, with each of its steps taken exactly once."""
    found = rows(workdir)
    assert statuses(workdir) == {"complete": trials}
    assert len({row["config_hash"] for row in found}) == len(found) == trials
    assert {path.name for path in (workdir / "trials").iterdir() if path.is_dir()} == {
        row["config_hash"] for row in found
    }
    for row in found:
        lines = (workdir / "trials" / row["config_hash"] / "steps.txt").read_text().splitlines()
        assert [int(line.split()[0]) for line in lines] == list(range(1, steps + 1)), row
