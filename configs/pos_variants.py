"""Every exact variant as a part-of-speech tagger, with equal budgets: a study.

    python train.py --config=configs/pos_variants.py:variant=l2,seed=1 --workdir=runs/l2-1
    python sweep.py --config=configs/pos_variants.py --workdir=sweeps/variants     # all of it

A small encoder on the Turkish treebank, the same for each variant: the same steps, learning rate
and dropout, chosen for none of them. The parameters of the encoder are equal within 5 %: where a
mechanism has more or fewer than projections of queries, keys, values and outputs, the MLP is
narrower or wider (`_MLP_DIM`, by hand). A window and the like are set so that they hide something
of a sentence. About half a minute a run on 2 CPU cores; scores: docs/results/variants.

Arguments: variant= (default scaled_dot), dataset=, seed=.
"""

from __future__ import annotations

from typing import Any

from ml_collections import ConfigDict

from attention.configuration.points import Point, grid
from configs import common, pos_tagging

SEEDS = (0, 1, 2)
_WIDTH = 128  # of the MLP, for variants with the usual four projections
_MLP_DIM = {"cnn": 32, "gated": 96, "general": 120, "longformer": 32, "pooling": 192, "rnn": 80}
_OPTIONS: dict[str, dict[str, Any]] = {
    "cnn": {"width": 3},
    "sliding_window": {"window": 4},
    "dilated": {"window": 2, "dilation": 2},
    "longformer": {"window": 4},
    "strided": {"stride": 4},
    "fixed": {"stride": 8, "summary": 1},
    "bigbird": {"pattern_block": 4, "num_random": 1},
}


def get_config(arg: str = "") -> ConfigDict:
    """Returns the config for the argument described above."""
    chosen = common.read_argument(
        arg,
        {"variant": "scaled_dot", "dataset": "turkish_treebank", "seed": 0},
        choices={"dataset": common.dataset_names("pos_tagging")},
    )
    config: Any = pos_tagging.get_config(
        f"size=tiny,variant={chosen.variant},dataset={chosen.dataset},seed={chosen.seed}"
    ).unlock()
    config.train_epochs = 6.0
    config.model.num_layers = 2
    config.model.mlp_dim = _MLP_DIM.get(chosen.variant, _WIDTH)
    for name, value in _OPTIONS.get(chosen.variant, {}).items():
        config.model.attention[name] = value
    return config.lock()


def sweep() -> list[Point]:
    """Returns every variant that can encode with three seeds, one seed of all before the next."""
    from attention import variants

    encoders = {"bidirectional", "causal"}
    names = [name for name in variants.names() if encoders & variants.get(name).MODES]
    return grid({"arg.seed": SEEDS, "arg.variant": names})
