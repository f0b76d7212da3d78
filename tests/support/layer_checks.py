"""What the layer of every variant must satisfy, whatever its mechanism."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from support.cases import BATCH, CONTEXT_DIM, DIM, HEADS, LENGTH, LayerCase, fields
from support.closeness import assert_close

from attention import variants
from attention.core.layer import AttentionLayer

MORE = 4  # extra padding
EVERYTHING = np.ones((BATCH, 1, 1, LENGTH), bool)  # a mask that hides nothing
NO_NUMBERS = (np.float32(np.nan), np.float32(np.inf))
# Weights of exactly zero are the point of these: that a query sees a key need not show.
SPARSE = ("sparsemax", "entmax15", "entmax", "relu", "relu2", "sum")


def random_input(length: int, seed: int = 0, width: int = DIM) -> np.ndarray:
    """Returns activations [b t d]."""
    shape = (BATCH, length, width)
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


class LayerProbe:
    """A layer and its compiled calls, each compiled once for all checks.

    Every call has a mask and segment ids, so that one program serves all checks of a length.
    """

    def __init__(self, case: LayerCase, *, causal: bool = False, context: bool = False):
        self.case = case
        self.variant = variants.get(case.name)
        self.settings = {
            "dim": DIM,
            "num_heads": HEADS,
            "causal": causal,
            "context_dim": _context_dim(case) if context else None,
            "max_length": LENGTH + MORE,
            "position": case.position,
            **dict(case.options),
        }
        self.layer = variants.make(case.name, **self.settings, rngs=nnx.Rngs(3))
        _jiggle(self.layer)
        self.graphdef, self.state = nnx.split(self.layer)
        self.run = jax.jit(functools.partial(self._call, "__call__"))
        self.step = jax.jit(functools.partial(self._call, "decode"))
        self.loss_and_gradients = jax.jit(jax.value_and_grad(self._loss, argnums=(0, 1)))

    def context(self, *, seed: int = 5) -> np.ndarray:
        """Returns another sequence to attend to [b 7 c]."""
        return random_input(7, seed=seed, width=self.settings["context_dim"])

    def _call(self, method, state, x, *args, **given):
        return getattr(nnx.merge(self.graphdef, state), method)(x, *args, **given)

    def _loss(self, state, x, segment_ids, mask):
        """A sum over all positions but those that the mask [b 1 1 s] hides."""
        y = self._call("__call__", state, x, segment_ids=segment_ids, mask=mask)
        return jnp.sum(jnp.where(mask[:, 0, 0, :, None], jnp.sin(y), 0.0))

    def __call__(self, x, *, segment_ids=None, mask=None, context=None, context_segment_ids=None):
        given = {"segment_ids": _ones_unless(segment_ids, x)}
        keys = x if context is None else context
        if context is not None:
            ids = _ones_unless(context_segment_ids, context)
            given |= {"context": context, "context_segment_ids": ids}
        hidden = np.ones((len(x), 1, 1, keys.shape[1]), bool) if mask is None else mask
        return np.asarray(self.run(self.state, x, mask=hidden, **given))


def _context_dim(case: LayerCase) -> int:
    """Another width than the model's, unless an option allows only that."""
    chosen = dict(case.options)
    as_wide = {f.name for f in fields(case.name) if f.metadata.get("context_as_wide")}
    return DIM if any(chosen.get(name) for name in as_wide) else CONTEXT_DIM


def _ones_unless(ids, x) -> np.ndarray:
    return np.ones(x.shape[:2], np.int32) if ids is None else ids


def _jiggle(layer: nnx.Module) -> None:
    """Moves every parameter off its initial value: biases of zero would hide faults."""
    state = nnx.state(layer, nnx.Param)
    random = np.random.default_rng(4)
    moved = jax.tree.map(
        lambda p: p + jnp.asarray(0.1 * random.normal(size=p.shape), p.dtype), state
    )
    nnx.update(layer, moved)


