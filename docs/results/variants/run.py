"""Adds the runs of the study's sweep to results.jsonl, and writes the table of README.md.

    python sweep.py --config=configs/studies/tagging_variants.py --workdir=sweeps/variants
    python docs/results/variants/run.py [--workdir=sweeps/variants]

A run that has its row already stays as it is; what was not run reads "not run" in the table.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

from attention.configuration import parse_argument, read_saved
from attention.configuration.load import load_sweep

HERE = Path(__file__).parent
RESULTS = HERE / "results.jsonl"
KEPT = (
    *("variant", "seed", "step", "num_params", "train_seconds", "tokens_per_second", "dtype"),
    *("device_kind", "config_hash", "data_hash", "eval_hash", "versions"),
)


def lines_of(path: Path) -> list[dict]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rows() -> list[dict]:
    return lines_of(RESULTS)


def add_rows(sweep: Path) -> None:
    """Appends a row for each complete trial whose variant and seed have none."""
    done = {(row["variant"], row["seed"]) for row in rows()}
    with RESULTS.open("a", encoding="utf-8") as file:
        for trial in lines_of(sweep / "trials.jsonl"):
            folder = sweep / "trials" / str(trial["config_hash"])
            if trial["status"] != "complete":
                continue
            result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
            if (result["variant"], result["seed"]) not in done:
                row = row_of(result, read_saved(folder), trial["command"])
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


def row_of(result: dict, config, command: str) -> dict:
    return {key: result[key] for key in KEPT} | {
        "mlp_dim": config.model.mlp_dim,
        "attention": config.model.attention.to_dict(),
        "dev": result["eval"]["accuracy"],
        "test": result["test"]["accuracy"],
        "command": command,
    }


def spread(values: list[float]) -> str:
    """Mean and standard deviation in percent; one value has no deviation."""
    mean = 100 * statistics.mean(values)
    return (
        f"{mean:.2f} ± {100 * statistics.stdev(values):.2f}" if len(values) > 1 else f"{mean:.2f}"
    )


def table() -> str:
    """The table of the study, best first, and what was not run."""
    points = load_sweep("configs/studies/tagging_variants.py")
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
        for name in dict.fromkeys(parse_argument(point["arg"])["variant"] for point in points)
        if name not in by_variant
    ]
    return "\n".join(lines)


def write_table() -> None:
    page = HERE / "README.md"
    start = "<!-- made by `python docs/results/variants/run.py` -->\n"
    before = page.read_text(encoding="utf-8").partition(start)[0]
    page.write_text(f"{before}{start}\n{table()}\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workdir", default="sweeps/variants", type=Path, help="the sweep")
    add_rows(parser.parse_args().workdir)
    write_table()


if __name__ == "__main__":
    os.chdir(HERE.parents[2])
    sys.path.insert(0, os.getcwd())
    main()
