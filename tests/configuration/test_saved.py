"""Configs as JSON and their hash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ml_collections import ConfigDict

from attention.configuration import config_hash, from_json, in_hash, read_saved, to_json
from attention.configuration.fields import kind, leaves
from attention.configuration.overrides import apply_overrides
from attention.errors import UserError

pytestmark = pytest.mark.fast


def test_a_saved_config_reloads_to_an_equal_one(config: ConfigDict) -> None:
    config.vocab_path = "dünya\u2028\U0001f600"
    config.optimizer.learning_rate = 0.1 + 0.2
    config.optimizer.nesterov = True
    reloaded = from_json(to_json(config))
    assert reloaded == config
    assert to_json(reloaded) == to_json(config)
    types = [type(value) for _, value in leaves(config)]
    assert [type(value) for _, value in leaves(reloaded)] == types


def test_the_types_of_optional_fields_are_kept(config: ConfigDict) -> None:
    config.batch_size = 8  # set now, and may be set back
    reloaded = from_json(to_json(config))
    for key in ("batch_size", "train_epochs", "vocab_path", "train_steps", "log_every_steps"):
        assert kind(reloaded, key) == kind(config, key)
    assert apply_overrides(reloaded, [("batch_size", "None")]).batch_size is None
    with pytest.raises(UserError, match="expected an int or None"):
        apply_overrides(reloaded, [("train_steps", "many")])


def test_any_legal_sequence_is_kept() -> None:
    config = ConfigDict({"a": (), "b": ({"c": 1, "d": (2.0,)},), "e": ((1, 2), ("x",))}).lock()
    assert from_json(to_json(config)) == config


def test_the_file_is_plain_nested_json(config: ConfigDict) -> None:
    document = json.loads(to_json(config))
    assert document["optimizer"]["learning_rate"] == 0.1
    assert document["batch_size"] is None
    assert "python/object" not in to_json(config)


def test_json_written_by_hand_needs_no_types() -> None:
    config = from_json('{"seed": 1, "model": {"dims": [1, 2]}}')
    assert dict(leaves(config)) == {"seed": 1, "model.dims": (1, 2)}
    epochs = from_json('{"train_epochs": 3, "__types__": {"train_epochs": "float"}}').train_epochs
    assert type(epochs) is float


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "here.json is not JSON"),
        ("[1]", "here.json: expected a JSON object, got list"),
        ('{"a": 1, "__types__": {"b": "int"}}', "here.json: __types__ has b='int'"),
        ('{"a": 1, "__types__": {"a": "complex"}}', "__types__ has a='complex'"),
        ('{"a": 1, "__types__": {"a.b": "int"}}', r"__types__ has a\.b='int'"),
        ('{"a": 1, "__types__": 3}', "here.json: __types__"),
        ('{"a.b": 1}', r"key 'a\.b'"),
    ],
)
def test_a_broken_file_is_named(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        from_json(text, source="here.json")


def test_a_run_directory_without_config_has_none(tmp_path: Path, config: ConfigDict) -> None:
    assert read_saved(tmp_path) is None
    assert read_saved(tmp_path / "absent") is None
    (tmp_path / "config.json").write_text(to_json(config), encoding="utf-8")
    assert read_saved(tmp_path) == config
    (tmp_path / "config.json").write_bytes(b"\xff\xff")
    with pytest.raises(UserError, match="not UTF-8"):
        read_saved(tmp_path)


def test_the_hash_is_of_the_values_that_change_the_result(config: ConfigDict) -> None:
    base = config_hash(config)
    assert len(base) >= 12
    assert int(base, 16) >= 0
    assert config_hash(from_json(to_json(config))) == base
    for key, value in [
        *(("seed", 1), ("train_steps", 9), ("train_epochs", 3.0), ("optimizer.learning_rate", 0.2)),
        *(("batch_size", 4), ("optimizer.warmup_steps", 7), ("model.attention.num_kv_heads", 2)),
        ("optimizer.betas", "0.98,0.9"),
    ]:
        assert config_hash(apply_overrides(config, [(key, value)])) != base, key
    assert config_hash(apply_overrides(config, [("log_every_steps", 999)])) == base


def test_what_the_hash_leaves_out() -> None:
    left_out = [
        *("log_every_steps", "eval_every_steps", "checkpoint_every_steps", "eval_batch_size"),
        *("parallelism", "mesh", "mesh.data", "model.attention.implementation"),
        "data.num_threads",
    ]
    hashed = ["seed", "train_steps", "train_epochs", "optimizer.warmup_steps", "data.pack", "dtype"]
    assert [key for key in left_out + hashed if in_hash(key)] == hashed


def test_the_hash_does_not_depend_on_the_order_of_the_fields() -> None:
    assert config_hash(ConfigDict({"a": 1, "b": {"c": 2, "d": 3}})) == config_hash(
        ConfigDict({"b": {"d": 3, "c": 2}, "a": 1})
    )
