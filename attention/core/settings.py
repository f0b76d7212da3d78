"""What every attention layer is made from, whatever its variant."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from attention import positions
from attention.errors import UserError
from attention.ops.option_checks import check_count, check_flag, check_rate

FLOAT32 = jnp.dtype("float32")
LONGEST = 2**30  # positions are 32-bit numbers
# The keys of a config that set what has one; the others are set by code.
KEYS = {
    "dim": "model.dim",
    "num_heads": "model.num_heads",
    "max_length": "data.max_length",
    "dropout_rate": "model.dropout_rate",
}
DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class LayerSettings:
    """The sizes and modes of one attention layer.

    Attributes:
        dim: width d of the model.
        num_heads: query heads n.
        head_dim: head size h.
        context_dim: width of the other sequence in cross-attention.
        causal: whether position i sees no later position.
        dropout_rate: share of attention weights dropped, in [0, 1).
        dtype: of the activations; parameters stay float32.
        max_length: most positions a sequence can have, for parts with a table; None = no limit.
        layer_index: number of the layer in its stack, from 0.
        position: a position scheme that acts inside attention, by name or as its Config, or None.

    Raises:
        UserError: a value of a wrong type, a size below 1, or a position scheme that acts on the
            model's input.
    """

    dim: int
    num_heads: int
    head_dim: int
    context_dim: int
    causal: bool = False
    dropout_rate: float = 0.0
    dtype: jnp.dtype = FLOAT32
    max_length: int | None = None
    layer_index: int = 0
    position: Any = None

    def __post_init__(self):
        for name in ("dim", "num_heads", "head_dim", "context_dim"):
            check_count(KEYS.get(name, name), getattr(self, name))
        check_count(KEYS["max_length"], self.max_length, most=LONGEST, or_none=True)
        check_count("layer_index", self.layer_index, least=0)
        check_flag("causal", self.causal)
        check_rate(KEYS["dropout_rate"], self.dropout_rate)
        if positions.place(self.position) == "input":
            name = positions.name_of(self.position)
            raise UserError(
                f"position={name!r} is added to the model's input, not used inside attention: "
                f"give the layer position=None"
            )


def split_dim(dim: int, num_heads: int) -> int:
    """Returns the head size dim / num_heads; raises UserError if it is not a whole number."""
    check_count(KEYS["dim"], dim)
    check_count(KEYS["num_heads"], num_heads)
    if dim % num_heads:
        raise UserError(
            f"dim={dim} cannot be split into num_heads={num_heads} equal heads: "
            f"change model.dim or model.num_heads"
        )
    return dim // num_heads


def as_dtype(dtype: str | type | jnp.dtype) -> jnp.dtype:
    """Returns the JAX dtype for a dtype or its name; raises UserError for one not in DTYPES."""
    try:
        found = jnp.dtype(dtype)
    except (TypeError, ValueError):
        found = None
    if found is None or found.name not in DTYPES:
        raise UserError(f"dtype={dtype!r} is not one of {', '.join(DTYPES)}")
    return found
