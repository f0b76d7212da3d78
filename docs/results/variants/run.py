"""Trains the points of a study one after the other, and writes a row for each run.

    python docs/results/variants/run.py [--workdir=runs/variants] [--only=rnn,cnn] [--seeds=0,1]

Reads `sweep()` of configs/pos_variants.py and starts train.py once for each point. A point that is
complete is not run again, so the same command goes on where it stopped. `--table` writes README.md
from what has been run; what was not reads "not run".
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from attention import configuration, variants

STUDY = "configs/pos_variants.py"
HERE = Path(__file__).parent
RESULTS = HERE / "results.jsonl"
KEPT = (
    *("variant", "seed", "step", "num_params", "train_seconds", "tokens_per_second", "dtype"),
    *("device_kind", "config_hash", "data_hash", "eval_hash", "versions"),
)


def points(only: list[str], seeds: list[int]) -> list[dict]:
    found = []
    for point in configuration.load_module(STUDY).sweep():
        argument = configuration.parse_argument(point["arg"])
        if (not only or argument["variant"] in only) and int(argument["seed"]) in seeds:
            found.append(point)
    return found


def rows() -> list[dict]:
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


def train(point: dict, workdir: Path) -> None:
    """Runs one point and adds its row, unless the row is there."""
    argument = configuration.parse_argument(point["arg"])
    done = {(row["variant"], row["seed"]) for row in rows()}
    if (argument["variant"], int(argument["seed"])) in done:
        return
    folder = workdir / f"{argument['variant']}-{argument['seed']}"
    flags = [f"--config.{key}={value}" for key, value in point.items() if key != "arg"]
    command = [f"--config={STUDY}:{point['arg']}", f"--workdir={folder}", *flags]
    start = time.perf_counter()
    subprocess.run([sys.executable, "train.py", *command], check=True)
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    model = configuration.read_saved(folder).model
    row = {key: result[key] for key in KEPT} | {
        "mlp_dim": model.mlp_dim,
        "attention": model.attention.to_dict(),
        "dev": result["eval"]["accuracy"],
        "test": result["test"]["accuracy"],
        "wall_seconds": round(time.perf_counter() - start, 1),
        "command": " ".join(["python", "train.py", *command]),
    }
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(f"{row['variant']} seed {row['seed']}: dev {row['dev']:.4f} test {row['test']:.4f}")


def spread(values: list[float]) -> str:
    """Mean and standard deviation in percent; one value has no deviation."""
    mean = 100 * statistics.mean(values)
    return (
        f"{mean:.2f} ± {100 * statistics.stdev(values):.2f}" if len(values) > 1 else f"{mean:.2f}"
    )


def table() -> str:
    """The table of the study, best first, and what was not run."""
    by_variant: dict[str, list[dict]] = {}
    for row in rows():
        by_variant.setdefault(row["variant"], []).append(row)
    lines = [
        "| variant | UPOS dev, % | UPOS test, % | seeds | parameters | MLP | seconds of training |",
        "|---|---|---|---|---|---|---|",
    ]
    order = sorted(by_variant, key=lambda v: -statistics.mean(r["dev"] for r in by_variant[v]))
    for variant in order:
        runs = sorted(by_variant[variant], key=lambda row: row["seed"])
        lines.append(
            f"| [{variant}](../../variants/{variant}.md) | {spread([r['dev'] for r in runs])} | "
            f"{spread([r['test'] for r in runs])} | {', '.join(str(r['seed']) for r in runs)} | "
            f"{runs[0]['num_params']:,} | {runs[0]['mlp_dim']} | "
            f"{statistics.median(r['train_seconds'] for r in runs):.0f} |"
        )
    lines += [
        f"| [{name}](../../variants/{name}.md) | not run | not run | – | – | – | – |"
        for name in variants.names()
        if name not in by_variant
    ]
    return "\n".join(lines)


def write_table() -> None:
    page = HERE / "README.md"
    start = "<!-- made by `python docs/results/variants/run.py --table` -->\n"
    before = page.read_text(encoding="utf-8").partition(start)[0]
    page.write_text(f"{before}{start}\n{table()}\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workdir", default="runs/variants", type=Path)
    parser.add_argument("--only", default="", help="variants, with commas between them")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--table", action="store_true", help="only write the table")
    arguments = parser.parse_args()
    if not arguments.table:
        only = [name for name in arguments.only.split(",") if name]
        for point in points(only, [int(seed) for seed in arguments.seeds.split(",")]):
            train(point, arguments.workdir)
    write_table()


if __name__ == "__main__":
    os.chdir(HERE.parents[2])
    sys.path.insert(0, os.getcwd())
    main()
