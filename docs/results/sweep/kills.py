"""Kills workers of a sweep at random moments, and compares what comes out with an unbroken one.

    python docs/results/sweep/kills.py --kills=20 --out=docs/results/sweep/kills.jsonl
    python docs/results/sweep/kills.py --kills=20 --vectorize=2 --out=docs/results/sweep/kills.jsonl

Both sweeps are the first trials of the tiny tagger's own, with the same flags. The one is left
alone. Of the other, workers are killed with `kill -9`, and now and then the command itself, which
is then started again, until so many have been killed; then it is started once more. Asserts that
each trial is there once and complete, with each step once in its metrics, and that scores and
losses are those of the unbroken sweep to the last bit; with --vectorize=2 and more, where trials
come together in other groups and so agree to rounding alone, that accuracies differ by less than
0.01. Appends a JSON line.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
CONFIG = "configs/pos_tagging.py:size=tiny"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--vectorize", default="1")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", required=True, metavar="FILE.jsonl")
    arguments = parser.parse_args()
    flags = [
        f"--trials={arguments.trials}",
        f"--workers={arguments.workers}",
        f"--vectorize={arguments.vectorize}",
        f"--retries={arguments.kills}",
        f"--config.train_steps={arguments.steps}",
        "--config.checkpoint_every_steps=10",
        "--config.log_every_steps=10",
        "--config.eval_every_steps=40",
    ]
    with tempfile.TemporaryDirectory() as folder:
        whole, broken = Path(folder, "whole"), Path(folder, "broken")
        finish(start(whole, flags))
        killed = kill_at_random(broken, flags, arguments.kills, random.Random(arguments.seed))
        finish(start(broken, flags))
        tries, difference = compare(whole, broken, trials=arguments.trials)
    assert difference <= (0.0 if arguments.vectorize == "1" else 0.01), difference
    assert killed >= arguments.kills, f"all trials were complete after {killed} kills"
    row = {**vars(arguments), "killed": killed, "tries": tries, "largest_difference": difference}
    with Path(arguments.out).open("a") as out:
        print(json.dumps({key: value for key, value in row.items() if key != "out"}), file=out)
    print(json.dumps(row))


def start(folder: Path, flags: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "sweep.py", f"--config={CONFIG}", f"--workdir={folder}", *flags]
    return subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate()
    assert process.returncode == 0, errors[-3000:]


def kill_at_random(folder: Path, flags: list[str], kills: int, chance: random.Random) -> int:
    """Kills until so many are dead, or nothing is left to do; returns how many it were."""
    killed = 0
    while killed < kills:
        process = start(folder, flags)
        while killed < kills and process.poll() is None:
            time.sleep(chance.uniform(2.0, 15.0))  # a worker needs seconds to begin
            victims = workers_of(process.pid)
            if process.poll() is None and chance.random() < 0.1:
                victims = [process.pid]
            if victims:
                os.kill(chance.choice(victims), signal.SIGKILL)
                killed += 1
        finished = process.poll() == 0
        process.kill()
        process.communicate()
        if finished:
            break
    return killed


def workers_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in children.read_text().split()] if children.exists() else []


def compare(whole: Path, broken: Path, *, trials: int) -> tuple[int, float]:
    """Returns how many tries the second sweep took, and the largest difference of its accuracies
    from the first's: 0 only where every number of every log line is the same."""
    first, second = ([json.loads(x) for x in (f / "trials.jsonl").open()] for f in (whole, broken))
    hashes = [row["config_hash"] for row in first]
    assert [row["config_hash"] for row in second] == hashes and len(set(hashes)) == trials
    assert {row["status"] for row in first + second} == {"complete"}
    far = 0.0
    for name in hashes:
        (rows, scores), (others, other_scores) = (
            numbers(folder / "trials" / name) for folder in (whole, broken)
        )
        assert [row["step"] for row in rows] == [row["step"] for row in others], name
        if rows != others or scores != other_scores:
            apart = [(a, b) for a, b in zip(rows, others, strict=True) if a != b]
            print(name, *(apart[:1] or [(scores, other_scores)]), file=sys.stderr)
            far = max(far, abs(scores["accuracy"] - other_scores["accuracy"]), 1e-12)
    return sum(row["attempts"] for row in second), far


def numbers(run: Path) -> tuple[list[dict], dict]:
    """What does not depend on the clock: the metrics of each step, and the scores on dev."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    metrics = [{k: v for k, v in row.items() if k.partition("/")[0] != "time"} for row in rows]
    return metrics, json.loads((run / "result.json").read_text())["eval"]


if __name__ == "__main__":
    main()
