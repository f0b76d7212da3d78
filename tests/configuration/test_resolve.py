"""Resolving what a config leaves open."""

import pytest
from ml_collections import ConfigDict

from attention.configuration import resolve
from attention.configuration.fields import duration

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("made_up_variants")]


def _config(variant: str = "scaled_dot", pack: str = "auto") -> ConfigDict:
    config = ConfigDict({"model": {"attention": {"variant": variant}}, "data": {"pack": pack}})
    config.eval_every_steps = duration("1epoch")
    return config


@pytest.mark.parametrize(
    ("variant", "pack", "expected"),
    [
        ("scaled_dot", "auto", "always"),
        ("mixing", "auto", "never"),
        ("recurrent", "auto", "never"),
        ("scaled_dot", "never", "never"),
    ],
)
def test_packing_follows_the_modes_of_the_variant(variant: str, pack: str, expected: str) -> None:
    assert resolve(_config(variant, pack)).data.pack == expected


def test_auto_means_the_saved_value_where_a_run_goes_on() -> None:
    saved = _config(pack="never")
    assert resolve(_config(), saved=saved).data.pack == "never"
    assert resolve(_config(pack="always"), saved=saved).data.pack == "always"


def test_the_original_is_left_alone_and_the_result_is_locked() -> None:
    config = _config()
    resolved = resolve(config)
    assert config.data.pack == "auto"
    assert config.eval_every_steps == "1epoch"
    assert resolved.eval_every_steps == "1epochs"
    assert resolved.is_locked
    assert resolve(resolved) == resolved
