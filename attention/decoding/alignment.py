"""Which source token each target token was made from, as far as attention tells."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Int

from attention.decoding.rows import repeat_rows
from attention.decoding.searching import Search


def align(
    model: Any,
    source: Int[Array, "b s"],
    targets: Int[Array, "b m t"],
    *,
    segment_ids: Int[Array, "b s"],
    how: Search,
) -> Int[Array, "b m t"]:
    """Returns the place of the source token that each target token attended to most.

    Attention is that of the step which gave the token, in one pass over whole targets, the mean of
    all heads; ties go to the left. The end of the source is none of the places.

    Args:
        model: has `alignments`, weights [b n t s] (`models.transformer`: of its last block).
        source, segment_ids: one source a row, its ids 1 and 0 behind it.
        targets: m hypotheses for each; what stands behind an end gets some place.
        how: what begins, ends and fills a target; the same ends a source.
    """
    batch, count, length = targets.shape
    before = jnp.pad(targets[:, :, :-1], ((0, 0), (0, 0), (1, 0)), constant_values=how.bos)
    inputs = before.reshape(batch * count, length)
    weights = model.alignments(
        *(repeat_rows(source, count), inputs),
        source_segment_ids=repeat_rows(segment_ids, count),
        target_segment_ids=(inputs != how.pad).astype(jnp.int32),
    )
    shares = jnp.mean(weights, axis=1).reshape(batch, count, length, source.shape[1])
    tokens = (segment_ids != 0) & (source != how.eos)
    return jnp.argmax(jnp.where(tokens[:, None, None, :], shares, -jnp.inf), axis=-1)
