"""Attention without pretraining against TF-IDF, on small data sets for sentiment.

    python sweep.py --config=configs/studies/sentiment_small_data.py --workdir=sweeps/rt
    python sweep.py --config=configs/studies/sentiment_small_data.py:dataset=imdb \
        --workdir=sweeps/imdb --config.train_epochs=4.0
    python docs/results/sentiment/tfidf_baseline.py \
        --config=configs/studies/sentiment_small_data.py:dataset=imdb

Two layers of width 64 over whole words, with strong dropout, pooled by attention; three seeds. The
settings are the best on dev of twenty that were tried on Rotten Tomatoes, and are used as they are
on the others. Half a minute a run there, twelve minutes on whole reviews, on a CPU core.

Arguments: variant= (default scaled_dot), dataset= (as in configs/sentiment.py), seed=.
"""

from __future__ import annotations

from ml_collections import ConfigDict

from attention.configuration.points import Point, listed
from configs import common, sentiment


def get_config(arg: str = "") -> ConfigDict:
    """Returns the config for the argument described above."""
    config = common.tiny_config(sentiment, arg, dataset="rotten_tomatoes")
    config.train_epochs = 10.0
    config.optimizer.learning_rate = 3e-3
    config.model.num_layers = 2
    config.model.pooling = "attention"
    config.model.dropout_rate = 0.5
    config.model.word_dropout_rate = 0.1
    # Words that were seen a few times say more than their pieces.
    config.data.tokenizer = "words"
    config.data.vocab_size = 16000
    return config.lock()


def sweep() -> list[Point]:
    """Returns three seeds."""
    return listed("arg.seed", range(3))
