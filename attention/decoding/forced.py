"""The score of given sequences, step by step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from attention.decoding import log_probabilities
from attention.decoding.decoded import State, Step


def forced_scores(
    step: Step,
    state: State,
    tokens: Int[Array, "b max_length"],
    lengths: Int[Array, " b"],
    *,
    start: Int[Array, " b"],
) -> Float[Array, " b"]:
    """The log-probability in nats of the first `lengths` tokens of each row, EOS included.

    What a search says of its result is this (a beam divides it by the length penalty). A row of
    no tokens scores 0. One compiled loop over all of `max_length`.

    Args:
        step, state, start: as for `greedy`.
        tokens: what follows a row's length is not read.
        lengths: of each row.
    """
    tokens = jnp.where(jnp.arange(tokens.shape[1])[None] < lengths[:, None], tokens, 0)

    def advance(carry, at):
        state, last, scores = carry
        token, time = at
        logits, state = step(state, last)
        gained = log_probabilities.of_tokens(logits.astype(jnp.float32), token)
        return (state, token, scores + jnp.where(time < lengths, gained, 0.0)), None

    carry = (state, start.astype(jnp.int32), jnp.zeros(tokens.shape[0], jnp.float32))
    times = jnp.arange(tokens.shape[1])
    (_, _, scores), _ = jax.lax.scan(advance, carry, (tokens.astype(jnp.int32).T, times))
    return scores