def packed_and_separate(probe: LayerProbe | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Returns x and ids: row 0 packs a sentence of 4 and one of 5; rows 1 and 2 hold them alone.

    For a variant that does not pack, row 0 is one sentence of 9.
    """
    x = random_input(LENGTH)
    x[1, :4], x[2, :5] = x[0, :4], x[0, 4:9]
    ids = np.zeros((BATCH, LENGTH), np.int32)
    ids[0, :4], ids[0, 4:9], ids[1, :4], ids[2, :5] = 1, 2, 1, 1
    if probe is not None and "packed" not in probe.variant.MODES:
        ids = np.minimum(ids, 1)
    return x, ids


def check_packing(probe: LayerProbe) -> None:
    """Packed rows give what separate rows give."""
    if "packed" not in probe.variant.MODES:
        return
    x, ids = packed_and_separate()
    y = probe(x, segment_ids=ids)
    assert_close(y[0, :4], y[1, :4], 5e-6)
    assert_close(y[0, 4:9], y[2, :5], 5e-6)


def check_padding(probe: LayerProbe) -> None:
    """Neither the content nor the amount of padding changes a real position."""
    x, ids = packed_and_separate(probe)
    real = ids > 0
    y = probe(x, segment_ids=ids)
    other = np.where(real[..., None], x, 50.0 * random_input(LENGTH, seed=1))
    np.testing.assert_array_equal(probe(other, segment_ids=ids)[real], y[real])
    longer = np.pad(other, ((0, 0), (0, MORE), (0, 0)), constant_values=7.0)
    more_ids = np.pad(ids, ((0, 0), (0, MORE)))
    more = probe(longer, segment_ids=more_ids)[:, :LENGTH]
    assert_close(more[real], y[real], 5e-6)
    for content in NO_NUMBERS:
        check_no_numbers(probe, np.where(real[..., None], x, content), real, ids, None)


def check_no_numbers(probe: LayerProbe, spoilt, real, ids, mask) -> None:
    """What padding holds reaches neither real positions nor any gradient: as if it were zeros."""
    zeros = np.where(real[..., None], spoilt, np.float32(0.0))
    outputs = [probe(x, segment_ids=ids, mask=mask)[real] for x in (spoilt, zeros)]
    np.testing.assert_array_equal(*outputs)
    given = (_ones_unless(ids, spoilt), EVERYTHING if mask is None else mask)
    gradients = [probe.loss_and_gradients(probe.state, x, *given)[1] for x in (spoilt, zeros)]
    (of_state, of_x), wanted = gradients
    assert np.all(np.asarray(of_x)[~real] == 0.0), "the gradient of padding is zero"
    got, want = (jax.tree.leaves_with_path(g) for g in ((of_state, of_x), wanted))
    for (path, one), (_, other) in zip(got, want, strict=True):
        assert np.all(np.isfinite(one)), jax.tree_util.keystr(path)
        np.testing.assert_array_equal(one, other, err_msg=jax.tree_util.keystr(path))


def check_padding_mask(probe: LayerProbe) -> None:
    """A mask [b 1 1 s] hides what segment ids of one segment hide."""
    ids = (np.arange(LENGTH)[None] < np.array([[4], [9], [11]])).astype(np.int32)
    x = random_input(LENGTH)
    by_ids = probe(x, segment_ids=ids)
    by_mask = probe(x, mask=ids[:, None, None, :] > 0)
    if getattr(probe.variant, "MASKED_IS_ABSENT", True):
        assert_close(by_mask[ids > 0], by_ids[ids > 0], 5e-6)
    other = np.where(ids[..., None] > 0, x, 50.0 * random_input(LENGTH, seed=1))
    again = probe(other, mask=ids[:, None, None, :] > 0)
    np.testing.assert_array_equal(again[ids > 0], by_mask[ids > 0])
    for content in NO_NUMBERS:
        spoilt = np.where(ids[..., None] > 0, x, content)
        check_no_numbers(probe, spoilt, ids > 0, None, ids[:, None, None, :] > 0)


def check_sees_nothing(probe: LayerProbe) -> None:
    """Rows that are all padding give one finite value, and finite gradients of every parameter."""
    x, ids = packed_and_separate(probe)
    ids[1] = 0
    y = probe(x, segment_ids=ids)
    assert np.all(np.isfinite(y))
    _, gradients = probe.loss_and_gradients(probe.state, x, ids, EVERYTHING)
    for path, gradient in jax.tree.leaves_with_path(gradients):
        assert np.all(np.isfinite(gradient)), path


def check_gradients(probe: LayerProbe) -> None:
    """The slope of a loss along random directions is what the gradients say, parameter by
    parameter; central differences in float32, two widths combined.

    Not where weights or scores have kinks (of a ReLU, say), which are met at every width: there the
    exact check of `attend` in float64 has to do.
    """
    if getattr(probe.variant, "HAS_KINKS", False) or _normalizer(probe) in SPARSE:
        return
    x, ids = packed_and_separate(probe)
    start = (probe.state, jnp.asarray(x))
    _, gradients = probe.loss_and_gradients(*start, ids, EVERYTHING)
    leaves, structure = jax.tree.flatten(start)
    random = np.random.default_rng(5)

    def loss(index: int, moved: jax.Array) -> float:
        arrays = [moved if i == index else leaf for i, leaf in enumerate(leaves)]
        moved_to = jax.tree.unflatten(structure, arrays)
        return float(probe.loss_and_gradients(*moved_to, ids, EVERYTHING)[0])

    for index, (path, gradient) in enumerate(jax.tree.leaves_with_path(gradients)):
        direction = random.normal(size=gradient.shape).astype(np.float32)
        slopes = []
        for width in (4e-3, 8e-3):
            ends = [loss(index, leaves[index] + sign * width * direction) for sign in (1, -1)]
            slopes.append((ends[0] - ends[1]) / (2 * width))
        slope = (4 * slopes[0] - slopes[1]) / 3
        got = float(np.sum(np.asarray(gradient) * direction))
        # A slope of 0, of the bias of keys, comes out as up to 0.004: the loss is rounded.
        assert abs(got - slope) < 0.03 * (float(np.linalg.norm(gradient)) + 0.2), (
            f"{jax.tree_util.keystr(path)}: its gradient along a random direction is {got}, "
            f"and the slope there {slope}"
        )


def _normalizer(probe: LayerProbe) -> str:
    return getattr(getattr(probe.layer, "config", None), "normalizer", "softmax")


def check_causal(probe: LayerProbe) -> None:
    """Replacing later inputs changes no output; the Jacobian is lower triangular, all of it."""
    x = random_input(LENGTH)
    y = probe(x)
    for i in (0, 3, LENGTH - 2):
        later = x.copy()
        later[:, i + 1 :] = 9.0 * random_input(LENGTH, seed=2)[:, i + 1 :]
        np.testing.assert_array_equal(probe(later)[:, : i + 1], y[:, : i + 1])

    def row(x):
        return jnp.sum(probe.run(probe.state, x[None])[0], axis=-1)

    sensitivity = np.abs(jax.jit(jax.jacrev(row))(x[0])).max(-1)
    assert np.all(np.triu(sensitivity, 1) == 0.0)
    if _normalizer(probe) not in SPARSE:
        reached = sensitivity[seen_when_causal(probe)]
        assert np.all(reached > 0.0), "each sees itself and all before that it may"


def seen_when_causal(probe: LayerProbe) -> np.ndarray:
    """Returns bool [t t]: what a query may see, by the variant's own word."""
    everything = np.tril(np.ones((LENGTH, LENGTH), bool))
    pattern = getattr(getattr(probe.layer, "parts", None), "pattern", None)
    if pattern is None:
        # A convolution reaches as far as it is wide, a recurrence fades: themselves, at least.
        weighs = isinstance(probe.layer, AttentionLayer)
        return everything if weighs else np.eye(LENGTH, dtype=bool)
    options = dict(probe.case.options)
    options = {k: v for k, v in options.items() if k not in ("num_kv_heads", "qk_norm", "tie_qk")}
    return np.asarray(probe.variant.VARIANT.visible(LENGTH, LENGTH, causal=True, **options))[0, 0]


def check_decode(probe: LayerProbe) -> None:
    """Steps, and a prompt followed by steps, give what the full pass gives, beams included."""
    x = random_input(LENGTH)
    y = probe(x)
    for prompt in (1, 4):
        cache = probe.layer.init_cache(BATCH, LENGTH)
        assert all(leaf.shape[0] == BATCH for leaf in jax.tree.leaves(cache))
        outputs = []
        for start, stop in [(0, prompt), *((i, i + 1) for i in range(prompt, LENGTH))]:
            out, cache = probe.step(probe.state, x[:, start:stop], cache)
            outputs.append(out)
        assert_close(np.concatenate(outputs, 1), y, 1e-5)
    order = np.array([2, 2, 0])
    cache = probe.layer.init_cache(BATCH, LENGTH)
    _, cache = probe.step(probe.state, x[:, :4], cache)
    cache = jax.tree.map(lambda leaf: leaf[order], cache)
    out, _ = probe.step(probe.state, x[order][:, 4:5], cache)
    assert_close(out[:, 0], y[order, 4], 1e-5)


def check_decode_end(probe: LayerProbe) -> None:
    """Past the end of the cache: an error, or inside jit a flag, and nothing is written over."""
    x = random_input(LENGTH)
    _, cache = probe.step(probe.state, x[:, :4], probe.layer.init_cache(BATCH, 4))
    try:
        probe.layer.decode(x[:, 4:5], cache)
    except ValueError as error:
        assert "max_length" in str(error) and "4" in str(error)
    else:
        raise AssertionError("decoding past max_length must raise")
    assert not np.any(cache.overflow)
    _, after = probe.step(probe.state, x[:, 4:5], cache)
    assert np.all(after.overflow)
    kept = after._replace(position=cache.position, overflow=cache.overflow)
    jax.tree.map(np.testing.assert_array_equal, kept, cache)


def check_cross(probe: LayerProbe) -> None:
    """Another sequence of another length and width; its padding never shows."""
    x, context = random_input(LENGTH), probe.context()
    ids = (np.arange(7)[None] < np.array([[3], [5], [7]])).astype(np.int32)
    y = probe(x, context=context, context_segment_ids=ids)
    by_mask = probe(x, context=context, mask=ids[:, None, None, :] > 0)
    assert_close(by_mask, y, 5e-6)
    for content in (np.float32(9.0), *NO_NUMBERS):
        other = np.where(ids[..., None] > 0, context, content)
        np.testing.assert_array_equal(probe(x, context=other, context_segment_ids=ids), y)
        again = probe(x, context=other, mask=ids[:, None, None, :] > 0)
        np.testing.assert_array_equal(again, by_mask)
    alone = probe.run(probe.state, x[:1], context=context[:1, :3])
    assert_close(alone, y[:1], 5e-6)
    assert np.abs(probe(x, context=context + probe.context(seed=6)) - y).max() > 1e-3


def check_cross_steps(probe: LayerProbe) -> None:
    """Steps over a cache made of the context give what the full pass gives, beams included."""
    if "decode" not in probe.variant.MODES:
        return
    x, context = random_input(LENGTH), probe.context()
    real = np.arange(7)[None] < np.array([[3], [5], [0]])
    y = probe(x, context=context, mask=real[:, None, None, :])
    order = np.array([1, 1, 0])
    cache = probe.layer.init_cache(BATCH, LENGTH, context=context)
    _check_two_steps(probe, cache, x, y, order, mask=real[:, None, None, :])
    for content in NO_NUMBERS:  # in padding that the cache was told of
        other = np.where(real[..., None], context, content)
        given = {"context": other, "context_segment_ids": real.astype(np.int32)}
        cache = probe.layer.init_cache(BATCH, LENGTH, **given)
        _check_two_steps(probe, cache, x, y, order, mask=None)


def _check_two_steps(probe: LayerProbe, cache, x, y, order, *, mask) -> None:
    """A prompt of four, and after it one more of beams that have changed places."""
    assert all(leaf.shape[0] == BATCH for leaf in jax.tree.leaves(cache))
    out, cache = probe.layer.decode(x[:, :4], cache, mask=mask)
    assert_close(out, y[:, :4], 1e-5)
    cache = jax.tree.map(lambda leaf: leaf[order], cache)
    mask = None if mask is None else mask[order]
    out, _ = probe.layer.decode(x[order][:, 4:5], cache, mask=mask)
    assert_close(out[:, 0], y[order, 4], 1e-5)


def check_permutation(probe: LayerProbe) -> None:
    """Without positions, permuted inputs give permuted outputs."""
    claims = getattr(probe.variant, "PERMUTATION_EQUIVARIANT", False)
    ordered = probe.case.position or getattr(probe.layer.parts, "pattern", None) if claims else None
    if not claims or ordered:
        return
    x = random_input(LENGTH)
    order = np.random.default_rng(6).permutation(LENGTH)
    assert_close(probe(x[:, order]), probe(x)[:, order], 5e-6)


def check_compiled_equals_plain(probe: LayerProbe) -> None:
    """jit changes nothing but the last bits, and leaving out ids and mask nothing at all."""
    x, ids = packed_and_separate(probe)
    plain = probe.layer(x, segment_ids=ids)
    assert_close(probe(x, segment_ids=ids), plain, 5e-6)
    assert_close(probe(x), probe.layer(x), 5e-6)


def check_bfloat16(probe: LayerProbe) -> None:
    """bfloat16 activations stay within 3 % of float32's largest output.

    With the normalizer `sum` most queries do: one whose scores are all near 0 cannot.
    """
    layer = variants.make(
        probe.case.name, **(probe.settings | {"dtype": "bfloat16"}), rngs=nnx.Rngs(3)
    )
    nnx.update(layer, probe.state)
    x, ids = packed_and_separate(probe)
    y = layer(x, segment_ids=ids)
    assert y.dtype == jnp.bfloat16
    want = probe(x, segment_ids=ids)
    error = np.abs(np.asarray(y, np.float32) - want)[ids > 0].max(axis=-1)
    within = np.mean(error < 0.03 * np.abs(want).max())
    assert within > 0.6 if _normalizer(probe) == "sum" else within == 1.0


SELF = (
    check_packing,
    check_padding,
    check_padding_mask,
    check_sees_nothing,
    check_gradients,
    check_compiled_equals_plain,
    check_bfloat16,
)
BIDIRECTIONAL = (*SELF, check_permutation)
CAUSAL = (*SELF, check_causal)
DECODE = (check_decode, check_decode_end)
CROSS = (check_cross, check_cross_steps)
