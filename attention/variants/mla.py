"""Multi-head latent attention: keys and values of all heads come from one small vector a token.

DeepSeek-V2 (2024), arXiv 2405.04434, section 2.1, as in DeepSeek-V3 (arXiv 2412.19437). Latent
c = RMSNorm(x W_c) of r features; keys and values of head n are c W_k[n], of h features, and
c W_v[n]. Queries come straight from x, or through a latent of their own. Beside it, the decoupled
part: p more features of each query, and one key x W_p of p features that the heads share, turned by
rotary positions. e = (q·k + q_rope·k_rope) / √(h + p), out = softmax(e)V. Time t·s·(h + p), memory
t·s per head. The norms have ε = 1e-6, and but for the layer's output no map has a bias.

Decoding caches c and the shared key, r + p numbers a token, and takes the absorbed form: with
q·(c W_k) = (q W_kᵀ)·c, attention runs over the latents as the keys and values of a single head, and
W_v follows it. Which features of the decoupled part are a pair is a choice of the position scheme:
published weights have `layout="interleaved"`. Other positions than rope act on the scores, and
leave the decoupled part as it is. Cannot do: cross-attention; fewer key heads (`num_kv_heads`), as
heads share the latent; qk_norm, as there are no whole keys to norm while decoding.
"""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, NoReturn

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attention import positions as position_schemes
from attention.core import attending, ordered
from attention.core.cache import KeyValueCache, empty_cache, extend
from attention.core.exact import OF_ALL_SCORES, SECTION, ExactConfig, fixed
from attention.core.exact_variant import ALL_MODES, ExactVariant
from attention.core.head_norm import HeadNorm
from attention.core.layer import AttentionLayer
from attention.core.linear import Linear
from attention.core.parts import Score
from attention.core.settings import LayerSettings
from attention.core.stepping import over_keys
from attention.errors import UserError
from attention.ops import scores
from attention.ops.option_checks import check_count
from attention.ops.products import affine

MODES = ALL_MODES - {"cross"}
POSITIONS = ("rope", "alibi", "t5")  # shaw's vectors are as wide as keys and values, which differ
PERMUTATION_EQUIVARIANT = True  # without positions, bidirectional


@dataclass(frozen=True)
class Config(ExactConfig):
    """The options of the exact core that mean something here, and sizes; head_dim is h.

    Attributes:
        latent_dim: r; None = 4·head_dim, and at most half the width of all heads.
        q_latent_dim: size of the latent that queries come from; None = straight from x.
        rope_dim: p; None = head_dim/2, rounded up to an even number.
        value_dim: size of a head's values; None = head_dim.
    """

    num_kv_heads: int | None = fixed(None, "its heads share one latent; " + OF_ALL_SCORES)
    qk_norm: str = fixed("none", "decoding has no whole keys to norm; " + OF_ALL_SCORES)
    latent_dim: int | None = field(default=None, metadata={"examples": (5,)})
    q_latent_dim: int | None = field(default=None, metadata={"examples": (7,)})
    rope_dim: int | None = field(default=None, metadata={"examples": (2,), "small": 6})
    value_dim: int | None = field(default=None, metadata={"examples": (3,)})

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("latent_dim", "q_latent_dim", "rope_dim", "value_dim"):
            check_count(f"{SECTION}.{name}", getattr(self, name), or_none=True)


@dataclass(frozen=True)
class DotOver:
    """q·k / √size: absorbed queries are longer than those they stand for."""

    size: int

    def __call__(
        self, q: Float[Array, "b t n h"], k: Float[Array, "b s k h"]
    ) -> Float[Array, "b n t s"]:
        return scores.dot(q, k) * (1.0 / math.sqrt(self.size))


class Map(nnx.Module):
    """y = x · kernel."""

    def __init__(self, num_in: int, num_out: int, *, rngs: nnx.Rngs):
        initial = nnx.initializers.xavier_uniform()(rngs.params(), (num_in, num_out), jnp.float32)
        self.kernel = nnx.Param(initial)

    def __call__(self, x: Float[Array, "b t d"]) -> Float[Array, "b t f"]:
        kernel = self.kernel[...]
        return affine(x, kernel, jnp.zeros(kernel.shape[1:], jnp.float32))


