"""The config of an earlier run: `--config=configs/saved.py:runs/pos`.

    python train.py --config=configs/saved.py:runs/pos --workdir=runs/again --config.seed=1

The run's variant, data set and size stay as they were; every other key can be overridden.
"""

from __future__ import annotations

from ml_collections import ConfigDict

from attention.configuration.saved import read_saved
from attention.errors import UserError


def get_config(arg: str = "") -> ConfigDict:
    """Returns the config that the run in the directory `arg` saved."""
    if not arg:
        raise UserError("--config=configs/saved.py:WORKDIR needs a run directory")
    config = read_saved(arg)
    if config is None:
        raise UserError(f"no saved config in {arg}: expected {arg}/config.json")
    return config
