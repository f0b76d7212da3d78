"""Regenerates entmax.npz: what the PyPI package `entmax`, by the papers' authors, gives.

    pip install -r tests/golden/requirements.txt
    python tests/golden/make_entmax.py

The file holds the inputs (float32 values, so that both start from the same numbers), and in float64
the outputs and the gradients of sum(out · cotangent).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

PATH = Path(__file__).parent / "entmax.npz"
SHAPE = (2, 3, 4, 9)
ALPHAS = (1.05, 1.25, 1.75)


def inputs() -> dict[str, np.ndarray]:
    """Returns scores and a cotangent, [b n t s]."""
    random = np.random.default_rng(0)
    scores, cotangent = random.normal(size=(2, *SHAPE)).astype(np.float32)
    return {"scores": 2.0 * scores, "cotangent": cotangent}


def from_entmax() -> dict[str, np.ndarray]:
    """`sparsemax`, `entmax15` and `entmax_bisect` in float64."""
    import torch
    from entmax import entmax15, entmax_bisect, sparsemax

    given = inputs()
    out = dict(given)
    normalizers = {"sparsemax": sparsemax, "entmax15": entmax15} | {
        f"entmax_{alpha}": lambda x, alpha=alpha: entmax_bisect(x, alpha=alpha, n_iter=60)
        for alpha in ALPHAS
    }
    for name, normalizer in normalizers.items():
        leaf = torch.from_numpy(given["scores"]).double().requires_grad_()
        weights = normalizer(leaf)
        (weights * torch.from_numpy(given["cotangent"]).double()).sum().backward()
        out[f"{name}_out"] = weights.detach().numpy()
        out[f"{name}_grad"] = leaf.grad.numpy()
    return out


def main() -> None:
    np.savez_compressed(PATH, **from_entmax())
    print(f"wrote {PATH.name}: {PATH.stat().st_size} bytes")


if __name__ == "__main__":
    main()
