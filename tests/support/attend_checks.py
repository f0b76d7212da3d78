"""What the pure function `attend` of every variant must satisfy."""

from __future__ import annotations

import functools
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.cases import BATCH, HEAD_DIM, HEADS, KEYS, QUERIES
from support.visibility import visible_pairs

from attention import variants

SHAPE = (BATCH, HEADS, QUERIES, KEYS)


def make_inputs(kv_heads: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns q, k, v in float64 but exact in float32."""
    random = np.random.default_rng(7)
    shapes = [(BATCH, QUERIES, HEADS, HEAD_DIM), *2 * [(BATCH, KEYS, kv_heads, HEAD_DIM)]]
    return tuple(
        random.normal(size=shape).astype(np.float32).astype(np.float64) for shape in shapes
    )


def conditions() -> dict[str, np.ndarray]:
    """Returns a mask, an offset for each row and segment ids; some queries see nothing."""
    random = np.random.default_rng(8)
    mask = random.random(SHAPE) < 0.8
    mask[1, 2, 3] = False  # hides every key from one query of one head
    return {
        "mask": mask,
        "query_offset": np.array([2, 0, 5], np.int32),
        "segment_ids": np.array([[1, 1, 2, 2, 0], [1, 1, 1, 1, 1], [2, 2, 1, 1, 1]], np.int32),
        "key_segment_ids": np.array(
            [[1, 1, 1, 2, 2, 0, 0], [1, 1, 1, 1, 1, 1, 1], [2, 1, 1, 2, 2, 1, 0]], np.int32
        ),
    }


def no_conditions() -> dict[str, np.ndarray]:
    """Returns conditions of the same shapes that hide nothing."""
    return {
        "mask": np.ones(SHAPE, bool),
        "query_offset": np.full(BATCH, KEYS, np.int32),
        "segment_ids": np.ones((BATCH, QUERIES), np.int32),
        "key_segment_ids": np.ones((BATCH, KEYS), np.int32),
    }


class AttendProbe:
    """`attend` of one variant and its gradients, compiled once for all checks."""

    def __init__(self, name: str, kv_heads: int, causal: bool, reference: ModuleType | None):
        self.variant = variants.get(name)
        self.causal = causal
        self.reference = reference
        self.inputs = make_inputs(kv_heads)
        self.cotangent = np.random.default_rng(9).normal(size=self.inputs[0].shape)
        self.attend = functools.partial(self.variant.attend, causal=causal)
        self.run = jax.jit(self._run)

    def _run(self, q, k, v, cotangent, given):
        out, pull = jax.vjp(lambda q, k, v: self.attend(q, k, v, **given), q, k, v)
        return out, pull(cotangent)

    def __call__(self, given, dtype=jnp.float32):
        arrays = [jnp.asarray(array, dtype) for array in (*self.inputs, self.cotangent)]
        out, gradients = self.run(*arrays, given)
        return np.asarray(out, np.float64), [np.asarray(g, np.float64) for g in gradients]

    def expected(self, given, inputs=None):
        """Returns the reference's result."""
        sees = visible_pairs(SHAPE, causal=self.causal, **given)
        return self.reference.attend(*(inputs or self.inputs), sees)


def check_values(probe: AttendProbe) -> None:
    """Equals the float64 reference, with and without conditions; nothing seen gives zeros."""
    for given in (no_conditions(), conditions()):
        out, _ = probe(given)
        np.testing.assert_allclose(out, probe.expected(given), rtol=0, atol=3e-6)
        sees = visible_pairs(SHAPE, causal=probe.causal, **given)
        blind = ~sees.any(-1).swapaxes(1, 2)
        assert np.all(out[blind] == 0.0), "a query that sees no key must give exact zeros"
    assert blind.any(), "the conditions should leave some query without a key"


def check_gradients(probe: AttendProbe) -> None:
    """Gradients equal central differences of the reference, and are finite everywhere."""
    random = np.random.default_rng(10)
    step = 1e-5
    for given in (no_conditions(), conditions()):
        _, gradients = probe(given)
        for index, gradient in enumerate(gradients):
            assert np.all(np.isfinite(gradient))
            for _ in range(3):
                direction = random.normal(size=gradient.shape)
                ends = []
                for sign in (1, -1):
                    moved = list(probe.inputs)
                    moved[index] = moved[index] + sign * step * direction
                    ends.append(np.sum(probe.expected(given, moved) * probe.cotangent))
                slope = (ends[0] - ends[1]) / (2 * step)
                scale = np.linalg.norm(gradient) + 1.0
                assert abs(np.sum(gradient * direction) - slope) < 1e-5 * scale


def check_weights(probe: AttendProbe) -> None:
    """`weights` equal the reference's, in float32 even for bfloat16 activations."""
    if not (hasattr(probe.variant, "weights") and hasattr(probe.reference, "weights")):
        return
    given = conditions()
    q, k, _ = probe.inputs
    sees = visible_pairs(SHAPE, causal=probe.causal, **given)
    for dtype in (jnp.float32, jnp.bfloat16):
        arrays = [jnp.asarray(array, dtype) for array in (q, k)]
        got = probe.variant.weights(*arrays, causal=probe.causal, **given)
        rounded = [np.asarray(array, np.float64) for array in arrays]
        assert got.dtype == jnp.float32
        want = probe.reference.weights(*rounded, sees)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)


