"""The conformance suite has teeth: each planted fault must fail the checks named beside it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax.core import Tracer
from reference import scaled_dot as reference
from support import attend_checks, layer_checks
from support.attend_checks import AttendProbe
from support.cases import HEADS, LayerCase
from support.layer_checks import LayerProbe

from attention.core import attend as core
from attention.core import layer as layer_module
from attention.core.layer import AttentionLayer
from attention.ops import masks, normalizers, scores
from attention.positions.rope import Rope
from attention.variants import scaled_dot

pytestmark = pytest.mark.mutants

right_visible = masks.visible
right_conditions = masks.conditions
right_score = scores.scaled_dot
right_extend = layer_module.extend
right_rotate = Rope.rotate
right_join = AttentionLayer._joined


# What each fault does. Score and normalizer faults return the parts to use instead.


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
    weights = normalizers.softmax(scores.astype(jnp.bfloat16), visible)
    return weights.astype(jnp.float32)


def no_gradient_through_weights(scores, visible):
    return jax.lax.stop_gradient(normalizers.softmax(scores, visible))


def inverted_mask(given, num_keys):
    mask = None if given.mask is None else ~given.mask
    return right_visible(given._replace(mask=mask), num_keys)


def ignored(field):
    def visible(given, num_keys):
        return right_visible(
            given._replace(**{field: False if field == "causal" else None}), num_keys
        )

    return visible


def causal_shifted(by):
    def visible(given, num_keys):
        return right_visible(given._replace(query_index=given.query_index + by), num_keys)

    return visible


def ored_conditions(given, num_keys):
    parts = [
        right_visible(given._replace(mask=None), num_keys),
        right_visible(given._replace(causal=False, segment_ids=None), num_keys),
    ]
    parts = [part for part in parts if part is not None]
    return functools.reduce(jnp.logical_or, parts) if parts else None


def padding_sees_padding(given, num_keys):
    if given.segment_ids is None:
        return right_visible(given, num_keys)
    return right_visible(
        given._replace(
            segment_ids=given.segment_ids + 1, key_segment_ids=given.key_segment_ids + 1
        ),
        num_keys,
    )


def guessed_offset(shape, **given):
    if given.get("causal") and given.get("query_offset") is None:
        given["query_offset"] = shape[3] - shape[2]
    return right_conditions(shape, **given)


def positions_that_run_on(segment_ids):
    index = jnp.arange(segment_ids.shape[1], dtype=jnp.int32)[None, :]
    return jnp.broadcast_to(index, segment_ids.shape)


def clamped_cache(cache, key, value):
    last = cache.key.shape[1] - 1
    slot = jnp.minimum(cache.position[:, None] + jnp.arange(key.shape[1])[None], last)
    row = jnp.arange(key.shape[0])[:, None]
    return cache._replace(
        key=cache.key.at[row, slot].set(key),
        value=cache.value.at[row, slot].set(value),
        position=cache.position + key.shape[1],
    )


def cache_without_position(cache, key, value):
    return right_extend(cache, key, value)._replace(position=cache.position + 1)


def rotation_from_each_start(self, x, positions):
    return right_rotate(self, x, positions - positions[:, :1])


def score_by_index(q, k):
    return right_score(q, k) + 0.1 * jnp.arange(k.shape[1])[None, None, None, :]


def other_when_compiled(scores, visible):
    weights = normalizers.softmax(scores, visible)
    return weights * 1.01 if isinstance(scores, Tracer) else weights


def output_in_float32(self, heads):
    return right_join(self, heads).astype(jnp.float32)


def normed_over_time(self, heads):
    y = right_join(self, heads)
    return y - y.mean(axis=1, keepdims=True)


class Mutant(NamedTuple):
    plant: Callable[[pytest.MonkeyPatch], None]
    caught_by: set[str]


def part(**changed) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        parts = core.Parts(
            score=changed.get("score", right_score),
            normalizer=changed.get("normalizer", normalizers.softmax),
        )
        patch.setattr(scaled_dot, "PARTS", parts)
        patch.setattr(scaled_dot, "attend", functools.partial(core.attend, parts))
        patch.setattr(scaled_dot, "weights", functools.partial(core.weights, parts))

    return plant


def swap(owner, name: str, fault) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(owner, name, fault)


VALUES = "attend.check_values"
MUTANTS = {
    "no scale": Mutant(part(score=no_scale), {VALUES, "attend.check_gradients"}),
    "scaled by the number of heads": Mutant(part(score=scale_by_width), {VALUES}),
    "scores in bfloat16": Mutant(
        part(score=score_in_bfloat16), {"attend.check_bfloat16", "attend.check_weights"}
    ),
    "kv heads tiled": Mutant(part(score=tiled_score), {"attend.check_values"}),
    "softmax over queries": Mutant(
        part(normalizer=softmax_over_queries), {VALUES, "causal.check_causal"}
    ),
    "mean where nothing is seen": Mutant(part(normalizer=mean_where_nothing_is_seen), {VALUES}),
    "NaN where nothing is seen": Mutant(
        part(normalizer=nan_where_nothing_is_seen),
        {VALUES, "attend.check_gradients", "causal.check_sees_nothing"},
    ),
    "normalized before the mask": Mutant(
        part(normalizer=normalized_before_the_mask),
        {VALUES, "causal.check_causal", "bidirectional.check_padding"},
    ),
    "softmax in bfloat16": Mutant(
        part(normalizer=softmax_in_bfloat16), {VALUES, "attend.check_weights"}
    ),
    "no gradient through the weights": Mutant(
        part(normalizer=no_gradient_through_weights), {"attend.check_gradients"}
    ),
    "mask polarity": Mutant(
        swap(masks, "visible", inverted_mask),
        {VALUES, "bidirectional.check_padding_mask", "cross.check_cross"},
    ),
    "conditions ORed": Mutant(swap(masks, "visible", ored_conditions), {VALUES}),
    "mask ignored": Mutant(
        swap(masks, "visible", ignored("mask")), {VALUES, "bidirectional.check_padding_mask"}
    ),
    "segments ignored": Mutant(
        swap(masks, "visible", ignored("segment_ids")),
        {
            VALUES,
            "bidirectional.check_packing",
            "bidirectional.check_padding",
            "cross.check_cross",
        },
    ),
    "causal ignored": Mutant(
        swap(masks, "visible", ignored("causal")),
        {VALUES, "causal.check_causal", "decode.check_decode"},
    ),
    "sees one ahead": Mutant(
        swap(masks, "visible", causal_shifted(1)), {VALUES, "causal.check_causal"}
    ),
    "does not see itself": Mutant(
        swap(masks, "visible", causal_shifted(-1)), {VALUES, "causal.check_causal"}
    ),
    "padding is a segment": Mutant(swap(masks, "visible", padding_sees_padding), {VALUES}),
    "offset guessed": Mutant(swap(masks, "conditions", guessed_offset), {"attend.check_refusals"}),
    "mask of any rank": Mutant(
        swap(masks, "check_mask", lambda mask, shape: None), {"attend.check_refusals"}
    ),
    "cache clamped": Mutant(
        swap(layer_module, "extend", clamped_cache), {"decode.check_decode_end"}
    ),
    "cache counts calls": Mutant(
        swap(layer_module, "extend", cache_without_position), {"decode.check_decode"}
    ),
    "rotation from each start": Mutant(
        swap(Rope, "rotate", rotation_from_each_start), {"decode.check_decode"}
    ),
    "keys scored by index": Mutant(
        part(score=score_by_index), {VALUES, "bidirectional.check_permutation"}
    ),
    "other when compiled": Mutant(
        part(normalizer=other_when_compiled),
        {"attend.check_compiled_equals_plain", "bidirectional.check_compiled_equals_plain"},
    ),
    "output in float32": Mutant(
        swap(AttentionLayer, "_joined", output_in_float32), {"bidirectional.check_bfloat16"}
    ),
    "statistics over time": Mutant(
        swap(AttentionLayer, "_joined", normed_over_time),
        {"causal.check_causal", "bidirectional.check_padding", "bidirectional.check_packing"},
    ),
}

CHECKS = {
    f"{group}.{check.__name__}": check
    for group, checks in (
        ("attend", attend_checks.ALL),
        ("bidirectional", layer_checks.BIDIRECTIONAL),
        ("causal", layer_checks.CAUSAL),
        ("decode", layer_checks.DECODE),
        ("cross", layer_checks.CROSS),
    )
    for check in checks
}


def probes(group: str):
    """Yields the probes that the suite gives to a group's checks."""
    if group == "attend":
        for kv_heads in (HEADS, HEADS // 2):
            yield AttendProbe("scaled_dot", kv_heads, True, reference)
    else:
        for position in (None,) if group == "cross" else (None, "rope"):
            yield LayerProbe(
                LayerCase("scaled_dot", (), position),
                causal=group in ("causal", "decode"),
                context=group == "cross",
            )


def caught(check: str) -> bool:
    for probe in probes(check.split(".")[0]):
        try:
            CHECKS[check](probe)
        except (AssertionError, ValueError, pytest.fail.Exception):
            return True
    return False


@pytest.mark.parametrize(
    ("mutant", "check"),
    [(name, check) for name, mutant in MUTANTS.items() for check in sorted(mutant.caught_by)],
)
def test_fault_is_caught(mutant, check, monkeypatch):
    MUTANTS[mutant].plant(monkeypatch)
    assert caught(check)


@pytest.mark.parametrize("check", sorted(CHECKS))
def test_no_false_alarm(check):
    assert not caught(check)


def test_every_check_catches_some_fault():
    used = {check.split(".")[1] for mutant in MUTANTS.values() for check in mutant.caught_by}
    assert used == {check.split(".")[1] for check in CHECKS}
