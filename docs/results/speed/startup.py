"""Seconds from the command to the end of the first training step: with empty caches, and again.

    python docs/results/speed/startup.py --size=small

Cold means an empty folder for prepared data and compiled programs; packages are installed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent.parent.parent


def seconds_to_first_step(size: str, cache: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = time.time()
        subprocess.run(
            [
                *(sys.executable, str(REPOSITORY / "train.py")),
                f"--config=configs/pos_tagging.py:size={size}",
                f"--workdir={folder}/run",
                *("--config.train_steps=1", "--config.log_every_steps=1"),
            ],
            check=True,
            capture_output=True,
            env={**os.environ, "ATTENTION_LAB_CACHE": cache},
        )
        first = json.loads(Path(folder, "run", "metrics.jsonl").read_text().splitlines()[0])
    return first["time"] - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="small")
    size = parser.parse_args().size
    with tempfile.TemporaryDirectory() as cache:
        cold = seconds_to_first_step(size, cache)
        warm = [seconds_to_first_step(size, cache) for _ in range(3)]
    print(json.dumps({"size": size, "cold_seconds": cold, "warm_seconds": warm}))


if __name__ == "__main__":
    main()
