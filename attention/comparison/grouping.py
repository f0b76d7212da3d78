"""Which runs make one row: runs of one variant and setting, that differ in their seed.

Every config key is one of four kinds:

- replication: `seed` and `data.order_seed`. Runs that differ in nothing else are averaged.
- of no consequence: what `config_hash` leaves out (`*_every_steps`, the mesh, `implementation`, …).
- tuned: learning rate and the like (`TUNED`). Of a row's settings the best on dev is taken.
- all others: the setting. Each of its values has rows of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any

from attention.comparison.runs import COMPLETE, UNFINISHED, Run
from attention.configuration.saved import in_hash
from attention.errors import UserError, did_you_mean

TUNED = (
    *("optimizer.*", "label_smoothing", "*dropout_rate", "data.subword_regularisation"),
    *("batch_size", "batch_tokens"),
)
REPLICATION = ("seed", "data.order_seed")
# Said by the columns of every row, so not part of its setting.
_NAMED = ("task", "dataset", "size", "data.source_language", "data.target_language")
# Each value is other data, also to be scored on, under one name.
_OTHER_DATA = ("data.distance",)
# Each value is other data, if only to be trained on: no variant is compared with one that had more.
_PANELS = (*_OTHER_DATA, "data.train_examples")
VARIANTS = ("model.attention.", "model.decoder_attention.", "model.cross_attention.")

Items = tuple[tuple[str, Any], ...]


@dataclasses.dataclass(frozen=True)
class Block:
    """What is compared at all: one task on one data set (and one pair of languages)."""

    task: str
    dataset: str
    languages: str

    def __str__(self) -> str:
        return f"{self.task} on {self.dataset}{self.languages and ' ' + self.languages}"


@dataclasses.dataclass(frozen=True)
class Keys:
    """How config keys are taken, after the user's --tuned and --rows_by."""

    tuned: tuple[str, ...] = ()
    rows_by: tuple[str, ...] = ()

    @classmethod
    def of(cls, tuned: str, rows_by: str) -> Keys:
        """Reads the flags: names with commas between."""
        return cls(*(tuple(filter(None, text.split(","))) for text in (tuned, rows_by)))

    def is_tuned(self, key: str) -> bool:
        """Whether the best value is chosen on dev."""
        if _matches(key, self.rows_by):
            return False
        return _matches(key, (*self.tuned, *TUNED))

    def is_setting(self, key: str) -> bool:
        """Whether each value has its own rows."""
        return in_hash(key) and key not in (*REPLICATION, *_NAMED) and not self.is_tuned(key)


@dataclasses.dataclass
class Group:
    """The runs of one row, whatever their ending, and what sets it apart.

    `setting` holds all its setting keys; `shown` those whose values differ among the rows of its
    variant, `panel` those of them that are common to several variants.
    """

    block: Block
    variant: str
    size: str
    setting: Items
    runs: list[Run]
    shown: Items = ()
    panel: Items = ()


def group_runs(runs: Iterable[Run], keys: Keys) -> list[Group]:
    """Returns the groups, in order of their first run; runs without a config are left out."""
    groups: dict[Any, Group] = {}
    runs = [run for run in runs if "task" in run.config or run.result]
    check_keys(runs, keys)
    for run in runs:
        setting = tuple(sorted((k, _plain(k, v)) for k, v in run.config.items()
                               if keys.is_setting(k)))  # fmt: skip
        size = str(_named(run, "size") or "")
        key = (block_of(run), run.variant, size, setting)
        if key not in groups:
            groups[key] = Group(key[0], run.variant, size, setting, [])
        groups[key].runs.append(run)
    found = list(groups.values())
    _set_apart(found)
    return found


def block_of(run: Run) -> Block:
    """The task, the data set and the languages of a run."""
    languages = [run.config.get(f"data.{side}_language") for side in ("source", "target")]
    pair = "-".join(map(str, languages)) if all(languages) else ""
    return Block(str(_named(run, "task")), str(_named(run, "dataset")), pair)


def tuned_items(run: Run, keys: Keys) -> Items:
    """The tuned keys of a run with their values."""
    return tuple(sorted((k, v) for k, v in run.config.items() if in_hash(k) and keys.is_tuned(k)))


def replicate(run: Run) -> str:
    """What names a run among those of its setting: its seed, and that of its data order if set."""
    order = run.config.get("data.order_seed")
    return f"{run.seed}" if order is None else f"{run.seed}/{order}"


def differing(items: Sequence[Items]) -> set[str]:
    """The keys that do not have one value in all of the items."""
    values: dict[str, set[Any]] = {}
    count: dict[str, int] = {}
    for entries in items:
        for key, value in entries:
            values.setdefault(key, set()).add(value)
            count[key] = count.get(key, 0) + 1
    return {key for key in values if len(values[key]) > 1 or count[key] < len(items)}


