"""Real words a second of this repository and of PyTorch, in turn, in one run.

    pip install torch        # in a second environment is fine: --torch_python
    python docs/results/speed/compare.py --data=train.conllu --torch_python=/path/to/python

Six layers, width 512, 8 heads, MLP 2048, batches of 64 × 256 positions, AdamW, no dropout, two
threads. Ours is `train.py` as a user runs it (shuffled data, packed rows); PyTorch is
`torch_baseline.py`. Each round runs every setting once, so a drift of the machine meets them all.
Prints a Markdown table of medians, and every single run as a JSON line on stderr.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent.parent
WARMUP, STEPS = 1, 4


def ours(data: str, dtype: str, extra: list[str]) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        flags = {
            "data.train_path": data,
            "dtype": dtype,
            "train_steps": WARMUP + STEPS,
            "log_every_steps": 1,
            "model.use_chars": "false",
            "model.dropout_rate": 0.0,
            "model.word_dropout_rate": 0.0,
            "model.word_dim": 512,
        }
        subprocess.run(
            [
                *(sys.executable, str(REPOSITORY / "train.py")),
                "--config=configs/pos_tagging.py:dataset=files,size=base",
                f"--workdir={folder}/run",
                *(f"--config.{key}={value}" for key, value in flags.items()),
                *extra,
            ],
            check=True,
            capture_output=True,
        )
        lines = Path(folder, "run", "metrics.jsonl").read_text().splitlines()
        result = json.loads(Path(folder, "run", "result.json").read_text())
    rows = [row for row in map(json.loads, lines) if row["step"] > WARMUP]
    seconds = sum(1 / row["time/steps_per_second"] for row in rows)
    tokens = sum(row["time/tokens_per_second"] / row["time/steps_per_second"] for row in rows)
    memory = result["peak_memory_bytes"]
    utilization = [row["time/model_flop_utilization"] for row in rows]
    return {
        "real_tokens_per_second": tokens / seconds,
        "padding_fraction": statistics.mean(row["train/padding_fraction"] for row in rows),
        "model_flop_utilization": statistics.median(utilization),
        "input_wait_fraction": max(row["time/input_wait_fraction"] for row in rows),
        "peak_gigabytes": memory and memory / 1e9,
        "versions": f"jax {result['versions']['jax']}",
    }


def torch(python: str, data: str, dtype: str, batching: str) -> dict:
    done = subprocess.run(
        [
            *(python, str(HERE / "torch_baseline.py"), f"--data={data}", f"--dtype={dtype}"),
            *(f"--batching={batching}", f"--steps={STEPS}", f"--warmup={WARMUP}"),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    row = json.loads(done.stdout.splitlines()[-1])
    return {**row, "versions": f"torch {row['torch']}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, metavar="FILE", help="CoNLL-U to train on")
    parser.add_argument("--torch_python", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--random", action="store_true", help="also PyTorch with random batches")
    arguments, extra = parser.parse_known_args()
    settings = {}
    for dtype in arguments.dtypes.split(","):
        settings[f"ours {dtype}"] = lambda d=dtype: ours(arguments.data, d, extra)
        for batching in ("sorted", "random") if arguments.random else ("sorted",):
            settings[f"PyTorch {dtype}, {batching} batches"] = lambda d=dtype, b=batching: torch(
                arguments.torch_python, arguments.data, d, b
            )
    runs: dict[str, list[dict]] = {name: [] for name in settings}
    for number in range(arguments.rounds):
        for name, measure in settings.items():
            runs[name].append(measure())
            print(json.dumps({"round": number, "what": name, **runs[name][-1]}), file=sys.stderr)
    best = {
        dtype: statistics.median(
            row["real_tokens_per_second"] for row in runs[f"PyTorch {dtype}, sorted batches"]
        )
        for dtype in arguments.dtypes.split(",")
    }
    print("| what | words/s (median, min–max) | to PyTorch's best | padding | utilization |")
    print("|---|---|---|---|---|")
    for name, rows in runs.items():
        speeds = [row["real_tokens_per_second"] for row in rows]
        dtype = next(d for d in best if d in name)
        used = [row["model_flop_utilization"] for row in rows if "model_flop_utilization" in row]
        cells = [
            f"{name} ({rows[0]['versions']})",
            f"{statistics.median(speeds):.0f} ({min(speeds):.0f}–{max(speeds):.0f})",
            f"{statistics.median(speeds) / best[dtype]:.2f}",
            f"{rows[0]['padding_fraction']:.1%}",
            f"{statistics.median(used):.0%}" if used else "",
        ]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
