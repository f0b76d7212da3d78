"""Overrides: dotted keys with the values that replace a config's defaults."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ml_collections import ConfigDict

from attention.configuration.arguments import merge_arguments
from attention.configuration.fields import kind, leaves, sections
from attention.configuration.values import coerce, parse_section
from attention.errors import UserError

# Of each pair one is set; the one set by an override wins over the other's default.
EXCLUSIVE = (("batch_size", "batch_tokens"), ("train_steps", "train_epochs"))

# Opposite ends of a direction: what one of them takes from the other changes places with it.
_OPPOSITE = ("data.source_language", "data.target_language")

# Other fields follow from these, so they are chosen where the config is made.
_CHOSEN_BY_ARGUMENT = {
    "model.attention.variant": ("variant", "the other keys of model.attention depend on it"),
    "model.decoder_attention.variant": (
        "decoder",
        "the other keys of model.decoder_attention depend on it",
    ),
    "model.cross_attention.variant": (
        "cross",
        "the other keys of model.cross_attention depend on it",
    ),
    "model.architecture": ("model", "the other keys of model depend on it"),
    "size": ("size", "the sizes of the model and the batch depend on it"),
    "dataset": ("dataset", "the defaults of the data depend on it"),
}


def apply_overrides(
    config: ConfigDict, overrides: Sequence[tuple[str, Any]], *, spec: str = ""
) -> ConfigDict:
    """Returns a copy of `config` with the dotted keys set; a later pair wins over an earlier.

    A dict given for a section is merged key by key. Links between fields are followed.

    Args:
      config: A config with its defaults.
      overrides: (dotted key, text or Python value) pairs.
      spec: The `--config=` value the config came from, for the error about a key that the config
        argument chooses.

    Raises:
      UserError: an unknown key (with the nearest one), a value of another type, a key that the
        config argument chooses, or both of two keys that exclude each other.
    """
    defaults, config = config, copy.deepcopy(config)
    given: dict[str, Any] = {}
    for key, value in _flattened(config, overrides):
        given[key] = _set(config, key, value, spec)
    for first, second in EXCLUSIVE:
        _settle(config, given, first, second)
    _turn_round(config, given, defaults)
    return config


def _flattened(config: ConfigDict, overrides: Iterable[tuple[str, Any]]) -> Iterator:
    """Yields (key of a leaf, value), going into dicts given for sections."""
    for key, value in overrides:
        if isinstance(_find(config, key), ConfigDict):
            inner = parse_section(key, value).items()
            yield from _flattened(config, [(f"{key}.{name}", item) for name, item in inner])
        else:
            yield key, value


def _find(config: ConfigDict, key: str) -> Any:
    """Returns the section or value at a dotted key."""
    here: Any = config
    parts = key.split(".")
    for depth, part in enumerate(parts):
        if not isinstance(here, ConfigDict):
            leaf = ".".join(parts[:depth])
            raise UserError(f"no config key '{key}': '{leaf}' is a value, not a section")
        if part not in here:
            raise UserError(f"no config key '{key}'{_nearest(config, key)}")
        here = here[part]
    return here


def _nearest(config: ConfigDict, key: str) -> str:
    """Returns the hint about the key that was meant, or the keys there are where it was sought."""
    section, _, last = key.rpartition(".")
    known = set(sections(config))
    # Within a section that exists only the last part can be wrong; a shared prefix says nothing.
    anywhere = section not in known
    best, best_score = "", 0.6
    for candidate in [*(name for name, _ in leaves(config)), *known]:
        if candidate in known and candidate.count(".") != key.count("."):
            continue  # a section is meant only where a key at its depth was typed
        whole = difflib.SequenceMatcher(None, key, candidate).ratio()
        ends = difflib.SequenceMatcher(None, last, candidate.rpartition(".")[2]).ratio()
        # Of two sections with that last part, the nearer one.
        score = (max(whole, ends) if anywhere else ends) + 0.01 * whole
        if score > best_score:
            best, best_score = candidate, score
    if best:
        return f" (did you mean '{best}'?)"
    inside: Any = config[section] if section in known else config
    where = section if section in known else "the config"
    if "variant" in inside:
        where = f"{where} (variant={inside.variant})"
    return f"; {where} has {', '.join(inside.keys())}"


def _set(config: ConfigDict, key: str, value: Any, spec: str) -> Any:
    section_key, _, name = key.rpartition(".")
    section = _find(config, section_key) if section_key else config
    current = section[name]
    value = coerce(key, value, kind(section, name), current=current)
    if key in _CHOSEN_BY_ARGUMENT and value != current:
        argument, reason = _CHOSEN_BY_ARGUMENT[key]
        if argument == "variant" and "model.decoder_attention" in set(sections(config)):
            argument = "encoder"  # one of three places: `variant` would change all
        raise UserError(
            f"{key}={value!r} cannot be set by itself, since {reason}; choose it in the config "
            f"argument: --config={_with_argument(config, spec, argument, value)}"
        )
    if key == "task" and value != current:
        raise UserError(f"task={value!r} cannot be set by itself: --config=configs/{value}.py")
    with section.ignore_type():  # coerce() has seen to the type
        section[name] = value
    return value


def _with_argument(config: ConfigDict, spec: str, name: str, value: str) -> str:
    """Returns the `--config=` value that chooses `name`: `spec` with the argument appended."""
    file, _, argument = spec.partition(":")
    try:
        chosen = merge_arguments(argument, f"{name}={value}")
    except UserError:  # not key=value pairs, but the run directory of configs/saved.py
        file, chosen = "", f"{name}={value}"
    return f"{file or f'configs/{config.task}.py'}:{chosen}"


def _settle(config: ConfigDict, given: dict[str, Any], first: str, second: str) -> None:
    """Lets the one of two exclusive keys that an override set win over the other's default."""
    chosen = [key for key in (first, second) if given.get(key) is not None]
    if len(chosen) == 2:
        raise UserError(
            f"{first}={given[first]!r} and {second}={given[second]!r} are both set: set only one"
        )
    if chosen:
        other = second if chosen == [first] else first
        if other in config:
            config[other] = None


def _turn_round(config: ConfigDict, given: dict[str, Any], defaults: ConfigDict) -> None:
    """Turns a direction round where an override names one end alone, by what the other end was."""
    before = dict(leaves(defaults))
    for key, other in (_OPPOSITE, _OPPOSITE[::-1]):
        chosen = given.get(key)
        if chosen is None or other in given or before.get(other) != chosen:
            continue
        section, _, name = other.rpartition(".")
        with _find(config, section).ignore_type():  # an end that was left open is None
            _find(config, section)[name] = before[key]
