"""The translation recipe: its arguments, the published setting, and what its keys refuse."""

from __future__ import annotations

import pytest

from attention.configuration import config_hash, from_json, load_config, load_module, to_json
from attention.errors import UserError

pytestmark = pytest.mark.fast

FILE = "configs/translation.py"


@pytest.mark.parametrize("size", ["tiny", "small", "base"])
@pytest.mark.parametrize("model", ["transformer", "recurrent"])
def test_every_argument_gives_a_config_that_reloads_equal(size: str, model: str) -> None:
    config = load_config(f"{FILE}:size={size},model={model},dataset=files,cross=additive,seed=3")
    assert (config.size, config.dataset, config.seed) == (size, "files", 3)
    assert config.model.architecture == model
    assert config.model.cross_attention.variant == "additive"
    reloaded = from_json(to_json(config))
    assert reloaded == config
    assert config_hash(reloaded) == config_hash(config)


def shape(config) -> tuple:
    model = config.model
    layers = model.num_layers, model.num_decoder_layers
    return *layers, model.dim, model.mlp_dim, model.decoder_mlp_dim, model.num_heads


def test_small_is_the_published_setting() -> None:
    config = load_config(f"{FILE}:dataset=wmt14_translate/de-en")
    assert shape(config) == (4, 4, 128, 256, 256, 4)
    assert config.model.tied_embeddings == "all" and config.model.dropout_rate == 0.3
    assert config.model.attention_dropout_rate == 0.0
    assert (config.model.position, config.model.activation) == ("sinusoidal", "relu")
    data = config.data
    assert (data.tokenizer, data.vocab_size, data.shared_vocabulary) == (
        "sentencepiece",
        10_000,
        True,
    )
    assert config.label_smoothing == 0.1
    assert (config.optimizer.schedule, config.optimizer.warmup_steps) == ("inverse_sqrt", 2000)
    assert config.optimizer.learning_rate == 5e-3
    assert (config.train_steps, config.train_epochs) == (8000, None)
    assert (config.batch_tokens, config.data.max_length, config.decode.max_length) == (4096, 64, 64)
    decode = config.decode
    assert (decode.beam_size, decode.length_penalty, decode.use_cache) == (5, 0.6, True)


def test_short_sentences_have_sizes_of_their_own() -> None:
    """Of 3,346 pairs: the default data set."""
    config = load_config(FILE)
    assert config == load_config(f"{FILE}:size=small,dataset=hsk_zh_en,model=transformer")
    assert shape(config) == (4, 4, 128, 256, 256, 4)
    assert (config.train_steps, config.optimizer.warmup_steps) == (2000, 500)
    assert config.model.attention_dropout_rate is None
    assert (config.data.vocab_size, config.data.max_length, config.decode.max_length) == (
        4000,
        32,
        32,
    )
    assert (config.data.source_language, config.data.target_language) == ("zh", "en")
    tiny = load_config(f"{FILE}:size=tiny")
    assert (tiny.data.max_length, tiny.batch_tokens) == (32, 1024)
    assert load_config(f"{FILE}:size=base").train_steps == 100_000


def test_the_other_sizes() -> None:
    assert shape(load_config(f"{FILE}:size=tiny")) == (1, 1, 64, 128, 128, 4)
    assert shape(load_config(f"{FILE}:size=base")) == (6, 6, 512, 2048, 2048, 8)
    files = load_config(f"{FILE}:size=tiny,dataset=files")
    assert (files.train_steps, files.data.vocab_size, files.data.max_length) == (400, 2000, 64)
    assert files.data.source_language is None and files.data.target_language is None


def test_what_is_off_unless_asked_for() -> None:
    for size in ("tiny", "small", "base"):
        config = load_config(f"{FILE}:size={size}")
        assert config.data.subword_regularisation == config.decode.temperature == 0.0
        assert config.average_checkpoints == config.early_stopping_evaluations == 0
        assert config.optimizer.weight_decay == 0.0 and not config.score.lowercase
    assert load_config(f"{FILE}:model=recurrent").model.pointer == "none"


