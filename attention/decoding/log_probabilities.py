"""From logits to log-probabilities in float32, of the few tokens that are needed."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from attention.decoding.largest import largest


class MostProbable(NamedTuple):
    """The most probable tokens of each row, the best first, ties to the lower id.

    Attributes:
        log_probabilities: in nats; −inf where a row has fewer tokens that are possible.
        tokens: their ids.
        broken: whether the row's logits hold a NaN or +inf, which is no distribution.
    """

    log_probabilities: Float[Array, "n m"]
    tokens: Int[Array, "n m"]
    broken: Bool[Array, " n"]


def forbid(logits: Float[Array, "n v"], forbidden: tuple[int, ...]) -> Float[Array, "n v"]:
    """−inf at the forbidden tokens; ids outside of the vocabulary forbid nothing."""
    mask = np.isin(np.arange(logits.shape[-1]), forbidden)
    return jnp.where(mask[None], -jnp.inf, logits)


def _subtract(
    chosen: Float[Array, "n m"], logits: Float[Array, "n v"]
) -> tuple[Float[Array, "n m"], Bool[Array, " n"]]:
    """Subtracts the log of the sum over the vocabulary, and says which rows are broken."""
    peak = jnp.max(logits, axis=-1, keepdims=True)
    # −inf everywhere is no NaN: nothing is possible, and nothing is broken.
    peak = jnp.where(peak == -jnp.inf, 0.0, peak)
    log_sum = jnp.log(jnp.sum(jnp.exp(logits - peak), axis=-1, keepdims=True))
    result = jnp.where(chosen == -jnp.inf, -jnp.inf, chosen - peak - log_sum)
    return result, jnp.isnan(log_sum)[:, 0]


def most_probable(
    logits: Float[Array, "n v"], count: int, *, forbidden: tuple[int, ...]
) -> MostProbable:
    """The `count` most probable tokens that are not forbidden.

    Probabilities are the model's: what is forbidden keeps its share, so that a score is what a
    forced pass gives.
    """
    chosen, tokens = largest(forbid(logits, forbidden), count)
    log_probabilities, broken = _subtract(chosen, logits)
    return MostProbable(log_probabilities, tokens, broken)


def of_tokens(
    logits: Float[Array, "n v"], tokens: Int[Array, " n"], *, forbidden: tuple[int, ...] = ()
) -> Float[Array, " n"]:
    """The log-probability of one token a row; −inf where forbidden, NaN where the row is broken."""
    chosen = jnp.take_along_axis(forbid(logits, forbidden), tokens[:, None], axis=-1)
    result, broken = _subtract(chosen, logits)
    return jnp.where(broken, jnp.nan, result[:, 0])
