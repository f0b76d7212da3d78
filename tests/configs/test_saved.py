"""Starting from the config of an earlier run."""

from __future__ import annotations

from pathlib import Path

import pytest
from ml_collections import ConfigDict

from attention.configuration import config_hash, load_config, to_json
from attention.errors import UserError

pytestmark = pytest.mark.fast


@pytest.fixture
def run(tmp_path: Path) -> tuple[Path, ConfigDict]:
    config = load_config(
        "configs/pos_tagging.py:size=tiny,seed=5",
        [("batch_size", "8"), ("log_every_steps", "5%"), ("optimizer.learning_rate", "0.3")],
    )
    (tmp_path / "config.json").write_text(to_json(config), encoding="utf-8")
    return tmp_path, config


def test_the_config_and_its_hash_are_the_same(run: tuple[Path, ConfigDict]) -> None:
    workdir, config = run
    again = load_config(f"configs/saved.py:{workdir}")
    assert again == config
    assert config_hash(again) == config_hash(config)
    assert to_json(again) == to_json(config)


def test_a_relative_directory_is_sought_from_the_current_one(
    run: tuple[Path, ConfigDict], monkeypatch: pytest.MonkeyPatch
) -> None:
    workdir, config = run
    monkeypatch.chdir(workdir.parent)
    assert load_config(f"configs/saved.py:{workdir.name}") == config


def test_overrides_work_as_on_a_new_config(run: tuple[Path, ConfigDict]) -> None:
    overrides = [("batch_tokens", "256"), ("train_steps", "7"), ("eval_every_steps", "3")]
    config = load_config(f"configs/saved.py:{run[0]}", overrides)
    assert (config.batch_size, config.batch_tokens) == (None, 256)
    assert (config.train_steps, config.train_epochs) == (7, None)
    assert config.eval_every_steps == 3


def test_the_variant_cannot_change(run: tuple[Path, ConfigDict]) -> None:
    with pytest.raises(UserError, match=r"--config=configs/pos_tagging\.py:variant=linear$"):
        load_config(f"configs/saved.py:{run[0]}", [("model.attention.variant", "linear")])


def test_a_sweep_argument_does_not_fit(run: tuple[Path, ConfigDict]) -> None:
    with pytest.raises(UserError, match="expected key=value"):
        load_config(f"configs/saved.py:{run[0]}", {"arg": "seed=1"})


def test_a_directory_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"no saved config in {tmp_path}/x"):
        load_config(f"configs/saved.py:{tmp_path}/x")
    with pytest.raises(UserError, match="needs a run directory"):
        load_config("configs/saved.py")
