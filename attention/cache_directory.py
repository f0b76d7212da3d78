"""Where prepared data and compiled programs are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory(*parts: str) -> Path:
    """Returns a folder of the user's cache, which may not exist yet.

    `ATTENTION_LAB_CACHE` names it outright; else it is `attention-lab` under `XDG_CACHE_HOME`, or
    under `~/.cache` where that is not set.
    """
    chosen = os.environ.get("ATTENTION_LAB_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    root = Path(chosen) if chosen else Path(base) / "attention-lab"
    return root.expanduser().absolute().joinpath(*parts)
