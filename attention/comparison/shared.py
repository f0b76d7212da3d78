"""What the rows of a panel were all trained with, and in what they differ besides the mechanism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attention.comparison.grouping import REPLICATION, VARIANTS
from attention.comparison.rows import Chosen
from attention.configuration.saved import in_hash


def shared_settings(members: Sequence[Chosen]) -> list[str]:
    """The config keys with one value in all runs of all rows, as KEY=VALUE."""
    values = _values(members)
    return [f"{key}={next(iter(of.values()))}" for key, of in values.items() if _is_one(of)]


def differences(members: Sequence[Chosen]) -> list[str]:
    """What else sets the rows apart, a line a key: its value in each row.

    Options of the attention mechanisms and seeds are left out: they are what is compared, and what
    is averaged over.
    """
    lines = []
    for key, of in _values(members).items():
        if _is_one(of) or key.startswith(VARIANTS) or key in REPLICATION:
            continue
        rows: dict[str, list[str]] = {}
        for name, value in of.items():
            rows.setdefault(value, []).append(name)
        lines.append(f"{key}: " + "; ".join(f"{v} ({', '.join(n)})" for v, n in rows.items()))
    return lines


def _values(members: Sequence[Chosen]) -> Mapping[str, Mapping[str, str]]:
    """By key, the value of each row; of one whose runs differ, all of theirs."""
    found: dict[str, dict[str, str]] = {}
    for chosen in members:
        configs = [run.config for run in chosen.setting.runs.values()]
        for key in sorted({key for config in configs for key in config if in_hash(key)}):
            of = dict.fromkeys(_text(config.get(key, "–")) for config in configs)
            found.setdefault(key, {})[chosen.row.name] = ", ".join(of)
    names = [chosen.row.name for chosen in members]
    return {key: {name: of.get(name, "–") for name in names} for key, of in sorted(found.items())}


def _is_one(of: Mapping[str, str]) -> bool:
    return len(set(of.values())) == 1


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
