"""One hypothesis a row, token by token, by any rule of choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention.decoding import log_probabilities
from attention.decoding.arguments import check_search, check_vocabulary
from attention.decoding.decoded import Decoded, State, Step

# (logits with −inf at the forbidden tokens [b v], tokens decoded before []) → tokens [b]
Choose = Callable[[jax.Array, jax.Array], jax.Array]


class _Rollout(NamedTuple):
    """What the loop carries; `last` is what the next step reads, `live` the rows that go on."""

    time: Int[Array, ""]
    state: Any
    last: Int[Array, " b"]
    tokens: Int[Array, "b max_length"]
    lengths: Int[Array, " b"]
    scores: Float[Array, " b"]
    live: Bool[Array, " b"]


def rollout(
    step: Step,
    state: State,
    choose: Choose,
    *,
    start: Int[Array, " b"],
    limits: Int[Array, " b"],
    max_length: int,
    eos: int,
    pad: int,
    forbidden: tuple[int, ...],
) -> Decoded:
    """Decodes until each row has produced EOS or as many tokens as its limit.

    Arguments and errors are those of `greedy`. Scores are the model's log-probabilities, by
    whatever rule a token was chosen.
    """
    check_search(max_length=max_length, eos=eos, pad=pad)
    batch = start.shape[0]
    limits = jnp.clip(limits, 0, max_length)
    forbidden = (*forbidden, pad)

    def advance(old: _Rollout) -> _Rollout:
        logits, state = step(old.state, old.last)
        check_vocabulary(logits.shape[-1], eos=eos, forbidden=forbidden)
        logits = logits.astype(jnp.float32)
        token = choose(log_probabilities.forbid(logits, forbidden), old.time).astype(jnp.int32)
        gained = log_probabilities.of_tokens(logits, token, forbidden=forbidden)
        possible = jnp.isfinite(gained)
        grows = old.live & possible
        lengths = old.lengths + grows
        live = grows & (token != eos) & (lengths < limits)
        return _Rollout(
            time=old.time + 1,
            state=state,
            # Rows that are done go on being computed; EOS is an id that any model can read.
            last=jnp.where(live, token, eos),
            tokens=old.tokens.at[:, old.time].set(jnp.where(grows, token, pad)),
            lengths=lengths,
            scores=old.scores + jnp.where(old.live, jnp.where(possible, gained, jnp.nan), 0.0),
            live=live,
        )

    end = jax.lax.while_loop(
        lambda old: jnp.any(old.live),
        advance,
        _Rollout(
            time=jnp.zeros((), jnp.int32),
            state=state,
            last=start.astype(jnp.int32),
            tokens=jnp.full((batch, max_length), pad, jnp.int32),
            lengths=jnp.zeros(batch, jnp.int32),
            scores=jnp.zeros(batch, jnp.float32),
            live=limits > 0,
        ),
    )
    return Decoded(end.tokens, end.lengths, end.scores)
