"""Wall time of one sweep, 8 learning rates × 3 seeds of the tiny tagger, in several ways.

    python docs/results/sweep/measure.py --out=docs/results/sweep/cpu.jsonl
    python docs/results/sweep/measure.py --ways=separate,process,2,8,24 --out=gpu.jsonl

The first is for a CPU, the second for an accelerator. The ways: `separate` (train.py for each
trial, one after the other), `workers` (2 processes), `process` (one worker, its trials share a
program), and a number K (the same, K trials at once). The compilation cache is on in all, and warm:
each way is run once before with a single trial, or K. Each way of a round starts from an empty
sweep directory. Appends a JSON line for each, and prints a table. Flags behind these are passed on,
such as --config.train_steps=100.
"""

import argparse
import contextlib
import json
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="configs/pos_tagging.py:size=tiny")
    parser.add_argument("--ways", default="separate,workers,process,2,4,8")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--trials", type=int, help="the first N points alone")
    parser.add_argument("--out", required=True, metavar="FILE.jsonl")
    arguments, flags = parser.parse_known_args()
    seconds: dict[str, list[float]] = {way: [] for way in arguments.ways.split(",")}
    for way in seconds:
        run(way, arguments.config, [*flags, f"--trials={way if way.isdigit() else 1}"])
    trials = [f"--trials={arguments.trials}"] if arguments.trials else []
    for number in range(arguments.rounds):
        for way, each in seconds.items():
            row = {"way": way, "round": number, **run(way, arguments.config, [*flags, *trials])}
            each.append(row["seconds"])
            with Path(arguments.out).open("a") as out:
                print(json.dumps(row), file=out)
    first = statistics.median(next(iter(seconds.values())))
    print(f"| way | seconds | {next(iter(seconds))} is to it |\n|---|---|---|")
    for way, each in seconds.items():
        middle = statistics.median(each)
        print(f"| {way} | {middle:.1f} | {first / middle:.2f} |")


def run(way: str, config: str, flags: list[str]) -> dict:
    """Runs the sweep in a folder of its own, and says what it took."""
    with tempfile.TemporaryDirectory() as folder:
        sweep = [sys.executable, "sweep.py", f"--config={config}", f"--workdir={folder}/s", *flags]
        start = time.perf_counter()
        if way == "separate":
            planned = subprocess.run(
                [*sweep, "--dry_run"], cwd=REPOSITORY, check=True, capture_output=True, text=True
            ).stdout.splitlines()
            commands = [shlex.split(line[line.index("python ") :])[1:] for line in planned]
            start = time.perf_counter()
            for command in commands:
                _quietly([sys.executable, *command])
        elif way == "workers":
            _quietly([*sweep, "--workers=2"])
        else:
            _quietly([*sweep, f"--vectorize={1 if way == 'process' else way}"])
        spent = time.perf_counter() - start
        results = [json.loads(path.read_text()) for path in Path(folder).rglob("result.json")]
    assert results and all(result["status"] == "complete" for result in results), results
    return {
        "commit": commit(REPOSITORY),
        "seconds": round(spent, 2),
        "trials": len(results),
        "steps": results[0]["step"],
        "train_seconds": round(sum(result["train_seconds"] for result in results), 2),
        "dev_accuracy": round(statistics.mean(r["eval"]["accuracy"] for r in results), 4),
        "device": results[0]["device_kind"],
        "python": platform.python_version(),
        "versions": results[0]["versions"],
    }


def commit(folder: Path) -> str | None:
    """The commit that is checked out there; None outside git."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        asked = ["git", "rev-parse", "--short", "HEAD"]
        return subprocess.run(
            asked, cwd=folder, check=True, capture_output=True, text=True
        ).stdout.strip()
    return None


def _quietly(command: list[str]) -> None:
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)}\n{done.stderr[-2000:]}")


if __name__ == "__main__":
    main()
