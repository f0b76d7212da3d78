"""What runs of one process share, and when it is let go."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from attention.training.shared import Shared

pytestmark = pytest.mark.fast


def test_a_thing_is_made_once_until_another_program_begins():
    freed = []
    shared, made = Shared(forgotten=lambda: freed.append(len(made))), []

    def make() -> int:
        made.append(len(made))
        return made[-1]

    shared.begin("one")
    assert [shared.get("thing", make), shared.get("thing", make)] == [0, 0]
    shared.begin("one")
    assert shared.get("thing", make) == 0
    assert not freed
    shared.begin("two")
    assert shared.get("thing", make) == 1
    assert freed == [1]


def test_what_was_made_before_anybody_said_of_which_program_is_made_again():
    shared = Shared()
    assert shared.get("thing", lambda: 0) == 0
    shared.begin("one")
    assert shared.get("thing", lambda: 1) == 1


def test_threads_that_ask_at_once_wait_for_one():
    shared, made, together = Shared(), [], Barrier(4)

    def ask(number: int) -> int:
        together.wait()
        return shared.get("thing", lambda: made.append(number) or number)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(ask, range(4)))) == 1
    assert len(made) == 1
