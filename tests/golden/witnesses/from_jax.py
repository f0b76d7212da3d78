"""`jax.nn.dot_product_attention` and splash attention's reference, in float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from witnesses.common import (
    BATCH,
    HEAD_DIM,
    HEADS,
    KEY,
    KEYS,
    KV_HEADS,
    QUERIES,
    QUERY,
    Arrays,
    as64,
    causal,
    compare,
    draw,
    draw_mask,
    library,
    scaled,
    softmax,
    weigh,
)
from witnesses.from_torch import scaled_dot_inputs

WINDOWS = {"both": (2, 1), "left": (1, 0), "right": (0, 2)}


def scaled_dot_jax() -> Arrays:
    """Row 1."""
    import jax

    given = scaled_dot_inputs()
    attend = jax.nn.dot_product_attention
    kept = dict(given)
    q, k, v = as64(given, "q k v")
    for case, options, visible in (
        ("full", {}, True),
        ("masked", {"mask": given["mask"]}, given["mask"]),
        ("causal", {"is_causal": True}, causal(q.shape[1], k.shape[1])),
    ):
        kept |= _record(case, lambda q, k, v, o=options: attend(q, k, v, **o), given, "q k v")
        compare(case, kept[f"{case}_out"], weigh(softmax(scaled(q, k), visible), v))
    return {**kept, "library": library("jax")}


def sliding_window_jax() -> Arrays:
    """Row 19: `local_window_size` = (left, right), keys besides the query's own."""
    import jax

    length = 7
    shape, shared = (BATCH, length, HEADS, HEAD_DIM), (BATCH, length, KV_HEADS, HEAD_DIM)
    given = draw(30, q=shape, k=shared, v=shared, cotangent=shape)
    kept = dict(given)
    q, k, v = as64(given, "q k v")
    distance = np.arange(length)[None, :] - np.arange(length)[:, None]
    for window, (left, right) in WINDOWS.items():
        for order in ("", "_causal"):
            case = window + order

            def run(q, k, v, size=(left, right), is_causal=bool(order)):
                return jax.nn.dot_product_attention(
                    q, k, v, local_window_size=size, is_causal=is_causal
                )

            recorded = _record(case, run, given, "q k v")
            # The gradients of one window are enough.
            kept |= {key: a for key, a in recorded.items() if "grad" not in key or case == "both"}
            visible = (-left <= distance) & (distance <= (0 if order else right))
            compare(case, kept[f"{case}_out"], weigh(softmax(scaled(q, k), visible), v))
    return {**kept, "library": library("jax")}


def sink_jax() -> Arrays:
    """Row 6. The reference is for one head and does not divide by √h: the queries are, here."""
    import jax
    import jax.numpy as jnp
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash

    given = draw(31, q=QUERY, k=KEY, v=KEY, cotangent=QUERY, sink=(HEADS,))
    given["mask"] = draw_mask(32, (BATCH, HEADS, QUERIES, KEYS))
    kept = dict(given)
    q, k, v, sink = as64(given, "q k v sink")

    def one_head(mask, q, k, v, sink):
        return splash.attention_reference(mask, q, k, v, None, sink)

    over_heads = jax.vmap(one_head, in_axes=(0, 1, 1, 1, 0), out_axes=1)
    over_rows = jax.vmap(over_heads, in_axes=(0, 0, 0, 0, None))
    for case, mask in {"full": np.ones_like(given["mask"]), "masked": given["mask"]}.items():

        def run(q, k, v, sink, mask=mask):
            return over_rows(mask, q / jnp.sqrt(jnp.float32(HEAD_DIM)), k, v, sink)

        kept |= _record(case, run, given, "q k v sink")
        compare(case, kept[f"{case}_out"], weigh(softmax(scaled(q, k), mask, sink), v))
    return {**kept, "library": library("jax")}


def _record(case: str, run: Callable, given: Arrays, names: str) -> Arrays:
    import jax

    with jax.default_matmul_precision("highest"):
        out, pull = jax.vjp(run, *(given[name] for name in names.split()))
        gradients = pull(given["cotangent"])
    kept = {f"{case}_out": np.asarray(out)}
    for name, gradient in zip(names.split(), gradients, strict=True):
        kept[f"{case}_grad_{name}"] = np.asarray(gradient)
    return kept


WITNESSES = {
    "scaled_dot_jax": scaled_dot_jax,
    "sliding_window_jax": sliding_window_jax,
    "sink_jax": sink_jax,
}
