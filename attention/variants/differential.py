"""Differential attention: one map minus another, so that what both see by mistake cancels.

Differential Transformer (Ye et al. 2024), arXiv 2410.05258. Heads 2i and 2i + 1 are a pair with the
maps A₁ = softmax(Q₁K₁ᵀ/√h), A₂ likewise, and a value of 2h, the two heads' joined:
out = (A₁ − λA₂)[V₁ V₂], split back to two heads. That is one map, A₁ − λA₂, for both heads' own
values; so `weights` may be negative. Time t·s·h, memory t·s per head.

The layer then norms each joined pair, RMSNorm(out) · gain · (1 − λ₀), with a learned gain [2h] that
pairs share. All pairs have λ = exp(λ_q1·λ_k1) − exp(λ_q2·λ_k2) + λ₀, four learned vectors [h];
λ₀ = 0.8 − 0.6·exp(−0.3·layer_index), layers counted from 0.

With `num_kv_heads`, key heads serve query heads as everywhere; the heads of a pair then share keys
and values unless there are as many key heads as query heads. Cannot do: an odd number of heads.
"""

import math
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention.core.exact import SECTION, ExactConfig
from attention.core.exact_variant import ALL_MODES, ALL_POSITIONS, ExactVariant
from attention.core.head_norm import HeadNorm
from attention.core.layer import AttentionLayer
from attention.core.parts import HeadMix, Score
from attention.core.settings import LayerSettings
from attention.ops import scores
from attention.ops.head_mix import check_pairs, pair_difference
from attention.ops.option_checks import check_flag, check_number
from attention.ops.own_array import OwnArray

MODES = ALL_MODES
POSITIONS = ALL_POSITIONS
PERMUTATION_EQUIVARIANT = True  # without positions, bidirectional
EPSILON = 1e-5


@dataclass(frozen=True)
class Config(ExactConfig):
    """The options of the exact core, and:

    Attributes:
        norm: whether the joined pairs are normed; they are multiplied by 1 − λ₀ anyway.
        lambda_init: λ₀; None = 0.8 − 0.6·exp(−0.3·layer_index).
    """

    norm: bool = field(default=True, metadata={"examples": (False,), "layer": True})
    lambda_init: float | None = field(default=None, metadata={"examples": (0.5,), "layer": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag(f"{SECTION}.norm", self.norm)
        check_number(f"{SECTION}.lambda_init", self.lambda_init, or_none=True)


class DifferentialLayer(AttentionLayer):
    """The layer: λ of learned vectors, and a norm of the joined pairs."""

    config: Config

    def __init__(
        self, variant: ExactVariant, config: Config, settings: LayerSettings, *, rngs: nnx.Rngs
    ):
        """Raises UserError for an odd number of heads."""
        check_pairs(settings.num_heads)
        super().__init__(variant, config, settings, rngs=rngs)
        self.lambda_q1, self.lambda_k1 = self._vector(rngs), self._vector(rngs)
        self.lambda_q2, self.lambda_k2 = self._vector(rngs), self._vector(rngs)
        self.norm = HeadNorm(2 * settings.head_dim, epsilon=EPSILON) if config.norm else None

    @property
    def lambda_init(self) -> float:
        """λ₀."""
        if self.config.lambda_init is not None:
            return self.config.lambda_init
        return 0.8 - 0.6 * math.exp(-0.3 * self.settings.layer_index)

    def learned(self) -> tuple[OwnArray, ...]:
        return tuple(array for array in self.parts.own_arrays if array.name != "lam")

    def own_arrays(self) -> dict[str, Array]:
        first = jnp.sum(self.lambda_q1[...] * self.lambda_k1[...])
        second = jnp.sum(self.lambda_q2[...] * self.lambda_k2[...])
        lam = jnp.exp(first) - jnp.exp(second) + self.lambda_init
        pairs = (self.settings.num_heads // 2,)
        return {**super().own_arrays(), "lam": jnp.broadcast_to(lam, pairs)}

    def joined(
        self, heads: Float[Array, "b t n h"], x: Float[Array, "b t d"]
    ) -> Float[Array, "b t d"]:
        pairs = heads.reshape(*heads.shape[:2], heads.shape[2] // 2, 2 * heads.shape[3])
        pairs = pairs if self.norm is None else self.norm(pairs)
        return super().joined(pairs * (1.0 - self.lambda_init), x)

    def _vector(self, rngs: nnx.Rngs) -> nnx.Param:
        size = (self.settings.head_dim,)
        return nnx.Param(jax.nn.initializers.normal(0.1)(rngs.params(), size, jnp.float32))


# As if each pair's λ were a layer's first: only `attend` has one a pair.
LAM = OwnArray("lam", "p", jax.nn.initializers.constant(0.2))
VARIANT = ExactVariant(
    Config,
    Score(scores.scaled_dot),
    HeadMix(weights=pair_difference, arrays=(LAM,)),
    layer=DifferentialLayer,
)
attend, weights, make = VARIANT.attend, VARIANT.weights, VARIANT.make
