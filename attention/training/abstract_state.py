"""What a checkpoint is read into: shapes, types and places."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import jax

from attention.errors import UserError


def check_shapes(path: Path, saved: Any, abstract_state: Any) -> None:
    """Raises UserError unless the arrays saved have the shapes expected.

    Orbax would say so too, but leaves threads behind that complain at exit.
    """
    have, want = (
        Counter(tuple(leaf.shape) for leaf in jax.tree.leaves(tree) if hasattr(leaf, "shape"))
        for tree in (saved, abstract_state)
    )
    if have != want:
        lacking = ", ".join(map(str, want - have)) or "fewer"
        raise UserError(
            f"checkpoint {path} does not fit the config.json and tokenizer/ of its run: they ask "
            f"for arrays of shape {lacking}"
        )


def placed(leaf: Any) -> Any:
    """An abstract array that says where it goes: else Orbax asks for the devices that saved it."""
    if isinstance(leaf, jax.Array):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)
    if isinstance(leaf, jax.ShapeDtypeStruct) and leaf.sharding is None:
        here = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=here)
    return leaf
