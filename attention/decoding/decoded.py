"""What a search is given and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float, Int

# Any pytree of arrays whose leading axis is the batch (for a beam: b·k, beams of a row adjacent).
State = Any

# (state, the tokens before [n]) → (logits of the next tokens [n v], state). The state keeps its
# shapes and dtypes. It is called at most `max_length` times, so a cache of that length suffices.
Step = Callable[[State, jax.Array], tuple[jax.Array, State]]


class Decoded(NamedTuple):
    """What was decoded.

    Attributes:
        tokens: with the EOS where one was produced, padding after it.
        lengths: tokens of each, counting the EOS.
        scores: sums of log-probabilities in nats, counting the EOS's. NaN where the logits were
            NaN or infinite, or left no token to go on with: the tokens are those before it.
    """

    tokens: Int[Array, "*b max_length"]
    lengths: Int[Array, "*b"]
    scores: Float[Array, "*b"]
