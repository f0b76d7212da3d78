"""What the tests of the recurrent and the convolutional layer share: sizes, layers, references."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from flax import nnx
from reference import cnn as cnn_reference
from reference import rnn as rnn_reference

from attention import variants

B, T, D, N, H = 3, 9, 10, 2, 6
REFERENCES = {"rnn": rnn_reference, "cnn": cnn_reference}
CASES = [
    ("rnn", (("cell", "gru"),)),
    ("rnn", (("cell", "lstm"),)),
    ("cnn", (("width", 5),)),
    ("cnn", (("width", 4),)),
    ("cnn", (("width", 1),)),
    ("cnn", (("width", 25),)),  # wider than the row
]
# Two sentences and padding; padding first, inside and last; a sentence that fills its row.
IDS = np.array(
    [[1, 1, 1, 1, 2, 2, 2, 0, 0], [0, 0, 3, 3, 0, 0, 3, 1, 0], [1] * T],
    np.int32,
)
over_cases = pytest.mark.parametrize(("name", "options"), CASES)
over_names = pytest.mark.parametrize("name", ["rnn", "cnn"])
over_directions = pytest.mark.parametrize("causal", [False, True])


@functools.cache
def make(name, options=(), causal=False, **settings):
    """Returns a layer whose parameters, biases too, are off their initial values."""
    given = {"dim": D, "num_heads": N, "head_dim": H, "causal": causal, "rngs": nnx.Rngs(0)}
    layer = variants.make(name, **{**given, **settings}, **dict(options))
    random = np.random.default_rng(1)
    for _, leaf in nnx.to_flat_state(nnx.state(layer, nnx.Param)):
        leaf[...] += 0.3 * random.normal(size=leaf.shape).astype(np.float32)
    return layer


@functools.cache
def compiled(name, options=(), causal=False, method="__call__"):
    """Returns a method of that layer, compiled once for all tests."""
    graphdef, state = nnx.split(make(name, options, causal))
    return jax.jit(
        lambda *args, **given: getattr(nnx.merge(graphdef, state), method)(*args, **given)
    )


def random(*shape, seed=0):
    """Returns normal numbers in float32."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def wide(layer):
    """Returns the layer's parameters by dotted path, in float64."""
    state = nnx.to_flat_state(nnx.state(layer, nnx.Param))
    return {".".join(path): np.asarray(leaf[...], np.float64) for path, leaf in state}


def expected(name, options, causal, x, ids, visible=None, parameters=None):
    """Returns what the reference gives for that layer, or for other parameters."""
    return REFERENCES[name].forward(
        wide(make(name, options, causal)) if parameters is None else parameters,
        np.asarray(x, np.float64),
        segment_ids=ids,
        causal=causal,
        visible=visible,
        **dict(options),
    )
