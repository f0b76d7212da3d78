"""Flags: a command line with flag files and `--config.KEY=VALUE` pairs, checked word by word."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from attention.errors import UserError, did_you_mean

_CONFIG = "--config."
_CONFIG_HELP = "sets one, as in --config.optimizer.learning_rate=1e-3"
_FLAGFILE = "--flagfile"
_FLAGFILE_HELP = "reads flags from a file: one flag a line, # begins a comment line"


def parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Parses a command line.

    Where the parser has a `--config` flag, the result's `overrides` is the list of (dotted key,
    text) pairs of all `--config.KEY=VALUE` or `--config.KEY VALUE`, in order.

    Raises:
      UserError: an unknown flag (with the nearest one), a missing or wrong value, or a flag file
        that cannot be read.
      SystemExit: with status 0, after `--help` has printed the flags.
    """
    takes_config = "--config" in parser._option_string_actions
    _prepare(parser, takes_config)
    words = _expanded(words, seen=())
    if takes_config:
        words, overrides = _split_overrides(words)
    _check_known(parser, words)
    arguments, rest = parser.parse_known_args(words)
    if rest:
        raise UserError(f"unexpected argument {rest[0]!r}; see {parser.prog} --help")
    vars(arguments).pop("flagfile")
    if takes_config:
        arguments.overrides = overrides
    return arguments


def _prepare(parser: argparse.ArgumentParser, takes_config: bool) -> None:
    """Adds the flags that all commands share, once."""

    def refuse(message: str) -> NoReturn:
        raise UserError(f"{message}; see {parser.prog} --help")

    parser.allow_abbrev = False
    parser.error = refuse
    if _FLAGFILE in parser._option_string_actions:
        return
    parser.add_argument(_FLAGFILE, metavar="FILE", help=_FLAGFILE_HELP)
    if takes_config:  # for --help alone: these words are taken out before argparse sees them
        parser.add_argument_group("config keys", f"{_CONFIG}KEY=VALUE {_CONFIG_HELP}")


def _expanded(words: Sequence[str], seen: tuple[Path, ...]) -> list[str]:
    """Puts the words of flag files in place of `--flagfile=FILE` and `--flagfile FILE`."""
    result: list[str] = []
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        if word == "--":
            return [*result, word, *remaining]
        name, equals, file = word.partition("=")
        if name != _FLAGFILE:
            result.append(word)
            continue
        if not equals:
            if not remaining:
                raise UserError(f"{_FLAGFILE} needs a file: {_FLAGFILE}=FILE")
            file = remaining.pop(0)
        path = Path(file).expanduser().resolve()
        if path in seen:
            raise UserError(f"{_FLAGFILE}={file} reads itself")
        result += _expanded(_read_flagfile(file, path), (*seen, path))
    return result


def _read_flagfile(file: str, path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UserError(f"cannot read {_FLAGFILE}={file}: {reason}") from None
    words = []
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if not line.startswith("-"):
            raise UserError(f"{file}:{number}: expected a flag such as --name=value, got {line!r}")
        name, *value = line.split(maxsplit=1)
        words += [name, *value] if value and "=" not in name else [line]
    return words


def _split_overrides(words: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Takes the config overrides out of a command line."""
    others: list[str] = []
    overrides: list[tuple[str, str]] = []
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        if word == "--":
            return [*others, word, *remaining], overrides
        if not word.startswith(_CONFIG):
            others.append(word)
            continue
        name, equals, value = word.partition("=")
        if not equals:
            if not remaining or remaining[0].startswith("--"):
                raise UserError(f"{name} needs a value: {name}=VALUE")
            value = remaining.pop(0)
        key = name.removeprefix(_CONFIG)
        if not key:
            raise UserError(f"{word!r} names no config key: {_CONFIG}KEY=VALUE")
        overrides.append((key, value))
    return others, overrides


def _check_known(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Names an unknown flag, before argparse complains about what is missing because of it."""
    known = list(parser._option_string_actions)
    for word in words:
        if word == "--":
            return
        name = word.partition("=")[0]
        if not name.startswith("--") or name in known:
            continue
        if name.startswith(_CONFIG):
            hint = did_you_mean(f"--{name.rpartition('.')[2]}", known)
            raise UserError(f"{parser.prog} takes no config, so no {name}{hint}")
        hint = did_you_mean(name.partition(".")[0], known)
        raise UserError(f"no flag '{name}'{hint}; see {parser.prog} --help")
