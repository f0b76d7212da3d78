"""`keras.layers.AdditiveAttention` on its torch backend, in float64; one layer for each head."""

from __future__ import annotations

import os

import numpy as np

from witnesses.common import (
    BATCH,
    HEAD_DIM,
    HEADS,
    KEY,
    KEYS,
    QUERIES,
    QUERY,
    Arrays,
    as64,
    causal,
    compare,
    draw,
    draw_mask,
    library,
    record,
    softmax,
    weigh,
)


def additive_keras() -> Arrays:
    """Row 2. Keras's `scale` is our `score_vector` of one head; its mask is over keys only."""
    os.environ["KERAS_BACKEND"] = "torch"
    import torch
    from keras.layers import AdditiveAttention

    given = draw(10, q=QUERY, k=KEY, v=KEY, cotangent=QUERY, score_vector=(HEADS, HEAD_DIM))
    given["mask"] = draw_mask(11, (BATCH, HEADS, 1, KEYS))
    kept = dict(given)
    q, k, v, vector = as64(given, "q k v score_vector")
    e = (vector[:, None, None, :] * np.tanh(_first(q)[..., None, :] + _first(k)[:, :, None])).sum(
        -1
    )
    settings = {
        "full": ({}, True),
        "masked": ({"mask": given["mask"]}, given["mask"]),
        "causal": ({"use_causal_mask": True}, causal(QUERIES, KEYS)),
    }
    for case, (options, visible) in settings.items():

        def run(q, k, v, score_vector, options=options):
            heads = []
            for n in range(HEADS):
                layer = AdditiveAttention(dtype="float64")
                layer.build([x[:, :, n].shape for x in (q, v, k)])
                # In place of the weight, so that the gradient reaches the array of all heads.
                layer.scale = _untracked(layer, score_vector[n])
                given = dict(options)
                if "mask" in given:
                    given["mask"] = [None, torch.from_numpy(given["mask"][:, n, 0])]
                heads.append(layer.call([x[:, :, n] for x in (q, v, k)], **given))
            return torch.stack(heads, dim=2)

        kept |= record(case, run, given, "q k v score_vector")
        compare(case, kept[f"{case}_out"], weigh(softmax(e, visible), v))
    return {**kept, "library": library("keras", "torch")}


def _first(x: np.ndarray) -> np.ndarray:
    return x.swapaxes(1, 2)


def _untracked(layer, tensor):
    """Takes the layer's own weight away, which Keras guards, and returns the tensor."""
    layer._tracker.unlock()
    del layer.scale
    return tensor


WITNESSES = {"additive_keras": additive_keras}
