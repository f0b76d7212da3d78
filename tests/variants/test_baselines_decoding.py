"""The recurrent and the convolutional layer, decoding token by token."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.baselines import B, D, T, compiled, make, over_cases, over_names, random

from attention.errors import UserError


@pytest.mark.parametrize("prompt", [1, 4])
@over_cases
def test_decoding_equals_the_whole(name, options, prompt):
    layer, x = make(name, options, True), random(B, T, D)
    step = compiled(name, options, True, "decode")
    visible = np.random.default_rng(2).random((B, T)) < 0.7
    for mask in (None, visible[:, None, None, :]):
        cache, parts = layer.init_cache(B, T), []
        assert all(leaf.shape[0] == B for leaf in jax.tree.leaves(cache))
        for start, stop in [(0, prompt), *((i, i + 1) for i in range(prompt, T))]:
            out, cache = step(x[:, start:stop], cache, mask=mask)
            parts.append(out)
        want = compiled(name, options, True)(x, mask=mask)
        np.testing.assert_allclose(np.concatenate(parts, 1), want, rtol=0, atol=2e-6)
        assert not np.any(cache.overflow)


@over_names
def test_decoding_with_a_mask_over_the_tokens_so_far(name):
    """A mask that grows with the tokens says the same as one over all slots."""
    layer, x = make(name, causal=True), random(B, T, D)
    visible = np.random.default_rng(2).random((B, T)) < 0.7
    cache, parts = layer.init_cache(B, T), []
    for i in range(T):
        out, cache = layer.decode(x[:, i : i + 1], cache, mask=visible[:, None, None, : i + 1])
        parts.append(out)
    want = layer(x, mask=visible[:, None, None, :])
    np.testing.assert_allclose(np.concatenate(parts, 1), want, rtol=0, atol=2e-6)
    # Past the mask's end nothing may be read; [b 1 1 1] is one value for all.
    short, _ = layer.decode(x[:, :3], layer.init_cache(B, T), mask=np.ones((B, 1, 1, 2), bool))
    hidden = np.ones((B, 1, 1, 3), bool)
    hidden[..., 2] = False
    np.testing.assert_allclose(short, layer(x[:, :3], mask=hidden), rtol=0, atol=2e-6)
    none, _ = layer.decode(x[:, :3], layer.init_cache(B, T), mask=np.zeros((B, 1, 1, 1), bool))
    want = layer(x[:, :3], mask=np.zeros((B, 1, 1, 3), bool))
    np.testing.assert_allclose(none, want, rtol=0, atol=2e-6)


@over_cases
def test_decoding_past_the_end(name, options):
    layer, x = make(name, options, True), random(B, T, D)
    step = compiled(name, options, True, "decode")
    _, cache = step(x[:, :4], layer.init_cache(B, 5))
    with pytest.raises(UserError, match=r"decoding 2 .*position 4 .*max_length=5"):
        layer.decode(x[:, 4:6], cache)
    # One of the two fits: it is kept, the other changes nothing.
    fitted, one = step(x[:, 4:5], cache)
    assert not np.any(one.overflow)
    both, over = step(x[:, 4:6], cache)
    assert np.all(over.overflow)
    np.testing.assert_allclose(both[:, :1], fitted, rtol=0, atol=2e-6)
    same = over._replace(position=one.position, overflow=one.overflow)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-6), same, one)
    _, after = step(x[:, :1], over)
    assert np.all(after.overflow), "once over, for good"


@over_names
def test_rows_decoded_to_different_places(name):
    """Beams and rows of different lengths: each row has its own position, state and end."""
    layer, x = make(name, causal=True), random(B, T, D)
    want = layer(x)
    _, early = layer.decode(x[:, :2], layer.init_cache(B, T))
    _, late = layer.decode(x[:, :6], layer.init_cache(B, T))
    rows = np.array([True, False, True])
    mixed = jax.tree.map(
        lambda a, b: jnp.where(rows.reshape(-1, *[1] * (a.ndim - 1)), a, b), early, late
    )
    following = np.where(rows[:, None, None], x[:, 2:3], x[:, 6:7])
    mask = np.ones((B, 1, 1, T), bool)
    out, _ = layer.decode(following, mixed, mask=mask)
    at = np.where(rows, 2, 6)
    np.testing.assert_allclose(out[:, 0], want[np.arange(B), at], rtol=0, atol=2e-6)
    mask[0, ..., 2] = mask[1, ..., 6] = False
    out, _ = layer.decode(following, mixed, mask=mask)
    hidden = layer(x, mask=mask)
    np.testing.assert_allclose(out[:, 0], hidden[np.arange(B), at], rtol=0, atol=2e-6)
