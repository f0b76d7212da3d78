"""Runs a saved model on new input: one answer for each thing given, in order."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from attention.data.items import LongWarnings
from attention.errors import UserError
from attention.tools.saved_run import SavedRun
from attention.training.evaluate import Names, Outputs, Predictor, outputs_of, plan_split
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


def decode_overrides(text: str | None) -> list[tuple[str, str]]:
    """Returns the config overrides of `--decode=KEY=VALUE[,KEY=VALUE]`; of None none."""
    if text is None:
        return []
    overrides = []
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise UserError(
                f"--decode={text}: expected KEY=VALUE, several with commas between them, such as "
                "beam_size=1,max_length=40"
            )
        overrides.append((f"decode.{key}", value))
    return overrides


def asking_for(saved: SavedRun, *, num_best: int | None, alignments: bool) -> SavedRun:
    """Returns the run with answers that hold more than one text.

    Args:
      num_best: lines for each line of input, with their scores; None = one, the text alone.
      alignments: adds which pieces of the input and of the text belong together.

    Raises:
      UserError: the task, its model or its search cannot.
    """
    if num_best is None and not alignments:
        return saved
    if not hasattr(saved.task, "asked_for"):
        flag = "--alignments" if num_best is None else f"--nbest={num_best}"
        raise UserError(f"{flag} is for translation, and the run has task={saved.config.task}")
    task = saved.task.asked_for(num_best=num_best, alignments=alignments)
    predictor = Predictor(task, saved.parts, saved.parallel)
    return dataclasses.replace(saved, task=task, predictor=predictor)


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
