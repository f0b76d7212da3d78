"""Keeps of a sweep, or of single runs, what a result needs: a JSON line for each.

    python docs/results/collect.py sweeps/encoders --out=docs/results/translation/encoders
    python docs/results/collect.py runs/rt-0 runs/rt-1 --out=docs/results/sentiment/runs

writes encoders.jsonl: result.json, of a trial with its overrides and train.py command, of a single
run with its config, which `configs/saved.py` starts from; and, with --log, encoders.log: what the
trials wrote to stderr. `--replace=OLD=NEW` puts other names for folders of this machine; what is
left of them is an error.
"""

import argparse
import json
import re
from pathlib import Path

ABSOLUTE = re.compile(r"""[\s"'=](/[\w.-]+/[^\s"']*)""")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", metavar="SWEEP_OR_RUN")
    parser.add_argument("--out", required=True, metavar="PATH", help="without an ending")
    parser.add_argument("--log", action="store_true")
    parser.add_argument("--replace", action="append", default=[], metavar="OLD=NEW")
    arguments = parser.parse_args()
    pairs = [tuple(each.split("=", 1)) for each in arguments.replace]
    lines, logs = [], []
    for folder in map(Path, arguments.folders):
        if not (folder / "trials.jsonl").exists():
            lines.append(
                {
                    "run": folder.name,
                    "config": _json(folder, "config"),
                    "result": _json(folder, "result"),
                }
            )
            continue
        pairs.append((str(folder), f"sweeps/{folder.name}"))
        for text in (folder / "trials.jsonl").read_text("utf-8").splitlines():
            trial = json.loads(text)
            run = folder / "trials" / str(trial["config_hash"])
            kept = {key: trial[key] for key in ("trial", "overrides", "status", "error", "command")}
            lines.append({**kept, "result": _json(run, "result")})
            if run.with_suffix(".log").exists():
                logs.append(run.with_suffix(".log").read_text("utf-8"))
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    write(Path(f"{arguments.out}.jsonl"), text, pairs)
    if arguments.log:
        write(Path(f"{arguments.out}.log"), "\n".join(logs), pairs)


def _json(run: Path, name: str) -> dict | None:
    path = run / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def write(path: Path, text: str, pairs: list[tuple[str, ...]]) -> None:
    """Writes a text with other names for folders."""
    for old, new in pairs:
        text = text.replace(old, new)
    if left := ABSOLUTE.search(text):
        raise SystemExit(f"{path}: holds {left[1]!r}: name it with --replace=OLD=NEW")
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
