"""Sampling: tokens drawn from the model's distribution, or from its more probable part."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from attention.decoding.arguments import check_sampling
from attention.decoding.decoded import Decoded, State, Step
from attention.decoding.largest import largest
from attention.decoding.rollout import rollout


def sample(
    step: Step,
    state: State,
    *,
    start: Int[Array, " b"],
    limits: Int[Array, " b"],
    max_length: int,
    eos: int,
    pad: int,
    key: jax.Array,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    forbidden: tuple[int, ...] = (),
) -> Decoded:
    """Draws each token from softmax(logits / temperature), restricted to some of the tokens.

    The other arguments, the result and the rest of the errors are those of `greedy`. Scores are
    the model's log-probabilities, at temperature 1 and over all tokens.

    Args:
        step, state, start, limits, max_length, eos, pad, forbidden: see `greedy`.
        key: of `jax.random.key`: one, from which row i takes its i-th part; or one for each row
            [b], for draws that do not depend on where in which batch an example stands.
        temperature: 0 is greedy.
        top_k: draw from that many most probable tokens, ties to the lower id.
        top_p: draw from the fewest most probable tokens whose probabilities, after temperature
            and top_k, sum to at least this much (the nucleus: Holtzman et al. 2020, arXiv
            1904.09751). The most probable token is always among them; 1 keeps all.

    Raises:
        UserError: decode.temperature below 0, decode.top_k below 1, decode.top_p outside (0, 1].
    """
    check_sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    keys = key
    if key.ndim == 0:
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(start.shape[0]))

    def choose(logits: jax.Array, time: jax.Array) -> jax.Array:
        now = jax.vmap(jax.random.fold_in, (0, None))(keys, time)
        return draw(logits, now, temperature=temperature, top_k=top_k, top_p=top_p)

    return rollout(
        step,
        state,
        choose,
        start=start,
        limits=limits,
        max_length=max_length,
        eos=eos,
        pad=pad,
        forbidden=forbidden,
    )


def keys_of(numbers: Int[Array, " b"], seed: int) -> Array:
    """Returns a key a row [b], by the row's own number and not by what stands beside it."""
    return jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(seed), numbers)


def draw(
    logits: Float[Array, "b v"],
    keys: Array,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Int[Array, " b"]:
    """Draws one token a row; float32 logits, −inf for what must not be drawn; a key a row [b]."""
    size = logits.shape[-1]
    if temperature == 0:
        return largest(logits, 1)[1][:, 0]
    # 1 keeps also what stands behind a float32 sum that has reached 1.
    top_p = None if top_p == 1 else top_p
    tokens = None
    if top_k is not None or top_p is not None:
        logits, tokens = largest(logits, min(top_k or size, size))
    peak = jnp.max(logits, axis=-1, keepdims=True)
    # The largest stay 0 also where float32 takes the temperature for 0.
    logits = jnp.where(logits == peak, 0.0, (logits - peak) / temperature)
    if top_p is not None:
        before = jnp.cumsum(jax.nn.softmax(logits, axis=-1), axis=-1)[:, :-1]
        before = jnp.pad(before, ((0, 0), (1, 0)))
        logits = jnp.where(before < top_p, logits, -jnp.inf)
    # The maximum of logits plus Gumbel noise is a draw from their softmax. "high" gives the noise
    # the bits that rare tokens need.
    noise = jax.vmap(lambda key: jax.random.gumbel(key, logits.shape[1:], mode="high"))(keys)
    drawn = largest(logits + noise, 1)[1]
    return (drawn if tokens is None else jnp.take_along_axis(tokens, drawn, axis=-1))[:, 0]
