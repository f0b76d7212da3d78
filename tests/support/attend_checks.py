"""What the pure function `attend` of every variant must satisfy."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.cases import BATCH, HEAD_DIM, HEADS, KEYS, QUERIES, AttendCase
from support.closeness import assert_close
from support.visibility import visible_pairs, window_pairs

from attention import variants

BUCKETS, FARTHEST = 8, 2  # of the arrays of position schemes
WIDTH, FILTERS = 3, 2  # of the arrays of location-sensitive attention


class AttendProbe:
    """`attend` of one case and its gradients, compiled once for all checks.

    A variant without cross-attention and decoding has as many queries as keys, in their places.
    """

    def __init__(self, case: AttendCase, reference: ModuleType):
        self.case = case
        self.variant = variants.get(case.name)
        self.reference = reference
        self.options = dict(case.options)
        self.aligned = not {"decode", "cross"} & self.variant.MODES
        queries = KEYS if self.aligned else QUERIES
        self.shape = (BATCH, HEADS, queries, KEYS)
        self.names, self.inputs = self._make_inputs()
        self.cotangent = np.random.default_rng(9).normal(size=self.inputs[0].shape)
        self.run = jax.jit(self._run)

    def _make_inputs(self) -> tuple[list[str], list[np.ndarray]]:
        """Returns q, k, v and the variant's own arrays, in float64 but exact in float32."""
        _, n, t, s = self.shape
        sizes = {"b": BATCH, "t": t, "s": s, "n": n, "k": self.case.kv_heads, "h": HEAD_DIM}
        sizes |= {"p": n // 2, "buckets": BUCKETS, "rows": 2 * FARTHEST + 1}
        sizes |= {"w": WIDTH, "r": FILTERS}
        axes = {"q": "b t n h", "k": "b s k h", "v": "b s k h"} | self._own_axes()
        random = np.random.default_rng(7)
        arrays = [
            random.normal(size=[sizes[letter] for letter in letters.split()]) for letters in
            axes.values()
        ]  # fmt: skip
        return list(axes), [array.astype(np.float32).astype(np.float64) for array in arrays]

    def _own_axes(self) -> dict[str, str]:
        positions = {
            "alibi": {"slopes": "n"},
            "t5": {"bias_table": "buckets n"},
            "shaw": {"key_table": "rows h", "value_table": "rows h"},
        }
        parts = self.variant.VARIANT.parts(self.config)
        own = {array.name: array.axes for array in parts.own_arrays}
        more = getattr(self.reference, "OWN", {})  # of a variant that takes more than its parts
        return own | more | (positions[self.case.position] if self.case.position else {})

    def attend(self, *arrays, given, **options):
        return self.variant.attend(
            *arrays[:3],
            **dict(zip(self.names[3:], arrays[3:], strict=True)),
            causal=self.case.causal,
            **given,
            **{**self.options, **options},
        )

    def _run(self, arrays, cotangent, given):
        out, pull = jax.vjp(lambda *arrays: self.attend(*arrays, given=given), *arrays)
        return out, pull(cotangent)

    def __call__(self, given, dtype=jnp.float32):
        arrays = [jnp.asarray(array, dtype) for array in self.inputs]
        out, gradients = self.run(arrays, jnp.asarray(self.cotangent, dtype), given)
        return np.asarray(out, np.float64), [np.asarray(g, np.float64) for g in gradients]

    # -- what to expect ------------------------------------------------------------------------

    def sees(self, given) -> np.ndarray:
        """Returns bool [b n t s], pair by pair."""
        sees = visible_pairs(self.shape, causal=self.case.causal, **given)
        t, s = self.shape[2:]
        own = {
            f: getattr(self.config, f) for f in ("window", "dilation") if hasattr(self.config, f)
        }
        if hasattr(self.reference, "pattern") and self.aligned:
            ids = given["segment_ids"]
            pattern = self.reference.pattern(
                t, s, causal=self.case.causal, segment_ids=ids, **self._pattern_options()
            )
            return sees & pattern[:, None]
        if own.get("window") is not None:
            window = own["window"]
            left, right = (window, window) if isinstance(window, int) else window
            more = {"dilation": own.get("dilation", 1), "query_offset": given["query_offset"]}
            return sees & window_pairs(
                t, s, left=left, right=right, causal=self.case.causal, **more
            )
        return sees

    @property
    def config(self) -> Any:
        return self.variant.Config(**self.options)

    def _pattern_options(self) -> dict[str, Any]:
        return {name: getattr(self.config, name) for name in getattr(self.reference, "OPTIONS", ())}

    def _reference_options(self, given) -> dict[str, Any]:
        in_order = getattr(self.reference, "IN_ORDER", False)  # each query follows another
        known = ("normalizer", "softcap", "alpha", *(self.reference.OPTIONS if in_order else ()))
        options = {name: value for name, value in self.options.items() if name in known}
        options |= {"segment_ids": given["segment_ids"]} if in_order else {}
        if not self.case.position:
            return options
        offset = given.get("query_offset", np.zeros(BATCH, int))
        index = np.arange(self.shape[2])[None, :, None] + np.asarray(offset)[:, None, None]
        distance = np.arange(KEYS)[None, None, :] - index
        return options | {"distance": distance, "bidirectional": not self.case.causal}

    def expected(self, given, inputs=None):
        """Returns the reference's result."""
        return self._reference("attend", given, inputs or self.inputs, ("q", "k", "v"))

    def expected_weights(self, given, inputs):
        return self._reference("weights", given, inputs, ("q", "k"))

    def _reference(self, function, given, inputs, wanted):
        arrays = dict(zip(self.names, inputs, strict=True))
        own = {name: array for name, array in arrays.items() if name not in ("q", "k", "v")}
        first = [arrays[name] for name in wanted]
        options = self._reference_options(given)
        return getattr(self.reference, function)(*first, self.sees(given), **own, **options)

    # -- conditions ----------------------------------------------------------------------------

    def conditions(self) -> dict[str, np.ndarray]:
        """Returns a mask, an offset for each row and segment ids; some queries see nothing."""
        random = np.random.default_rng(8)
        mask = random.random(self.shape) < 0.8
        mask[1, 2, 3] = False  # hides every key from one query of one head
        if self.aligned:  # a segment starts where every small block may start
            ids = [[1, 1, 1, 1, 2, 2, 0], [1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 2, 2, 2]]
            return {"mask": mask, "segment_ids": np.array(ids, np.int32)}
        return {
            "mask": mask,
            "query_offset": np.array([2, 0, 5], np.int32),
            "segment_ids": np.array([[1, 1, 2, 2, 0], [1, 1, 1, 1, 1], [2, 2, 1, 1, 1]], np.int32),
            "key_segment_ids": np.array(
                [[1, 1, 1, 2, 2, 0, 0], [1, 1, 1, 1, 1, 1, 1], [2, 1, 1, 2, 2, 1, 0]], np.int32
            ),
        }

    def no_conditions(self) -> dict[str, np.ndarray]:
        """Returns conditions of the same shapes that hide nothing."""
        given = {"mask": np.ones(self.shape, bool)}
        given["segment_ids"] = np.ones((BATCH, self.shape[2]), np.int32)
        if self.aligned:
            return given
        given["query_offset"] = np.full(BATCH, KEYS, np.int32)
        given["key_segment_ids"] = np.ones((BATCH, KEYS), np.int32)
        return given


def check_values(probe: AttendProbe) -> None:
    """Equals the float64 reference, with and without conditions; nothing seen gives zeros."""
    for given in (probe.no_conditions(), probe.conditions()):
        out, _ = probe(given)
        assert_close(out, probe.expected(given), 5e-6)
        blind = ~probe.sees(given).any(-1).swapaxes(1, 2)
        assert np.all(out[blind] == 0.0), "a query that sees no key must give exact zeros"
    assert blind.any(), "the conditions should leave some query without a key"


def check_gradients(probe: AttendProbe) -> None:
    """Gradients equal central differences of the reference, and are finite everywhere."""
    random = np.random.default_rng(10)
    step = 1e-5
    for given in (probe.no_conditions(), probe.conditions()):
        _, gradients = probe(given)
        for index, gradient in enumerate(gradients):
            assert np.all(np.isfinite(gradient)), probe.names[index]
            for _ in range(2):
                direction = random.normal(size=gradient.shape)
                ends = []
                for sign in (1, -1):
                    moved = list(probe.inputs)
                    moved[index] = moved[index] + sign * step * direction
                    ends.append(np.sum(probe.expected(given, moved) * probe.cotangent))
                slope = (ends[0] - ends[1]) / (2 * step)
                error = abs(np.sum(gradient * direction) - slope)
                assert error < 2e-5 * (np.linalg.norm(gradient) + 1.0), probe.names[index]


def check_padding(probe: AttendProbe) -> None:
    """NaN and infinity in padding and in hidden keys count as zeros, and have zero gradients."""
    given = probe.conditions()
    given["mask"][..., 1] = False
    queries = given["segment_ids"] != 0
    keys = given.get("key_segment_ids", given["segment_ids"]) != 0
    keys[:, 1] = False
    real = {"q": queries, "gate": queries, "k": keys, "v": keys}
    plain, results = probe.inputs, []
    try:
        for content in (0.0, np.nan, np.inf):
            probe.inputs = [
                np.where(real[name][..., None, None], array, content) if name in real else array
                for name, array in zip(probe.names, plain, strict=True)
            ]
            out, gradients = probe(given)
            results.append([out, *gradients])
    finally:
        probe.inputs = plain
    for spoilt in results[1:]:
        for name, one, other in zip(["out", *probe.names], spoilt, results[0], strict=True):
            assert np.all(np.isfinite(one)), name
            np.testing.assert_array_equal(one, other, err_msg=name)
            if name in real:
                assert np.all(one[~real[name]] == 0.0), name


def check_weights(probe: AttendProbe) -> None:
    """`weights` equal the reference's, in float32 even for bfloat16 activations."""
    if not (hasattr(probe.variant, "weights") and hasattr(probe.reference, "weights")):
        return
    given = probe.conditions()
    for dtype in (jnp.float32, jnp.bfloat16):
        arrays = [jnp.asarray(array, dtype) for array in probe.inputs]
        named = dict(zip(probe.names, arrays, strict=True))
        q, k, _ = (named.pop(name) for name in "qkv")
        got = probe.variant.weights(
            q, k, **named, causal=probe.case.causal, **given, **probe.options
        )
        rounded = [np.asarray(array, np.float64) for array in arrays]
        assert got.dtype == jnp.float32
        want = probe.expected_weights(given, rounded)
        assert_close(got, want, 2e-6)


def check_bfloat16(probe: AttendProbe) -> None:
    """With bfloat16 activations the error against float64 is that of rounding weights and result.

    Two roundings to 8 bits: |error| ≤ 2 · 2⁻⁸ · max|v| · Σ|weight|. A score or normalizer in
    bfloat16 exceeds this, as the scores here reach about 60.
    """
    sharp = [probe.inputs[0] * 20.0, *probe.inputs[1:]]
    arrays = [jnp.asarray(array, jnp.bfloat16) for array in sharp]
    rounded = [np.asarray(array, np.float64) for array in arrays]
    given = probe.conditions()
    out, gradients = probe.run(arrays, jnp.asarray(probe.cotangent, jnp.bfloat16), given)
    assert out.dtype == jnp.bfloat16
    assert all(np.all(np.isfinite(np.asarray(g, np.float32))) for g in gradients)
    want = probe.expected(given, rounded)
    largest = np.abs(rounded[2]).max()
    if hasattr(probe.reference, "weights"):
        weights = probe.expected_weights(given, rounded)
        largest = largest * np.maximum(1.0, np.abs(weights).sum(-1)).max()
    largest = max(largest, np.abs(want).max())
    bound = 2 * 2.0**-8 * largest
    np.testing.assert_allclose(np.asarray(out, np.float64), want, rtol=0, atol=bound)


def check_compiled_equals_plain(probe: AttendProbe) -> None:
    """jit changes nothing but the last bits."""
    given = probe.conditions()
    compiled, _ = probe(given)
    arrays = [jnp.asarray(array, jnp.float32) for array in probe.inputs]
    plain = probe.attend(*arrays, given=given)
    assert_close(compiled, plain, 3e-6)


def check_implementations(probe: AttendProbe) -> None:
    """In blocks or in one piece: the same values and gradients, of as many queries as keys.

    Only then are keys left out: those ahead in causal blocks, those that a window never sees.
    """
    if not hasattr(probe.config, "implementation"):
        return
    length = probe.shape[2]
    arrays = [jnp.asarray(array, jnp.float32) for array in probe.inputs]
    arrays[1], arrays[2] = arrays[1][:, :length], arrays[2][:, :length]
    conditions = probe.conditions()
    given = {
        "mask": conditions["mask"][..., :length],
        "segment_ids": conditions["segment_ids"],
    }

    @jax.jit
    def both(arrays):
        results = []
        for options in (
            {"implementation": "plain"},
            {"implementation": "chunked", "block_size": 3},
        ):
            out, pull = jax.vjp(functools.partial(probe.attend, given=given, **options), *arrays)
            results.append((out, pull(jnp.asarray(probe.cotangent, jnp.float32))))
        return results

    want, got = both(arrays)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def check_refusals(probe: AttendProbe) -> None:
    """What would have to be guessed is refused: offsets, ranks, types, one-sided ids, arrays."""
    arrays = [jnp.asarray(array, jnp.float32) for array in probe.inputs]
    mask = np.ones((BATCH, 1, 1, KEYS), bool)
    short = [arrays[0][:, :QUERIES], *arrays[1:]]
    ids, key_ids = np.ones((BATCH, QUERIES), np.int32), np.ones((BATCH, KEYS), np.int32)
    attempts: list[Any] = [
        functools.partial(probe.attend, *arrays, given=given)
        for given in (
            {"mask": mask[:, 0, 0]},
            {"mask": mask[:, 0]},
            {"mask": mask.astype(np.float32)},
            {"mask": np.ones((BATCH, 1, 1, QUERIES), bool)},
        )
    ]
    if "gate" not in probe.names:  # which has the length of the queries
        attempts += [
            functools.partial(probe.attend, *short, given=given)
            for given in (
                {"segment_ids": ids},
                {"key_segment_ids": key_ids},
                {"segment_ids": key_ids, "key_segment_ids": ids},
            )
        ]
        if "causal" in probe.variant.MODES:
            own = dict(zip(probe.names[3:], arrays[3:], strict=True))
            attempts.append(functools.partial(probe.variant.attend, *short[:3], **own, causal=True))
    if arrays[0].shape[2] == arrays[1].shape[2]:
        q, k, v, *rest = arrays
        fewer = [q, k[:, :, :3], v[:, :, :3], *rest]
        attempts.append(functools.partial(probe.attend, *fewer, given={}))
    if len(arrays) > 3 and not probe.case.position:
        attempts.append(functools.partial(probe.variant.attend, *arrays[:3], **probe.options))
    attempts.append(functools.partial(probe.attend, *arrays, given={}, no_such_option=1))
    for attempt in attempts:
        with pytest.raises(ValueError):
            attempt()


ALL = (
    check_values,
    check_gradients,
    check_padding,
    check_weights,
    check_bfloat16,
    check_compiled_equals_plain,
    check_implementations,
    check_refusals,
)
