"""The conformance suite has teeth: each planted fault must fail the checks named beside it."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax.core import Tracer
from support import attend_checks, layer_checks
from support.attend_checks import AttendProbe
from support.cases import HEADS, AttendCase, LayerCase, reference
from support.layer_checks import LayerProbe

from attention.core import block, cache, padding, stepping
from attention.core.cache import Extended, tokens_first
from attention.core.exact_variant import ExactVariant
from attention.core.layer import AttentionLayer
from attention.core.parts import Score
from attention.normalizers import softmax
from attention.ops import masks, scores
from attention.ops.relative import T5, Alibi, Shaw
from attention.ops.window import Window
from attention.positions.rope import Rope
from attention.variants import scaled_dot

pytestmark = pytest.mark.mutants

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


class Mutant(NamedTuple):
    plant: Callable[[pytest.MonkeyPatch], None]
    caught_by: set[str]


def with_score(fault) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        variant = ExactVariant(scaled_dot.Config, Score(fault))
        for name, value in {"VARIANT": variant, "attend": variant.attend}.items():
            patch.setattr(scaled_dot, name, value)
        patch.setattr(scaled_dot, "weights", variant.weights)
        patch.setattr(scaled_dot, "make", variant.make)

    return plant


def swap(owner, name: str, fault) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(owner, name, fault)


VALUES = "attend.check_values"
MUTANTS = {
    "no scale": Mutant(with_score(no_scale), {VALUES, "attend.check_gradients"}),
    "scaled by the number of heads": Mutant(with_score(scale_by_width), {VALUES}),
    "scores in bfloat16": Mutant(
        with_score(score_in_bfloat16), {"attend.check_bfloat16", "attend.check_weights"}
    ),
    "kv heads tiled": Mutant(with_score(tiled_score), {"attend.check_values"}),
    "softmax over queries": Mutant(
        swap(softmax, "normalize", softmax_over_queries), {VALUES, "causal.check_causal"}
    ),
    "mean where nothing is seen": Mutant(
        swap(softmax, "normalize", mean_where_nothing_is_seen), {VALUES}
    ),
    "NaN where nothing is seen": Mutant(
        swap(softmax, "normalize", nan_where_nothing_is_seen),
        {VALUES, "attend.check_gradients", "causal.check_sees_nothing"},
    ),
    "normalized before the mask": Mutant(
        swap(softmax, "normalize", normalized_before_the_mask),
        {VALUES, "causal.check_causal", "bidirectional.check_padding"},
    ),
    "softmax in bfloat16": Mutant(
        swap(softmax, "normalize", softmax_in_bfloat16), {VALUES, "attend.check_weights"}
    ),
    "no gradient through the weights": Mutant(
        swap(softmax, "normalize", no_gradient_through_weights), {"attend.check_gradients"}
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
        swap(masks, "visible", ignored("segments")),
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
    "cache clamped": Mutant(swap(stepping, "extend", clamped_cache), {"decode.check_decode_end"}),
    "cache counts calls": Mutant(
        swap(stepping, "extend", cache_without_position), {"decode.check_decode"}
    ),
    "another row's context": Mutant(
        swap(stepping, "context_cache", context_of_the_next_row), {"cross.check_cross_steps"}
    ),
    "steps read padding": Mutant(
        swap(padding, "real_keys", lambda mask, real: mask), {"cross.check_cross_steps"}
    ),
    "padding is multiplied": Mutant(
        swap(masks, "blanked", lambda x, real: x), {"attend.check_padding", "cross.check_cross"}
    ),
    "padding enters the layer": Mutant(
        swap(padding, "without_padding", lambda x, context, heads, **given: (x, context)),
        {"bidirectional.check_padding", "bidirectional.check_padding_mask"},
    ),
    "rotation from each start": Mutant(
        swap(Rope, "rotate", rotation_from_each_start), {"decode.check_decode"}
    ),
    "keys scored by index": Mutant(
        with_score(score_by_index), {VALUES, "bidirectional.check_permutation"}
    ),
    "other when compiled": Mutant(
        swap(softmax, "normalize", other_when_compiled),
        {"attend.check_compiled_equals_plain", "bidirectional.check_compiled_equals_plain"},
    ),
    "output in float32": Mutant(
        swap(AttentionLayer, "joined", output_in_float32), {"bidirectional.check_bfloat16"}
    ),
    "a low number for hidden keys": Mutant(
        lambda patch: (
            patch.setattr(block, "scores_block", bias_after_mask),
            patch.setattr(block, "normalize", nothing_hidden),
        ),
        {VALUES},
    ),
    "softcap after the bias": Mutant(swap(block, "scores_block", softcap_after_bias), {VALUES}),
    "causal blocks see ahead": Mutant(
        swap(masks, "key_prefix", one_key_short), {"attend.check_implementations"}
    ),
    "a window reads too few keys": Mutant(
        swap(Window, "groups", last_blocks_only), {"attend.check_implementations"}
    ),
    "window one wider": Mutant(swap(Window, "visible", window_wider), {VALUES}),
    "window one narrower": Mutant(swap(Window, "visible", window_narrower), {VALUES}),
    "window mirrored": Mutant(swap(Window, "visible", window_mirrored), {VALUES}),
    "ALiBi upside down": Mutant(swap(Alibi, "bias", alibi_upside_down), {VALUES}),
    "T5 signs swapped": Mutant(swap(T5, "buckets", t5_signs_swapped), {VALUES}),
    "Shaw signs swapped": Mutant(swap(Shaw, "key_term", shaw_signs_swapped), {VALUES}),
    "window cache one off": Mutant(swap(cache, "_roll", rolled_too_far), {"decode.check_decode"}),
    "values not trained": Mutant(
        swap(AttentionLayer, "values", untrained_values), {"bidirectional.check_gradients"}
    ),
    "statistics over time": Mutant(
        swap(AttentionLayer, "joined", normed_over_time),
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


ATTEND_CASES = (
    AttendCase("scaled_dot", HEADS, True),
    AttendCase("scaled_dot", HEADS // 2, True),
    AttendCase("scaled_dot", HEADS // 2, False, (("softcap", 0.9),)),
    AttendCase("scaled_dot", HEADS, False, (("window", (3, 1)),)),
    *(AttendCase("scaled_dot", HEADS, False, (), name) for name in ("alibi", "t5", "shaw")),
)
LAYER_CASES = (
    LayerCase("scaled_dot"),
    LayerCase("scaled_dot", (), "rope"),
    LayerCase("scaled_dot", (("window", 2),)),
)


def probes(group: str):
    """Yields the probes that the suite gives to a group's checks."""
    if group == "attend":
        for case in ATTEND_CASES:
            yield AttendProbe(case, reference("scaled_dot"))
        return
    for case in LAYER_CASES[:1] if group == "cross" else LAYER_CASES:
        directions = {"causal": group in ("causal", "decode"), "context": group == "cross"}
        yield LayerProbe(case, **directions)


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
