"""One vector for a whole sentence, or attention: recurrent translators beside a Transformer.

    python sweep.py --config=configs/studies/translation_recurrent.py --workdir=sweeps/recurrent
    python train.py --config=configs/studies/translation_recurrent.py:cross=none --workdir=runs/none

A GRU encoder-decoder without attention has to put the source into one vector, and should lose more
the longer the source is; with attention (Bahdanau 2014, Luong 2015) it should not. Three kinds of
attention, none, and the Transformer of `configs/translation.py`, size small, whose data, batches
and 1,500 updates all have; parameters are equal within 1 % of the Transformer's, by the width of
the recurrent models. Nothing is tuned for any of them. Scores by length: docs/results/translation.

Arguments: model=transformer|recurrent (default recurrent), cross= (default additive; of the
Transformer scaled_dot), dataset= (as in configs/translation.py), seed=.
"""

from __future__ import annotations

from typing import Any

from ml_collections import ConfigDict

from attention.configuration.budget import Budgeted, budgeted
from attention.configuration.points import listed
from configs import common, translation

CROSS = ("none", "additive", "dot", "location_sensitive")


def get_config(arg: str = "") -> ConfigDict:
    """Returns the config for the argument described above."""
    chosen = common.read_argument(
        arg,
        {"model": "recurrent", "cross": "", "dataset": "hsk_zh_en", "seed": 0},
        choices={"model": ("transformer", "recurrent")},
    )
    cross = chosen.cross or ("additive" if chosen.model == "recurrent" else "scaled_dot")
    config: Any = translation.get_config(
        f"size=small,model={chosen.model},cross={cross},dataset={chosen.dataset},seed={chosen.seed}"
    ).unlock()
    config.train_steps = 1500
    config.optimizer.warmup_steps = 500
    config.decode.beam_size = 5
    return config.lock()


def sweep() -> Budgeted:
    """Returns the recurrent models and the Transformer, which says how many parameters all have."""
    points = [*listed("arg.cross", CROSS), *listed("arg.model", ("transformer",))]
    return budgeted(points, budget="params", solve="model.dim", like={"arg.model": "transformer"})
