"""What runs of one process share, and when it is let go."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import jax
import numpy as np
import pytest
from flax import nnx

from attention.core.dropout import Dropout
from attention.core.linear import Linear
from attention.training.shared import Shared
from attention.training.state import init_model, make_initializer

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


class Model(nnx.Module):
    def __init__(self, rngs: nnx.Rngs, rate: float) -> None:
        self.linear, self.dropout = Linear(3, 2, rngs=rngs), Dropout(rate)


def test_a_shared_initializer_leaves_each_run_its_seed_and_its_dropout_rate():
    shared = make_initializer(lambda rngs: Model(rngs, 0.1))
    for seed, rate in ((0, 0.1), (1, 0.5)):
        found = init_model(lambda rngs, rate=rate: Model(rngs, rate), seed, shared)
        alone = init_model(lambda rngs, rate=rate: Model(rngs, rate), seed)
        assert found.structure == alone.structure
        jax.tree.map(np.testing.assert_array_equal, found[1:], alone[1:])
        assert [float(x) for x in jax.tree.leaves(found.rates)] == [np.float32(rate)]
