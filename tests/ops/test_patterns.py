"""Patterns: who sees whom by the papers' words, and that selections hold it, each pair once."""

from __future__ import annotations

import importlib
import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from reference import bigbird as bigbird_reference

from attention import variants
from attention.ops import masks
from attention.ops.bigbird import drawn_blocks
from attention.ops.selection import Blocks, Chosen

pytestmark = pytest.mark.fast
LENGTH = 37
ANY = np.array([[1] * 5 + [2] * 17 + [0] * 2 + [3] + [1] * 12, [7] * 37, [0] * 3 + [5] * 34])
# Segments that start at multiples of 4, with padding behind them.
ALIGNED = np.array([[1] * 18 + [0] * 2 + [2] * 3 + [0] + [1] * 13, [3] * 37, [1] * 4 + [2] * 33])
MARKED = np.random.default_rng(3).random((3, LENGTH)) < 0.15
CASES = {
    "sliding_window": [{"window": (5, 2)}, {"window": 20}, {"window": 40}],
    "dilated": [
        {"window": (5, 2), "dilation": 2},
        {"window": 3, "dilation": 5},
        {"window": 0, "dilation": 3},
    ],
    "strided": [{"stride": stride} for stride in (1, 2, 6, 40)],
    "fixed": [
        {"stride": 6, "summary": 2},
        {"stride": 1, "summary": 1},
        {"stride": 4, "summary": 4},
        {"stride": 40, "summary": 8},
    ],
    "bigbird": [
        {"pattern_block": 4, "num_random": 2, "layer": 3},
        {"pattern_block": 2, "num_random": 1, "seed": 9},
        {"pattern_block": 1, "num_random": 0},
    ],
    "longformer": [{"window": (5, 2)}, {"window": (0, 3)}, {"window": 3, "global_mask": MARKED}],
}


def over_cases(test):
    cases = [(name, options) for name, all_options in CASES.items() for options in all_options]
    ids = [f"{name}{number}" for number, (name, _) in enumerate(cases)]
    return pytest.mark.parametrize(("name", "options"), cases, ids=ids)(test)


def directions(name: str) -> list[bool]:
    return [False, True] if "causal" in variants.get(name).MODES else [False]


def segmentations(name: str) -> list[np.ndarray | None]:
    return [None, ALIGNED if name == "bigbird" else ANY]


def expected(name: str, options: dict, *, causal: bool, ids: np.ndarray | None) -> np.ndarray:
    """Returns bool [b t s] from the reference's loops, segments included."""
    reference = importlib.import_module(f"reference.{name}")
    config = variants.get(name).Config(**{k: v for k, v in options.items() if k != "global_mask"})
    given = {option: getattr(config, option) for option in reference.OPTIONS} | options
    sees = reference.pattern(LENGTH, LENGTH, causal=causal, segment_ids=ids, **given)
    if ids is None:
        return sees
    return sees & (ids[:, :, None] == ids[:, None, :]) & (ids[:, :, None] != 0)


@pytest.mark.long
@over_cases
def test_visible_is_the_paper(name, options):
    for causal, ids in itertools.product(directions(name), segmentations(name)):
        got = variants.get(name).visible(LENGTH, LENGTH, causal=causal, segment_ids=ids, **options)
        want = expected(name, options, causal=causal, ids=ids)
        np.testing.assert_array_equal(got[:, 0], want, err_msg=f"{causal=}")


@pytest.mark.long
@over_cases
def test_groups_hold_each_visible_pair_once(name, options):
    for causal, ids in itertools.product(directions(name), segmentations(name)):
        pattern, tokens = pattern_and_tokens(name, options, causal=causal, ids=ids)
        times = times_selected(pattern, tokens)
        want = expected(name, options, causal=causal, ids=ids)
        times, want = (np.broadcast_to(x, (3, LENGTH, LENGTH)) for x in (times, want))
        if ids is not None:
            times = times * ((ids[:, :, None] == ids[:, None, :]) & (ids[:, :, None] != 0))
        elsewhere = np.zeros((3, LENGTH), bool)  # in rows computed whole
        rows = pattern.full_rows(tokens)
        for b in range(3 if rows is not None else 0):
            index = np.broadcast_to(rows.index, (3, rows.index.shape[1]))[b]
            assert len(set(index[index >= 0])) == np.sum(index >= 0)
            elsewhere[b, index[index >= 0]] = True
        assert rows is None or rows.lost is None or not np.any(rows.lost)
        np.testing.assert_array_equal(times[~elsewhere], want.astype(int)[~elsewhere])


