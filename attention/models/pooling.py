"""From the states of an example's tokens to one vector: mean, max, first, or attention.

Every pooling is x [b t d], segment_ids [b t] → [b g d]: row b's example m has segment id m + 1, and
only its own tokens count; an example without tokens has zeros. All but `max` are sums of tokens by
their shares [b g t], one product. With g ≤ t/4 that is at most an eighth of the products of one
attention layer over the row, and unlike a scatter it is the same sum, in the same order, each time.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention.core.linear import Linear
from attention.errors import UserError, did_you_mean


class Pooling(nnx.Module):
    """A pooling by shares: a subclass says what each token's are."""

    def __call__(
        self, x: Float[Array, "b t d"], segment_ids: Int[Array, "b t"], num_examples: int
    ) -> Float[Array, "b g d"]:
        """Returns the vectors of examples 1 … num_examples of each row, in float32."""
        return _weighted(self.weights(x, segment_ids, num_examples), x, segment_ids)

    def weights(
        self, x: Float[Array, "b t d"], segment_ids: Int[Array, "b t"], num_examples: int
    ) -> Float[Array, "b g t"]:
        """Returns the share of each token in each example, in float32; they add up to 1."""
        raise NotImplementedError


class Mean(Pooling):
    """The mean of the tokens."""

    def __call__(self, x, segment_ids, num_examples):
        # Divided last: shares of 1/3 would be rounded before they are summed.
        own = members(segment_ids, num_examples)
        return _weighted(own.astype(jnp.float32), x, segment_ids) / _counts(own)

    def weights(self, x, segment_ids, num_examples):
        own = members(segment_ids, num_examples)
        return own.astype(jnp.float32) / _counts(own)


class First(Pooling):
    """The first token."""

    def weights(self, x, segment_ids, num_examples):
        own = members(segment_ids, num_examples)
        index = jnp.arange(own.shape[2], dtype=jnp.int32)[None, None, :]
        return (own & (index == jnp.argmax(own, axis=2)[..., None])).astype(jnp.float32)


class Max(nnx.Module):
    """The largest value of each feature."""

    def __call__(
        self, x: Float[Array, "b t d"], segment_ids: Int[Array, "b t"], num_examples: int
    ) -> Float[Array, "b g d"]:
        """Returns the vectors of examples 1 … num_examples of each row, in float32."""
        return _largest(x.astype(jnp.float32), segment_ids, num_examples)


class Attention(Pooling):
    """A softmax over the scores u · tanh(x W + b) of the tokens, u learned.

    Neural Machine Translation by Jointly Learning to Align and Translate (2015), arXiv 1409.0473,
    without the decoder's state, as in Hierarchical Attention Networks (Yang et al. 2016), NAACL.
    """

    def __init__(self, dim: int, *, rngs: nnx.Rngs):
        self.hidden = Linear(dim, dim, rngs=rngs)
        initial = nnx.initializers.normal(dim**-0.5)(rngs.params(), (dim,), jnp.float32)
        self.query = nnx.Param(initial)

    def weights(self, x, segment_ids, num_examples):
        hidden = jnp.tanh(self.hidden(_real(x, segment_ids)).astype(jnp.float32))
        scores = jnp.sum(hidden * self.query[...][None, None, :], axis=-1)
        own = members(segment_ids, num_examples)
        # Some example has no tokens: −∞ − −∞ is NaN, so those get a finite largest score.
        largest = jnp.max(scores[:, None, :], axis=2, keepdims=True, where=own, initial=-1e30)
        # Chosen before exp: a large score of another example would overflow, and 0 · ∞ is NaN.
        powers = jnp.exp(jnp.where(own, scores[:, None, :] - jax.lax.stop_gradient(largest), 0.0))
        powers = jnp.where(own, powers, 0.0)
        total = jnp.sum(powers, axis=2, keepdims=True)
        return powers / jnp.where(total > 0.0, total, 1.0)


POOLINGS = {"mean": Mean, "max": Max, "first": First, "attention": Attention}


def make_pooling(name: str, dim: int, *, rngs: nnx.Rngs) -> Pooling | Max:
    """Makes a pooling of vectors of width dim; raises UserError for an unknown name."""
    if name not in POOLINGS:
        hint = did_you_mean(name, POOLINGS)
        raise UserError(f"model.pooling={name!r} is not one of {', '.join(POOLINGS)}{hint}")
    return Attention(dim, rngs=rngs) if name == "attention" else POOLINGS[name]()


def members(segment_ids: Int[Array, "b t"], num_examples: int) -> Bool[Array, "b g t"]:
    """Returns which tokens each example of a row has."""
    example = 1 + jnp.arange(num_examples, dtype=segment_ids.dtype)
    return segment_ids[:, None, :] == example[None, :, None]


def _counts(own: Bool[Array, "b g t"]) -> Float[Array, "b g 1"]:
    """Returns the number of tokens, at least 1, so that nothing is divided by 0."""
    return jnp.maximum(jnp.sum(own, axis=2, keepdims=True), 1).astype(jnp.float32)


def _real(x, segment_ids) -> Float[Array, "b t d"]:
    """Returns x with zeros for padding, which may hold anything: 0 · NaN is NaN."""
    return jnp.where((segment_ids != 0)[..., None], x, jnp.zeros((), x.dtype))


def _weighted(weights, x, segment_ids) -> Float[Array, "b g d"]:
    x = _real(x, segment_ids).astype(jnp.float32)
    # The highest precision: accelerators would round the shares and the states.
    return jnp.einsum("bgt,btd->bgd", weights, x, precision=jax.lax.Precision.HIGHEST)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _largest(x, segment_ids, num_examples: int) -> Float[Array, "b g d"]:
    return _largest_forward(x, segment_ids, num_examples)[0]


def _largest_forward(x, segment_ids, num_examples: int):
    # A maximum does not depend on the order of its terms, so here a scatter is safe, and cheap:
    # comparing 512 tokens with 64 examples took half as long as an encoder block.
    row_maximum = partial(jax.ops.segment_max, num_segments=num_examples + 1)
    bins = jnp.where(segment_ids <= num_examples, segment_ids, 0)
    largest = jax.vmap(row_maximum)(x, bins)[:, 1:]
    exists = jnp.any(members(segment_ids, num_examples), axis=2)
    pooled = jnp.where(exists[..., None], largest, 0.0)
    return pooled, (x, segment_ids, pooled)


def _largest_back(num_examples: int, kept, gradient):
    # The automatic one keeps an array [b g t d]; but each token has one example to compare with.
    x, segment_ids, pooled = kept
    own = members(segment_ids, num_examples)
    example = jnp.clip(segment_ids - 1, 0, num_examples - 1)[..., None]
    inside = jnp.any(own, axis=1)[..., None]
    is_largest = inside & (x == jnp.take_along_axis(pooled, example, axis=1))
    ties = _weighted(own.astype(jnp.float32), is_largest, segment_ids)
    share = gradient / jnp.maximum(ties, 1.0)
    return jnp.where(is_largest, jnp.take_along_axis(share, example, axis=1), 0.0), None


_largest.defvjp(_largest_forward, _largest_back)
