"""Every ready variant as a part-of-speech tagger, with equal budgets: a study.

    python sweep.py --config=configs/studies/tagging_variants.py --workdir=sweeps/tagging
    python compare.py sweeps/tagging --out=reports/tagging
    python train.py --config=configs/studies/tagging_variants.py:variant=l2,seed=1 --workdir=runs/l2

Two layers of width 64 on the Turkish treebank for six epochs. Each variant gets the same data, the
same dropout, and the same three learning rates with three seeds each, of which compare.py takes the
best by dev. Parameters are equal within 1 % of the encoder's: where a mechanism has more or fewer
than four projections, the MLP is narrower or wider. A window and the like hide something of a
sentence. About half a minute a run on 2 CPU cores; scores: docs/results/tagging_variants.

Arguments: variant= (default scaled_dot), dataset=, seed=.
"""

from __future__ import annotations

from ml_collections import ConfigDict

from attention.configuration.points import Point
from configs import common, pos_tagging

LEARNING_RATES = (2e-3, 5e-3, 1e-2)


def get_config(arg: str = "") -> ConfigDict:
    """Returns the config for the argument described above."""
    config = common.tiny_config(pos_tagging, arg, dataset="turkish_treebank")
    config.train_epochs = 6.0
    config.model.num_layers = 2
    config.model.mlp_dim = 192  # leaves something where attention has twice the parameters

    from configs.studies import parts  # imports JAX, so only once the argument is right

    parts.set_options(config.model.attention)
    config.model.mlp_dim = parts.equal_mlp_dim(config, "attention")
    return config.lock()


def sweep() -> list[Point]:
    """Returns every variant with each learning rate and seed; those of one share its program."""
    from configs.studies import parts

    return parts.each_variant(parts.encoders(), LEARNING_RATES)
