"""What a worker lets go of between its trials."""

from __future__ import annotations

import jax
import pytest

from attention.sweeping import worker


@pytest.mark.fast
def test_memory_is_freed_when_another_program_begins_and_much_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    freed = []
    monkeypatch.setattr(jax, "clear_caches", lambda: freed.append(True))
    shared = worker._shared()
    monkeypatch.setattr(worker, "MOST_MEMORY", 1 << 60)
    for program in ("one", "two"):
        shared.begin(program)
    assert not freed
    monkeypatch.setattr(worker, "MOST_MEMORY", 0)
    for program in ("two", "two", "three", "three"):
        shared.begin(program)
    assert len(freed) == 1
