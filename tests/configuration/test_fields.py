"""The fields of a config: kinds, defaults from a dataclass, plain copies."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from ml_collections import ConfigDict, FieldReference

from attention.configuration.fields import Kind, kind, leaves, normalized, section_of
from attention.errors import UserError

pytestmark = pytest.mark.fast


@dataclasses.dataclass(frozen=True)
class _Options:
    width: int = 4
    scale: float | None = None
    heads: int | None = 2
    window: int | tuple[int, int] = 3
    rates: tuple[float, ...] = (0.1, 0.2)
    names: tuple[str, ...] = dataclasses.field(default_factory=lambda: ("a",))


def test_a_dataclass_gives_its_defaults_with_their_types() -> None:
    section = section_of(_Options)
    assert _Options(**section) == _Options()
    assert kind(section, "width") == Kind(int, False)
    assert kind(section, "scale") == Kind(float, True)
    assert kind(section, "heads") == Kind(int, True)
    assert kind(section, "window").type is object
    assert kind(section, "rates") == Kind(tuple, False)
    assert isinstance(section.names, tuple)


def test_a_dataclass_field_without_default_is_refused() -> None:
    with pytest.raises(TypeError, match=r"_Wrong\.size"):
        section_of(dataclasses.make_dataclass("_Wrong", [("size", int)]))


def test_a_copy_shares_nothing_and_keeps_the_kinds(config: ConfigDict) -> None:
    before = dict(leaves(config))
    copy = normalized(config)
    assert dict(leaves(copy)) == before
    copy.batch_size = 3
    copy.optimizer.learning_rate = 7.0
    assert dict(leaves(config)) == before
    assert kind(copy, "batch_size") == Kind(int, True)
    assert kind(copy, "vocab_path") == Kind(str, True)


def test_lists_become_tuples_at_any_depth() -> None:
    config = ConfigDict({"a": [], "b": {"c": [1, [2, 3]]}, "d": ({"e": [4]},)})
    assert dict(leaves(normalized(config))) == {"a": (), "b.c": (1, (2, 3)), "d": ({"e": (4,)},)}


def test_numpy_scalars_that_are_floats_become_plain() -> None:
    copy = normalized(ConfigDict({"rate": np.float64(0.5)}))
    assert type(copy.rate) is float


def test_links_between_fields_become_their_values() -> None:
    config = ConfigDict({"width": 4})
    config.double = config.get_ref("width") * 2
    assert normalized(config).double == 8


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({0: 1}, r"the config has the key 0 \(int\)"),
        ({"a": {"b": {0: 1, "c": 2}}}, r"section 'a\.b' has the key 0 \(int\)"),
        ({"a": ({1: 2},)}, r"section 'a\[0\]' has the key 1 \(int\)"),
        ({"a": {"": 1}}, "section 'a' has the key ''"),
        ({"a": {"b": {1, 2}}}, r"field 'a\.b' holds .* \(set\)"),
        ({"a": (1, len)}, r"field 'a\[1\]' holds .* \(builtin_function_or_method\)"),
        ({"a": np.zeros(2)}, r"field 'a' holds .* \(ndarray\)"),
    ],
)
def test_what_a_config_cannot_hold_is_named(fields: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        normalized(ConfigDict(fields))


def test_a_duration_takes_strings_and_ints_however_it_was_declared() -> None:
    copy = normalized(ConfigDict({"eval_every_steps": 5, "train_steps": 5}))
    copy.eval_every_steps = "5%"
    with pytest.raises(TypeError):
        copy.train_steps = "5%"


def test_references_are_not_shared_with_the_original() -> None:
    config = ConfigDict({"a": FieldReference(1)})
    copy = normalized(config)
    copy.a = 2
    assert config.a == 1
