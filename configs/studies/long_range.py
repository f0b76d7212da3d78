"""What stood far away: copy and recall at distances of 2^3 to 2^11 tokens, by variant: a study.

    python sweep.py --config=configs/studies/long_range.py:probe=delayed_copy --workdir=sweeps/copy
    python sweep.py --config=configs/studies/long_range.py:probe=key_value_recall \
        --workdir=sweeps/recall
    python compare.py sweeps/copy --out=reports/copy

Two probes, made here (attention/data/sources): `delayed_copy`, the label of a token is the token
`distance` before it, which positions alone can find; and `key_value_recall`, a key is asked for
whose value stood about so far away, which only content can find. Nothing nearer says anything, and
chance is 6.25 %. Two layers of width 64 and one learning rate; at each distance the same tokens a
batch and the same steps, at most; a run ends early once dev no longer gets better. Local mechanisms
reach what their layers reach together, `sliding_window` 64 tokens and `cnn` 14, and nothing beyond,
which the probes should show. compare.py draws accuracy against distance.

Arguments: probe= (default delayed_copy), distance= (default 64), variant= (default scaled_dot),
seed=.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from attention.configuration.fields import optional
from attention.configuration.points import Point, grid
from configs import common, pos_tagging

PROBES = ("delayed_copy", "key_value_recall")
DISTANCES = (8, 32, 128, 512, 2048)
WANTED = (
    *("scaled_dot", "linear", "retention", "gla", "delta", "gated_delta"),
    *("sliding_window", "strided", "rnn", "cnn"),
)
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "cnn": {"width": 15},
    "sliding_window": {"window": 32},
    "strided": {"stride": 32},
}
BATCH_TOKENS = 4096


def get_config(arg: str = "") -> ConfigDict:
    """Returns the config for the argument described above."""
    chosen = common.read_argument(
        arg,
        {"variant": "scaled_dot", "probe": "delayed_copy", "distance": 64, "seed": 0},
        choices={"probe": PROBES},
    )
    config: Any = pos_tagging.get_config(
        f"size=tiny,variant={chosen.variant},dataset={chosen.probe},seed={chosen.seed}"
    ).unlock()
    length = _length(chosen.probe, chosen.distance)
    config.data.distance = optional(chosen.distance, int)
    config.data.max_length = length  # an example a row
    config.batch_tokens = length * max(1, BATCH_TOKENS // length)
    config.data.max_word_length = 2
    config.train_epochs, config.train_steps = None, 400
    config.eval_every_steps = config.checkpoint_every_steps = 30
    config.early_stopping_evaluations = 8  # attention takes a while to find what to look for
    config.optimizer.schedule = "constant"  # where a run ends early, no decay would have come
    config.optimizer.learning_rate = 3e-3
    config.model.num_layers = 2
    config.model.dropout_rate = config.model.word_dropout_rate = 0.0  # there is nothing to overfit
    config.model.use_words = False  # a character is a symbol or a key, and a pair of them a word

    from configs.studies import parts  # imports JAX, so only once the argument is right

    parts.set_options(config.model.attention, OPTIONS)
    return config.lock()


def _length(probe: str, distance: int) -> int:
    from attention.data import sources

    return sources.get(probe).length(distance)


def sweep() -> list[Point]:
    """Returns each variant at each distance, one seed of all before the next."""
    from attention import variants
    from configs.studies import parts

    ready = [name for name in WANTED if name in variants.names()]
    return grid({"arg.seed": parts.SEEDS, "arg.distance": DISTANCES, "arg.variant": ready})
