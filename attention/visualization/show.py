"""From a run and a file of examples to a folder of pictures, a page, arrays and numbers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention.errors import Failure, UserError
from attention.tools.saved_run import open_run
from attention.visualization.capture import Captured, capture, plain_logits
from attention.visualization.folder import (
    files_of,
    open_folder,
    write_arrays,
    write_manifest,
    write_table,
    written_before,
)
from attention.visualization.heat_maps import printable, undrawable, write_pictures
from attention.visualization.inputs import read_inputs
from attention.visualization.page import page
from attention.visualization.results import Example, mean_over_examples, results_of

log = logging.getLogger(__name__)


def visualize(
    workdir: str,
    input: str,
    out: str,
    *,
    checkpoint: str = "best",
    format: str = "text",
    target: str | None = None,
    examples: int = 8,
    max_tokens: int = 64,
    each_head: bool = False,
) -> list[Path]:
    """Writes what each layer of a run looks at; returns the paths of the files.

    Args:
        workdir: the run directory.
        input: a file with one example a line, as the task's `predict.py` takes it.
        out: the folder: new, empty, or one that this function wrote.
        checkpoint: "best", "latest", "average" or the number of a step.
        format: of the input: one of the task's `FORMATS`.
        target: of a translator: a file with a target for each line, in place of its own.
        examples: the most examples.
        max_tokens: the most tokens of a sequence.
        each_head: a picture for each head besides those with all heads of a place.

    Raises:
        UserError: no run or checkpoint, an input that cannot be read or holds nothing, a number
            below 1, a folder that holds other things.
        Failure: weights that are NaN or infinite.
    """
    for flag, value in (("examples", examples), ("max_tokens", max_tokens)):
        if value < 1:
            raise UserError(f"--{flag}={value} must be at least 1")
    saved = open_run(workdir, checkpoint=checkpoint)
    inputs = read_inputs(
        saved, input, format=format, examples=examples, max_tokens=max_tokens, target=target
    )
    written_before(out)  # refuses another's folder before what takes long
    captured = capture(saved, inputs.encoded, inputs.plan)
    difference = largest_difference(captured, plain_logits(saved, inputs.encoded, inputs.plan))
    log.info("logits with and without capture differ by %.1e at most", difference)
    _refuse_no_numbers(captured)
    results = results_of(inputs, captured)
    about = {
        **{"workdir": str(workdir), "task": saved.config.task, "dataset": saved.config.dataset},
        **{"checkpoint": checkpoint, "step": saved.step, "input": str(input), "target": target},
        "largest_logit_difference": difference,
    }
    return _write(out, results, about, each_head=each_head)


def largest_difference(captured: Sequence[Captured], plain: Sequence[np.ndarray]) -> float:
    """Returns how far logits are from those of a pass without capture, at most."""
    pairs = zip(captured, plain, strict=True)
    return max(float(np.max(np.abs(one.logits - logits), initial=0.0)) for one, logits in pairs)


def _refuse_no_numbers(captured: Sequence[Captured]) -> None:
    for one in captured:
        for found, values in one.layers:
            if not np.all(np.isfinite(values)):
                raise Failure(
                    f"{found.place.title}: {found.kind} are no numbers: the parameters of this "
                    "checkpoint have diverged, or overflow (--checkpoint names another)"
                )


def _write(
    out: str, examples: Sequence[Example], about: dict[str, Any], *, each_head: bool
) -> list[Path]:
    run = f"{Path(about['workdir']).resolve().name} (step {about['step']})"
    means = mean_over_examples(examples)
    _say_what_is_boxes(examples)
    files = files_of(examples, each_head=each_head)
    folder = open_folder(out, files)
    log.info("drawing %d pictures", sum(name.endswith(".png") for name in files))
    for example in examples:
        name = f"example-{example.number}"
        write_arrays(example, folder / "arrays" / f"{name}.npz")
        write_pictures(example, folder / "pictures" / name, run=run, each_head=each_head)
    write_table(examples, means, folder / "measures.csv")
    line = f"{about['task']} on {about['dataset']}, {about['workdir']}, step {about['step']}; "
    line += f"{len(examples)} example{'s' * (len(examples) != 1)} of {about['input']}"
    text = page(examples, means, title=f"What {run} looks at", about=line)
    (folder / "index.html").write_text(text, encoding="utf-8")
    write_manifest(folder, files, examples, means, about)
    return [folder / name for name in files]


def _say_what_is_boxes(examples: Sequence[Example]) -> None:
    texts = [
        printable(text)
        for example in examples
        for all in example.sequences.values()
        for text in all
    ]
    missing = undrawable(texts)
    if missing:
        log.warning(
            "no font here has %s%s: PNGs show boxes; the page and the SVGs take the viewer's fonts",
            *(" ".join(missing[:8]), " …" if len(missing) > 8 else ""),
        )
