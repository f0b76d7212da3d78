"""Big Bird (arXiv 2007.14062, appendix D): blocks, their neighbours, ends, and random others."""

from __future__ import annotations

import numpy as np
from reference.scaled_dot import attend, weights  # noqa: F401
from reference.stretches import rows, stretch

OPTIONS = ("pattern_block", "num_random", "seed", "layer")


def drawn(block: int, count: int, *, num_random: int, seed: int, layer: int) -> set[int]:
    """Returns the blocks that a block draws of the `count` blocks of its segment.

    Floyd's algorithm over the candidates in order, with hashed bits.
    """
    seen = {0, count - 1, block - 1, block, block + 1}
    candidates = [other for other in range(count) if other not in seen]
    taken: list[int] = []
    for k in range(num_random):
        last = len(candidates) - num_random + k
        if last < 0:
            continue
        pick = bits(seed, layer, block, k) % (last + 1)
        taken.append(last if pick in taken else pick)
    assert len(set(taken)) == min(num_random, len(candidates))
    return {candidates[pick] for pick in taken}


def bits(*numbers: int) -> int:
    """Returns a hash of 32 bits (lowbias32 of each number, chained)."""
    word = 0
    for number in numbers:
        word ^= number
        word = ((word ^ (word >> 16)) * 0x7FEB352D) % 2**32
        word = ((word ^ (word >> 15)) * 0x846CA68B) % 2**32
        word ^= word >> 16
    return word


def pattern(
    t: int,
    s: int,
    *,
    causal: bool,
    segment_ids: np.ndarray | None = None,
    pattern_block: int,
    num_random: int,
    seed: int,
    layer: int | None,
) -> np.ndarray:
    """Returns bool [b t s], blocks counted from the start of the segment."""
    ids = rows(s, segment_ids)
    sees = np.zeros((len(ids), t, s), bool)
    for b, query in np.ndindex(len(ids), t):
        start, stop = stretch(ids[b], query)
        count = -(-(stop - start) // pattern_block)
        own = (query - start) // pattern_block
        others = drawn(own, count, num_random=num_random, seed=seed, layer=layer or 0)
        for key in range(start, min(stop, query + 1) if causal else stop):
            block = (key - start) // pattern_block
            ends = {0, count - 1} & {own, block}
            sees[b, query, key] = abs(own - block) <= 1 or bool(ends) or block in others
    return sees
