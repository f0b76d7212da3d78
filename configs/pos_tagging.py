"""Part-of-speech tagging: a Transformer encoder labels every word.

    python train.py --config=configs/pos_tagging.py --workdir=runs/pos
    python train.py --config=configs/pos_tagging.py:size=tiny,seed=1 --workdir=runs/tiny
    python sweep.py --config=configs/pos_tagging.py:size=tiny --workdir=sweeps/rates --workers=2
    python train.py --config=configs/pos_tagging.py:dataset=files --workdir=runs/mine \
        --config.data.train_path=train.conllu --config.data.eval_path=dev.conllu

Arguments, after the colon, separated by commas:
    variant=   the attention mechanism (default scaled_dot)
    dataset=   turkish_treebank (default, arrives with the installation), files, en_ewt
    size=      tiny: about a minute on 2 CPU cores; small (default): the recipe behind the
               published figure; base: for accelerators
    seed=      of the parameters, the order of the data and dropout (default 0)

Hardware, time and the score to expect of `tiny` and `small`: docs/results/quality; of `base` there
are none yet.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ml_collections import ConfigDict

from attention.configuration.fields import optional
from attention.configuration.points import Point, grid
from configs import common


class _Size(NamedTuple):
    dim: int
    num_layers: int
    num_heads: int
    mlp_dim: int
    word_dim: int
    char_dim: int
    dropout_rate: float
    word_dropout_rate: float
    max_length: int
    batch_tokens: int
    train_epochs: float
    learning_rate: float


_SIZES = {
    "tiny": _Size(
        dim=64,
        num_layers=1,
        num_heads=4,
        mlp_dim=128,
        word_dim=64,
        char_dim=64,
        dropout_rate=0.1,
        word_dropout_rate=0.2,
        max_length=128,
        batch_tokens=1024,
        train_epochs=10.0,
        learning_rate=3e-3,
    ),
    "small": _Size(
        dim=256,
        num_layers=2,
        num_heads=8,
        mlp_dim=1024,
        word_dim=128,
        char_dim=192,
        dropout_rate=0.3,
        word_dropout_rate=0.3,
        max_length=128,
        batch_tokens=2048,
        train_epochs=20.0,
        learning_rate=2e-3,
    ),
    "base": _Size(
        dim=512,
        num_layers=6,
        num_heads=8,
        mlp_dim=2048,
        word_dim=256,
        char_dim=256,
        dropout_rate=0.3,
        word_dropout_rate=0.3,
        max_length=256,
        batch_tokens=16384,
        train_epochs=30.0,
        learning_rate=5e-4,
    ),
}


def get_config(arg: str = "") -> ConfigDict:
    """Returns the config for the argument described above."""
    chosen = common.read_argument(
        arg,
        {"variant": "scaled_dot", "dataset": "turkish_treebank", "size": "small", "seed": 0},
        choices={"dataset": common.dataset_names("pos_tagging"), "size": tuple(_SIZES)},
    )
    size = _SIZES[chosen.size]

    config: Any = common.training_defaults()
    config.task = "pos_tagging"
    config.dataset = chosen.dataset
    config.size = chosen.size
    config.seed = chosen.seed
    config.batch_tokens = size.batch_tokens
    config.train_epochs = size.train_epochs
    config.optimizer.learning_rate = size.learning_rate
    config.model = _model(size, chosen.variant)
    config.data = _data(size)
    return config.lock()


def _model(size: _Size, variant: str) -> ConfigDict:
    model = common.encoder_section(size, variant)
    # A word is its embedding and what its characters say; a dropped word leaves the characters.
    model.use_words = True
    model.use_chars = True
    model.word_dim = size.word_dim
    model.char_dim = size.char_dim
    model.word_dropout_rate = size.word_dropout_rate
    return model


def _data(size: _Size) -> ConfigDict:
    data = common.data_section(size.max_length)
    data.train_path = optional(None, str)  # CoNLL-U files of dataset=files
    data.eval_path = optional(None, str)
    data.test_path = optional(None, str)
    data.tag = "upos"
    data.min_count = 2  # words seen less often are known by their characters only
    data.lowercase = False
    data.max_word_length = 16  # longer ones keep their head and their tail
    return data


def sweep() -> list[Point]:
    """Returns learning rates around the default, each with three seeds, the likeliest first: a few
    trials say most with these."""
    return grid(
        {
            "optimizer.learning_rate": (2e-3, 5e-3, 1e-3, 3e-3, 1e-2, 5e-4, 2e-4, 1e-4),
            "arg.seed": (0, 1, 2),
        }
    )