class LatentLayer(AttentionLayer):
    """The layer. Its cache holds latents [b s 1 r] as keys and shared keys [b s 1 p] as values."""

    config: Config
    key: Map
    value: Map

    def __init__(
        self, variant: ExactVariant, config: Config, settings: LayerSettings, *, rngs: nnx.Rngs
    ):
        """Raises UserError for a `rope_dim` that rotary positions cannot turn."""
        h, n = settings.head_dim, settings.num_heads
        self.latent_dim = config.latent_dim or min(4 * h, max(n * h // 2, 1))
        self.rope_dim = config.rope_dim or -(-h // 4) * 2
        self.value_dim = config.value_dim or h
        if position_schemes.name_of(settings.position) == "rope" and self.rope_dim % 2:
            raise UserError(
                f"model.attention.rope_dim={self.rope_dim}: position='rope' turns pairs of "
                f"features, so it must be even"
            )
        super().__init__(variant, config, settings, rngs=rngs)

    def make_projections(self, rngs: nnx.Rngs) -> None:
        settings, through = self.settings, self.config.q_latent_dim
        d, n, h = settings.dim, settings.num_heads, settings.head_dim
        self.query_latent = Map(d, through, rngs=rngs) if through else None
        self.query_latent_norm = HeadNorm(through) if through else None
        self.query = Map(through or d, n * (h + self.rope_dim), rngs=rngs)
        self.latent = Map(d, self.latent_dim, rngs=rngs)
        self.latent_norm = HeadNorm(self.latent_dim)
        self.rope_key = Map(d, self.rope_dim, rngs=rngs)
        self.key = Map(self.latent_dim, n * h, rngs=rngs)
        self.value = Map(self.latent_dim, n * self.value_dim, rngs=rngs)
        self.out = Linear(n * self.value_dim, d, rngs=rngs)

    @property
    def position_width(self) -> int:
        return self.rope_dim

    def check_context(self, context: Array | None) -> None:
        if context is not None:
            raise UserError(
                "variant 'mla' has no cross-attention: leave out context, or choose a variant "
                "with the mode 'cross'"
            )

    def queries(self, x, positions):
        """Returns q [b t n h+p], the decoupled part last."""
        return jnp.concatenate(self._queries(x, positions), axis=-1)

    def keys(self, x, positions):
        """Returns k [b s n h+p], the decoupled part last: one for all heads."""
        keys = self._split_heads(self.key(self._latent(x)[:, :, 0]))
        turned = self._rope_key(x, positions)
        turned = jnp.broadcast_to(turned, (*keys.shape[:3], self.rope_dim))
        return jnp.concatenate([keys, turned], axis=-1)

    def values(self, x, context):
        return self._split_heads(self.value(self._latent(x)[:, :, 0]))

    def empty_cache(self, batch: int, max_length: int) -> KeyValueCache:
        """Returns an empty cache for `batch` sequences of up to max_length tokens."""
        return empty_cache(
            *(batch, max_length, 1, self.latent_dim, self.settings.dtype),
            value_dim=self.rope_dim,
            reach=self.reach,
        )

    def decode(
        self,
        x: Float[Array, "b t d"],
        cache: KeyValueCache,
        *,
        context: Float[Array, "b s c"] | None = None,
        mask: Bool[Array, "#b #n #t #s"] | None = None,
    ) -> tuple[Float[Array, "b t d"], KeyValueCache]:
        """Attends from the next t tokens to all tokens up to each, in the absorbed form.

        Args:
            x: the next tokens, one or more.
            cache: what `init_cache` or the last call returned.
            context: refused.
            mask: True = may attend; its keys are the tokens from the first on; those past its end
                are not attended to.

        Raises:
            ValueError: past the cache's max_length (inside jit: `cache.overflow`); a context; the
                layer is not causal.
        """
        self.check_context(context)
        ordered.check_causal(self.settings)
        offset = cache.position
        steps = offset[:, None] + jnp.arange(x.shape[1], dtype=jnp.int32)[None, :]
        new = self._latent(x), self._rope_key(x, steps)
        extended = extend(cache, *new, rolling=self.reach is not None)
        bare, turning = self._queries(x, steps)
        # Float32 for as long as nothing is large: absorbed queries are not rounded twice.
        absorbed = jnp.einsum("btnh,rnh->btnr", bare.astype(jnp.float32), self._up(self.key))
        size = self.settings.head_dim + self.rope_dim
        sums = attending.attend(
            dataclasses.replace(self.parts, score=Score(DotOver(size))),
            jnp.concatenate([absorbed, turning.astype(jnp.float32)], axis=-1),
            jnp.concatenate([extended.key, extended.value], axis=-1),
            extended.key,
            arrays=self.arrays(),
            mask=over_keys(mask, extended.index),
            causal=True,
            query_offset=offset,
            key_index=extended.index,
            implementation="plain",
        )
        heads = jnp.einsum("btnr,rnh->btnh", sums.astype(jnp.float32), self._up(self.value))
        return self.joined(heads.astype(self.settings.dtype), x), extended.cache

    def _queries(self, x, positions) -> tuple[Array, Array]:
        """Returns the parts [b t n h] and [b t n p], the second one turned."""
        x = x.astype(self.settings.dtype)
        if self.query_latent is not None and self.query_latent_norm is not None:
            x = self.query_latent_norm(self.query_latent(x)[:, :, None])[:, :, 0]
        bare, turning = jnp.split(
            self._split_heads(self.query(x)), [self.settings.head_dim], axis=-1
        )
        return bare, self.position.rotate(turning, positions)

    def _latent(self, x) -> Float[Array, "b s 1 r"]:
        return self.latent_norm(self.latent(x.astype(self.settings.dtype))[:, :, None])

    def _rope_key(self, x, positions) -> Float[Array, "b s 1 p"]:
        key = self.rope_key(x.astype(self.settings.dtype))[:, :, None]
        return self.position.rotate(key, positions)

    def _split_heads(self, x):
        heads = self.settings.num_heads
        return x.reshape(*x.shape[:2], heads, x.shape[2] // heads)

    def _up(self, project: Map) -> Float[Array, "r n h"]:
        kernel = project.kernel[...]
        return kernel.reshape(kernel.shape[0], self.settings.num_heads, -1)


VARIANT = ExactVariant(Config, Score(scores.scaled_dot), layer=LatentLayer)
make = VARIANT.make


def weights(*arrays: Array, **given: Any) -> NoReturn:
    """Raises UserError: queries and keys alone do not say how they were made."""
    raise UserError(
        "variant 'mla' is no function of q and k, so its module has no weights: make the layer "
        "and call layer.weights(x)"
    )
