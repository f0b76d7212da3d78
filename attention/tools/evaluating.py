"""Scores a saved run on a split of its data set, or on a user's file."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from attention.errors import UserError
from attention.tools.saved_run import SavedRun, open_run
from attention.training.evaluate import Evaluator
from attention.training.experiment import encode_for_evaluation, open_dataset
from attention.training.result import write_evaluation

log = logging.getLogger(__name__)


def evaluate(
    workdir: str,
    *,
    split: str = "test",
    checkpoint: str = "best",
    data: str | None = None,
    eval_batch_size: int | None = None,
) -> dict[str, Any]:
    """Scores every example once, writes eval/<split>-<step>.*, gives what is in the JSON.

    With `checkpoint="average"` the names are eval/<split>-average-<step>.

    Args:
      data: a file (or several, with commas between) in place of the split; the first one's stem
        becomes the name of the split.
    """
    saved = open_run(workdir, checkpoint=checkpoint, eval_batch_size=eval_batch_size)
    if data is None:
        examples = open_dataset(saved.config).split(split)
    else:
        split, examples = read_files(saved, data)
    encoded = encode_for_evaluation(saved.task, examples, saved.config)
    evaluator = Evaluator(saved.task, encoded, saved.config, saved.parallel)
    evaluation = evaluator(saved.predictor, saved.params)
    return write_evaluation(
        *(saved.run, evaluator, evaluation), split=split, step=saved.step, averaged=saved.averaged
    )


def read_files(saved: SavedRun, data: str) -> tuple[str, list[Any]]:
    """The examples of the files, and a name for them."""
    paths = [Path(name) for name in data.split(",") if name]
    if not paths:
        raise UserError(f"--data='{data}' names no file")
    stem = paths[0].stem
    if stem in ("dev", "test"):
        log.warning("eval/%s-….json will hold the scores of %s, not of the split", stem, data)
    return stem, list(saved.task.read(paths))
