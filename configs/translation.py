"""Translation: a Transformer, or a recurrent encoder-decoder, from one language to another.

    python train.py --config=configs/translation.py --workdir=runs/translation
    python train.py --config=configs/translation.py:encoder=sliding_window,cross=additive \
        --workdir=runs/mixed
    python train.py --config=configs/translation.py:model=recurrent,cross=additive \
        --workdir=runs/recurrent
    python train.py --config=configs/translation.py:dataset=files --workdir=runs/mine \
        --config.data.train_source_path=train.en --config.data.train_target_path=train.de \
        --config.data.eval_source_path=val.en --config.data.eval_target_path=val.de

Arguments, after the colon, separated by commas:
    model=     transformer (default), or recurrent
    variant=   the attention mechanism in every place that it allows (default scaled_dot)
    encoder=   that of the encoder's self-attention
    decoder=   that of the decoder's self-attention
    cross=     that from decoder to encoder; for model=recurrent also none: a fixed vector
    dataset=   hsk_zh_en (default, arrives with the extra `data`), files, or a translation builder
               of the TFDS catalogue: ted_hrlr_translate/pt_to_en, wmt14_translate/de-en, …
    size=      tiny: about a minute on 2 CPU cores; small (default): the recipe behind the
               figure on Multi30k; base: for accelerators
    seed=      of the parameters, the order of the data and dropout (default 0)

`small` is Transformer-Tiny of Wu et al., "Good for Misconceived Reasons" (ACL 2021): 4+4 layers of
width 128, all embeddings shared, no attention weights dropped, inverse square root schedule, at
most 8,000 updates, beam 5. The published score is of the mean of the last checkpoints, which
average_checkpoints=5 makes. What scored best here has optimizer.schedule=inverse_sqrt_cooldown and
the best checkpoint. (On hsk_zh_en `small` drops attention weights as other sizes do, at
dropout_rate.)
Figures: docs/results/translation has `small` with dataset=files on Multi30k, studies that start
from it, and `tiny` and `small` on hsk_zh_en; there are none of `base` yet.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from attention.configuration.fields import duration, optional
from attention.configuration.points import Point, grid
from attention.errors import UserError
from configs import common


class _Size(NamedTuple):
    dim: int
    num_layers: int
    num_heads: int
    mlp_dim: int
    dropout_rate: float
    vocab_size: int
    max_length: int
    batch_tokens: int
    train_steps: int
    learning_rate: float
    warmup_steps: int
    beam_size: int = 4
    attention_dropout_rate: float | None = None  # None: dropout_rate


_SIZES = {
    "tiny": _Size(
        dim=64,
        num_layers=1,
        num_heads=4,
        mlp_dim=128,
        dropout_rate=0.1,
        vocab_size=2000,
        max_length=64,
        batch_tokens=2048,
        train_steps=400,
        learning_rate=4e-3,
        warmup_steps=100,
    ),
    "small": _Size(
        dim=128,
        num_layers=4,
        num_heads=4,
        mlp_dim=256,
        dropout_rate=0.3,
        vocab_size=10000,
        max_length=64,
        batch_tokens=4096,
        train_steps=8000,
        learning_rate=5e-3,
        warmup_steps=2000,
        beam_size=5,
        attention_dropout_rate=0.0,
    ),
    "base": _Size(
        dim=512,
        num_layers=6,
        num_heads=8,
        mlp_dim=2048,
        dropout_rate=0.1,
        vocab_size=32000,
        max_length=256,
        batch_tokens=32768,
        train_steps=100_000,
        learning_rate=7e-4,
        warmup_steps=4000,
    ),
}


# 3,346 short pairs are little: a smaller vocabulary, and an end before they are known by heart.
_FOR_SHORT_SENTENCES: dict[str, dict[str, Any]] = {
    "tiny": {"max_length": 32, "batch_tokens": 1024},
    "small": {
        **{"max_length": 32, "vocab_size": 4000, "train_steps": 2000, "warmup_steps": 500},
        "attention_dropout_rate": None,
    },
}


def get_config(arg: str = "") -> ConfigDict:
    """Returns the config for the argument described above."""
    chosen = common.read_argument(
        arg,
        {
            "model": "transformer",
            "variant": "scaled_dot",
            "encoder": "",
            "decoder": "",
            "cross": "",
            "dataset": "hsk_zh_en",
            "size": "small",
            "seed": 0,
        },
        choices={"model": tuple(_MODELS), "size": tuple(_SIZES)},
    )
    if "/" not in chosen.dataset:  # else of the catalogue, which has them with their config alone
        catalogue = "ted_hrlr_translate/pt_to_en and others of the TFDS catalogue"
        named = (*common.dataset_names("translation"), catalogue)
        common.check_choice("dataset", chosen.dataset, named)
    size = _SIZES[chosen.size]
    if chosen.dataset == "hsk_zh_en":
        size = size._replace(**_FOR_SHORT_SENTENCES.get(chosen.size, {}))

    config: Any = common.training_defaults()
    config.task = "translation"
    config.dataset = chosen.dataset
    config.size = chosen.size
    config.seed = chosen.seed
    config.batch_tokens = size.batch_tokens
    config.train_epochs = None
    config.train_steps = size.train_steps
    # Not each epoch: that of a small data set takes less than the search of its dev split.
    config.eval_every_steps = duration("10%")
    config.checkpoint_every_steps = duration("5%")
    config.label_smoothing = 0.1
    # Above 0: so many of the last evaluated checkpoints stay, and in the end their mean is scored.
    config.average_checkpoints = 0
    config.optimizer.learning_rate = size.learning_rate
    config.optimizer.schedule = "inverse_sqrt"
    config.optimizer.warmup_steps = size.warmup_steps
    config.optimizer.weight_decay = 0.0
    config.model = _MODELS[chosen.model](size, chosen)
    config.data = _data(size, chosen.dataset)
    config.decode = ConfigDict()
    config.decode.beam_size = size.beam_size  # 1 = greedy
    config.decode.length_penalty = 0.6
    config.decode.max_length = size.max_length  # tokens of a hypothesis, its end counted
    config.decode.use_cache = True
    config.decode.temperature = 0.0  # above 0: a hypothesis is drawn, and beam_size must be 1
    config.decode.top_k = 0  # draw from that many most probable tokens; 0: from all
    config.decode.top_p = 1.0  # draw from the fewest that have this much probability; 1: from all
    config.decode.seed = 0  # of the draws
    config.score = ConfigDict()
    config.score.tokenizer = "auto"  # of sacreBLEU: by the target language
    config.score.lowercase = False
    return config.lock()


def sweep() -> list[Point]:
    """Returns three learning rates with three seeds each."""
    return grid({"optimizer.learning_rate": (1.25e-3, 2.5e-3, 5e-3), "arg.seed": (0, 1, 2)})


def _transformer(size: _Size, chosen: SimpleNamespace) -> ConfigDict:
    if chosen.cross == "none":
        raise UserError(
            "config argument cross=none: a Transformer sees its source by nothing else; "
            "model=recurrent,cross=none keeps it in one vector"
        )
    places = _places(chosen)
    model = common.encoder_section(size, places["encoder"])
    model.architecture = "transformer"
    model.attention_dropout_rate = size.attention_dropout_rate
    model.num_decoder_layers = size.num_layers
    model.decoder_mlp_dim = size.mlp_dim  # mlp_dim is that of the encoder
    model.position = "sinusoidal"
    model.activation = "relu"
    model.tied_embeddings = "all"  # source, target and output; or output, none
    model.decoder_attention = common.attention_section(places["decoder"])
    model.cross_attention = common.attention_section(places["cross"])
    return model


def _recurrent(size: _Size, chosen: SimpleNamespace) -> ConfigDict:
    for place in ("encoder", "decoder"):
        if getattr(chosen, place):
            raise UserError(
                f"config argument {place}={getattr(chosen, place)!r}: model=recurrent has no "
                f"self-attention; cross= is what its decoder attends with"
            )
    model = ConfigDict()
    model.architecture = "recurrent"
    model.dim = 2 * size.dim
    model.num_layers = 1
    model.num_heads = 1
    model.cell = "gru"  # or lstm
    model.style = "luong"  # or bahdanau: what was attended to enters the cell
    model.pointer = "none"  # or alone (with label_smoothing 0), mixed: copies tokens of the source
    model.dropout_rate = size.dropout_rate
    model.tied_embeddings = "all"
    if chosen.cross != "none":
        model.cross_attention = common.attention_section(chosen.cross or chosen.variant)
    return model


_MODELS = {"transformer": _transformer, "recurrent": _recurrent}


def _places(chosen: SimpleNamespace) -> dict[str, str]:
    """Returns the variant of each place: its own, or the common one where that can stand there."""
    from attention import variants  # imports JAX, so only once the argument is right

    needs = {"encoder": {"bidirectional"}, "decoder": {"causal", "decode"}, "cross": {"cross"}}
    modes = variants.get(chosen.variant).MODES
    places = {}
    for place, needed in needs.items():
        fits = needed <= modes or (place == "encoder" and "causal" in modes)  # in two passes
        places[place] = getattr(chosen, place) or (chosen.variant if fits else "scaled_dot")
    return places


def _data(size: _Size, dataset: str) -> ConfigDict:
    data = common.data_section(size.max_length)
    for split in ("train", "eval", "test"):  # parallel text files of dataset=files
        for side in ("source", "target"):
            data[f"{split}_{side}_path"] = optional(None, str)
    source, target = ("zh", "en") if dataset == "hsk_zh_en" else (None, None)
    data.source_language = optional(source, str)  # None: the data set's own choice
    data.target_language = optional(target, str)
    data.tokenizer = "sentencepiece"  # or words, characters, bytes
    data.vocab_size = size.vocab_size
    data.tokenizer_texts = 1_000_000  # SentencePiece is trained on at most so many, at random
    data.shared_vocabulary = True
    data.lowercase = False
    # Above 0: each epoch draws other segmentations, the flatter the smaller.
    data.subword_regularisation = 0.0
    return data
