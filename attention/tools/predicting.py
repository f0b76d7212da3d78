"""Runs a saved model on new input: one answer for each thing given, in order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from attention.data.items import LongWarnings
from attention.errors import UserError
from attention.tools.saved_run import SavedRun
from attention.training.evaluate import Names, Outputs, outputs_of, plan_split
from attention.training.experiment import encode_for_evaluation, long_warnings

# Lines read before the model runs on them: enough to fill its batches.
CHUNK = 1024


def predict(
    saved: SavedRun,
    examples: Sequence[Any],
    *,
    names: Names,
    warnings: LongWarnings | None = None,
) -> list[Outputs]:
    """The named outputs of each example, by stream, a row an entry; see `encode_for_evaluation`."""
    encoded = encode_for_evaluation(saved.task, examples, saved.config, warnings=warnings)
    plan = plan_split(encoded, saved.task, saved.config, saved.parallel)
    outputs = saved.predictor.outputs(saved.params, encoded, plan, names=names)
    return [outputs_of(outputs, encoded, index) for index in range(len(examples))]


def predict_stream(
    saved: SavedRun, stream: IO[bytes], *, format: str = "text", logits: bool = False
) -> Iterator[str]:
    """Yields the answer to each line of text (or each sentence of CoNLL-U) of a stream.

    Args:
      format: one of the task's `FORMATS`.
      logits: adds the numbers behind each answer.
    """
    if format not in saved.task.FORMATS:
        raise UserError(
            f"--format={format} is not for task={saved.config.task}, which has "
            f"{', '.join(saved.task.FORMATS)}"
        )
    names = _names(saved, format=format, logits=logits)
    given = saved.task.read_input(stream, format=format)
    warnings = long_warnings(saved.task, saved.config)
    with contextlib.closing(warnings):
        for chunk in _chunks(given, CHUNK):
            asked = [example for example in chunk if not saved.task.is_blank(example)]
            answers = iter(predict(saved, asked, names=names, warnings=warnings) if asked else [])
            for example in chunk:
                outputs = None if saved.task.is_blank(example) else next(answers)
                yield saved.task.write_output(example, outputs, format=format)


def _names(saved: SavedRun, *, format: str, logits: bool) -> Names:
    """Which outputs an answer is made of."""
    task = saved.task
    if not logits:
        return task.ANSWERED
    if format != "text":
        raise UserError(f"--logits goes with --format=text, not with --format={format}")
    if not task.LOGITS:
        raise UserError(f"--logits: the answers of task={saved.config.task} have none")
    streams = {*task.ANSWERED, *task.LOGITS}
    return {s: (*task.ANSWERED.get(s, ()), *task.LOGITS.get(s, ())) for s in sorted(streams)}


def _chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of up to `size` items; those before a wrong one are still given."""
    chunk: list[Any] = []
    try:
        for item in items:
            chunk.append(item)
            if len(chunk) == size:
                yield chunk
                chunk = []
    except UserError:
        yield chunk
        raise
    yield chunk
