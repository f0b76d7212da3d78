"""The sentiment recipe: its arguments, and what its keys refuse."""

from __future__ import annotations

import subprocess
import sys

import pytest

from attention.configuration import config_hash, from_json, load_config, load_module, to_json
from attention.errors import UserError

pytestmark = pytest.mark.fast

FILE = "configs/sentiment.py"


@pytest.mark.parametrize("size", ["tiny", "small", "base"])
@pytest.mark.parametrize("dataset", ["rotten_tomatoes", "imdb", "sst2", "imdb_reviews", "files"])
def test_every_argument_gives_a_config_that_reloads_equal(size: str, dataset: str) -> None:
    config = load_config(f"{FILE}:size={size},dataset={dataset},variant=additive,seed=3")
    assert (config.size, config.dataset, config.seed) == (size, dataset, 3)
    assert config.model.attention.variant == "additive"
    reloaded = from_json(to_json(config))
    assert reloaded == config
    assert config_hash(reloaded) == config_hash(config)


def test_what_is_off_unless_asked_for() -> None:
    for size in ("tiny", "small", "base"):
        config = load_config(f"{FILE}:size={size}")
        assert config.data.subword_regularisation == config.model.word_dropout_rate == 0.0
        assert config.label_smoothing == config.early_stopping_evaluations == 0
    assert load_config(FILE) == load_config(f"{FILE}:size=small,dataset=rotten_tomatoes")


def test_whole_reviews_get_longer_rows() -> None:
    assert load_config(FILE).data.max_length == 128
    assert load_config(f"{FILE}:dataset=imdb").data.max_length == 512


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("size=tny", r"size='tny': expected one of tiny, small, base \(did you mean 'tiny'\?\)"),
        ("dataset=rotten_tomatos", r"did you mean 'rotten_tomatoes'"),
        ("dataset=turkish_treebank", "expected one of files, imdb, imdb_reviews, rotten_tomatoes"),
        ("dataset=hsk_zh_en", "expected one of files, imdb"),
        ("variant=scaled_dt", r"did you mean 'scaled_dot'"),
    ],
)
def test_a_wrong_argument_gets_a_hint(argument: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_config(f"{FILE}:{argument}")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "model.pooling",
            "avg",
            "model.pooling='avg': expected one of mean, max, first, attention",
        ),
        ("model.word_dropout_rate", 1.0, "model.word_dropout_rate=1.0: expected a number from 0"),
        (
            "data.tokenizer",
            "word",
            r"data.tokenizer='word' is not known \(did you mean 'words'\?\)",
        ),
        ("data.vocab_size", 0, "data.vocab_size=0: expected an int of 5 or more"),
        ("data.vocab_size", 4, "data.vocab_size=4: expected an int of 5 or more"),
        ("data.subword_regularisation", -0.1, "data.subword_regularisation=-0.1: expected a numb"),
        ("data.max_length", 0, "data.max_length=0: expected an int of 1 or more"),
        ("data.max_length", 4096, "batch_tokens=2048 is less than data.max_length=4096"),
        ("data.train_path", "x.tsv", "data.train_path='x.tsv' is read only with dataset=files"),
        ("model.dim", 30, "model.dim=30 must be a multiple of model.num_heads=4"),
    ],
)
def test_a_wrong_value_is_one_clear_line(key: str, value: object, message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}") as caught:
        load_config(FILE, {key: value})
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["words", "characters", "bytes"])
def test_one_segmentation_cannot_be_sampled(name: str) -> None:
    given = {"data.tokenizer": name, "data.subword_regularisation": 0.1}
    with pytest.raises(UserError, match=f"read only with data.tokenizer=sentencepiece: {name} has"):
        load_config(FILE, given)
    assert load_config(FILE, {**given, "data.subword_regularisation": 0.0})


def test_the_setting_of_the_long_range_arena() -> None:
    given = {"data.tokenizer": "bytes", "data.max_length": 4096, "batch_tokens": 32768}
    config = load_config(f"{FILE}:dataset=imdb", given)
    assert (config.data.tokenizer, config.data.max_length) == ("bytes", 4096)


def test_a_wrong_data_set_is_told_without_jax(repository) -> None:
    code = """
        import sys
        from configs import common
        print(common.dataset_names("sentiment"), "jax" in sys.modules, "grain" in sys.modules)
    """
    lines = "\n".join(line.strip() for line in code.strip().splitlines())
    done = subprocess.run(
        [sys.executable, "-c", lines], cwd=repository, capture_output=True, text=True, timeout=120
    )
    names = ("files", "imdb", "imdb_reviews", "rotten_tomatoes", "sst2")
    assert done.stdout == f"{names} False False\n", done.stderr


def test_the_docstring_is_a_recipe() -> None:
    text = load_module(FILE).__doc__
    for part in ("python train.py --config=configs/sentiment.py", "variant=", "dataset=", "seed="):
        assert part in text
