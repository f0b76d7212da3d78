"""Loading a config: from `--config=FILE.py:argument` and overrides to a checked, resolved one."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ml_collections import ConfigDict

import attention
from attention.configuration.arguments import merge_arguments
from attention.configuration.check import check
from attention.configuration.fields import leaves, normalized
from attention.configuration.new_runs import check_new_run
from attention.configuration.overrides import apply_overrides
from attention.configuration.resolve import resolve
from attention.errors import UserError, did_you_mean

_ROOT = Path(attention.__file__).resolve().parents[1]


class Spec(NamedTuple):
    """A `--config=` value: the file as it was typed, and the argument after the colon."""

    file: str
    argument: str


def parse_spec(text: str) -> Spec:
    """Splits "configs/x.py:key=value,..." at the colon behind `.py`."""
    head, colon, argument = text.partition(".py:")
    if colon:
        return Spec(f"{head}.py", argument)
    if text.endswith(".py"):
        return Spec(text, "")
    raise UserError(f"--config={text}: expected FILE.py or FILE.py:key=value,...")


def load_config(
    spec: str,
    overrides: Sequence[tuple[str, str]] | Mapping[str, Any] = (),
    *,
    saved: ConfigDict | None = None,
) -> ConfigDict:
    """Returns the checked, resolved and locked config of a `--config=` value and overrides.

    Args:
      spec: "configs/pos_tagging.py:size=tiny". A relative path is looked for in the current
        directory, then in the repository.
      overrides: (dotted key, text) pairs of a command line, or a sweep point: a dict of dotted
        keys, in which `arg` is merged over the argument key by key.
      saved: The config of the run that is to go on, from which `auto` values are taken.

    Raises:
      UserError: anything wrong with the file, the argument, the keys or the values.
    """
    file, argument = parse_spec(spec)
    if isinstance(overrides, Mapping):
        point = dict(overrides)
        argument = merge_arguments(argument, point.pop("arg", ""))
        overrides = list(point.items())
    defaults = _call_get_config(file, argument)
    config = apply_overrides(defaults, overrides, spec=f"{file}:{argument}")
    config = normalized(config)
    check(config)
    if saved is None:
        check_new_run(dict(leaves(config)))
    return resolve(config, saved=saved)


def _call_get_config(file: str, argument: str) -> ConfigDict:
    get_config = getattr(load_module(file), "get_config", None)
    if get_config is None:
        raise UserError(f"{file} has no get_config(arg)")
    takes_argument = bool(inspect.signature(get_config).parameters)
    if argument and not takes_argument:
        raise UserError(f"{file}: its get_config() takes no argument, got {argument!r}")
    config = _run_user_code(file, lambda: get_config(argument) if takes_argument else get_config())
    if isinstance(config, dict):
        config = normalized(config)
    if not isinstance(config, ConfigDict):
        raise UserError(
            f"{file}: get_config() must return a ConfigDict, got {type(config).__name__}"
        )
    normalized(config)  # names wrong keys and values before overrides go through them
    return config


def load_sweep(file: str) -> Any:
    """Returns what `sweep()` of a config file gives: its points as a list, or a `SearchSpace`.

    Raises:
      UserError: the file has no sweep(), or it fails.
    """
    sweep = getattr(load_module(file), "sweep", None)
    if sweep is None:
        raise UserError(f"{file} has no sweep(): it yields points, as configs/pos_tagging.py does")

    def run() -> Any:
        made = sweep()
        return list(made) if isinstance(made, Iterator) else made

    return _run_user_code(file, run)


def load_module(file: str) -> ModuleType:
    """Returns a config file as a module, run anew; `configs.common` can be imported in it.

    Raises:
      UserError: if the file is not there (with the nearest name), or fails (with its line).
    """
    path = _find(file)
    name = f"config_{path.stem}"
    module_spec = importlib.util.spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise UserError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(module_spec)
    loader = module_spec.loader
    _run_user_code(file, lambda: loader.exec_module(module))
    return module


def _find(file: str) -> Path:
    typed = Path(file).expanduser()
    for path in (typed.absolute(), _ROOT / typed):
        if path.is_file():
            return path
    here = sorted((_ROOT / "configs").rglob("*.py"))
    parts = ("common", "parts", "__init__")  # of config files, and none themselves
    names = [path.relative_to(_ROOT).as_posix() for path in here if path.stem not in parts]
    raise UserError(
        f"no config file '{file}'{did_you_mean(file, names)}; there are {', '.join(names)}"
    )


@contextmanager
def _repository_importable() -> Iterator[None]:
    """Lets config files import `configs.common` from any current directory."""
    sys.path.insert(0, str(_ROOT))
    try:
        yield
    finally:
        sys.path.remove(str(_ROOT))


def _run_user_code(file: str, run: Callable[[], Any]) -> Any:
    """Runs part of a config file; whatever it raises becomes one line with the file's line."""
    try:
        with _repository_importable():
            return run()
    except UserError:
        raise
    except SyntaxError as error:
        raise UserError(f"{file}:{error.lineno}: {error.msg}") from error
    except Exception as error:
        path = str(_find(file))
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
        where = f"{file}:{lines[-1]}" if lines else file
        logging.debug("%s failed", file, exc_info=True)
        raise UserError(f"{where}: {type(error).__name__}: {error}") from error
