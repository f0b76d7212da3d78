"""Dunnett's test of each row of a report against its baseline, all spreads taken as one.

    python docs/results/tagging_variants/dunnett.py reports/tagging/table.json

Prints a line a variant: the scores of its seeds, and p. With few seeds it sees more than paired
t-tests with Holm's correction, at the price of assuming that all rows spread alike.
"""

import json
import sys
from pathlib import Path

from scipy import stats


def main() -> None:
    rows = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    scores = {row["variant"]: [_score(Path(run), row) for run in row["workdirs"]] for row in rows}
    control = scores.pop(rows[0]["baseline"])
    found = stats.dunnett(*scores.values(), control=control, rng=0)
    for (name, of), p in zip(scores.items(), found.pvalue, strict=True):
        print(f"{name:16} {', '.join(f'{100 * score:.2f}' for score in of)}  p = {p:.4f}")


def _score(run: Path, row: dict) -> float:
    return json.loads((run / "result.json").read_text("utf-8"))[row["split"]][row["metric"]]


if __name__ == "__main__":
    main()
