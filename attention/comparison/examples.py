"""What a score is made of, example by example: sums from which the score of any sample follows.

A corpus score is no mean of sentence scores, so each example keeps its sufficient statistics:
hits and decisions for accuracy (of all words of a sentence), and n-gram counts and lengths for
BLEU. The score of a resampled test set is that of the summed statistics.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from sacrebleu.metrics.bleu import BLEU

from attention.comparison.runs import Run

ORDERS = 4  # n-grams of BLEU
METRICS = ("accuracy", "bleu")  # those that have statistics by example
_SAME = 1e-6  # how near the score of the files must be to the one that the run reports


class NoExamples(Exception):
    """Why a run has no scores by example, as a line."""


@dataclasses.dataclass(frozen=True)
class Examples:
    """The statistics of one run on one split.

    Attributes:
      metric: "accuracy" or "bleu".
      statistics: [examples, s]: hits and decisions; or matches of 1- to 4-grams, their totals, and
        the lengths of hypothesis and reference.
      references: the lines that were compared with; equal where two runs saw the same examples.
    """

    metric: str
    statistics: Float[np.ndarray, "e s"]
    references: tuple[str, ...]


def score_of(metric: str, sums: Float[np.ndarray, "... s"]) -> np.ndarray:
    """The score of summed statistics: accuracy as a fraction of 1, BLEU of 100."""
    if metric == "accuracy":
        return sums[..., 0] / np.maximum(sums[..., 1], 1)
    return _bleu(sums)


def _bleu(sums: Float[np.ndarray, "... 10"]) -> np.ndarray:
    """BLEU with exponential smoothing as sacreBLEU has it, for many sums at once.

    An order without a match gets half, then a quarter, … of one match.
    """
    matches, totals = sums[..., :ORDERS], sums[..., ORDERS : 2 * ORDERS]
    length, reference = sums[..., -2], sums[..., -1]
    halvings = np.cumsum(matches == 0, axis=-1)
    smoothed = np.where(matches == 0, 0.5**halvings, matches)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(smoothed / totals).mean(axis=-1)
        penalty = np.minimum(0.0, 1 - reference / length)
        score = 100 * np.exp(logs + penalty)
    possible = (matches[..., 0] > 0) & (totals > 0).all(axis=-1)
    return np.where(possible, score, 0.0)


def load_examples(run: Run, split: str, metric: str) -> Examples:
    """Reads eval/<split>-<best step>.* of a run.

    Raises:
      NoExamples: the metric has no statistics by example, a file is missing (runs of earlier
        versions wrote no references), or the files do not give the score that the run reports.
    """
    if metric not in METRICS:
        raise NoExamples(f"{metric} has no scores by example")
    stem = run.path / "eval" / f"{split}-{run.result.get('best_step')}"
    predictions, references = (_lines(run, stem, kind) for kind in ("predictions", "references"))
    if len(predictions) != len(references):
        raise NoExamples(
            f"{run.workdir}: {len(predictions)} predictions and {len(references)} references"
        )
    if metric == "bleu":
        tokenizer, lowercase = _bleu_settings(stem)
        found = bleu_statistics(predictions, references, tokenize=tokenizer, lowercase=lowercase)
    elif run.result.get("task") == "pos_tagging":
        found = tagging_statistics(predictions, references)
    else:
        found = label_statistics(predictions, references)
    reported, ours = run.score(split, metric), float(score_of(metric, found.sum(axis=0)))
    if reported is None or abs(reported - ours) > _SAME:
        raise NoExamples(
            f"{run.workdir}: {stem.name}.* give {metric} {ours:.6f}, its result {reported}"
        )
    return Examples(metric, found, tuple(references))


def bleu_signature(run: Run, split: str) -> str | None:
    """sacreBLEU's signature of the run's scores, where it has one."""
    try:
        stem = run.path / "eval" / f"{split}-{run.result.get('best_step')}"
        return json.loads(_file(stem, "json").read_text("utf-8")).get("bleu_signature")
    except (OSError, ValueError, AttributeError):
        return None


def tagging_statistics(
    predictions: Sequence[str], references: Sequence[str]
) -> Float[np.ndarray, "e 2"]:
    """Hits and labelled words of each `word_TAG word_TAG …` line."""
    rows = np.zeros((len(references), 2))
    for index, (line, reference) in enumerate(zip(predictions, references, strict=True)):
        pairs = zip(line.split(" "), reference.split(" "), strict=False)
        # A word without a tag ("word__") is not scored; a blank inside a word makes parts of it.
        scored = [(a, b) for a, b in pairs if "_" in b and not b.endswith("__")]
        rows[index] = sum(a == b for a, b in scored), len(scored)
    return rows


def label_statistics(
    predictions: Sequence[str], references: Sequence[str]
) -> Float[np.ndarray, "e 2"]:
    """Hits and labelled texts (one each, or none) of `label<TAB>text` lines."""
    rows = np.zeros((len(references), 2))
    for index, (line, reference) in enumerate(zip(predictions, references, strict=True)):
        predicted, label = line.partition("\t")[0], reference.partition("\t")[0]
        rows[index] = (predicted == label, 1) if label != "_" else (0, 0)
    return rows


def bleu_statistics(
    predictions: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Float[np.ndarray, "e 10"]:
    """n-gram matches, totals, and both lengths of each line, by sacreBLEU."""
    # The effective order changes a sentence's score, not its counts; without it each line warns.
    bleu = BLEU(tokenize=tokenize, lowercase=lowercase, effective_order=True)
    rows = np.zeros((len(references), 2 * ORDERS + 2))
    for index, (line, reference) in enumerate(zip(predictions, references, strict=True)):
        found = bleu.sentence_score(line, [reference])
        rows[index] = *found.counts, *found.totals, found.sys_len, found.ref_len
    return rows


def _bleu_settings(stem: Path) -> tuple[str, bool]:
    """The tokenizer, and whether case is ignored, of the run's sacreBLEU signature."""
    try:
        signature = json.loads(_file(stem, "json").read_text("utf-8"))["bleu_signature"]
        parts = dict(part.partition(":")[::2] for part in signature.split("|"))
        return parts["tok"], parts["case"] == "lc"
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        raise NoExamples(f"{stem.name}.json has no sacreBLEU signature") from None


def _file(stem: Path, kind: str) -> Path:
    return stem.with_name(f"{stem.name}.{kind}")


def _lines(run: Run, stem: Path, kind: str) -> list[str]:
    path = _file(stem, f"{kind}.txt")
    try:
        # A line ends at \n alone: texts may hold other separators of lines.
        return path.read_text("utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeError):
        raise NoExamples(
            f"{run.workdir}/eval/{path.name} is missing: "
            f"eval.py --workdir={run.workdir} --split={stem.name.partition('-')[0]} writes it"
        ) from None
