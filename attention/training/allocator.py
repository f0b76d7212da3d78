"""Lets the C library keep the memory that XLA frees after each step on a CPU."""

from __future__ import annotations

import ctypes
import os
import sys

# From <malloc.h> of the GNU C library.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8


def keep_freed_memory() -> bool:
    """Tells glibc not to give freed memory back to the system; returns whether it was told.

    XLA allocates the temporary memory of a step anew each time. By default glibc maps blocks of
    that size from the system and unmaps them when they are freed, so every step pays for clearing
    and mapping the same pages: a fifth to a third of an attention layer's time. The price is that
    the process keeps its peak. Settings of the user's (`MALLOC_*`) are left alone.
    """
    if not sys.platform.startswith("linux") or any(k.startswith("MALLOC_") for k in os.environ):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):  # another C library, such as musl
        return False
    # One arena, grown in place: others are limited in size and would map again.
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1), (_ARENA_MAX, 1))
    return all([library.mallopt(name, value) == 1 for name, value in settings])
