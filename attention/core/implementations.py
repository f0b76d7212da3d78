"""How exact attention is computed: in one piece, or in blocks of queries.

The choice never changes a result, only time and memory. "auto" reads TABLE, whose rows are
measured: docs/results/timing says how.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from attention.errors import UserError, did_you_mean

NAMES = ("auto", "plain", "chunked")


class Way(NamedTuple):
    """A choice made."""

    name: str  # "plain" or "chunked"
    block_size: int  # queries a block, where there are blocks


class _Row(NamedTuple):
    """From `min_length` keys on; the last row that fits counts."""

    device: str  # what the device kind contains
    dtype: str  # "" = any
    min_size: int  # of a head
    min_length: int
    way: Way
    causal: bool | None = None  # None = both directions


# Causal attention gains more from blocks, for a block needs no key after its end.
TABLE = (
    _Row("", "", 0, 0, Way("plain", 512)),
    _Row("", "", 0, 2048, Way("chunked", 512)),
    _Row("cpu", "bfloat16", 0, 512, Way("chunked", 512)),
    _Row("cpu", "", 0, 512, Way("chunked", 128), causal=True),
    _Row("cpu", "", 0, 1024, Way("chunked", 512)),
)


def check(name: str) -> None:
    """Raises UserError for a name that is not among NAMES."""
    if name not in NAMES:
        raise UserError(
            f"model.attention.implementation={name!r} is not one of {', '.join(NAMES)}"
            f"{did_you_mean(name, NAMES)}"
        )


def choose(
    name: str,
    *,
    length: int,
    size: int,
    dtype: jnp.dtype | str,
    causal: bool,
    device_kind: str | None = None,
) -> Way:
    """Returns how attention over `length` keys with heads of `size` is computed.

    Args:
        name: one of NAMES.
        length, size, dtype, causal: what the table is read by.
        device_kind: None = that of the first device.

    Raises:
        UserError: a name that is not among NAMES.
    """
    check(name)
    kind = (jax.devices()[0].device_kind if device_kind is None else device_kind).lower()
    dtype = jnp.dtype(dtype).name
    rows = [
        row
        for row in TABLE
        if row.device in kind
        and row.dtype in ("", dtype)
        and size >= row.min_size
        and length >= row.min_length
        and row.causal in (None, causal)
        and name in ("auto", row.way.name)
    ]
    return rows[-1].way if rows else Way(name, 512)
