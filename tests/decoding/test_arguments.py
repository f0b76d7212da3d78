"""Each wrong argument is one clear error that names its key."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from decoding.toy import first_state, make_step, random_table

from attention.decoding.beam import beam
from attention.decoding.greedy import greedy
from attention.decoding.sampling import sample
from attention.errors import UserError

pytestmark = pytest.mark.fast

SEARCHES = {
    "greedy": (greedy, {}),
    "beam": (beam, {"beam_size": 2, "length_penalty": 0.6}),
    "sample": (sample, {"key": jax.random.key(0)}),
}


def run(name, **options):
    search, needed = SEARCHES[name]
    table = random_table(0, rows=2, vocabulary=4, depth=3)
    ones = jnp.ones(2, jnp.int32)
    common = {"start": ones, "limits": ones, "max_length": 3, "eos": 3, "pad": 0}
    # All checks are made while tracing: nothing needs to be compiled.
    return jax.eval_shape(
        lambda: search(make_step(table), first_state(2), **common | needed | options)
    )


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 0}, r"decode\.max_length is 0; it must be an integer of at least 1"),
        ({"max_length": 2.0}, r"decode\.max_length is 2\.0"),
        ({"pad": 3}, r"id 3 for both padding and the end.*decode\.pad and decode\.eos"),
        ({"eos": 4}, r"decode\.eos is 4; the model's vocabulary has ids 0 to 3"),
        ({"forbidden": (1, 2, 3)}, r"decode\.forbidden holds all 4 tokens"),
    ],
)
def test_every_search_refuses(name, options, message):
    with pytest.raises(UserError, match=message) as error:
        run(name, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, r"decode\.beam_size is 0; it must be an integer of at least 1"),
        ({"beam_size": True}, r"decode\.beam_size is True"),
        ({"num_best": 0}, r"decode\.num_best is 0"),
        ({"num_best": 3}, r"decode\.num_best is 3; it must not exceed decode\.beam_size, 2"),
        ({"length_penalty": float("nan")}, r"decode\.length_penalty is nan"),
        ({"length_penalty": "1"}, r"decode\.length_penalty is '1'"),
        ({"length_penalty": 1e9}, r"decode\.length_penalty is 1000000000\.0.*beyond float32"),
        ({"length_penalty": -1e3}, r"decode\.length_penalty is -1000\.0.*beyond float32"),
    ],
)
def test_beam_refuses(options, message):
    with pytest.raises(UserError, match=message):
        run("beam", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -0.1}, r"decode\.temperature is -0\.1; .*at least 0"),
        ({"temperature": float("inf")}, r"decode\.temperature is inf"),
        ({"top_k": 0}, r"decode\.top_k is 0; it must be an integer of at least 1"),
        ({"top_k": 1.5}, r"decode\.top_k is 1\.5"),
        ({"top_p": 0.0}, r"decode\.top_p is 0\.0; it must be in \(0, 1\]"),
        ({"top_p": 1.01}, r"decode\.top_p is 1\.01"),
        ({"top_p": float("nan")}, r"decode\.top_p is nan"),
    ],
)
def test_sampling_refuses(options, message):
    with pytest.raises(UserError, match=message):
        run("sample", **options)


def test_the_bounds_themselves_are_allowed():
    for name in SEARCHES:
        assert run(name).tokens.shape[-1] == 3
        assert run(name, max_length=1).tokens.shape[-1] == 1
    assert run("beam", beam_size=1, num_best=1, length_penalty=0).tokens.shape == (2, 1, 3)
    assert run("sample", temperature=0, top_k=1, top_p=1).tokens.shape == (2, 3)