def describe(items: Items) -> str:
    """Items as a reader wants them: `learning_rate=0.003, window=8`."""
    return ", ".join(f"{_short(key)}={_value(value)}" for key, value in items)


def check_keys(runs: Sequence[Run], keys: Keys) -> None:
    """Raises UserError for a key of --tuned or --rows_by that no run has."""
    known = {key for run in runs for key in run.config}
    for flag, given in (("--tuned", keys.tuned), ("--rows_by", keys.rows_by)):
        for name in given:
            if not any(_matches(key, (name,)) for key in known):
                hint = did_you_mean(name, known)
                raise UserError(f"{flag}={name}: no run has such a config key{hint}")


def _set_apart(groups: list[Group]) -> None:
    """Fills in what distinguishes rows of one variant, and which of it makes panels.

    A key with at least two values that two variants share (a number of layers), or that says which
    data there are (the size of the training set), makes a panel of each value; one that varies
    within a variant alone (its window) only labels its rows.
    """
    bases: dict[Any, dict[str, list[Group]]] = {}
    for group in groups:
        variants = bases.setdefault((group.block, group.size), {})
        variants.setdefault(group.variant, []).append(group)
    for variants in bases.values():
        every = [group.setting for members in variants.values() for group in members]
        apart = _common_keys(list(variants.values())) | (differing(every) & set(_PANELS))
        for members in variants.values():
            shown = differing([group.setting for group in members])
            for group in members:
                group.shown = tuple((k, v) for k, v in group.setting if k in shown)
                group.panel = tuple((k, v) for k, v in group.setting if k in apart)


def _common_keys(variants: Sequence[Sequence[Group]]) -> set[str]:
    values: list[dict[str, set[Any]]] = []
    for members in variants:
        own: dict[str, set[Any]] = {}
        for group in members:
            for key, value in group.setting:
                if not key.startswith(VARIANTS):
                    own.setdefault(key, set()).add(value)
        values.append(own)
    pairs = [(a, b) for i, a in enumerate(values) for b in values[i + 1 :]]
    return {key for a, b in pairs for key in a.keys() & b.keys() if len(a[key] & b[key]) > 1}


def check_not_mixed(groups: Sequence[Group], *, include_running: bool = False) -> list[str]:
    """Returns one line for each mixture of data; none is as it should be.

    Runs of a block must be scored on the same files in the same way (`eval_hash`), except where a
    key says that the data are others, which makes panels of their own; runs of a row must be
    trained on the same files (`data_hash`).
    """
    lines = []
    blocks: dict[tuple[Block, Items], list[Run]] = {}
    for group in groups:
        counts = (COMPLETE, *UNFINISHED) if include_running else (COMPLETE,)
        counted = [run for run in group.runs if run.status in counts]
        data = tuple(item for item in group.setting if item[0] in _OTHER_DATA)
        blocks.setdefault((group.block, data), []).extend(counted)
        if line := _mixture(counted, "data_hash"):
            lines.append(f"{group.variant}, {group.block}: its runs have different data_hash, so "
                         f"were trained on different data: {line}")  # fmt: skip
    for (block, _), runs in blocks.items():
        if line := _mixture(runs, "eval_hash"):
            lines.append(f"{block}: runs have different eval_hash, so were scored on different "
                         f"data or in different ways: {line}")  # fmt: skip
    return lines


def _mixture(runs: Sequence[Run], key: str) -> str:
    by_hash: dict[str, list[str]] = {}
    for run in runs:
        by_hash.setdefault(str(run.result.get(key)), []).append(run.workdir)
    if len(by_hash) < 2:
        return ""
    return "; ".join(
        f"{value[:12]} ({', '.join(names[:3])}{f' and {len(names) - 3} more' * (len(names) > 3)})"
        for value, names in by_hash.items()
    )


def _named(run: Run, key: str) -> Any:
    return run.result.get(key, run.config.get(key))


def _plain(key: str, value: Any) -> Any:
    """A value as it is compared: data files by their names, since folders differ by machine."""
    if key.startswith("data.") and key.endswith("_path") and value:
        return PurePath(str(value)).name
    return value


def _matches(key: str, patterns: Iterable[str]) -> bool:
    """Whether a key is named by a pattern: itself, a section it is in, or with `*`."""
    return any(fnmatchcase(key, p) or key.startswith(f"{p}.") for p in patterns)


def _value(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _short(key: str) -> str:
    return key.rpartition(".")[2]


def as_mapping(items: Items) -> Mapping[str, Any]:
    """Items as JSON has them."""
    return {key: list(v) if isinstance(v, tuple) else v for key, v in items}
