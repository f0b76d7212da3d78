"""Sentiment: a Transformer encoder reads a text, and its pooled output gets one label.

    python train.py --config=configs/sentiment.py --workdir=runs/sentiment
    python train.py --config=configs/sentiment.py:size=tiny,seed=1 --workdir=runs/tiny
    python sweep.py --config=configs/sentiment.py:size=tiny --workdir=sweeps/sentiment --workers=2
    python train.py --config=configs/sentiment.py:dataset=imdb --workdir=runs/imdb
    python train.py --config=configs/sentiment.py:dataset=files --workdir=runs/mine \
        --config.data.train_path=train.tsv --config.data.eval_path=dev.tsv

Arguments, after the colon, separated by commas:
    variant=   the attention mechanism (default scaled_dot)
    dataset=   rotten_tomatoes (default) and imdb, both by pip; sst2 and imdb_reviews from the TFDS
               catalogue; files
    size=      tiny: about a minute on 2 CPU cores; small (default): twice as wide, two layers;
               base: for accelerators
    seed=      of the parameters, the order of the data and dropout (default 0)

Figures: docs/results/sentiment has `tiny` and `small` on Rotten Tomatoes, and what does better:
configs/studies/sentiment_small_data.py; there are none of `base` yet.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ml_collections import ConfigDict

from attention.configuration.fields import optional
from attention.configuration.search_space import Choice, Halving, Real, SearchSpace
from configs import common


class _Size(NamedTuple):
    dim: int
    num_layers: int
    num_heads: int
    mlp_dim: int
    dropout_rate: float
    vocab_size: int
    batch_tokens: int
    train_epochs: float
    learning_rate: float


_SIZES = {
    "tiny": _Size(
        dim=64,
        num_layers=1,
        num_heads=4,
        mlp_dim=128,
        dropout_rate=0.2,
        vocab_size=4000,
        batch_tokens=2048,
        train_epochs=5.0,
        learning_rate=2e-3,
    ),
    "small": _Size(
        dim=128,
        num_layers=2,
        num_heads=4,
        mlp_dim=256,
        dropout_rate=0.3,
        vocab_size=8000,
        batch_tokens=2048,
        train_epochs=10.0,
        learning_rate=1e-3,
    ),
    "base": _Size(
        dim=512,
        num_layers=6,
        num_heads=8,
        mlp_dim=2048,
        dropout_rate=0.3,
        vocab_size=16000,
        batch_tokens=32768,
        train_epochs=20.0,
        learning_rate=3e-4,
    ),
}
# Whole reviews are ten times as long as single sentences; longer ones are cut, and that is said.
_LONG = ("imdb", "imdb_reviews")


def get_config(arg: str = "") -> ConfigDict:
    """Returns the config for the argument described above."""
    chosen = common.read_argument(
        arg,
        {"variant": "scaled_dot", "dataset": "rotten_tomatoes", "size": "small", "seed": 0},
        choices={"dataset": common.dataset_names("sentiment"), "size": tuple(_SIZES)},
    )
    size = _SIZES[chosen.size]
    max_length = 512 if chosen.dataset in _LONG else 128

    config: Any = common.training_defaults()
    config.task = "sentiment"
    config.dataset = chosen.dataset
    config.size = chosen.size
    config.seed = chosen.seed
    config.batch_tokens = max(size.batch_tokens, 8 * max_length)
    config.train_epochs = size.train_epochs
    config.optimizer.learning_rate = size.learning_rate
    config.model = common.encoder_section(size, chosen.variant)
    config.model.pooling = "mean"
    config.model.word_dropout_rate = 0.0  # share of tokens that training makes unknown
    config.data = _data(size, max_length)
    return config.lock()


def _data(size: _Size, max_length: int) -> ConfigDict:
    data = common.data_section(max_length)
    data.train_path = optional(None, str)  # TSV or JSONL files of dataset=files
    data.eval_path = optional(None, str)
    data.test_path = optional(None, str)
    data.tokenizer = "sentencepiece"  # or words, characters, bytes
    data.vocab_size = size.vocab_size
    data.lowercase = False
    # Above 0: each epoch draws another segmentation of each text, the flatter the smaller.
    data.subword_regularisation = 0.0
    return data


def sweep() -> SearchSpace:
    """Returns the numbers that decide most here, a small data set: rate, dropout and pooling."""
    return SearchSpace(
        {
            "optimizer.learning_rate": Real(3e-4, 1e-2, log=True),
            "model.dropout_rate": Real(0.0, 0.6),
            "model.word_dropout_rate": Choice(0.0, 0.1, 0.2),
            "model.pooling": Choice("mean", "max", "attention"),
        },
        trials=24,
        pruning=Halving(),
    )
