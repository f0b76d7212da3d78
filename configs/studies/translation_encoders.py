"""Six mechanisms in the encoder of one small translator, with equal budgets: a study.

    python sweep.py --config=configs/studies/translation_encoders.py --workdir=sweeps/encoders
    python train.py --config=configs/studies/translation_encoders.py:encoder=rnn,dataset=files \
        --workdir=runs/rnn --config.data.train_source_path=train.en …

The recipe is `configs/translation.py`, size small, for 1,500 updates; the decoder and the attention
to the source are `scaled_dot` throughout, and everything is tuned for none of the six. Parameters
are equal within 1 %: the MLP of an encoder with more than the usual four projections is narrower
(`_MLP_DIM`, by hand). Scores, hardware and time: docs/results/translation.

Arguments: encoder= (default scaled_dot), dataset= (as in configs/translation.py), seed=.
"""

from __future__ import annotations

from typing import Any

from ml_collections import ConfigDict

from attention.configuration.points import Point, listed
from configs import common, translation

ENCODERS = ("scaled_dot", "additive", "cosine", "sliding_window", "sigmoid", "rnn")
_MLP_DIM = {"rnn": 160}
_OPTIONS: dict[str, dict[str, Any]] = {"sliding_window": {"window": 4}}


def get_config(arg: str = "") -> ConfigDict:
    """Returns the config for the argument described above."""
    chosen = common.read_argument(
        arg, {"encoder": "scaled_dot", "dataset": "hsk_zh_en", "seed": 0}, choices={}
    )
    config: Any = translation.get_config(
        f"size=small,encoder={chosen.encoder},dataset={chosen.dataset},seed={chosen.seed}"
    ).unlock()
    config.train_steps = 1500
    config.optimizer.warmup_steps = 500
    config.decode.beam_size = 5
    config.model.mlp_dim = _MLP_DIM.get(chosen.encoder, config.model.mlp_dim)
    for name, value in _OPTIONS.get(chosen.encoder, {}).items():
        config.model.attention[name] = value
    return config.lock()


def sweep() -> list[Point]:
    """Returns a point for each encoder."""
    return listed("arg.encoder", ENCODERS)
