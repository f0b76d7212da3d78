"""A gated convolution over time where attention stands: a baseline.

Convolutional Sequence to Sequence Learning (Gehring et al. 2017), arXiv 1705.03122, with the gated
linear unit of Dauphin et al. 2016, arXiv 1612.08083:
[a_i, g_i] = Σ_o x_{i+o} W_o + b, out_i = (a_i ⊙ σ(g_i)) W_out, over `width` offsets o: −width+1 … 0
in a causal layer, else −⌊width/2⌋ … ⌈width/2⌉ − 1. a and g have n·h features. Time t·width·d·n·h,
memory t·width·d. Departs from the paper in the out projection, which lets any number of features
stand where attention stands, and in leaving out its scaling by √½, which is the block's business.

A neighbour in another segment, in padding (id 0) or hidden by the mask counts as zeros. Order is
built in: `positions` are not looked at. Dropout acts on the layer's input, as in the paper.
Cannot do: cross-attention; masks that differ between queries.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention.core import ordered
from attention.core.dropout import Dropout
from attention.core.linear import Linear
from attention.core.settings import LayerSettings
from attention.ops import masks
from attention.ops.option_checks import check_count

NAME = "cnn"
MODES = frozenset({"bidirectional", "causal", "decode", "packed"})
POSITIONS = ()  # none of those that act inside attention
WIDEST = 2**12


@dataclass(frozen=True)
class Config:
    """The options of the convolution.

    Attributes:
        width: positions that an output sees, its own among them.

    Raises:
        UserError: a width that is not an int within reach.
    """

    width: int = field(default=5, metadata={"examples": (1, 4)})

    def __post_init__(self):
        check_count("model.attention.width", self.width, most=WIDEST)


class ConvolutionCache(NamedTuple):
    """What step-by-step decoding carries; the batch leads every leaf, so beams are indexed.

    Attributes:
        inputs: the last width − 1 inputs, zeros where nothing was read.
        position, max_length, overflow: see `ordered.Reach`.
    """

    inputs: Float[Array, "b w d"]
    position: Int[Array, " b"]
    max_length: Int[Array, " b"]
    overflow: Bool[Array, " b"]


class ConvolutionLayer(nnx.Module):
    """Convolution → gated linear unit → linear out."""

    def __init__(self, config: Config, settings: LayerSettings, *, rngs: nnx.Rngs):
        self.settings = settings
        self.width = config.width
        self.before = config.width - 1 if settings.causal else config.width // 2
        features = settings.num_heads * settings.head_dim
        self.taps = Linear(config.width * settings.dim, 2 * features, rngs=rngs)
        self.out = Linear(features, settings.dim, rngs=rngs)
        self.dropout = Dropout(settings.dropout_rate)

    def __call__(
        self,
        x: Float[Array, "b t d"],
        *,
        context: Float[Array, "b s c"] | None = None,
        mask: Bool[Array, "#b 1 1 #s"] | None = None,
        segment_ids: Int[Array, "b t"] | None = None,
        context_segment_ids: Int[Array, "b s"] | None = None,
        positions: Int[Array, "#b t"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b t d"]:
        """Mixes each position of x with its neighbours.

        Args:
            x: the sequence.
            context, context_segment_ids: refused.
            mask: True = is read.
            segment_ids: examples packed in a row are mixed apart; 0 is padding.
            positions: not looked at.
            rngs: for dropout, stream "dropout"; None = deterministic.

        Raises:
            ValueError: a mask or ids that do not fit; a context.
        """
        ordered.refuse_context(NAME, context, context_segment_ids)
        b, t, _ = x.shape
        live = ordered.visible_keys((b, t), mask=mask, segment_ids=segment_ids)
        x = self._read(x, live, rngs)
        around = ((0, 0), (self.before, self.width - 1 - self.before))
        neighbours = self._windows(jnp.pad(x, (*around, (0, 0))))
        if segment_ids is None:
            return self.out(self._gated(neighbours))
        same = [ids == segment_ids for ids in self._windows(jnp.pad(segment_ids, around))]
        neighbours = [jnp.where(s[..., None], n, 0) for s, n in zip(same, neighbours, strict=True)]
        mixed = self._gated(neighbours)
        return self.out(jnp.where((segment_ids != 0)[..., None], mixed, 0))

    def weights(self, x: Float[Array, "b t d"], **given: Any) -> NoReturn:
        """Raises UserError: there are none."""
        ordered.refuse_weights(NAME)

    def init_cache(self, batch: int, max_length: int) -> ConvolutionCache:
        """Returns the cache before the first of up to max_length tokens of `batch` sequences."""
        inputs = jnp.zeros((batch, self.width - 1, self.settings.dim), self.settings.dtype)
        return ConvolutionCache(inputs, *ordered.start(batch, max_length))

    def decode(
        self,
        x: Float[Array, "b t d"],
        cache: ConvolutionCache,
        *,
        context: Float[Array, "b s c"] | None = None,
        mask: Bool[Array, "#b 1 1 #s"] | None = None,
    ) -> tuple[Float[Array, "b t d"], ConvolutionCache]:
        """Mixes the next t tokens with those before them.

        Args:
            x: the next tokens, one or more.
            cache: what `init_cache` or the last call returned.
            context: refused.
            mask: True = is read; its keys are all tokens from position 0 on. Only those of the new
                tokens matter: the others were kept as they were read.

        Raises:
            ValueError: past the cache's max_length (inside jit: `cache.overflow`); a context; the
                layer is not causal.
        """
        ordered.refuse_context(NAME, context)
        ordered.check_causal(self.settings)
        reach = ordered.Reach(cache.position, cache.max_length, cache.overflow)
        reach, fits, live = ordered.advance(reach, x.shape[1], mask=mask)
        inputs = jnp.concatenate([cache.inputs, self._read(x, live, None)], axis=1)
        y = self.out(self._gated(self._windows(inputs)))
        # Rows move on by the tokens that fit, so that those past the end push nothing out.
        moved = jnp.sum(fits, axis=1, dtype=jnp.int32)[:, None]
        kept = moved + jnp.arange(self.width - 1, dtype=jnp.int32)[None, :]
        last = jnp.take_along_axis(inputs, kept[..., None], axis=1)
        return y, ConvolutionCache(last, *reach)

    def _read(self, x, live, rngs):
        x = masks.blanked(x.astype(self.settings.dtype), live)
        return self.dropout(x, rngs=rngs)

    def _windows(self, padded: Array) -> list[Array]:
        """Returns what stands at each offset from each position."""
        length = padded.shape[1] - self.width + 1
        return [padded[:, i : i + length] for i in range(self.width)]

    def _gated(self, neighbours: list[Array]) -> Float[Array, "b t f"]:
        both = self.taps(jnp.concatenate(neighbours, axis=-1)).astype(jnp.float32)
        mixed, gate = jnp.split(both, 2, axis=-1)
        return (mixed * jax.nn.sigmoid(gate)).astype(self.settings.dtype)


def weights(*arrays: Array, **given: Any) -> NoReturn:
    """Raises UserError: there are none."""
    ordered.refuse_weights(NAME)


def make(config: Config, settings: LayerSettings, *, rngs: nnx.Rngs) -> ConvolutionLayer:
    """Makes the layer."""
    return ConvolutionLayer(config, settings, rngs=rngs)
