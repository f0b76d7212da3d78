"""Times torch's scaled_dot_product_attention: one JSON question a line in, one answer a line out.

Started by measure.py with a Python that has torch.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from torch.nn.functional import scaled_dot_product_attention

_made: dict = {}


def prepared(cell: dict):
    key = json.dumps(cell, sort_keys=True)
    if key not in _made:
        _made.clear()
        generator = torch.Generator().manual_seed(0)
        shape = (cell["batch"], cell["heads"], cell["length"], cell["size"])
        dtype = getattr(torch, cell["dtype"])
        made = [torch.randn(shape, generator=generator).to(dtype) for _ in range(4)]
        for array in made[:3]:
            array.requires_grad_(cell["backward"])
        _made[key] = made
        run(cell, made)
    return _made[key]


def run(cell: dict, arrays) -> None:
    q, k, v, cotangent = arrays
    with torch.set_grad_enabled(cell["backward"]):
        out = scaled_dot_product_attention(q, k, v, is_causal=cell["causal"])
        if cell["backward"]:
            torch.autograd.grad(out, (q, k, v), cotangent)


for line in sys.stdin:
    question = json.loads(line)
    if not question:
        print(json.dumps({"version": torch.__version__}), flush=True)
        continue
    arrays = prepared(question)
    start = time.perf_counter()
    run(question, arrays)
    print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)