def test_summaries_of_any_segmentation_find_room():
    random = np.random.default_rng(0)
    for stride, summary in ((5, 1), (5, 4), (3, 3), (8, 5)):
        options = {"stride": stride, "summary": summary}
        for _ in range(10):
            ids = 1 + np.cumsum(random.random((1, LENGTH)) < random.random() / 2, axis=1)
            pattern, tokens = pattern_and_tokens("fixed", options, causal=False, ids=ids)
            chosen = np.asarray(pattern.groups(tokens)[1].keys)
            place = np.asarray(tokens.index - tokens.features["start"])
            wanted = np.flatnonzero(place[0] % stride >= stride - summary)
            np.testing.assert_array_equal(chosen[chosen >= 0], wanted)


# -- the draw of Big Bird --------------------------------------------------------------------------


def test_drawn_blocks_are_those_of_the_reference():
    block, count = np.divmod(np.arange(14 * 14), 14)
    block, count = block[block < count], count[block < count]
    for num, seed, layer in ((0, 0, 0), (1, 3, 2), (3, 0, 7), (4, 2**31 + 5, 1)):
        arrays = (jnp.asarray(x, jnp.int32)[None] for x in (block, count))
        got = np.asarray(drawn_blocks(*arrays, num=num, seed=seed, layer=layer))[0]
        given = {"num_random": num, "seed": seed, "layer": layer}
        for own, number, blocks in zip(block, count, got, strict=True):
            want = bigbird_reference.drawn(int(own), int(number), **given)
            assert sorted(blocks[blocks >= 0]) == sorted(want)


@pytest.mark.parametrize("varied", ["seed", "layer", "block"])
def test_every_choice_is_as_likely_as_every_other(varied):
    """Of 6 candidates 2 are drawn: 15 pairs, each 200 ± 14 times of 3000; 5 standard deviations."""
    counts: dict[tuple[int, ...], int] = {}
    for number in range(3000):
        given = {"seed": 5, "layer": 2, "block": 0} | {varied: number}
        bits = [bigbird_reference.bits(*given.values(), k) for k in range(2)]
        first, second = bits[0] % 5, bits[1] % 6
        pair = tuple(sorted((first, 5 if second == first else second)))
        counts[pair] = counts.get(pair, 0) + 1
    assert len(counts) == 15
    assert all(abs(count - 200) < 70 for count in counts.values())


def test_layers_and_seeds_draw_otherwise():
    block, count = jnp.arange(40)[None], jnp.full((1, 40), 40)
    draws = [
        drawn_blocks(block, count, num=3, seed=seed, layer=layer)
        for seed, layer in ((0, 0), (0, 1), (1, 0), (1, 1))
    ]
    for one, other in itertools.combinations(draws, 2):
        assert np.mean(np.asarray(one) == np.asarray(other)) < 0.2


# -- what the tests stand on -----------------------------------------------------------------------


def pattern_and_tokens(name: str, options: dict, *, causal: bool, ids: np.ndarray | None):
    module = variants.get(name)
    own = {k: v for k, v in options.items() if k != "global_mask"}
    variant = module.VARIANT
    if "global_mask" in options:
        variant = module._variant("all", options["global_mask"])
    pattern = variant.pattern(module.Config(**own), causal)
    given = masks.conditions(
        (1 if ids is None else len(ids), 1, LENGTH, LENGTH),
        segment_ids=None if ids is None else jnp.asarray(ids, jnp.int32),
        pattern=pattern,
    )
    return pattern, given.queries


def times_selected(pattern, tokens) -> np.ndarray:
    """Returns how often each pair is computed and seen [b t s] in the groups of a pattern."""
    times = np.zeros((1, LENGTH, LENGTH), int)
    for group in pattern.groups(tokens):
        held = held_by_blocks(group) if isinstance(group, Blocks) else held_by_choice(group)
        times = times + held * np.asarray(group.pattern.visible(tokens, tokens))
    return times


def held_by_choice(group: Chosen) -> np.ndarray:
    keys = np.asarray(group.keys)
    held = np.zeros((len(keys), LENGTH, LENGTH), int)
    for b, row in enumerate(keys):
        for key in row[row >= 0]:
            held[b, :, key] += 1
    return held


def held_by_blocks(group: Blocks) -> np.ndarray:
    reads = np.asarray(group.reads)
    each = reads.shape[1] * group.size // group.step
    order = np.arange(each)[None, :] * group.step + np.arange(group.step)[:, None]
    blocks = order.reshape(-1, group.size)
    held = np.zeros((len(reads), LENGTH, LENGTH), int)
    for b, c in np.ndindex(reads.shape[:2]):
        queries = blocks[c][blocks[c] < LENGTH]
        for block in reads[b, c][reads[b, c] >= 0]:
            keys = blocks[block][blocks[block] < LENGTH]
            held[b, queries[:, None], keys[None, :]] += 1
    return held
