"""The examples that are shown: read from a file, kept within a limit, and named token by token."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attention.data.encoded import EncodedSplit
from attention.data.plan import PlannedBatch, eval_plan
from attention.data.text_files import lines_of, open_for_reading
from attention.data.tokenizers.special import BOS, EOS, PAD
from attention.errors import UserError
from attention.tools.saved_run import SavedRun
from attention.training.evaluate import outputs_of
from attention.visualization.surfaces import surfaces

log = logging.getLogger(__name__)

ROWS = 8  # of a batch
TAB = "\t"  # behind the label in an answer
Example = Mapping[str, Any]
Sequences = Mapping[str, tuple[str, ...]]  # tokens, by the names that `Place` has for sequences


class Inputs(NamedTuple):
    """What the model is run on.

    Attributes:
        lines: the line of each example in its file.
        answers: what the model makes of each: a line as `predict.py` writes it.
        sequences: the tokens of each.
        encoded, plan: for the pass that is recorded.
    """

    lines: tuple[int, ...]
    answers: tuple[str, ...]
    sequences: tuple[Sequences, ...]
    encoded: EncodedSplit
    plan: list[PlannedBatch]


def read_inputs(
    saved: SavedRun,
    path: str | Path,
    *,
    format: str = "text",
    examples: int,
    max_tokens: int,
    target: str | Path | None = None,
) -> Inputs:
    """Reads a file and runs the model on it as `predict.py` does.

    Args:
        saved: the run.
        path: one example a line, as the task's `predict.py` takes it; blank ones are left out.
        format: one of the task's `FORMATS`.
        examples: the most that are kept.
        max_tokens: the most tokens of a sequence; the model is not given more either.
        target: of a translator: a file with the target of each line, in place of its own.

    Raises:
        UserError: a file that cannot be read or holds nothing, targets that do not fit.
    """
    given = _read(saved, path, format=format, examples=examples, target=target)
    limit = min(max_tokens, saved.config.data.max_length)
    given = _with_tokens(saved, given, path)
    encoded = _encoded(saved, given, saved.task.encode, limit)
    if saved.config.task == "translation":
        return _of_translator(saved, given, encoded, limit, forced=target is not None)
    _say_what_is_cut(saved, encoded, given, limit)
    given = [_first_words(example, limit) for example in given]
    answers = [
        saved.task.write_output(example, outputs, format="text").rstrip("\n")
        for example, outputs in zip(given, _predicted(saved, encoded, limit), strict=True)
    ]
    sequences = [
        _named(saved, example, encoded.item(index), answer)
        for index, (example, answer) in enumerate(zip(given, answers, strict=True))
    ]
    return _inputs(given, answers, sequences, encoded, limit, saved)


def _read(saved: SavedRun, path: Any, *, format: str, examples: int, target: Any) -> list[Example]:
    """The first examples that are not blank, each with its file."""
    task = saved.task
    if format not in task.FORMATS:
        allowed = ", ".join(task.FORMATS)
        raise UserError(
            f"--format={format} is not for task={saved.config.task}, which has {allowed}"
        )
    given: Iterator[Example] = _examples_of(task, path, format)
    if target is not None:
        given = iter([*_with_targets(saved, given, path, target)])  # all: files must agree
    there = ({**example, "file": str(path)} for example in given if not task.is_blank(example))
    kept: list[Example] = list(itertools.islice(there, examples + 1))
    if not kept:
        raise UserError(f"--input={path} has nothing to show: every line is blank")
    if len(kept) > examples:
        log.info("%s has more: the first %d are shown (--examples=%d)", path, examples, examples)
    return kept[:examples]


def _examples_of(task: Any, path: Any, format: str) -> Iterator[Example]:
    """A task reads streams, which it calls stdin."""
    with open_for_reading(path) as stream:
        try:
            yield from task.read_input(stream, format=format)
        except UserError as error:
            raise UserError(str(error).replace("stdin", str(path), 1)) from None


def _with_targets(
    saved: SavedRun, given: Iterator[Example], path: Any, target: Any
) -> Iterator[Example]:
    if saved.config.task != "translation":
        raise UserError(f"--target is for task=translation, and the run's is {saved.config.task}")
    for example, line in itertools.zip_longest(given, lines_of(target)):
        if example is None or line is None:
            fewer = path if example is None else target
            raise UserError(f"--input={path} and --target={target}: {fewer} has fewer lines")
        yield {**example, "target": line[1]}


def _with_tokens(saved: SavedRun, given: list[Example], path: Any) -> list[Example]:
    """Leaves out what a tokenizer makes nothing of, such as a line of invisible characters."""
    encoded = _encoded(saved, given, saved.task.encode, saved.config.data.max_length)
    for example, length in zip(given, encoded.longest, strict=True):
        if not length:
            log.warning("%s:%d: no token is left of it: not shown", path, example["line"])
    kept = [one for one, length in zip(given, encoded.longest, strict=True) if length]
    if not kept:
        raise UserError(f"--input={path} has nothing to show: no line has a token")
    return kept


def _encoded(
    saved: SavedRun, examples: Sequence[Example], encode: Callable[..., Any], limit: int
) -> EncodedSplit:
    return EncodedSplit(examples, encode, streams=saved.task.STREAMS, max_length=limit)


def _say_what_is_cut(
    saved: SavedRun, encoded: EncodedSplit, examples: Sequence[Example], limit: int
) -> None:
    for example, length in zip(examples, encoded.longest, strict=True):
        if length > limit:
            log.warning(
                "%s:%d: %d %s: the model is given the first %d alone "
                "(--max_tokens, and data.max_length=%d)",
                *(example["file"], example["line"], length, saved.task.UNIT, limit),
                saved.config.data.max_length,
            )


def _plan(saved: SavedRun, encoded: EncodedSplit, limit: int) -> list[PlannedBatch]:
    devices = saved.parallel.num_devices
    return eval_plan(
        encoded.item_lengths, rows=ROWS, max_length=limit, pack=False, multiple_of=devices
    )


def _predicted(saved: SavedRun, encoded: EncodedSplit, limit: int) -> list[Any]:
    """The outputs behind the answer to each example."""
    plan = _plan(saved, encoded, limit)
    names = saved.task.ANSWERED
    outputs = saved.predictor.outputs(saved.params, encoded, plan, names=names)
    return [outputs_of(outputs, encoded, index) for index in range(len(encoded.examples))]


def _inputs(given, answers, sequences, encoded, limit, saved) -> Inputs:
    lines = tuple(example["line"] for example in given)
    plan = _plan(saved, encoded, limit)
    return Inputs(lines, tuple(answers), tuple(sequences), encoded, plan)


# -- tagging and sentiment -------------------------------------------------------------------------


def _first_words(example: Example, limit: int) -> Example:
    return {**example, "words": example["words"][:limit]} if "words" in example else example


def _named(saved: SavedRun, example: Example, item: Any, answer: str) -> Sequences:
    if "words" in example:
        return {"tokens": tuple(example["words"])}
    ids = item["tokens"]["ids"].tolist()
    return {
        "tokens": surfaces(ids, saved.task.tokenizer),
        "text": (f"label {answer.partition(TAB)[0]}",),
    }


# -- translation -----------------------------------------------------------------------------------


def _of_translator(
    saved: SavedRun, given: list[Example], encoded: EncodedSplit, limit: int, *, forced: bool
) -> Inputs:
    """The model's own translations, or those given, become the target of the pass."""
    task = saved.task
    if forced:
        targets = [task.encode(example)["target"]["labels"][:-1] for example in given]
    else:
        outputs = _predicted(saved, encoded, limit)
        targets = [_without_end(one["examples"]["hypotheses"][0, 0]) for one in outputs]
    pairs = [{**one, "ids": ids} for one, ids in zip(given, targets, strict=True)]

    def encode(example: Example) -> Any:
        inputs = np.concatenate([[BOS], example["ids"]]).astype(np.int32)
        labels = np.append(example["ids"], EOS).astype(np.int32)
        return {**task.encode(example), "target": {"inputs": inputs, "labels": labels}}

    both = _encoded(saved, pairs, encode, limit)
    _say_what_is_cut(saved, both, pairs, limit)
    sequences = []
    for index in range(len(pairs)):
        item = both.item(index)
        source, target = (task.tokenizers[side] for side in ("source", "target"))
        sequences.append(
            {
                "source": surfaces(item["source"]["ids"].tolist(), source),
                "read": surfaces(item["target"]["inputs"].tolist(), target),
                "written": surfaces(item["target"]["labels"].tolist(), target),
            }
        )
    answers = [" ".join(task.tokenizers["target"].decode(ids.tolist()).split()) for ids in targets]
    return _inputs(pairs, answers, sequences, both, limit, saved)


def _without_end(ids: np.ndarray) -> np.ndarray:
    """A hypothesis up to its end; one that was cut has none, and fills the row."""
    kept = itertools.takewhile(lambda i: i not in (EOS, PAD), ids.tolist())
    return np.array(list(kept), np.int32)
