"""Untrained runs in memory, as `open_run` gives them: small models on made-up data."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from support.pairs import pairs_config
from support.reviews import review_config
from support.runs import small_config

from attention import tasks
from attention.tools.saved_run import SavedRun
from attention.training.evaluate import Predictor
from attention.training.experiment import open_dataset
from attention.training.parallel import make_parallel
from attention.training.run_directory import RunDirectory
from attention.training.state import ModelParts, abstract_model
from attention.visualization.capture import Captured, Layer, capture
from attention.visualization.inputs import Inputs, read_inputs

CONFIGS = {"tagging": small_config, "sentiment": review_config, "translation": pairs_config}
TEXTS = {
    "tagging": "balon korat , .\n\nrun\n",
    "sentiment": "a warm , lovely film .\ndull\n",
    "translation": "red dog sees two cats\n\ntall man\n",
}
TARGETS = "cats two sees dog\n\nman\n"


class Seen(NamedTuple):
    """A run, what it was given, and what was captured."""

    saved: SavedRun
    inputs: Inputs
    captured: list[Captured]

    def layers(self, example: int = 0) -> dict[str, Layer]:
        """Returns what is shown of an example, by place."""
        return {layer.found.place.name: layer for layer in self.captured[example].layers}


@functools.cache
def seen(kind: str, argument: str = "", **overrides: Any) -> Seen:
    """Returns what capture gives for the texts of a kind, with a given target of a translator."""
    saved = opened(kind, argument, **overrides)
    with tempfile.TemporaryDirectory() as folder:
        path, target = Path(folder) / "input.txt", Path(folder) / "target.txt"
        path.write_text(TEXTS[kind], encoding="utf-8")
        target.write_text(TARGETS, encoding="utf-8")
        given = {"target": target} if kind == "translation" else {}
        inputs = read_inputs(saved, path, examples=8, max_tokens=16, **given)
    return Seen(saved, inputs, capture(saved, inputs.encoded, inputs.plan))


@functools.cache
def opened(kind: str, argument: str = "", **overrides: Any) -> SavedRun:
    """Returns a run of a kind of `CONFIGS`, with parameters drawn at random."""
    with tempfile.TemporaryDirectory() as folder:
        positional = (argument,) if argument else ()
        config = CONFIGS[kind](Path(folder) / "data", *positional, **overrides)
        task = tasks.get(config.task).Task
        task = task.fit(config, open_dataset(config).split("train"))
    parallel = make_parallel("jit")
    parts = _parts(task.make_model)
    return SavedRun(
        run=RunDirectory("runs/none"),
        config=config,
        task=task,
        parallel=parallel,
        parts=parts,
        predictor=Predictor(task, parts, parallel),
        params=parallel.place(parts.params),
        step=0,
    )


def _parts(make_model: Any) -> ModelParts:
    """Draws parameters by NumPy: to initialise a model takes longer than to run it."""
    parts = abstract_model(make_model)
    generator = np.random.default_rng(0)

    def drawn(leaf: Any) -> jax.Array:
        return jnp.asarray(0.3 * generator.normal(size=leaf.shape), leaf.dtype)

    rates = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), parts.rates)
    return parts._replace(params=jax.tree.map(drawn, parts.params), rates=rates)
