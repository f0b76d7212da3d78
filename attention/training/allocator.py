"""Lets the C library keep the memory that XLA frees after each step on a CPU."""

from __future__ import annotations

import ctypes
import os
import sys

# From <malloc.h> of the GNU C library.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_LARGEST = 2**31 - 1


def give_back_freed_memory() -> None:
    """Gives memory that was kept back to the system; what is allocated next is mapped anew."""
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):  # of the GNU C library
        library.malloc_trim(0)


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
    # Blocks of up to 2 GiB stay on the heap; larger ones are mapped still, since a heap with holes
    # of that size would grow without end. One arena: others are limited in size and would map.
    settings = ((_MMAP_THRESHOLD, _LARGEST), (_TRIM_THRESHOLD, -1), (_ARENA_MAX, 1))
    return all([library.mallopt(name, value) == 1 for name, value in settings])
