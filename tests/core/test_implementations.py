"""Which implementation is chosen: by name, or by the table."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

from attention.core import implementations
from attention.errors import UserError

pytestmark = pytest.mark.fast


def choose(name="auto", *, length, device_kind="cpu", dtype="float32", causal=False):
    given = {"size": 64, "dtype": dtype, "device_kind": device_kind, "causal": causal}
    return implementations.choose(name, length=length, **given)


@pytest.mark.parametrize("device_kind", ["cpu", "TPU v5 lite", "NVIDIA H200"])
def test_short_rows_are_one_piece_and_long_ones_blocks(device_kind):
    assert choose(length=64, device_kind=device_kind).name == "plain"
    assert choose(length=8192, device_kind=device_kind).name == "chunked"


@pytest.mark.parametrize("length", [16, 1024, 8192])
@pytest.mark.parametrize("name", ["plain", "chunked"])
def test_a_name_is_what_it_says(name, length):
    way = choose(name, length=length)
    assert way.name == name and way.block_size >= 1


def test_the_table_may_tell_types_apart():
    names = {dtype: choose(length=512, dtype=dtype).name for dtype in ("float32", "bfloat16")}
    assert names == {"float32": "plain", "bfloat16": "chunked"}
    assert choose(length=512, dtype=jnp.dtype("bfloat16").name).name == "chunked"


def test_the_table_may_tell_directions_apart():
    ways = {causal: choose(length=512, causal=causal) for causal in (False, True)}
    assert ways[False].name == "plain"
    assert ways[True].name == "chunked" and ways[True].block_size < 512


def test_another_name_is_refused_with_the_nearest():
    with pytest.raises(UserError, match=r"implementation='chunk'.*did you mean 'chunked'"):
        choose("chunk", length=8)
