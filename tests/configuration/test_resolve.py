"""Resolving what a config leaves open."""

from pathlib import Path

import pytest
from ml_collections import ConfigDict

from attention.configuration import continue_with, load_config, resolve
from attention.configuration.fields import duration, optional

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


def test_packing_needs_the_mode_of_every_attention_of_the_model() -> None:
    config = _config()
    config.model.decoder_attention = ConfigDict({"variant": "scaled_dot"})
    assert resolve(config).data.pack == "always"
    config.model.cross_attention = ConfigDict({"variant": "mixing"})
    assert resolve(config).data.pack == "never"
    del config.model
    assert resolve(config).data.pack == "never"


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


@pytest.mark.parametrize("typed", ["mine/x.conllu", "./mine/x.conllu", "mine/../mine/x.conllu"])
def test_paths_of_data_mean_the_same_file_in_any_directory(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = "configs/pos_tagging.py:size=tiny,dataset=files"
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    saved = load_config(spec, {"data.train_path": typed})
    assert saved.data.train_path == str(tmp_path / "mine" / "x.conllu")
    assert saved.data.eval_path is None
    monkeypatch.chdir(tmp_path / "mine")
    again = load_config(spec, {"data.train_path": "x.conllu"})
    assert continue_with(saved, again, where="runs/x") == saved
    assert resolve(saved) == saved


def test_a_path_may_begin_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = _config()
    config.data.test_path = optional("~/x.conllu", str)
    assert resolve(config).data.test_path == str(tmp_path / "x.conllu")
