"""Nothing to attend from or to: results of the right shape, and zeros for who sees nothing."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from support.cases import other_sequence, small_options

from attention import variants

OWN = {
    "additive": {"score_vector": jnp.ones((4, 2))},
    "general": {"score_matrix": jnp.ones((4, 2, 2))},
    "cosine": {"temperature": jnp.ones(4)},
    "sink": {"sink": jnp.ones(4)},
    "talking_heads": {"pre_mix": jnp.eye(4), "post_mix": jnp.eye(4)},
    "differential": {"lam": jnp.ones(2)},
    "location_sensitive": {
        "score_vector": jnp.ones((4, 2)),
        "location_filters": jnp.ones((4, 3, 1)),
        "location_matrix": jnp.ones((4, 1, 2)),
    },
    "monotonic": {
        "score_vector": jnp.ones((4, 2)),
        "score_gain": jnp.ones(4),
        "score_offset": jnp.ones(4),
    },
}
# One that has the usual layer, and those that have another; the others are slow.
OWN_LAYERS = ("scaled_dot", "mla", "longformer", "rnn", "cnn", "monotonic")
CROSS = [name for name in variants.names() if "cross" in variants.get(name).MODES]


@pytest.mark.parametrize(
    "name",
    [
        name if name in OWN_LAYERS else pytest.param(name, marks=pytest.mark.slow)
        for name in variants.names()
    ],
)
def test_a_layer_of_no_tokens(name):
    causal = "causal" in variants.get(name).MODES
    options = dict(small_options(name))
    layer = variants.make(name, dim=8, num_heads=4, causal=causal, rngs=nnx.Rngs(0), **options)
    for shape in ((2, 0), (0, 3)):
        x, ids = jnp.zeros((*shape, 8)), jnp.ones(shape, jnp.int32)
        other = other_sequence(name, x)
        assert layer(x, **other, segment_ids=ids).shape == x.shape
        if name not in ("rnn", "cnn"):
            assert layer.weights(x, **other).shape == (shape[0], 4, shape[1], shape[1])
    if "decode" in variants.get(name).MODES:
        x = jnp.zeros((2, 0, 8))
        y, cache = layer.decode(x, layer.init_cache(2, 4, **other_sequence(name, x)))
        assert y.shape == (2, 0, 8) and not np.any(cache.position)


@pytest.mark.parametrize("name", CROSS)
def test_queries_or_keys_there_are_none_of(name):
    module = variants.get(name)
    for t, s in ((3, 0), (0, 3)):
        q, k, v = jnp.ones((2, t, 4, 2)), jnp.ones((2, s, 4, 2)), jnp.ones((2, s, 4, 2))
        own = {"gate": q} if name == "gated" else OWN.get(name, {})
        out = module.attend(q, k, v, **own)
        assert out.shape == (2, t, 4, 2) and not np.any(out)
        assert module.weights(q, k, **own).shape == (2, 4, t, s)
