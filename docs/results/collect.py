"""Keeps of a sweep what a result needs: a JSON line a trial, and what the trials wrote.

    python docs/results/collect.py sweeps/encoders --out=docs/results/translation/encoders

writes encoders.jsonl (trial, overrides, the train.py command, result.json) and encoders.log (what
each trial wrote to stderr, with --log). `--replace=OLD=NEW` puts other names for folders of this
machine; what is left of them is an error.
"""

import argparse
import json
import re
from pathlib import Path

ABSOLUTE = re.compile(r"""[\s"'=](/[\w.-]+/[^\s"']*)""")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sweep", metavar="FOLDER")
    parser.add_argument("--out", required=True, metavar="PATH", help="without an ending")
    parser.add_argument("--log", action="store_true")
    parser.add_argument("--replace", action="append", default=[], metavar="OLD=NEW")
    arguments = parser.parse_args()
    folder = Path(arguments.sweep)
    pairs = [tuple(each.split("=", 1)) for each in arguments.replace]
    pairs.append((str(folder), f"sweeps/{folder.name}"))
    lines, logs = [], []
    for text in (folder / "trials.jsonl").read_text("utf-8").splitlines():
        trial = json.loads(text)
        kept = {key: trial[key] for key in ("trial", "overrides", "status", "command")}
        run = folder / "trials" / str(trial["config_hash"])
        if (run / "result.json").exists():
            kept["result"] = json.loads((run / "result.json").read_text("utf-8"))
        else:
            kept["error"] = trial["error"]
        lines.append(json.dumps(kept, ensure_ascii=False))
        if arguments.log and run.with_suffix(".log").exists():
            logs.append(run.with_suffix(".log").read_text("utf-8"))
    write(Path(f"{arguments.out}.jsonl"), "\n".join(lines) + "\n", pairs)
    if arguments.log:
        write(Path(f"{arguments.out}.log"), "\n".join(logs), pairs)


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
