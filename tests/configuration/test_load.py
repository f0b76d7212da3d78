"""Loading configs from files: where they are sought, and what can be wrong with them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from attention.configuration import config_hash, from_json, load_config, load_module, to_json
from attention.configuration.load import Spec, parse_spec
from attention.errors import UserError

pytestmark = pytest.mark.fast

SPEC = "configs/pos_tagging.py:size=tiny"


def _write(folder: Path, body: str, name: str = "mine.py") -> str:
    path = folder / name
    path.write_text(body, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("configs/x.py", Spec("configs/x.py", "")),
        ("configs/x.py:", Spec("configs/x.py", "")),
        ("configs/x.py:a=1,b=2", Spec("configs/x.py", "a=1,b=2")),
        ("/a/saved.py:/b:c/d.py", Spec("/a/saved.py", "/b:c/d.py")),
    ],
)
def test_the_argument_begins_at_the_first_colon_behind_py(text: str, expected: Spec) -> None:
    assert parse_spec(text) == expected


def test_something_that_is_no_python_file_is_refused() -> None:
    with pytest.raises(UserError, match=r"^--config=configs/x: expected FILE\.py"):
        load_config("configs/x")


def test_a_relative_path_is_found_from_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = config_hash(load_config(SPEC))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", ".")])
    assert config_hash(load_config(SPEC)) == before


def test_the_current_directory_comes_before_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "configs").mkdir()
    _write(tmp_path / "configs", "NAME = 'own'", "pos_tagging.py")
    monkeypatch.chdir(tmp_path)
    assert load_module("configs/pos_tagging.py").NAME == "own"


def test_a_config_elsewhere_builds_on_one_of_the_repository(tmp_path: Path) -> None:
    body = (
        "from configs import pos_tagging\n"
        "def get_config(arg=''):\n"
        "    config = pos_tagging.get_config(arg)\n"
        "    config.optimizer.learning_rate = 0.5\n"
        "    return config\n"
    )
    config = load_config(f"{_write(tmp_path, body)}:size=tiny", [("seed", "3")])
    assert (config.optimizer.learning_rate, config.seed, config.size) == (0.5, 3, "tiny")


def test_importing_a_config_leaves_the_search_path_as_it_was() -> None:
    before = list(sys.path)
    load_config(SPEC)
    assert sys.path == before


@pytest.mark.parametrize("name", ["configs/pos_taging.py", "pos_tagging.py"])
def test_a_missing_file_gets_the_nearest(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"did you mean 'configs/pos_tagging\.py'"):
        load_config(name)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def get_config(:\n", r"mine\.py:1: invalid syntax"),
        ("x = 1\ny = 1 / 0\n", r"mine\.py:2: ZeroDivisionError: division by zero"),
        ("x = 1\n", r"mine\.py has no get_config\(arg\)"),
        ("def get_config():\n    return 3\n", r"must return a ConfigDict, got int"),
        ("import nosuchmodule\n", r"mine\.py:1: ModuleNotFoundError.*nosuchmodule"),
        (
            "def get_config():\n    return {'model': {0: 1, 'a': 2}}\n",
            r"section 'model' has the key 0 \(int\)",
        ),
        (
            "from ml_collections import ConfigDict\n"
            "def get_config():\n    return ConfigDict({'model': {0: 1, 'a': 2}})\n",
            r"section 'model' has the key 0 \(int\)",
        ),
        ("def get_config():\n    return {'a': {'b': object()}}\n", r"field 'a\.b' holds"),
    ],
)
def test_a_broken_config_file_is_one_clear_line(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load_config(_write(tmp_path, body))
    assert "\n" not in str(caught.value)


def test_an_argument_for_a_config_without_one_is_refused(tmp_path: Path) -> None:
    file = _write(tmp_path, "def get_config():\n    return {'seed': 0}\n")
    assert load_config(file, {"seed": 2}).seed == 2
    with pytest.raises(UserError, match="takes no argument, got 'size=tiny'"):
        load_config(f"{file}:size=tiny")


def test_a_config_with_every_legal_sequence_starts_and_is_saved(tmp_path: Path) -> None:
    body = (
        "from configs import pos_tagging\n"
        "def get_config(arg=''):\n"
        "    config = pos_tagging.get_config(arg).unlock()\n"
        "    config.a, config.b, config.c = (), [], ({'b': 1},)\n"
        "    return config\n"
    )
    config = load_config(_write(tmp_path, body), [("b", "[1, 2]")])
    assert (config.a, config.b, config.c) == ((), (1, 2), ({"b": 1},))
    assert from_json(to_json(config)) == config


def test_a_sweep_point_merges_its_argument_and_counts_as_set() -> None:
    point = {"arg": "seed=7,size=tiny", "optimizer.learning_rate": 0.25, "train_steps": 5}
    config = load_config("configs/pos_tagging.py:seed=1,dataset=files", point)
    assert (config.seed, config.size, config.dataset) == (7, "tiny", "files")
    assert (config.train_steps, config.train_epochs) == (5, None)
    assert config.optimizer.learning_rate == 0.25


def test_a_sweep_point_is_not_used_up() -> None:
    point = {"arg": "seed=7"}
    load_config(SPEC, point)
    assert point == {"arg": "seed=7"}


def test_a_sweep_point_with_both_of_two_keys_is_refused() -> None:
    with pytest.raises(UserError, match="are both set"):
        load_config(SPEC, {"batch_size": 4, "batch_tokens": 2048})


def test_arg_on_the_command_line_is_no_key() -> None:
    with pytest.raises(UserError, match="no config key 'arg'"):
        load_config(SPEC, [("arg", "seed=1")])


def test_auto_takes_the_value_of_the_run_that_goes_on() -> None:
    saved = load_config(SPEC, {"data.pack": "never"})
    assert load_config(SPEC).data.pack == "always"
    assert load_config(SPEC, saved=saved).data.pack == "never"


def test_the_result_is_locked() -> None:
    with pytest.raises(AttributeError):
        load_config(SPEC).optimizer.learning_rte = 1.0
