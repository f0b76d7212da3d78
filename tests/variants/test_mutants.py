"""The conformance suite has teeth: each planted fault must fail the checks named beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from support import attend_checks, faults, layer_checks
from support.attend_checks import AttendProbe
from support.cases import HEADS, AttendCase, LayerCase, reference
from support.layer_checks import LayerProbe

from attention.core import block, cache, padding, stepping
from attention.core.exact_variant import ExactVariant
from attention.core.layer import AttentionLayer
from attention.core.parts import Score
from attention.normalizers import softmax
from attention.ops import masks
from attention.ops.relative import T5, Alibi, Shaw
from attention.ops.window import Window
from attention.positions.rope import Rope
from attention.variants import scaled_dot

pytestmark = pytest.mark.mutants


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
    "no scale": Mutant(with_score(faults.no_scale), {VALUES, "attend.check_gradients"}),
    "scaled by the number of heads": Mutant(with_score(faults.scale_by_width), {VALUES}),
    "scores in bfloat16": Mutant(
        with_score(faults.score_in_bfloat16), {"attend.check_bfloat16", "attend.check_weights"}
    ),
    "kv heads tiled": Mutant(with_score(faults.tiled_score), {"attend.check_values"}),
    "softmax over queries": Mutant(
        swap(softmax, "normalize", faults.softmax_over_queries), {VALUES, "causal.check_causal"}
    ),
    "mean where nothing is seen": Mutant(
        swap(softmax, "normalize", faults.mean_where_nothing_is_seen), {VALUES}
    ),
    "NaN where nothing is seen": Mutant(
        swap(softmax, "normalize", faults.nan_where_nothing_is_seen),
        {VALUES, "attend.check_gradients", "causal.check_sees_nothing"},
    ),
    "normalized before the mask": Mutant(
        swap(softmax, "normalize", faults.normalized_before_the_mask),
        {VALUES, "causal.check_causal", "bidirectional.check_padding"},
    ),
    "softmax in bfloat16": Mutant(
        swap(softmax, "normalize", faults.softmax_in_bfloat16), {VALUES, "attend.check_weights"}
    ),
    "no gradient through the weights": Mutant(
        swap(softmax, "normalize", faults.no_gradient_through_weights), {"attend.check_gradients"}
    ),
    "mask polarity": Mutant(
        swap(masks, "visible", faults.inverted_mask),
        {VALUES, "bidirectional.check_padding_mask", "cross.check_cross"},
    ),
    "conditions ORed": Mutant(swap(masks, "visible", faults.ored_conditions), {VALUES}),
    "mask faults.ignored": Mutant(
        swap(masks, "visible", faults.ignored("mask")), {VALUES, "bidirectional.check_padding_mask"}
    ),
    "segments faults.ignored": Mutant(
        swap(masks, "visible", faults.ignored("segments")),
        {
            VALUES,
            "bidirectional.check_packing",
            "bidirectional.check_padding",
            "cross.check_cross",
        },
    ),
    "causal faults.ignored": Mutant(
        swap(masks, "visible", faults.ignored("causal")),
        {VALUES, "causal.check_causal", "decode.check_decode"},
    ),
    "sees one ahead": Mutant(
        swap(masks, "visible", faults.causal_shifted(1)), {VALUES, "causal.check_causal"}
    ),
    "does not see itself": Mutant(
        swap(masks, "visible", faults.causal_shifted(-1)), {VALUES, "causal.check_causal"}
    ),
    "padding is a segment": Mutant(swap(masks, "visible", faults.padding_sees_padding), {VALUES}),
    "offset guessed": Mutant(
        swap(masks, "conditions", faults.guessed_offset), {"attend.check_refusals"}
    ),
    "mask of any rank": Mutant(
        swap(masks, "check_mask", lambda mask, shape: None), {"attend.check_refusals"}
    ),
    "cache clamped": Mutant(
        swap(stepping, "extend", faults.clamped_cache), {"decode.check_decode_end"}
    ),
    "cache counts calls": Mutant(
        swap(stepping, "extend", faults.cache_without_position), {"decode.check_decode"}
    ),
    "another row's context": Mutant(
        swap(stepping, "context_cache", faults.context_of_the_next_row), {"cross.check_cross_steps"}
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
        swap(Rope, "rotate", faults.rotation_from_each_start), {"decode.check_decode"}
    ),
    "keys scored by index": Mutant(
        with_score(faults.score_by_index), {VALUES, "bidirectional.check_permutation"}
    ),
    "other when compiled": Mutant(
        swap(softmax, "normalize", faults.other_when_compiled),
        {"attend.check_compiled_equals_plain", "bidirectional.check_compiled_equals_plain"},
    ),
    "output in float32": Mutant(
        swap(AttentionLayer, "joined", faults.output_in_float32), {"bidirectional.check_bfloat16"}
    ),
    "a low number for hidden keys": Mutant(
        lambda patch: (
            patch.setattr(block, "scores_block", faults.bias_after_mask),
            patch.setattr(block, "normalize", faults.nothing_hidden),
        ),
        {VALUES},
    ),
    "softcap after the bias": Mutant(
        swap(block, "scores_block", faults.softcap_after_bias), {VALUES}
    ),
    "causal blocks see ahead": Mutant(
        swap(masks, "key_prefix", faults.one_key_short), {"attend.check_implementations"}
    ),
    "a window reads too few keys": Mutant(
        swap(Window, "groups", faults.last_blocks_only), {"attend.check_implementations"}
    ),
    "window one wider": Mutant(swap(Window, "visible", faults.window_wider), {VALUES}),
    "window one narrower": Mutant(swap(Window, "visible", faults.window_narrower), {VALUES}),
    "window mirrored": Mutant(swap(Window, "visible", faults.window_mirrored), {VALUES}),
    "ALiBi upside down": Mutant(swap(Alibi, "bias", faults.alibi_upside_down), {VALUES}),
    "T5 signs swapped": Mutant(swap(T5, "buckets", faults.t5_signs_swapped), {VALUES}),
    "Shaw signs swapped": Mutant(swap(Shaw, "key_term", faults.shaw_signs_swapped), {VALUES}),
    "window cache one off": Mutant(
        swap(cache, "_roll", faults.rolled_too_far), {"decode.check_decode"}
    ),
    "values not trained": Mutant(
        swap(AttentionLayer, "values", faults.untrained_values), {"bidirectional.check_gradients"}
    ),
    "statistics over time": Mutant(
        swap(AttentionLayer, "joined", faults.normed_over_time),
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
