"""The tagging recipe: its arguments, and its sweep."""

from __future__ import annotations

import json

import pytest

from attention.configuration import config_hash, from_json, load_config, load_module, to_json
from attention.configuration.fields import leaves
from attention.errors import UserError

pytestmark = pytest.mark.fast

FILE = "configs/pos_tagging.py"


@pytest.mark.parametrize("size", ["tiny", "small", "base"])
@pytest.mark.parametrize("dataset", ["turkish_treebank", "files", "en_ewt"])
def test_every_argument_gives_a_config_that_reloads_equal(size: str, dataset: str) -> None:
    config = load_config(f"{FILE}:size={size},dataset={dataset},variant=scaled_dot,seed=3")
    assert (config.size, config.dataset, config.seed) == (size, dataset, 3)
    assert config.model.attention.variant == "scaled_dot"
    reloaded = from_json(to_json(config))
    assert reloaded == config
    assert config_hash(reloaded) == config_hash(config)


def test_the_sizes() -> None:
    def shape(size: str) -> tuple:
        model = load_config(f"{FILE}:size={size}").model
        return model.dim, model.num_layers, model.num_heads, model.mlp_dim

    assert shape("tiny") == (64, 1, 4, 128)
    assert shape("base") == (512, 6, 8, 2048)
    assert load_config(FILE) == load_config(f"{FILE}:size=small")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("varient=linear", r"no config argument 'varient' \(did you mean 'variant'\?\).*size="),
        ("size=tny", r"size='tny': expected one of tiny, small, base \(did you mean 'tiny'\?\)"),
        ("dataset=turkish_treebnk", r"did you mean 'turkish_treebank'"),
        ("variant=scaled_dt", r"variant='scaled_dt'.*did you mean 'scaled_dot'"),
        ("seed=one", "seed='one': expected an int"),
        ("seed=-1", "seed='-1': expected an int, 0 or more"),
        ("tiny", "'tiny': expected key=value"),
    ],
)
def test_a_wrong_argument_gets_a_hint(argument: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_config(f"{FILE}:{argument}")


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([("optimizer.learning_rate", "1e-4")], {"optimizer.learning_rate": 1e-4}),
        ([("batch_size", "32")], {"batch_size": 32, "batch_tokens": None}),
        ([("train_steps", "10")], {"train_steps": 10, "train_epochs": None}),
        ([("model.attention.num_kv_heads", "2")], {"model.attention.num_kv_heads": 2}),
        ([("data.order_seed", "0")], {"data.order_seed": 0}),
    ],
)
def test_an_override_changes_that_key_alone(overrides: list, expected: dict) -> None:
    before = dict(leaves(load_config(FILE)))
    assert dict(leaves(load_config(FILE, overrides))) == {**before, **expected}


def test_the_variant_as_a_flag_gets_the_argument_as_a_hint() -> None:
    with pytest.raises(UserError) as caught:
        load_config(FILE, [("model.attention.variant", "linear")])
    assert str(caught.value).endswith(" --config=configs/pos_tagging.py:variant=linear")


def test_two_loads_share_nothing() -> None:
    first = load_config(FILE)
    first.seed, first.train_epochs = 99, 1.0
    assert (load_config(FILE).seed, load_config(FILE).train_epochs) != (99, 1.0)


def test_the_sweep_has_different_points_that_all_load() -> None:
    points = list(load_module(FILE).sweep())
    assert len(points) >= 12
    assert len({json.dumps(point, sort_keys=True) for point in points}) == len(points)
    hashes = {config_hash(load_config(FILE, point)) for point in points}
    assert len(hashes) == len(points)


def test_the_docstring_is_a_recipe() -> None:
    text = load_module(FILE).__doc__
    for part in (
        "python train.py --config=configs/pos_tagging.py",
        "variant=",
        "dataset=",
        "seed=",
    ):
        assert part in text
