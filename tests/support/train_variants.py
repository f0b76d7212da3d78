"""Trains small runs one after another in one process and prints their losses: a script.

    python train_variants.py FOLDER NAME:KEY=VALUE,... NAME:...

Started as a process of its own because the number of devices is fixed when JAX starts.
"""

import ast
import json
import sys
from pathlib import Path

from support.runs import losses, small_config

from attention.training import loop


def value(text: str):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def main(folder: Path, specs: list[str]) -> None:
    results = {}
    for spec in specs:
        name, _, argument = spec.partition(":")
        pairs = [pair.split("=", 1) for pair in argument.split(",") if pair]
        overrides = {key: value(text) for key, text in pairs}
        result = loop.train(small_config(folder / "data", **overrides), str(folder / name))
        results[name] = {
            "losses": losses(folder / name),
            "eval": result["eval"],
            "test": result["test"],
            "num_devices": result["num_devices"],
            "flops": result["flops"],
        }
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