def check_bfloat16(probe: AttendProbe) -> None:
    """With bfloat16 activations the error against float64 is that of rounding weights and result.

    Two roundings to 8 bits: |error| ≤ 2 · 2⁻⁸ · max|v| for weights that sum to at most 1. A score
    or normalizer in bfloat16 exceeds this, as the scores here reach about 60.
    """
    sharp = [probe.inputs[0] * 20.0, *probe.inputs[1:]]
    arrays = [jnp.asarray(array, jnp.bfloat16) for array in (*sharp, probe.cotangent)]
    rounded = [np.asarray(array, np.float64) for array in arrays]
    given = conditions()
    out, gradients = probe.run(*arrays, given)
    assert out.dtype == jnp.bfloat16
    assert all(np.all(np.isfinite(np.asarray(g, np.float32))) for g in gradients)
    bound = 2 * 2.0**-8 * np.abs(rounded[2]).max()
    want = probe.expected(given, rounded[:3])
    np.testing.assert_allclose(np.asarray(out, np.float64), want, rtol=0, atol=bound)


def check_compiled_equals_plain(probe: AttendProbe) -> None:
    """jit changes nothing but the last bits."""
    compiled, _ = probe(conditions())
    arrays = [jnp.asarray(array, jnp.float32) for array in probe.inputs]
    np.testing.assert_allclose(compiled, probe.attend(*arrays, **conditions()), rtol=0, atol=2e-6)


def check_refusals(probe: AttendProbe) -> None:
    """What would have to be guessed is refused: offsets, ranks, types, one-sided ids."""
    q, k, v = (jnp.asarray(array, jnp.float32) for array in probe.inputs)
    mask, ids = np.ones((BATCH, 1, 1, KEYS), bool), np.ones((BATCH, QUERIES), np.int32)
    key_ids = np.ones((BATCH, KEYS), np.int32)
    refused = [
        {"mask": mask[:, 0, 0]},
        {"mask": mask[:, 0]},
        {"mask": mask.astype(np.float32)},
        {"mask": np.ones((BATCH, 1, 1, QUERIES), bool)},
        {"segment_ids": ids},
        {"key_segment_ids": key_ids},
        {"segment_ids": key_ids, "key_segment_ids": ids},
    ]
    attend = probe.variant.attend
    attempts = [functools.partial(attend, q, k, v, **given) for given in refused]
    if "causal" in probe.variant.MODES:
        attempts.append(functools.partial(attend, q, k, v, causal=True))
    if q.shape[2] == k.shape[2]:
        attempts.append(functools.partial(attend, q, k[:, :, :3], v[:, :, :3]))
    for attempt in attempts:
        with pytest.raises(ValueError):
            attempt()


ALL = (
    check_values,
    check_gradients,
    check_weights,
    check_bfloat16,
    check_compiled_equals_plain,
    check_refusals,
)
