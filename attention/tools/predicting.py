"""Runs a saved model on new input: one answer for each thing given, in order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np

from attention.data.items import LongWarnings
from attention.errors import UserError
from attention.tools.saved_run import SavedRun
from attention.training.evaluate import plan_split
from attention.training.experiment import IN_PIECES, encode_for_evaluation

# Lines read before the model runs on them: enough to fill its batches.
CHUNK = 1024

Outputs = Mapping[str, np.ndarray]


def predict(
    saved: SavedRun,
    examples: Sequence[Any],
    *,
    names: Sequence[str],
    warnings: LongWarnings | None = None,
) -> list[Outputs]:
    """The named outputs of each example, one row a token; see `encode_for_evaluation`."""
    encoded = encode_for_evaluation(saved.task, examples, saved.config, warnings=warnings)
    plan = plan_split(encoded, saved.config, saved.parallel)
    outputs = saved.predictor.outputs(saved.params, encoded, plan, names=names)
    return [
        {name: values[encoded.tokens_of(index)] for name, values in outputs.items()}
        for index in range(len(examples))
    ]


def predict_stream(
    saved: SavedRun, stream: IO[bytes], *, format: str = "text", logits: bool = False
) -> Iterator[str]:
    """Yields the answer to each line of text (or each sentence of CoNLL-U) of a stream.

    Args:
      format: one of the task's `FORMATS`.
      logits: adds the numbers behind each answer.
    """
    if logits and format != "text":
        raise UserError(f"--logits goes with --format=text, not with --format={format}")
    names = (*saved.task.ANSWERED, *(("logits",) if logits else ()))
    given = saved.task.read_input(stream, format=format)
    warnings = LongWarnings(saved.config.data.max_length, consequence=IN_PIECES)
    with contextlib.closing(warnings):
        for chunk in _chunks(given, CHUNK):
            asked = [example for example in chunk if not saved.task.is_blank(example)]
            answers = iter(predict(saved, asked, names=names, warnings=warnings) if asked else [])
            for example in chunk:
                outputs = None if saved.task.is_blank(example) else next(answers)
                yield saved.task.write_output(example, outputs, format=format)


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
