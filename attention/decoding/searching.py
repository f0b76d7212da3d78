"""From a sequence-to-sequence model and its source to decoded targets, by any search."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from attention.decoding.beam import beam
from attention.decoding.decoded import Decoded, State, Step
from attention.decoding.greedy import greedy
from attention.decoding.rows import repeat_rows


class Search(NamedTuple):
    """How targets are searched for.

    Attributes:
        bos, eos, pad: ids that begin, end and fill a target.
        max_length: the most tokens of a target, EOS included.
        beam_size: hypotheses kept at each step; 1 = greedy.
        length_penalty: α of ((5 + length) / 6)^α, by which scores are divided (arXiv 1609.08144).
        num_best: hypotheses returned, the best first.
        use_cache: whether a step computes the newest token alone; else the whole target anew, which
            any causal layer can do.
    """

    bos: int
    eos: int
    pad: int
    max_length: int
    beam_size: int = 1
    length_penalty: float = 0.0
    num_best: int = 1
    use_cache: bool = True


def search(
    model: Any,
    source: Int[Array, "b s"],
    *,
    segment_ids: Int[Array, "b s"],
    positions: Int[Array, "b s"] | None = None,
    how: Search,
) -> Decoded:
    """Decodes a target for each source, one a row; tokens are [b num_best max_length].

    Args:
        model: has `encode`, `start` and `step`, and a full pass as its call (`models.transformer`).
        source, segment_ids, positions: one source a row, its ids 1 and 0 behind it. A row without
            one gets no token.
        how: the kind of search.

    Raises:
        UserError: an impossible `how`.
    """
    limits = jnp.where(jnp.any(segment_ids != 0, axis=1), how.max_length, 0).astype(jnp.int32)
    given: dict[str, Any] = {
        "start": jnp.full(limits.shape, how.bos, jnp.int32),
        "limits": limits,
        "max_length": how.max_length,
        "eos": how.eos,
        "pad": how.pad,
        "forbidden": (how.pad, how.bos),
    }
    make = _by_cache if how.use_cache else _by_full_pass
    step, state = make(model, source, segment_ids, positions, how)
    if how.beam_size > 1 or how.num_best > 1:
        return beam(
            step,
            state,
            beam_size=how.beam_size,
            length_penalty=how.length_penalty,
            num_best=how.num_best,
            **given,
        )
    return jax.tree.map(lambda leaf: leaf[:, None], greedy(step, state, **given))


def _by_cache(model: Any, source, segment_ids, positions, how: Search) -> tuple[Step, State]:
    """A step reads the newest token; the state is the model's."""
    memory = model.encode(source, segment_ids=segment_ids, positions=positions)
    memory = repeat_rows(memory, how.beam_size)
    return (
        lambda state, tokens: model.step(memory, state, tokens),
        model.start(memory, how.max_length),
    )


def _by_full_pass(model: Any, source, segment_ids, positions, how: Search) -> tuple[Step, State]:
    """A step reads the whole target so far, which is the state."""
    source, segment_ids, positions = repeat_rows((source, segment_ids, positions), how.beam_size)
    row = jnp.arange(source.shape[0])

    def step(state, tokens):
        inputs, count = state
        inputs = inputs.at[row, count].set(tokens)
        logits = model(
            source,
            inputs,
            source_segment_ids=segment_ids,
            target_segment_ids=jnp.ones_like(inputs),
            source_positions=positions,
        )
        newest = jnp.take_along_axis(logits, count[:, None, None], axis=1)[:, 0]
        return newest, (inputs, count + 1)

    nothing = jnp.full((source.shape[0], how.max_length), how.pad, jnp.int32)
    return step, (nothing, jnp.zeros((source.shape[0],), jnp.int32))
