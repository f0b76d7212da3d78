"""Twelve variants as sentiment classifiers, with equal budgets: a study.

    python sweep.py --config=configs/studies/sentiment_variants.py --workdir=sweeps/sentiment
    python compare.py sweeps/sentiment --out=reports/sentiment
    python train.py --config=configs/studies/sentiment_variants.py:variant=cnn --workdir=runs/cnn

Two layers of width 64 on the reviews of Rotten Tomatoes for four epochs, with the mean over the
text as its vector. Each variant gets the same steps, the same dropout, and the same two learning
rates with three seeds each, of which compare.py takes the better by dev. Parameters are equal
within 1 % of the encoder's (by the width of the MLP). A window and the like hide something of a
sentence. About half a minute a run on 2 CPU cores; scores: docs/results/sentiment_variants.

Arguments: variant= (default scaled_dot; any that an encoder can have), dataset=, seed=.
"""

from __future__ import annotations

from ml_collections import ConfigDict

from attention.configuration.points import Point
from configs import common, sentiment

VARIANTS = (
    *("scaled_dot", "additive", "cosine", "sigmoid", "sparsemax", "talking_heads", "differential"),
    *("gated", "sliding_window", "pooling", "rnn", "cnn"),
)
LEARNING_RATES = (2e-3, 5e-3)


def get_config(arg: str = "") -> ConfigDict:
    """Returns the config for the argument described above."""
    config = common.tiny_config(sentiment, arg, dataset="rotten_tomatoes")
    config.train_epochs = 4.0
    config.model.num_layers = 2
    config.model.mlp_dim = 192  # leaves something where attention has twice the parameters

    from configs.studies import parts  # imports JAX, so only once the argument is right

    parts.set_options(config.model.attention)
    config.model.mlp_dim = parts.equal_mlp_dim(config, "attention")
    return config.lock()


def sweep() -> list[Point]:
    """Returns each variant with each learning rate and seed; those of one share its program."""
    from configs.studies import parts

    return parts.each_variant(VARIANTS, LEARNING_RATES)
