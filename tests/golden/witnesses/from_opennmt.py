"""`CopyGenerator` of OpenNMT-py over its `GlobalAttention`, in float64; one row of a batch a time.

(The generator lays out what it copies as if the batch led, and what it generates as if it did not.)
"""

from __future__ import annotations

import importlib
import sys
import types
from importlib.metadata import distribution

import numpy as np

from witnesses.common import Arrays, as64, compare, draw, library, record, softmax

BATCH, TARGETS, SOURCES, DIM, VOCABULARY = 2, 3, 5, 6, 9
LENGTHS = (SOURCES, SOURCES - 2)
TOKENS = ((4, 5, 4, 4, 8), (7, 2, 7, 0, 0))  # a token stands in several places
POINTING = "query_kernel query_bias key_kernel score_vector"
GENERATING = "generator_kernel generator_bias"
GATE = "gate_kernel gate_bias"


def pointer_opennmt() -> Arrays:
    """The `pointer` head of row 40: "mixed", and "alone" where its gate is 1, copying only.

    Its gate is the probability to copy, ours that to generate: weights of opposite sign. There is
    no end to point at, and keys have no bias. Its padding token, which it gives probability 0, is
    one more than our vocabulary has.
    """
    given = draw(140, x=(BATCH, TARGETS, DIM), context=(BATCH, SOURCES, DIM))
    given |= draw(141, cotangent=(BATCH, TARGETS, VOCABULARY))
    square, wide = (DIM, DIM), (DIM, VOCABULARY)
    given |= draw(142, query_kernel=square, query_bias=(DIM,), key_kernel=square)
    given |= draw(143, score_vector=(1, DIM), gate_kernel=(DIM, 1), gate_bias=(1,))
    given |= draw(144, generator_kernel=wide, generator_bias=(VOCABULARY,))
    kept = {**given, "tokens": np.array(TOKENS, np.int32), "lengths": np.array(LENGTHS, np.int32)}
    for case, names in {
        "mixed": f"x context {POINTING} {GENERATING} {GATE}",
        "alone": f"x context {POINTING}",
    }.items():
        kept |= record(case, lambda **arrays: _run(**{**_fixed(), **arrays}), given, names)
        compare(case, kept[f"{case}_out"], _formula(given, mixed=case == "mixed"))
    return {**kept, "library": library("OpenNMT-py", "torch")}


def _fixed() -> Arrays:
    """Returns weights for a head alone: σ(1000) is exactly 1."""
    import torch

    return {
        "generator_kernel": torch.zeros(DIM, VOCABULARY, dtype=torch.float64),
        "generator_bias": torch.zeros(VOCABULARY, dtype=torch.float64),
        "gate_kernel": torch.zeros(DIM, 1, dtype=torch.float64),
        "gate_bias": torch.tensor([-1000.0], dtype=torch.float64),
    }


def _run(x, context, **weights):
    """Returns the probability of each token, [b t v]."""
    import torch

    attention = _module("global_attention").GlobalAttention(DIM, attn_type="mlp").double()
    generator = _module("copy_generator").CopyGenerator(DIM, VOCABULARY + 1, VOCABULARY).double()
    pointing = {
        "linear_query.weight": weights["query_kernel"].T,
        "linear_query.bias": weights["query_bias"],
        "linear_context.weight": weights["key_kernel"].T,
        "v.weight": weights["score_vector"],
    }
    pad = torch.nn.functional.pad
    mixing = {
        "linear.weight": pad(weights["generator_kernel"].T, (0, 0, 0, 1)),
        "linear.bias": pad(weights["generator_bias"], (0, 1)),
        "linear_copy.weight": -weights["gate_kernel"].T,
        "linear_copy.bias": -weights["gate_bias"],
    }
    call = torch.func.functional_call
    source = torch.nn.functional.one_hot(torch.tensor(TOKENS), VOCABULARY).double()
    rows = []
    for b in range(BATCH):
        row = slice(b, b + 1)
        lengths = torch.tensor(LENGTHS[row])
        _, share = call(attention, pointing, (x[row], context[row], lengths))
        both = call(generator, mixing, (x[b], share[0], source[row]))
        rows.append(both[:, :VOCABULARY] + both[:, VOCABULARY + 1 :])
    return torch.stack(rows)


def _module(name: str):
    """Imports one file of onmt.modules without the packages, which import all that they can use."""
    for package in ("onmt", "onmt.modules", "onmt.utils"):
        if package not in sys.modules:
            sys.modules[package] = types.ModuleType(package)
            path = distribution("OpenNMT-py").locate_file(package.replace(".", "/"))
            sys.modules[package].__path__ = [str(path)]
    return importlib.import_module(f"onmt.modules.{name}")


def _formula(given: Arrays, *, mixed: bool) -> np.ndarray:
    x, context = as64(given, "x context")
    query_kernel, query_bias, key_kernel, u = as64(given, POINTING)
    q, k = x @ query_kernel + query_bias, context @ key_kernel
    e = np.tanh(q[:, :, None] + k[:, None]) @ u[0]
    share = softmax(e, np.arange(SOURCES) < np.array(LENGTHS)[:, None, None])
    copied = share @ np.eye(VOCABULARY)[np.array(TOKENS)]
    if not mixed:
        return copied
    kernel, bias, gate_kernel, gate_bias = as64(given, f"{GENERATING} {GATE}")
    generate = 1 / (1 + np.exp(-(x @ gate_kernel + gate_bias)))
    return generate * softmax(x @ kernel + bias) + (1 - generate) * copied


WITNESSES = {"pointer_opennmt": pointer_opennmt}
