"""Nine variants as translators, with equal budgets: a study.

    python sweep.py --config=configs/studies/translation_variants.py --workdir=sweeps/translation
    python sweep.py … --trials=27    # with the first learning rate alone
    python compare.py sweeps/translation --out=reports/translation
    python train.py --config=configs/studies/translation_variants.py:variant=rnn --workdir=runs/rnn

A Transformer of 2+2 layers of width 64 on short Chinese sentences with English translations, 1,500
updates. A variant stands wherever it can: `sliding_window`, `rnn` and `cnn` have no attention from
decoder to encoder and get `scaled_dot` there. Each gets the same steps, the same dropout, and the
same two learning rates with three seeds each, of which compare.py takes the better by dev.
Parameters are equal within 1 % of the layers' (by the width of their MLP). With 3,346 pairs the
scores are low, and differences are about how fast a mechanism learns from little. Two to four
minutes a run on one CPU core; scores: docs/results/translation_variants.

Arguments: variant= (default scaled_dot), dataset= (as in configs/translation.py), seed=.
"""

from __future__ import annotations

from ml_collections import ConfigDict

from attention.configuration.points import Point
from configs import common, translation

VARIANTS = (
    *("scaled_dot", "additive", "cosine", "sigmoid", "sparsemax", "gated"),
    *("sliding_window", "rnn", "cnn"),
)
LEARNING_RATES = (5e-3, 2e-3)
PLACES = ("attention", "decoder_attention", "cross_attention")


def get_config(arg: str = "") -> ConfigDict:
    """Returns the config for the argument described above."""
    config = common.tiny_config(translation, arg, dataset="hsk_zh_en")
    config.train_steps = 1500  # after 500, all have a BLEU of 1 to 2
    # Decoding dev takes as long as many updates: six times, not once an epoch, and greedily.
    config.eval_every_steps = config.checkpoint_every_steps = 250
    config.decode.beam_size = 1
    config.model.num_layers = config.model.num_decoder_layers = 2

    from configs.studies import parts  # imports JAX, so only once the argument is right

    for place in PLACES:
        parts.set_options(config.model[place])
    encoder, decoder = PLACES[:1], PLACES[1:]
    config.model.decoder_mlp_dim = parts.equal_mlp_dim(config, *decoder)
    config.model.mlp_dim = parts.equal_mlp_dim(config, *encoder)
    return config.lock()


def sweep() -> list[Point]:
    """Returns each variant with each seed, first all with one learning rate."""
    from configs.studies import parts

    return [point for rate in LEARNING_RATES for point in parts.each_variant(VARIANTS, (rate,))]
