"""The mean of the values that are visible, where attention stands: a baseline.

out_i = (1/c_i) Σ v_j over the c_i keys that query i sees: exact attention whose scores are all 0.
The layer has values and an out projection, no queries and no keys. Time t·s·h, memory t·s per head.
`attend` reads no more of q than its shape. Order shows through masks and windows only: there are
no positions in scores that do not look.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention.core.cache import KeyValueCache, empty_cache
from attention.core.exact import OF_ALL_SCORES, ExactConfig, fixed
from attention.core.exact_variant import ALL_MODES, ExactVariant
from attention.core.layer import AttentionLayer
from attention.core.linear import Linear
from attention.core.parts import Score

MODES = ALL_MODES
POSITIONS = ()  # none of those that act inside attention
NO_SCORES = "a mean has no queries, keys and scores; " + OF_ALL_SCORES
PERMUTATION_EQUIVARIANT = True


@dataclass(frozen=True)
class Config(ExactConfig):
    """The options of the exact core that say who sees whom, and how it is computed."""

    normalizer: str = fixed("softmax", NO_SCORES)
    num_kv_heads: int | None = fixed(None, NO_SCORES)
    softcap: float | None = fixed(None, NO_SCORES)
    qk_norm: str = fixed("none", NO_SCORES)


class PoolingLayer(AttentionLayer):
    """Linear in → mean → linear out."""

    def make_projections(self, rngs: nnx.Rngs) -> None:
        settings = self.settings
        width = settings.num_heads * settings.head_dim
        self.value = Linear(settings.context_dim, width, rngs=rngs)
        self.out = Linear(width, settings.dim, rngs=rngs)

    def queries(self, x, positions):
        """Returns zeros of size 1, which say how many there are."""
        return self._zeros(x)

    def keys(self, x, positions):
        """Likewise."""
        return self._zeros(x)

    def _zeros(self, x):
        return jnp.zeros((*x.shape[:2], self.settings.num_heads, 1), self.settings.dtype)

    def empty_cache(self, batch: int, max_length: int) -> KeyValueCache:
        """Returns an empty cache; its keys have size 1."""
        settings = self.settings
        return empty_cache(
            *(batch, max_length, settings.num_heads, 1, settings.dtype),
            value_dim=settings.head_dim,
            reach=self.reach,
        )


def no_score(q: Float[Array, "b t n h"], k: Float[Array, "b s k h"]) -> Float[Array, "b n t s"]:
    """Returns zeros."""
    b, t, n, _ = q.shape
    return jnp.zeros((b, n, t, k.shape[1]), jnp.float32)


VARIANT = ExactVariant(Config, Score(no_score), layer=PoolingLayer)
attend, weights, make = VARIANT.attend, VARIANT.weights, VARIANT.make
