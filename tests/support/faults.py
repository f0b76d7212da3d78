"""Faults to plant, so that the conformance suite can be seen to fail: see test_mutants.py.

Score and normalizer faults return the parts to use instead.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
from jax.core import Tracer

from attention.core import block, cache, stepping
from attention.core.cache import Extended, tokens_first
from attention.core.layer import AttentionLayer
from attention.normalizers import softmax
from attention.ops import masks, scores
from attention.ops.relative import T5, Alibi, Shaw
from attention.ops.window import Window
from attention.positions.rope import Rope

right_visible = masks.visible
right_conditions = masks.conditions
right_score = scores.scaled_dot
right_extend = stepping.extend
right_context_cache = stepping.context_cache
right_rotate = Rope.rotate
right_join = AttentionLayer.joined
right_softmax = softmax.normalize
right_scores = block.scores_block
right_key_prefix = masks.key_prefix
right_window = Window.visible
right_groups = Window.groups
right_weigh = block.weigh
right_values = AttentionLayer.values
right_repeat = Alibi.bias
right_buckets = T5.buckets
right_key_term = Shaw.key_term
right_roll = cache._roll


def no_scale(q, k):
    return right_score(q, k) * math.sqrt(q.shape[-1])


def scale_by_width(q, k):
    return right_score(q, k) / math.sqrt(q.shape[2])


def score_in_bfloat16(q, k):
    return right_score(q, k).astype(q.dtype).astype(jnp.float32)


def tiled_score(q, k):
    tiled = jnp.tile(k, (1, 1, q.shape[2] // k.shape[2], 1))
    return right_score(q, tiled)


def softmax_over_queries(scores, visible):
    hidden = scores if visible is None else jnp.where(visible, scores, -1e9)
    return jax.nn.softmax(hidden, axis=-2)


def mean_where_nothing_is_seen(scores, visible):
    return jax.nn.softmax(scores if visible is None else jnp.where(visible, scores, -1e9), axis=-1)


def nan_where_nothing_is_seen(scores, visible):
    hidden = scores if visible is None else jnp.where(visible, scores, -jnp.inf)
    return jax.nn.softmax(hidden, axis=-1)


def normalized_before_the_mask(scores, visible):
    weights = jax.nn.softmax(scores, axis=-1)
    return weights if visible is None else jnp.where(visible, weights, 0.0)


def softmax_in_bfloat16(scores, visible):
    weights = right_softmax(scores.astype(jnp.bfloat16), visible)
    return weights.astype(jnp.float32)


def no_gradient_through_weights(scores, visible):
    return jax.lax.stop_gradient(right_softmax(scores, visible))


def inverted_mask(given):
    return right_visible(given._replace(mask=None if given.mask is None else ~given.mask))


def ignored(field):
    def visible(given):
        if field == "segments":
            return right_visible(given._replace(queries=given.queries._replace(segment=None)))
        return right_visible(given._replace(**{field: False if field == "causal" else None}))

    return visible


def causal_shifted(by):
    def visible(given):
        moved = given.queries._replace(index=given.queries.index + by)
        return right_visible(given._replace(queries=moved))

    return visible


def ored_conditions(given):
    queries = given.queries._replace(segment=None)
    parts = [
        right_visible(given._replace(mask=None)),
        right_visible(given._replace(causal=False, queries=queries)),
    ]
    parts = [part for part in parts if part is not None]
    return functools.reduce(jnp.logical_or, parts) if parts else None


def padding_sees_padding(given):
    if given.queries.segment is None:
        return right_visible(given)
    queries, keys = given.queries, given.keys
    return right_visible(
        given._replace(
            queries=queries._replace(segment=queries.segment + 1),
            keys=keys._replace(segment=keys.segment + 1),
        )
    )


def guessed_offset(shape, **given):
    if given.get("causal") and given.get("query_offset") is None:
        given["query_offset"] = shape[3] - shape[2]
    return right_conditions(shape, **given)


def bias_after_mask(parts, arrays, q, k, given):
    scores = right_scores(parts, arrays, q, k, given)
    sees = masks.visible(given)
    return scores if sees is None else jnp.where(sees, scores, -30.0)


def nothing_hidden(parts, arrays, scores, visible):
    return right_softmax(scores, None)


def softcap_after_bias(parts, arrays, q, k, given):
    if parts.softcap is None:
        return right_scores(parts, arrays, q, k, given)
    plain = right_scores(dataclasses.replace(parts, softcap=None), arrays, q, k, given)
    return parts.softcap * jnp.tanh(plain * 1.1 / parts.softcap)


def one_key_short(given, stop):
    return right_key_prefix(given, stop)._replace(causal=False)


def last_blocks_only(self, tokens):
    (group,) = right_groups(self, tokens)
    return (group._replace(reads=group.reads[..., -1:]),)


def window_wider(self, queries, keys):
    return right_window(dataclasses.replace(self, left=self.left + 1), queries, keys)


def window_narrower(self, queries, keys):
    return right_window(dataclasses.replace(self, left=max(self.left - 1, 0)), queries, keys)


def window_mirrored(self, queries, keys):
    return right_window(dataclasses.replace(self, left=self.right, right=self.left), queries, keys)


def alibi_upside_down(self, distance, *, slopes):
    return -right_repeat(self, distance, slopes=slopes)


def t5_signs_swapped(self, distance, num_buckets):
    return right_buckets(self, -distance, num_buckets)


def shaw_signs_swapped(self, q, distance, **arrays):
    return right_key_term(self, q, -distance, **arrays)


def rolled_too_far(cache, key, value, end, overflow):
    extended = right_roll(cache, key, value, end, overflow)
    return extended._replace(index=extended.index + 1)


def positions_that_run_on(segment_ids):
    index = jnp.arange(segment_ids.shape[1], dtype=jnp.int32)[None, :]
    return jnp.broadcast_to(index, segment_ids.shape)


def clamped_cache(cache, key, value, **given):
    last = cache.key.shape[2] - 1
    slot = jnp.minimum(cache.position[:, None] + jnp.arange(key.shape[1])[None], last)
    row = jnp.arange(key.shape[0])[:, None]
    extended = cache._replace(
        key=cache.key.at[row, :, slot].set(key),
        value=cache.value.at[row, :, slot].set(value),
        position=cache.position + key.shape[1],
    )
    index = jnp.arange(last + 1, dtype=jnp.int32)[None, :]
    return Extended(extended, *tokens_first(extended), index)


def cache_without_position(cache, key, value, **given):
    extended = right_extend(cache, key, value, **given)
    return extended._replace(cache=extended.cache._replace(position=cache.position + 1))


def context_of_the_next_row(layer, batch, max_length, context, ids):
    return right_context_cache(layer, batch, max_length, jnp.roll(context, 1, axis=0), ids)


def rotation_from_each_start(self, x, positions):
    return right_rotate(self, x, positions - positions[:, :1])


def score_by_index(q, k):
    return right_score(q, k) + 0.1 * jnp.arange(k.shape[1])[None, None, None, :]


def other_when_compiled(scores, visible):
    weights = right_softmax(scores, visible)
    return weights * 1.01 if isinstance(scores, Tracer) else weights


def untrained_values(self, x, context):
    return jax.lax.stop_gradient(right_values(self, x, context))


def output_in_float32(self, heads, x):
    return right_join(self, heads, x).astype(jnp.float32)


def normed_over_time(self, heads, x):
    y = right_join(self, heads, x)
    return y - y.mean(axis=1, keepdims=True)
