"""BLEU against the length of the source, for several runs: a table, and a plot beside it.

    python docs/results/translation/by_length.py --source=test_2016_flickr.en \
        --out=docs/results/translation/by_length.svg NAME=RUN_DIRECTORY ...

Each group of lengths (in words, split at spaces) holds about as many sentences as the others; its
score is sacreBLEU's over its sentences, with a 95 % interval by resampling them.
"""

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sacrebleu.metrics import BLEU

RESAMPLES = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN_DIRECTORY")
    parser.add_argument("--source", required=True, metavar="FILE", help="the source of the split")
    parser.add_argument("--split", default="test")
    parser.add_argument("--groups", type=int, default=6)
    parser.add_argument("--out", required=True, metavar="PLOT")
    arguments = parser.parse_args()
    lengths = np.array([len(line.split()) for line in _lines(Path(arguments.source))])
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, arguments.groups + 1)).astype(int))
    edges[-1] += 1
    groups = [np.flatnonzero((lengths >= a) & (lengths < b)) for a, b in _pairs(edges)]
    names = [f"{a}" if b == a + 1 else f"{a}-{b - 1}" for a, b in _pairs(edges)]
    sizes = [f"{name} words ({len(of)})" for name, of in zip(names, groups, strict=True)]
    print("| run | " + " | ".join(sizes) + " |")
    print("|---" * (len(names) + 1) + "|")
    middles = [lengths[group].mean() for group in groups]
    for text in arguments.runs:
        name, _, workdir = text.partition("=")
        hypotheses, references = _answers(Path(workdir), arguments.split)
        if len(hypotheses) != len(lengths):
            raise SystemExit(f"{workdir}: {len(hypotheses)} lines, {len(lengths)} sources")
        rows = [_bleu(hypotheses, references, group) for group in groups]
        cells = [f"{score:.1f} ({low:.1f}-{high:.1f})" for score, low, high in rows]
        print(f"| {name} | " + " | ".join(cells) + " |")
        scores, low, high = np.array(rows).T
        (line,) = plt.plot(middles, scores, marker="o", label=name)
        plt.fill_between(middles, low, high, alpha=0.15, color=line.get_color())
    plt.xlabel("words of the source")
    plt.ylabel("BLEU")
    plt.ylim(bottom=0)
    plt.legend()
    plt.tight_layout()
    plt.savefig(arguments.out)


def _pairs(edges: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n")


def _answers(workdir: Path, split: str) -> tuple[list[str], list[str]]:
    """What the best checkpoint made of the split, and what it is compared with."""
    step = json.loads((workdir / "result.json").read_text())["best_step"]
    base = workdir / "eval" / f"{split}-{step}"
    return _lines(Path(f"{base}.predictions.txt")), _lines(Path(f"{base}.references.txt"))


def _bleu(hypotheses: list[str], references: list[str], group: np.ndarray) -> tuple:
    """The score of a group, and the bounds of its interval."""
    chosen = [hypotheses[i] for i in group], [[references[i] for i in group]]
    score = BLEU().corpus_score(*chosen, n_bootstrap=RESAMPLES)
    # sacreBLEU gives the mean of the resamples and half the width of their interval.
    return score.score, score._mean - score._ci, score._mean + score._ci


if __name__ == "__main__":
    main()
