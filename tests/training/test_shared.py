"""What runs of one process share, and when it is let go."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from attention.training.shared import Shared

pytestmark = pytest.mark.fast


def test_a_thing_is_made_once_until_it_is_forgotten_or_another_program_begins():
    shared, made = Shared(), []

    def make() -> int:
        made.append(len(made))
        return made[-1]

    shared.begin("one")
    assert [shared.get("thing", make), shared.get("thing", make)] == [0, 0]
    shared.begin("one")
    assert shared.get("thing", make) == 0
    shared.begin("two")
    assert shared.get("thing", make) == 1
    shared.forget()
    assert shared.get("thing", make) == 2
    shared.begin("two")  # what was made before anybody said which program it was of
    assert shared.get("thing", make) == 3


def test_threads_that_ask_at_once_wait_for_one():
    shared, made, together = Shared(), [], Barrier(4)

    def ask(number: int) -> int:
        together.wait()
        return shared.get("thing", lambda: made.append(number) or number)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(ask, range(4)))) == 1
    assert len(made) == 1
