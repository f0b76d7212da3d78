"""`x_transformers.attend.Attend`, in float64; its mask keeps True, as ours does."""

from __future__ import annotations

import functools
from collections.abc import Callable

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
    draw_mask,
    library,
    products,
    record,
    scaled,
    softmax,
    weigh,
)

VERSIONS = ("x-transformers", "torch")


def cosine_x_transformers() -> Arrays:
    """Row 4. Its `qk_norm_scale` is one number; a tensor of one for each head goes the same way."""
    from x_transformers.attend import Attend
    from x_transformers.x_transformers import l2norm

    given = _inputs(20, temperature=(HEADS,))
    given["temperature"] = np.abs(given["temperature"]) + 1

    def run(q, k, v, temperature, **conditions):
        attend = Attend(heads=HEADS, qk_norm=True, scale=temperature[:, None, None])
        return _heads_first(attend, l2norm(q), l2norm(k), v, **conditions)

    q, k, v, temperature = as64(given, "q k v temperature")
    q, k = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
    e = temperature[:, None, None] * products(q, k)
    return _cases(run, given, "q k v temperature", lambda seen: weigh(softmax(e, seen), v))


def l2_x_transformers() -> Arrays:
    """Row 5."""
    given = _inputs(21)

    def run(q, k, v, **conditions):
        return _heads_first(_attend(l2_distance=True), q, k, v, **conditions)

    q, k, v = as64(given, "q k v")
    e = -((q[:, :, None] - k[:, None]) ** 2).sum(-1).transpose(0, 3, 1, 2) / np.sqrt(HEAD_DIM)
    return _cases(run, given, "q k v", lambda seen: weigh(softmax(e, seen), v))


def softmax1_x_transformers() -> Arrays:
    """Row 6, s = 0: `add_zero_kv` adds a key of zeros, whose score is 0, with a value of zeros."""
    given = _inputs(22)

    def run(q, k, v, **conditions):
        return _heads_first(_attend(add_zero_kv=True), q, k, v, **conditions)

    q, k, v = as64(given, "q k v")
    sink = np.zeros(HEADS)
    return _cases(run, given, "q k v", lambda seen: weigh(softmax(scaled(q, k), seen, sink), v))


def sigmoid_x_transformers() -> Arrays:
    """Row 8. It has no −log c, which is added to its scores here; c counts the visible keys."""
    import torch
    from x_transformers.attend import Attend

    given = _inputs(23)

    def run(q, k, v, mask=None):
        visible = torch.ones(BATCH, HEADS, QUERIES, KEYS) if mask is None else mask
        bias = -visible.double().sum(-1, keepdim=True).log()
        attend = Attend(heads=HEADS, sigmoid=True)
        return _heads_first(attend, q, k, v, mask=mask, attn_bias=bias)

    q, k, v = as64(given, "q k v")

    def state(visible):
        visible = np.broadcast_to(visible, (BATCH, HEADS, QUERIES, KEYS))
        e = scaled(q, k) - np.log(visible.sum(-1, keepdims=True))
        return weigh(visible / (1 + np.exp(-e)), v)

    return _cases(run, given, "q k v", state)


def talking_heads_x_transformers() -> Arrays:
    """Row 12. Its pre-softmax mix is added to the scores, so that our pre_mix is I + its weight.

    A mix has a row for each head that comes out: mixed[n] = Σ_m mix[n, m] · head[m].
    """
    import torch

    given = _inputs(24, pre_mix=(HEADS, HEADS), post_mix=(HEADS, HEADS))

    def run(q, k, v, pre_mix, post_mix, **conditions):
        attend = _attend(pre_talking_heads=True, post_talking_heads=True)
        for conv, weight in (
            (attend.pre_softmax_talking_heads, pre_mix - torch.eye(HEADS)),
            (attend.post_softmax_talking_heads, post_mix),
        ):
            del conv.weight  # a parameter, which would cut the gradient
            conv.weight = weight[:, :, None, None]
        return _heads_first(attend, q, k, v, **conditions)

    q, k, v, pre_mix, post_mix = as64(given, "q k v pre_mix post_mix")
    e = np.einsum("nm,bmts->bnts", pre_mix, scaled(q, k))

    def state(visible):
        return weigh(np.einsum("nm,bmts->bnts", post_mix, softmax(e, visible)), v)

    return _cases(run, given, "q k v pre_mix post_mix", state)


def _inputs(seed: int, **own: tuple[int, ...]) -> Arrays:
    given = draw(seed, q=QUERY, k=KEY, v=KEY, cotangent=QUERY, **own)
    # A mask of its own for each head: a mix after the mask differs from one before it.
    return given | {"mask": draw_mask(seed, (BATCH, HEADS, QUERIES, KEYS))}


def _attend(**options):
    """Returns an Attend whose softmax runs in the type of the scores; its own is float32."""
    import torch
    from x_transformers.attend import Attend

    softmax = functools.partial(torch.nn.functional.softmax, dim=-1)
    return Attend(heads=HEADS, custom_attn_fn=softmax, **options)


def _heads_first(attend, q, k, v, **conditions):
    out, _ = attend(*(x.transpose(1, 2) for x in (q, k, v)), **conditions)
    return out.transpose(1, 2)


def _cases(run: Callable, given: Arrays, names: str, state: Callable) -> Arrays:
    """Records two cases; `state` says what the formula gives under a mask."""
    import torch

    kept = dict(given)
    mask = given["mask"]
    for case, conditions, visible in (
        ("full", {}, np.True_),
        ("masked", {"mask": torch.from_numpy(mask)}, mask),
    ):
        kept |= record(case, functools.partial(run, **conditions), given, names)
        compare(case, kept[f"{case}_out"], state(visible))
    return {**kept, "library": library(*VERSIONS)}


WITNESSES = {
    "cosine_x_transformers": cosine_x_transformers,
    "l2_x_transformers": l2_x_transformers,
    "softmax1_x_transformers": softmax1_x_transformers,
    "sigmoid_x_transformers": sigmoid_x_transformers,
    "talking_heads_x_transformers": talking_heads_x_transformers,
}
