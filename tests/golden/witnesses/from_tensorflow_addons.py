"""`BahdanauMonotonicAttention` of TensorFlow Addons, in float64; one layer for each head.

It needs an environment of its own: requirements_tensorflow.txt.
"""

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
    compare,
    draw,
    library,
    weigh,
)

LENGTHS = (KEYS, KEYS - 2)
OWN = {"score_vector": "attention_v", "score_gain": "attention_g"}
OWN |= {"score_offset": "attention_score_bias"}
# Case → its `mode`, and how many keys of each row are real.
CASES = {
    "soft": ("parallel", None),
    "masked": ("parallel", LENGTHS),
    "hard": ("hard", None),
    "hard_masked": ("hard", LENGTHS),
}


def monotonic_tensorflow_addons() -> Arrays:
    """Row 40. `normalize=True` is equation 16, with a bias inside the tanh that is 0 here.

    `parallel` divides by cumulative products of no less than 1e-10, which these inputs stay above;
    `recursive` is for float32 only. `hard` starts at the key where the query before stopped, and so
    stays at none after it; nothing goes back through it.
    """
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    given = draw(130, q=QUERY, k=KEY, v=KEY, cotangent=QUERY, score_vector=(HEADS, HEAD_DIM))
    given |= draw(131, score_gain=(HEADS,), score_offset=(HEADS,))
    # Energies on both sides of 0, so that some paths stop and others pass.
    given["score_gain"] = np.float32(2) + np.abs(given["score_gain"])
    given["score_offset"] = np.float32(-0.5) + np.float32(0.3) * given["score_offset"]
    given["mask"] = (np.arange(KEYS) < np.array(LENGTHS)[:, None])[:, None, None, :]
    kept = dict(given)
    for case, (mode, lengths) in CASES.items():
        recorded = _record(case, given, mode, lengths)
        soft = mode == "parallel"
        kept |= {name: array for name, array in recorded.items() if soft or "grad" not in name}
        visible = True if lengths is None else given["mask"][:, 0]
        compare(case, kept[f"{case}_out"], _formula(given, visible, soft))
    return {**kept, "library": library("tensorflow-addons", "tensorflow-cpu")}


def _record(case: str, given: Arrays, mode: str, lengths: tuple[int, ...] | None) -> Arrays:
    import tensorflow as tf

    q, k, v = (tf.constant(given[name], tf.float64) for name in "qkv")
    with tf.GradientTape() as tape:
        tape.watch((q, k, v))
        read, weights = [], []
        for n in range(HEADS):
            layer = _layer(given, n, mode, k, lengths)
            read.append(_in_order(layer, q[:, :, n], v[:, :, n]))
            weights.append([getattr(layer, name) for name in OWN.values()])
        out = tf.stack(read, axis=2)
        loss = tf.reduce_sum(out * tf.constant(given["cotangent"], tf.float64))
    gradients, of_weights = tape.gradient(
        loss, ((q, k, v), weights), unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    kept = {f"{case}_out": out.numpy()}
    for name, gradient in zip("qkv", gradients, strict=True):
        kept[f"{case}_grad_{name}"] = gradient.numpy().astype(np.float32)
    for name, heads in zip(OWN, zip(*of_weights, strict=True), strict=True):
        kept[f"{case}_grad_{name}"] = np.stack([each.numpy() for each in heads]).astype(np.float32)
    return kept


def _layer(given: Arrays, n: int, mode: str, k, lengths: tuple[int, ...] | None):
    """Returns the layer of head n, its memory set and its weights ours."""
    import tensorflow as tf
    from tensorflow_addons.seq2seq import BahdanauMonotonicAttention

    layer = BahdanauMonotonicAttention(
        HEAD_DIM,
        memory=k[:, :, n],
        memory_sequence_length=None if lengths is None else tf.constant(lengths),
        normalize=True,
        mode=mode,
        dtype=tf.float64,
        # Queries and keys are given projected.
        query_layer=tf.keras.layers.Activation("linear", dtype=tf.float64),
        memory_layer=tf.keras.layers.Activation("linear", dtype=tf.float64),
    )
    layer([tf.zeros((BATCH, HEAD_DIM), tf.float64), layer.initial_alignments(BATCH, tf.float64)])
    for ours, theirs in OWN.items():
        getattr(layer, theirs).assign(given[ours][n].astype(np.float64))
    return layer


def _in_order(layer, queries, values):
    """Returns what each query reads, [b t h]."""
    import tensorflow as tf

    state = layer.initial_alignments(BATCH, tf.float64)
    read = []
    for i in range(QUERIES):
        weights, state = layer([queries[:, i], state])
        read.append(tf.einsum("bs,bsh->bh", weights, values))
    return tf.stack(read, axis=1)


def _formula(given: Arrays, visible, soft: bool) -> np.ndarray:
    q, k, v, u, gain, offset = as64(given, f"q k v {' '.join(OWN)}")
    u = u * (gain / np.sqrt((u**2).sum(-1)))[:, None]
    alignment = np.repeat(np.eye(1, KEYS)[None], BATCH, axis=0).repeat(HEADS, axis=1)
    weights = []
    for i in range(QUERIES):
        e = np.einsum("nh,bsnh->bns", u, np.tanh(q[:, i, None] + k)) + offset[:, None]
        p = np.where(visible, 1 / (1 + np.exp(-e)) if soft else e > 0, 0.0)
        reached, now = np.zeros((BATCH, HEADS)), np.zeros_like(e)
        for j in range(KEYS):  # q_j = (1 − p_{j−1}) q_{j−1} + α_j
            reached = alignment[..., j] + (reached * (1 - p[..., j - 1]) if j else 0.0)
            now[..., j] = p[..., j] * reached
        alignment = now
        weights.append(now)
    return weigh(np.stack(weights, axis=2), v)


WITNESSES = {"monotonic_tensorflow_addons": monotonic_tensorflow_addons}
