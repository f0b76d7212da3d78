"""What the recurrent and the convolutional layer refuse, and how the refusal reads."""

from __future__ import annotations

import numpy as np
import pytest
from flax import nnx
from support.baselines import IDS, B, D, H, N, T, make, over_names, random

from attention import variants
from attention.errors import UserError

pytestmark = pytest.mark.fast


def wrong_mask(layer, x):
    return layer(x, mask=np.ones((B, 1, T, T), bool))


@over_names
@pytest.mark.parametrize(
    ("settings", "call", "words"),
    [
        ({"position": "rope"}, None, r"position='rope'.*no use for it: choose one of .*none"),
        ({}, lambda layer, x: layer(x, context=x), "no cross-attention"),
        ({}, lambda layer, x: layer(x, context_segment_ids=IDS), "no cross-attention"),
        ({}, wrong_mask, r"mask of shape .*\(3, 1, 1, 9\)"),
        ({}, lambda layer, x: layer(x, mask=np.ones((B, T), bool)), "rank 4"),
        ({}, lambda layer, x: layer(x, mask=np.ones((B, 1, 1, T))), "boolean"),
        ({}, lambda layer, x: layer(x, segment_ids=IDS[:, 1:]), r"segment_ids has shape \(3, 8\)"),
        ({}, lambda layer, x: layer.decode(x, layer.init_cache(B, T)), "causal=True"),
        (
            {"causal": True},
            lambda layer, x: layer.decode(x, layer.init_cache(B, T), context=x),
            "no cross-attention",
        ),
        (
            {"causal": True},
            lambda layer, x: layer.decode(
                x, layer.init_cache(B, T), mask=np.ones((B, 1, T, T), bool)
            ),
            "mask of shape",
        ),
    ],
)
def test_refusals(name, settings, call, words):
    with pytest.raises(ValueError, match=words):
        layer = make(name, **settings)
        call(layer, random(B, T, D))


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("rnn", {"cell": "gro"}, r"model\.attention\.cell='gro'.*gru, lstm.*did you mean 'gru'"),
        ("rnn", {"num_heads": 1, "head_dim": 5}, r"num_heads·head_dim=5 must be even"),
        ("cnn", {"width": 0}, r"model\.attention\.width=0: expected an int from 1 to 4096"),
    ],
)
def test_wrong_options(name, settings, words):
    with pytest.raises(UserError, match=words):
        variants.make(
            name, **{"dim": D, "num_heads": N, "head_dim": H, "rngs": nnx.Rngs(0), **settings}
        )


@over_names
def test_positions_change_nothing(name):
    """Order is built in; the encoder gives positions to every layer all the same."""
    layer, x = make(name), random(B, T, D)
    positions = np.random.default_rng(0).integers(0, 9, (B, T)).astype(np.int32)
    np.testing.assert_array_equal(layer(x, positions=positions), layer(x))
    assert variants.get(name).POSITIONS == ()
    assert variants.make(name, dim=D, num_heads=N, head_dim=H, position="none", rngs=nnx.Rngs(0))


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_causal_layer_takes_an_odd_width(cell):
    layer = variants.make(
        "rnn", dim=D, num_heads=1, head_dim=5, causal=True, cell=cell, rngs=nnx.Rngs(0)
    )
    assert layer(random(B, T, D)).shape == (B, T, D)
