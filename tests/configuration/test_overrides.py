"""Overrides of a config: types, names, sections, and keys that exclude each other."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from ml_collections import ConfigDict

from attention.configuration import load_config
from attention.configuration.fields import leaves, normalized, optional
from attention.configuration.overrides import apply_overrides
from attention.errors import UserError

pytestmark = pytest.mark.fast


def _value(config: ConfigDict, key: str, value: Any) -> Any:
    return apply_overrides(config, [(key, value)])[key]


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("seed", "3", 3),
        ("optimizer.learning_rate", "1e-3", 0.001),
        ("optimizer.learning_rate", "1", 1.0),
        ("optimizer.nesterov", "true", True),
        ("optimizer.nesterov", "True", True),
        ("optimizer.nesterov", "1", True),
        ("optimizer.nesterov", "0", False),
        ("optimizer.nesterov", "FALSE", False),
        ("task", "toy", "toy"),
        ("vocab_path", "/x", "/x"),
        ("vocab_path", "5", "5"),
        ("train_steps", "5", 5),
        ("train_epochs", "3", 3.0),
        ("log_every_steps", "20", 20),
        ("log_every_steps", "3epochs", "3epochs"),
        ("optimizer.warmup_steps", "100", 100),
        # Every way to write a sequence.
        ("optimizer.betas", "0.8,0.9", (0.8, 0.9)),
        ("optimizer.betas", "(0.8, 0.9)", (0.8, 0.9)),
        ("optimizer.betas", "[0.8,0.9]", (0.8, 0.9)),
        ("optimizer.betas", "0.8,1", (0.8, 1.0)),
        ("optimizer.betas", "0.8", (0.8,)),
        ("optimizer.betas", "()", ()),
        ("optimizer.layers", "4,5", (4, 5)),
        ("optimizer.decays", "2,0.25", (2.0, 0.25)),
        ("optimizer.frozen", "a,b", ("a", "b")),
        ("optimizer.frozen", "('a', 'b')", ("a", "b")),
        ("optimizer.empty", "1,x", None),
        ("optimizer.empty", "1,'x'", (1, "x")),
    ],
)
def test_text_is_read_by_the_type_of_the_field(
    config: ConfigDict, key: str, text: str, expected: Any
) -> None:
    if expected is None:
        with pytest.raises(UserError, match="separated by commas"):
            _value(config, key, text)
        return
    value = _value(config, key, text)
    assert value == expected
    assert type(value) is type(expected)
    if isinstance(expected, tuple):
        assert [type(item) for item in value] == [type(item) for item in expected]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("seed", np.int64(3), 3),
        ("optimizer.learning_rate", 2, 2.0),
        ("optimizer.learning_rate", np.float32(0.5), 0.5),
        ("optimizer.betas", [0.5, 1], (0.5, 1.0)),
        ("batch_size", None, None),
        ("log_every_steps", 5, 5),
    ],
)
def test_a_program_sets_python_values(
    config: ConfigDict, key: str, value: Any, expected: Any
) -> None:
    result = _value(config, key, value)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("seed", "abc", "expected an int, got 'abc'"),
        ("seed", "2.5", "expected an int, got '2.5'"),
        ("seed", 2.0, r"expected an int, got 2\.0"),
        ("seed", True, "expected an int, got True"),
        ("seed", "None", "expected an int, got 'None'"),
        ("seed", None, "expected an int, got None"),
        ("optimizer.learning_rate", "fast", "expected a float, such as 0.001, got 'fast'"),
        ("optimizer.learning_rate", True, "expected a float"),
        ("optimizer.nesterov", "yes", "expected true or false, got 'yes'"),
        ("optimizer.nesterov", 1, "expected true or false, got 1"),
        ("task", 3, "expected a string, got 3"),
        ("batch_size", "big", "expected an int or None, got 'big'"),
        ("optimizer.betas", "a,b", "expected values separated by commas"),
        ("optimizer.layers", "1.5,2", "expected values separated by commas"),
        ("optimizer.betas", 0.5, "expected values separated by commas"),
        ("log_every_steps", "often", "log_every_steps='often': expected an int"),
        ("log_every_steps", None, "log_every_steps=None: expected an int"),
    ],
)
def test_a_wrong_type_names_key_value_and_what_is_expected(
    config: ConfigDict, key: str, value: Any, expected: str
) -> None:
    with pytest.raises(UserError, match=expected) as caught:
        _value(config, key, value)
    assert key in str(caught.value)


@pytest.mark.parametrize("key", ["vocab_path", "train_steps", "batch_size"])
def test_an_optional_field_is_set_and_set_back_to_none(config: ConfigDict, key: str) -> None:
    changed = apply_overrides(config, [(key, "5")])
    assert changed[key] in (5, "5")
    assert apply_overrides(changed, [(key, "None")])[key] is None


def test_a_list_of_a_users_config_is_overridden_as_a_tuple() -> None:
    config = ConfigDict({"betas": [0.9, 0.98], "names": []})
    changed = normalized(apply_overrides(config, [("betas", "0.8,0.9"), ("names", "['a']")]))
    assert changed.betas == (0.8, 0.9)
    assert changed.names == ("a",)


def test_a_none_without_a_type_takes_any_literal() -> None:
    config = ConfigDict({"limit": None})
    texts = {"3": 3, "0.5": 0.5, "true": True, "(1, 2)": (1, 2), "x/y": "x/y", "None": None}
    assert [_value(config, "limit", text) for text in texts] == list(texts.values())


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("optimizer.learning_rte", "optimizer.learning_rate"),
        ("learning_rte", "optimizer.learning_rate"),
        ("learning_rate", "optimizer.learning_rate"),
        ("model.learning_rate", "optimizer.learning_rate"),
        ("optimiser.weight_decay", "optimizer.weight_decay"),
        ("sed", "seed"),
        ("optimzer", "optimizer"),
        ("model.atention.variant", "model.attention.variant"),
        ("model.atention", "model.attention"),
    ],
)
def test_a_mistyped_key_gets_the_nearest(config: ConfigDict, key: str, meant: str) -> None:
    with pytest.raises(UserError) as caught:
        _value(config, key, "1")
    assert str(caught.value) == f"no config key '{key}' (did you mean '{meant}'?)"


def test_an_option_of_another_variant_is_answered_with_those_there_are(config: ConfigDict) -> None:
    with pytest.raises(UserError) as caught:
        _value(config, "model.attention.bandwidth", "1")
    assert str(caught.value) == (
        "no config key 'model.attention.bandwidth'; model.attention (variant=scaled_dot) has "
        "num_kv_heads, variant"
    )


def test_a_key_below_a_value_is_refused(config: ConfigDict) -> None:
    with pytest.raises(UserError, match=r"'seed\.x': 'seed' is a value, not a section"):
        _value(config, "seed.x", "1")


@pytest.mark.parametrize(
    "value",
    ['{"learning_rate": 1}', "{'learning_rate': 1}", {"learning_rate": 1}, {"learning_rate": "1"}],
)
def test_a_dict_is_merged_key_by_key(config: ConfigDict, value: Any) -> None:
    changed = apply_overrides(config, [("optimizer", value)])
    assert changed.optimizer.learning_rate == 1.0
    assert dict(leaves(changed)) == {**dict(leaves(config)), "optimizer.learning_rate": 1.0}


def test_a_dict_is_merged_through_sections(config: ConfigDict) -> None:
    changed = apply_overrides(config, [("model", {"attention": {"num_kv_heads": 2}})])
    assert changed.model.attention.to_dict() == {"variant": "scaled_dot", "num_kv_heads": 2}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("3", r"'optimizer' is a section, got 3.*--config\.optimizer\.KEY=VALUE"),
        ("{learning_rate: 1}", "'optimizer' is a section"),
        ('{"learning_rte": 1}', r"did you mean 'optimizer\.learning_rate'"),
        ('{"learning_rate": "x"}', r"'optimizer\.learning_rate': expected a float"),
    ],
)
def test_a_wrong_section_value_is_refused(config: ConfigDict, value: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        apply_overrides(config, [("optimizer", value)])


@pytest.mark.parametrize(
    ("key", "argument"), [("model.attention.variant", "variant"), ("size", "size")]
)
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("configs/toy.py:", "configs/toy.py:{}=x"),
        ("configs/toy.py:seed=1", "configs/toy.py:seed=1,{}=x"),
        ("configs/toy.py:variant=y,size=z", None),
        ("configs/saved.py:runs/a", "configs/toy.py:{}=x"),
        ("", "configs/toy.py:{}=x"),
    ],
)
def test_what_the_argument_chooses_is_refused_with_the_argument(
    config: ConfigDict, key: str, argument: str, spec: str, expected: str | None
) -> None:
    if expected is None:
        kept = {"variant": "variant=x,size=z", "size": "variant=y,size=x"}
        expected = f"configs/toy.py:{kept[argument]}"
    with pytest.raises(UserError) as caught:
        apply_overrides(config, [(key, "x")], spec=spec)
    assert str(caught.value).startswith(f"{key}='x' cannot be set by itself")
    assert str(caught.value).endswith(f" --config={expected.format(argument)}")


def test_the_data_set_and_task_are_chosen_elsewhere_too(config: ConfigDict) -> None:
    with pytest.raises(UserError, match=r"--config=configs/toy\.py:dataset=x$"):
        apply_overrides(config, [("dataset", "x")], spec="configs/toy.py:")
    with pytest.raises(UserError, match=r"--config=configs/sentiment\.py$"):
        apply_overrides(config, [("task", "sentiment")])


TRANSLATION = "configs/translation.py:size=tiny"


@pytest.mark.parametrize(
    ("spec", "key", "value", "argument"),
    [
        (TRANSLATION, "model.architecture", "recurrent", "model"),
        (TRANSLATION, "model.attention.variant", "additive", "encoder"),
        (TRANSLATION, "model.decoder_attention.variant", "additive", "decoder"),
        (TRANSLATION, "model.cross_attention.variant", "additive", "cross"),
        (f"{TRANSLATION},model=recurrent", "model.architecture", "transformer", "model"),
        (f"{TRANSLATION},model=recurrent", "model.cross_attention.variant", "dot", "cross"),
        (f"{TRANSLATION},model=recurrent", "model", '{"architecture": "recurent"}', "model"),
    ],
)
def test_model_and_places_of_a_translator_are_chosen_by_the_argument(
    spec: str, key: str, value: str, argument: str
) -> None:
    with pytest.raises(UserError) as caught:
        load_config(spec, [(key, value)])
    assert "\n" not in str(caught.value)
    assert re.search(
        rf"cannot be set by itself.*--config=configs/trans\S*\b{argument}=", str(caught.value)
    )


def test_repeating_what_the_argument_chose_is_fine(config: ConfigDict) -> None:
    same = [("model.attention.variant", "scaled_dot"), ("size", "tiny"), ("dataset", "files")]
    assert dict(leaves(apply_overrides(config, same))) == dict(leaves(config))


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], (None, 2048)),
        ([("batch_size", "8")], (8, None)),
        ([("batch_tokens", "64")], (None, 64)),
        ([("batch_size", "8"), ("batch_size", "None")], (None, 2048)),
        ([("batch_size", "8"), ("batch_tokens", "None")], (8, None)),
        ([("batch_size", "None"), ("batch_tokens", "64")], (None, 64)),
    ],
)
def test_the_one_of_two_keys_that_is_set_wins(
    config: ConfigDict, overrides: list, expected: tuple
) -> None:
    changed = apply_overrides(config, overrides)
    assert (changed.batch_size, changed.batch_tokens) == expected


def test_setting_both_of_two_keys_is_refused(config: ConfigDict) -> None:
    with pytest.raises(UserError, match="batch_size=8 and batch_tokens=64 are both set"):
        apply_overrides(config, [("batch_size", "8"), ("batch_tokens", "64")])
    with pytest.raises(UserError, match=r"train_steps=5 and train_epochs=1\.0 are both set"):
        apply_overrides(config, [("train_epochs", 1), ("train_steps", 5)])


def test_steps_win_over_the_default_number_of_epochs(config: ConfigDict) -> None:
    changed = apply_overrides(config, [("train_steps", "5")])
    assert (changed.train_steps, changed.train_epochs) == (5, None)


@pytest.mark.parametrize(
    ("before", "overrides", "expected"),
    [
        (("zh", "en"), [("data.source_language", "en")], ("en", "zh")),
        (("zh", "en"), [("data.target_language", "zh")], ("en", "zh")),
        (("zh", "en"), [("data.source_language", "zh")], ("zh", "en")),
        (("zh", "en"), [("data.source_language", "fr")], ("fr", "en")),
        (
            ("zh", "en"),
            [("data.source_language", "en"), ("data.target_language", "fr")],
            ("en", "fr"),
        ),
        ((None, "en"), [("data.source_language", "en")], ("en", None)),
        ((None, None), [("data.source_language", "en")], ("en", None)),
    ],
)
def test_one_end_of_a_direction_turns_it_round(
    config: ConfigDict, before: tuple, overrides: list, expected: tuple
) -> None:
    names = ("source_language", "target_language")
    with config.unlocked():
        config.data = ConfigDict({name: optional(None, str) for name in names})
        config.data.update(dict(zip(names, before, strict=True)))
    changed = apply_overrides(config, overrides)
    assert tuple(changed.data[name] for name in names) == expected


def test_the_later_of_two_values_wins(config: ConfigDict) -> None:
    assert apply_overrides(config, [("seed", "1"), ("seed", "2")]).seed == 2


def test_the_original_is_left_alone(config: ConfigDict) -> None:
    before = dict(leaves(config))
    apply_overrides(config, [("batch_size", "8"), ("optimizer.learning_rate", "9")])
    assert dict(leaves(config)) == before


def test_links_between_fields_are_followed() -> None:
    config = ConfigDict({"width": 4})
    config.double = config.get_ref("width") * 2
    assert apply_overrides(config, [("width", "5")]).double == 10
