"""How much of the host's memory is this process's."""

from __future__ import annotations

import os

WORKERS = "ATTENTION_LAB_WORKERS"  # how many workers of one sweep share the host; unset: one


def host_memory() -> int:
    """The bytes of this host's memory, shared out evenly among the workers of a sweep."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return total // int(os.environ.get(WORKERS, "1"))
