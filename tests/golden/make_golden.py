"""Regenerates the golden files: what other implementations give on fixed inputs.

    pip install -r tests/golden/requirements.txt
    python tests/golden/make_golden.py torch jax

The witnesses are large, so that the tests read their outputs instead. Each file holds the inputs
(float32 values, so that every library starts from the same numbers), the outputs and, from torch,
the gradients of sum(out · cotangent).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
BATCH, QUERIES, KEYS, HEADS, KV_HEADS, HEAD_DIM = 2, 5, 7, 6, 3, 4


def inputs() -> dict[str, np.ndarray]:
    """Returns q [b t n h], k and v [b s k h], a mask [b n t s] that hides no whole row."""
    random = np.random.default_rng(0)
    query_shape, key_shape = (BATCH, QUERIES, HEADS, HEAD_DIM), (BATCH, KEYS, KV_HEADS, HEAD_DIM)
    shapes = {"q": query_shape, "k": key_shape, "v": key_shape, "cotangent": query_shape}
    arrays = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    mask = random.random((BATCH, HEADS, QUERIES, KEYS)) < 0.6
    mask[..., 0] = True
    return {**arrays, "mask": mask}


def from_torch() -> dict[str, np.ndarray]:
    """`scaled_dot_product_attention` in float64; its mask keeps True, as ours does."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    given = inputs()
    out = dict(given)
    for case, settings in {
        "full": {},
        "masked": {"attn_mask": torch.from_numpy(given["mask"])},
        "causal": {"is_causal": True},
    }.items():
        keys = QUERIES if case == "causal" else KEYS  # torch aligns causal masks top-left
        leaves = [torch.from_numpy(given[name]).double() for name in "qkv"]
        leaves = [leaves[0], leaves[1][:, :keys], leaves[2][:, :keys]]
        leaves = [leaf.clone().requires_grad_() for leaf in leaves]
        heads_first = [leaf.transpose(1, 2) for leaf in leaves]
        y = scaled_dot_product_attention(*heads_first, enable_gqa=True, **settings).transpose(1, 2)
        (y * torch.from_numpy(given["cotangent"]).double()).sum().backward()
        out[f"{case}_out"] = y.detach().numpy()
        for name, leaf in zip("qkv", leaves, strict=True):
            out[f"{case}_grad_{name}"] = leaf.grad.numpy()
    return out


def from_jax() -> dict[str, np.ndarray]:
    """`jax.nn.dot_product_attention` in float32."""
    import jax

    given = inputs()
    q, k, v = given["q"], given["k"], given["v"]
    attend = jax.nn.dot_product_attention
    with jax.default_matmul_precision("highest"):
        outputs = {
            "full_out": attend(q, k, v),
            "masked_out": attend(q, k, v, mask=given["mask"]),
            "causal_out": attend(q, k[:, :QUERIES], v[:, :QUERIES], is_causal=True),
        }
    return {**given, **{name: np.asarray(array) for name, array in outputs.items()}}


WITNESSES = {"torch": from_torch, "jax": from_jax}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("witnesses", nargs="+", choices=WITNESSES)
    for name in parser.parse_args().witnesses:
        path = FOLDER / f"scaled_dot_{name}.npz"
        np.savez_compressed(path, **WITNESSES[name]())
        print(f"wrote {path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
