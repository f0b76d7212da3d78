"""`flax.nnx.MultiHeadAttention` with its weights, in float32; "layer.NAME" is one of ours."""

from __future__ import annotations

import numpy as np

from witnesses.common import Arrays, compare, draw, library, scaled, softmax, weigh

BATCH, LENGTH, HEADS, HEAD_DIM, DIM = 2, 7, 4, 6, 10


def qk_norm_layer_flax() -> Arrays:
    """Row 4: `normalize_qk`, LayerNorm without a bias, eps 1e-6; bidirectional."""
    import jax
    from flax import nnx

    shape, width = (BATCH, LENGTH, DIM), HEADS * HEAD_DIM
    given = draw(90, x=shape, cotangent=shape)
    options = {"num_heads": HEADS, "in_features": DIM, "qkv_features": width, "decode": False}
    layer = nnx.MultiHeadAttention(**options, normalize_qk=True, rngs=nnx.Rngs(0))
    random = np.random.default_rng(91)
    weights: Arrays = {}
    for name in ("query", "key", "value", "out"):
        linear = getattr(layer, name)
        for part in ("kernel", "bias"):
            parameter = getattr(linear, part)
            values = random.normal(size=parameter.shape).astype(np.float32) * np.float32(0.3)
            parameter[...] = values
            flat = values.reshape(-1, values.shape[-1]) if name == "out" else values
            flat = flat.reshape(DIM, width) if part == "kernel" and name != "out" else flat
            weights[f"layer.{name}.{part}"] = flat.reshape(-1) if part == "bias" else flat
    for name, norm in {"query_norm": layer.query_ln, "key_norm": layer.key_ln}.items():
        gain = 1 + random.normal(size=HEAD_DIM).astype(np.float32) * np.float32(0.3)
        norm.scale[...] = gain
        weights[f"layer.{name}.gain"] = gain
    with jax.default_matmul_precision("highest"):
        out, pull = jax.vjp(layer, given["x"])
        (gradient,) = pull(given["cotangent"])
    kept = {**given, **weights, "full_out": np.asarray(out), "full_grad_x": np.asarray(gradient)}
    compare("full", out, _formula(kept))
    return {**kept, "library": library("flax", "jax")}


def _formula(kept: Arrays) -> np.ndarray:
    at = {
        name.removeprefix("layer."): a.astype(np.float64) for name, a in kept.items() if "." in name
    }
    x = kept["x"].astype(np.float64)
    shape = (BATCH, LENGTH, HEADS, HEAD_DIM)
    q, k, v = (
        (x @ at[f"{name}.kernel"] + at[f"{name}.bias"]).reshape(shape)
        for name in ("query", "key", "value")
    )
    q, k = (
        (y - y.mean(-1, keepdims=True))
        / np.sqrt(y.var(-1, keepdims=True) + 1e-6)
        * at[f"{name}.gain"]
        for y, name in ((q, "query_norm"), (k, "key_norm"))
    )
    heads = weigh(softmax(scaled(q, k)), v).reshape(BATCH, LENGTH, -1)
    return heads @ at["out.kernel"] + at["out.bias"]


WITNESSES = {"qk_norm_layer_flax": qk_norm_layer_flax}
