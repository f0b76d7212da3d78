"""Times scaled dot-product attention against other implementations, as ratios in one run.

    python docs/results/timing/measure.py --out=docs/results/timing/timing.json [--torch=PYTHON]

Each cell is a length, a type, a direction and what is timed (forward, or forward and backward).
Within a cell the implementations take turns, so that what else the machine does hits all alike;
the least time of each counts. `--torch` names a Python that has torch; it is timed in a process of
its own, which takes its turns with the others.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import flax
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from attention import variants
from attention.core import implementations

BATCH, HEADS, SIZE = 4, 8, 64
LENGTHS = (128, 512, 2048)
TORCH_WORKER = Path(__file__).parent / "torch_worker.py"


def ours(implementation: str, block_size: int | None = None) -> Callable:
    attend = variants.get("scaled_dot").attend

    def run(q, k, v, *, causal):
        options = {"implementation": implementation, "block_size": block_size}
        return attend(q, k, v, causal=causal, **options)

    return run


def of_jax(q, k, v, *, causal):
    return jax.nn.dot_product_attention(q, k, v, is_causal=causal)


def of_flax(q, k, v, *, causal):
    mask = nnx.make_causal_mask(jnp.ones(q.shape[:2])) if causal else None
    return nnx.dot_product_attention(q, k, v, mask=mask)


def inputs(length: int, dtype: str):
    random = np.random.default_rng(0)
    shape = (BATCH, length, HEADS, SIZE)
    return [jnp.asarray(random.normal(size=shape), dtype) for _ in range(4)]


def compiled(attend: Callable, arrays, *, causal: bool, backward: bool) -> Callable[[], None]:
    """Returns what runs one implementation once and waits for it; compiled and warm."""
    q, k, v, cotangent = arrays

    @jax.jit
    def forward(q, k, v):
        return attend(q, k, v, causal=causal)

    @jax.jit
    def both(q, k, v, cotangent):
        out, pull = jax.vjp(lambda *a: attend(*a, causal=causal), q, k, v)
        return out, pull(cotangent)

    def run() -> None:
        jax.block_until_ready(both(q, k, v, cotangent) if backward else forward(q, k, v))

    run()
    return run


class Torch:
    """A process that times torch when asked."""

    def __init__(self, python: str) -> None:
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH",)}
        self._process = subprocess.Popen(
            [python, str(TORCH_WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.version = self._ask({})["version"]

    def _ask(self, question: dict) -> dict:
        assert self._process.stdin and self._process.stdout
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def seconds(self, **cell) -> float:
        return self._ask({"batch": BATCH, "heads": HEADS, "size": SIZE, **cell})["seconds"]


def measure(cell: dict, candidates: dict[str, Callable], torch: Torch | None, rounds: int) -> dict:
    arrays = inputs(cell["length"], cell["dtype"])
    settings = {"causal": cell["causal"], "backward": cell["backward"]}
    runs = {name: compiled(f, arrays, **settings) for name, f in candidates.items()}
    best = dict.fromkeys([*runs, *(["torch"] if torch else [])], float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            time.sleep(0.05)  # the threads of the one before go to sleep
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
        if torch:
            best["torch"] = min(best["torch"], torch.seconds(**cell))
    return {**cell, "milliseconds": {name: round(1e3 * s, 3) for name, s in best.items()}}


PEERS = ("jax.nn", "flax.nnx", "torch")
START = "<!-- made by measure.py -->\n"


def table(document: dict) -> str:
    """One line a cell: milliseconds, and how many times ours the others take."""
    there = [name for name in PEERS if name in document["cells"][0]["milliseconds"]]
    lines = [
        f"| length | type | direction | timed | ours, ms | {' | '.join(there)} |",
        f"|---|---|---|---|---|{'---|' * len(there)}",
    ]
    for cell in document["cells"]:
        taken = cell["milliseconds"]
        ratios = " | ".join(f"{taken[name] / taken['ours']:.2f}" for name in there)
        direction = "causal" if cell["causal"] else "full"
        timed = "forward + backward" if cell["backward"] else "forward"
        lines.append(
            f"| {cell['length']:,} | {cell['dtype']} | {direction} | {timed} | "
            f"{taken['ours']:.3g} | {ratios} |"
        )
    return "\n".join(lines)


def write_table(document: dict, page: Path) -> None:
    before = page.read_text(encoding="utf-8").partition(START)[0] if page.exists() else ""
    page.write_text(f"{before}{START}\n{table(document)}\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--torch", help="a Python that has torch")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--blocks", default="", help="block sizes to try besides, as 128,256")
    arguments = parser.parse_args()
    torch = Torch(arguments.torch) if arguments.torch else None
    candidates = {
        "ours": ours("auto"),
        "ours plain": ours("plain"),
        "jax.nn": of_jax,
        "flax.nnx": of_flax,
    }
    for size in filter(None, arguments.blocks.split(",")):
        candidates[f"chunked {size}"] = ours("chunked", int(size))
    cells = []
    for length, dtype, causal, backward in itertools.product(
        map(int, arguments.lengths.split(",")),
        arguments.dtypes.split(","),
        (False, True),
        (False, True),
    ):
        cell = {"length": length, "dtype": dtype, "causal": causal, "backward": backward}
        rounds = arguments.rounds * (4 if length < 1024 else 1)
        cells.append(measure(cell, candidates, torch, rounds))
        print(json.dumps(cells[-1]), file=sys.stderr, flush=True)
    document = {
        "command": " ".join(["python", "docs/results/timing/measure.py", f"--out={arguments.out}"]),
        "device": jax.devices()[0].device_kind,
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "versions": {
            "python": platform.python_version(),
            "jax": jax.__version__,
            "flax": flax.__version__,
            "torch": torch.version if torch else None,
        },
        "shape": {"batch": BATCH, "heads": HEADS, "head_size": SIZE},
        "rounds": arguments.rounds,
        "table": [row._asdict() for row in implementations.TABLE],
        "cells": cells,
    }
    Path(arguments.out).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    write_table(document, Path(arguments.out).with_name("README.md"))
    print(f"wrote {arguments.out} and the README.md beside it")


if __name__ == "__main__":
    main()