@pytest.mark.parametrize(
    ("argument", "places"),
    [
        ("variant=cosine", ("cosine", "cosine", "cosine")),
        # Where it cannot stand, the usual one does.
        ("variant=longformer", ("longformer", "scaled_dot", "scaled_dot")),
        ("variant=rnn", ("rnn", "rnn", "scaled_dot")),
        ("variant=strided", ("strided", "scaled_dot", "scaled_dot")),
        ("variant=monotonic", ("scaled_dot", "scaled_dot", "monotonic")),
        ("variant=l2,cross=additive", ("l2", "l2", "additive")),
        ("encoder=longformer,decoder=mla", ("longformer", "mla", "scaled_dot")),
    ],
)
def test_each_place_has_its_own_mechanism(argument: str, places: tuple) -> None:
    model = load_config(f"{FILE}:{argument}").model
    sections = (model.attention, model.decoder_attention, model.cross_attention)
    assert tuple(section.variant for section in sections) == places


def test_a_recurrent_model_has_one_place_or_none() -> None:
    model = load_config(f"{FILE}:model=recurrent,variant=general").model
    assert model.cross_attention.variant == "general" and "attention" not in model
    assert "cross_attention" not in load_config(f"{FILE}:model=recurrent,cross=none").model


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("size=tny", r"size='tny': expected one of tiny, small, base \(did you mean 'tiny'\?\)"),
        ("model=recurent", r"model='recurent': expected one of transformer, recurrent"),
        ("encodr=l2", r"no config argument 'encodr' \(did you mean 'encoder'\?\).*cross="),
        ("seed=-1", "seed='-1': expected an int, 0 or more"),
        ("tiny", "'tiny': expected key=value"),
        ("variant=scaled_dt", r"did you mean 'scaled_dot'"),
        (
            "dataset=imdb",
            "dataset='imdb': expected one of files, hsk_zh_en, ted_hrlr_translate/pt_",
        ),
        ("dataset=hsk_zh_on", r"did you mean 'hsk_zh_en'"),
        ("cross=none", "model=recurrent,cross=none keeps it"),
        ("cross=rnn", "model.cross_attention needs .* 'cross'; variant=rnn has"),
        ("decoder=longformer", "model.decoder_attention needs .* 'causal'; variant=longformer has"),
        ("decoder=fixed", "model.decoder_attention needs .* 'decode'; variant=fixed has"),
        ("encoder=monotonic", "needs .* 'causal'; variant=monotonic has cross, decode"),
        ("model=recurrent,decoder=l2", "decoder='l2': model=recurrent has no self-attention"),
        ("model=recurrent,encoder=l2", "encoder='l2': model=recurrent has no self-attention"),
        ("model=recurrent,variant=rnn", "model.cross_attention needs .* 'cross'"),
    ],
)
def test_a_wrong_argument_gets_a_hint(argument: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_config(f"{FILE}:{argument}")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model.dim", 30, "model.dim=30 must be a multiple of model.num_heads=4"),
        ("label_smoothing", 1.0, "label_smoothing=1.0: expected a number from 0 to less than 1"),
        ("data.vocab_size", 4, "data.vocab_size=4: expected an int of 5 or more"),
        ("data.max_length", 8192, "batch_tokens=4096 is less than data.max_length=8192"),
        ("data.train_source_path", "x", "data.train_source_path='x' is read only with dataset=fi"),
        ("decode.beam_size", 0, "decode.beam_size=0: expected an int of 1 or more"),
        ("decode.max_length", 0, "decode.max_length=0: expected an int of 1 or more"),
        ("decode.temperature", 1.0, "decode.temperature=1.0 draws .* decode.beam_size=5 searches"),
        ("decode.top_k", 3, "decode.top_k=3 is read only where tokens are drawn"),
        ("average_checkpoints", -1, "average_checkpoints=-1: expected an int of 0 or more"),
    ],
)
def test_a_wrong_value_is_one_clear_line(key: str, value: object, message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}") as caught:
        load_config(FILE, {key: value})
    assert len(str(caught.value).splitlines()) == 1


def test_a_decoder_without_a_cache_is_for_searches_without_one() -> None:
    config = load_config(f"{FILE}:decoder=strided", {"decode.use_cache": False})
    assert config.model.decoder_attention.variant == "strided" and not config.decode.use_cache


def test_the_sweep_has_different_points_that_all_load() -> None:
    points = list(load_module(FILE).sweep())
    hashes = {config_hash(load_config(FILE, point)) for point in points}
    assert len(points) == len(hashes) == 9


def test_the_docstring_is_a_recipe() -> None:
    text = load_module(FILE).__doc__
    for part in ("python train.py --config=configs/translation.py", "cross=", "dataset=", "seed="):
        assert part in text


def test_a_recurrent_model_may_have_nothing_between_its_sides() -> None:
    assert "cross_attention" not in load_config(f"{FILE}:model=recurrent,cross=none").model
