"""`torch.nn.functional.scaled_dot_product_attention`, in float64; its mask keeps True, as ours.

Its causal mask aligns top-left, so that query 0 sits at key 0. `enable_gqa` repeats key heads in
our order, 0, 0, 1, 1.
"""

from __future__ import annotations

import numpy as np

from witnesses.common import (
    HEAD_DIM,
    HEADS,
    KEY,
    QUERY,
    SHARED_KEY,
    Arrays,
    as64,
    causal,
    compare,
    draw,
    draw_mask,
    library,
    products,
    record,
    scaled,
    softmax,
    weigh,
)


def scaled_dot_inputs() -> Arrays:
    """Returns what scaled_dot_torch and scaled_dot_jax share: two query heads to a key head."""
    random = np.random.default_rng(0)
    shapes = {"q": (2, 5, 6, 4), "k": (2, 7, 3, 4), "v": (2, 7, 3, 4), "cotangent": (2, 5, 6, 4)}
    given = {name: random.normal(size=s).astype(np.float32) for name, s in shapes.items()}
    mask = random.random((2, 6, 5, 7)) < 0.6
    mask[..., 0] = True
    given["mask"] = mask
    return given


def scaled_dot_torch() -> Arrays:
    return {**_cases(scaled_dot_inputs(), scale=None), "library": library("torch")}


def dot_torch() -> Arrays:
    given = draw(1, q=QUERY, k=SHARED_KEY, v=SHARED_KEY, cotangent=QUERY)
    given["mask"] = draw_mask(2, (2, HEADS, QUERY[1], KEY[1]))
    return {**_cases(given, scale=1.0), "library": library("torch")}


def _cases(given: Arrays, scale: float | None) -> Arrays:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    kept = dict(given)
    q, k, v = as64(given, "q k v")
    settings = {
        "full": ({}, True),
        "masked": ({"attn_mask": torch.from_numpy(given["mask"])}, given["mask"]),
        "causal": ({"is_causal": True}, causal(q.shape[1], k.shape[1])),
    }
    for case, (options, visible) in settings.items():

        def run(q, k, v, options=options):
            heads_first = [x.transpose(1, 2) for x in (q, k, v)]
            y = scaled_dot_product_attention(*heads_first, enable_gqa=True, scale=scale, **options)
            return y.transpose(1, 2)

        kept |= record(case, run, given, "q k v")
        e = scaled(q, k) if scale is None else products(q, k)
        compare(case, kept[f"{case}_out"], weigh(softmax(e, visible), v))
    return kept


def general_torch() -> Arrays:
    """Row 3: e = qᵀWk is the product of k and of Wᵀq."""
    from torch.nn.functional import scaled_dot_product_attention

    given = draw(3, q=QUERY, k=KEY, v=KEY, cotangent=QUERY)
    given |= draw(4, score_matrix=(HEADS, HEAD_DIM, HEAD_DIM))

    def run(q, k, v, score_matrix):
        heads_first = [x.transpose(1, 2) for x in (q, k, v)]
        heads_first[0] = heads_first[0] @ score_matrix
        return scaled_dot_product_attention(*heads_first, scale=1.0).transpose(1, 2)

    kept = given | record("full", run, given, "q k v score_matrix")
    q, k, v, matrix = as64(given, "q k v score_matrix")
    e = np.einsum("btnh,nhg,bsng->bnts", q, matrix, k)
    compare("full", kept["full_out"], weigh(softmax(e), v))
    return {**kept, "library": library("torch")}


WITNESSES = {
    "scaled_dot_torch": scaled_dot_torch,
    "dot_torch": dot_torch,
    "general_torch": general_torch,
}
