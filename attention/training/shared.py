"""What runs of one process have in common: data, its encoding, the vocabulary, compiled steps.

Only runs whose configs differ in nothing but numbers (`configuration.program_of`) share anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any


class Shared:
    """Things made once and kept for the next run; another program's are forgotten first.

    Threads may ask at once: one makes a thing, the others wait for it.

    Args:
      forgotten: called when the things of a program have been let go of for another's.
    """

    def __init__(self, forgotten: Callable[[], None] = lambda: None) -> None:
        self._forgotten = forgotten
        self._program: str | None = None
        self._things: dict[Hashable, Any] = {}
        self._lock = threading.RLock()

    def begin(self, program: str) -> None:
        """Says which program the next run has."""
        with self._lock:
            if program != self._program:
                had_one, self._program, self._things = bool(self._program), program, {}
                if had_one:
                    self._forgotten()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns what was made under this key, or makes it."""
        with self._lock:
            if key not in self._things:
                self._things[key] = make()
            return self._things[key]
