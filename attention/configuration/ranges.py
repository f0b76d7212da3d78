"""The numbers that the keys of a config take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from attention.configuration.overrides import EXCLUSIVE


class Range(NamedTuple):
    """The numbers that a key takes, and how to say so."""

    words: str
    holds: Callable[[Any], bool]
    type: type = int


_COUNT = Range("an int of 1 or more", lambda x: x >= 1)
_POSITIVE = Range("a number above 0", lambda x: x > 0, float)
_NOT_NEGATIVE = Range("a number of 0 or more", lambda x: x >= 0, float)
_RATE = Range("a number from 0 to less than 1", lambda x: 0 <= x < 1, float)
_NOT_NEGATIVE_COUNT = Range("an int of 0 or more", lambda x: x >= 0)
_SEED = Range("an int from 0 to 2**32 - 1", lambda x: 0 <= x < 2**32)

RANGES: dict[str, Range] = {
    "seed": _SEED,
    "batch_size": _COUNT,
    "batch_tokens": _COUNT,
    "eval_batch_size": _COUNT,
    "train_steps": _COUNT,
    "train_epochs": _POSITIVE,
    "log_every_steps": _POSITIVE,
    "eval_every_steps": _POSITIVE,
    "checkpoint_every_steps": _POSITIVE,
    "early_stopping_evaluations": _NOT_NEGATIVE_COUNT,
    "average_checkpoints": _NOT_NEGATIVE_COUNT,
    "label_smoothing": _RATE,
    "optimizer.learning_rate": _NOT_NEGATIVE,
    "optimizer.weight_decay": _NOT_NEGATIVE,
    "optimizer.clip_norm": _POSITIVE,
    "optimizer.accumulation_steps": _COUNT,
    "optimizer.b1": _RATE,
    "optimizer.b2": _RATE,
    "model.dim": _COUNT,
    "model.num_layers": _COUNT,
    "model.num_heads": _COUNT,
    "model.mlp_dim": _COUNT,
    "model.num_decoder_layers": _COUNT,
    "model.decoder_mlp_dim": _COUNT,
    "model.word_dim": _COUNT,
    "model.char_dim": _COUNT,
    "model.dropout_rate": _RATE,
    "model.word_dropout_rate": _RATE,
    "model.attention_dropout_rate": _RATE,
    "data.order_seed": _SEED,
    "data.max_length": _COUNT,
    "data.train_examples": _COUNT,
    "data.distance": _COUNT,
    "data.min_count": _COUNT,
    # A word that is cut keeps its head and its tail.
    "data.max_word_length": Range("an int of 2 or more", lambda x: x >= 2),
    "data.num_threads": _NOT_NEGATIVE_COUNT,
    "data.vocab_size": Range("an int of 5 or more, since ids 0 to 3 are special", lambda x: x > 4),
    "data.tokenizer_texts": _COUNT,
    "data.subword_regularisation": _NOT_NEGATIVE,
    "decode.beam_size": _COUNT,
    "decode.max_length": _COUNT,
    "decode.temperature": _NOT_NEGATIVE,
    "decode.top_k": _NOT_NEGATIVE_COUNT,
    "decode.top_p": Range("a number above 0 and at most 1", lambda x: 0 < x <= 1, float),
    "decode.seed": _SEED,
}
# None is a value of these alone.
MAY_BE_NONE = frozenset(
    {
        *("model.attention_dropout_rate", "data.order_seed", "data.train_examples"),
        *(key for pair in EXCLUSIVE for key in pair),
    }
)
