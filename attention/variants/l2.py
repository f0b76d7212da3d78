"""L2 attention: the nearer a key lies to the query, the more it weighs.

The Lipschitz Constant of Self-Attention (Kim et al. 2020), arXiv 2006.04710, equation 5:
e = −‖q − k‖² / √h, a Gaussian kernel. Time t·s·h, memory t·s per head. Departs from the paper,
which ties the projections of queries and keys (that is what makes it Lipschitz): they are separate
unless `tie_qk`. No score is above 0: normalizers that count positive scores alone are refused.
"""

from dataclasses import dataclass, field

from flax import nnx

from attention import normalizers
from attention.core.exact import SECTION, ExactConfig
from attention.core.exact_variant import ALL_MODES, ALL_POSITIONS, ExactVariant
from attention.core.layer import AttentionLayer
from attention.core.parts import Score
from attention.core.settings import LayerSettings
from attention.errors import UserError
from attention.ops import scores
from attention.ops.option_checks import check_flag

MODES = ALL_MODES
POSITIONS = ALL_POSITIONS
PERMUTATION_EQUIVARIANT = True  # without positions, bidirectional


@dataclass(frozen=True)
class Config(ExactConfig):
    """The options of the exact core, and:

    Attributes:
        tie_qk: one projection makes queries and keys, as in the paper; needs as many key heads as
            query heads.
    """

    normalizer: str = field(default="softmax", metadata={"examples": ("sink", "sigmoid")})
    tie_qk: bool = field(
        default=False, metadata={"examples": (True,), "layer": True, "context_as_wide": True}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag(f"{SECTION}.tie_qk", self.tie_qk)
        if getattr(normalizers.get(self.normalizer), "ONLY_POSITIVE", False):
            raise UserError(
                f"{SECTION}.normalizer={self.normalizer!r} counts positive scores alone, and "
                "variant=l2 has none, so all weights would be 0: choose normalizer=softmax, "
                "softmax1, sink, sigmoid, sparsemax or entmax15, or variant=scaled_dot"
            )


class L2Layer(AttentionLayer):
    """The layer; `tie_qk` makes keys by the projection of queries."""

    config: Config

    def __init__(self, variant, config: Config, settings: LayerSettings, *, rngs: nnx.Rngs):
        tied = config.tie_qk
        if tied and (config.kv_heads(settings.num_heads) != settings.num_heads):
            raise UserError(
                f"model.attention.tie_qk=True needs as many key heads as query heads: set "
                f"model.attention.num_kv_heads={config.num_kv_heads} to None"
            )
        if tied and settings.context_dim != settings.dim:
            raise UserError(
                f"model.attention.tie_qk=True needs a context as wide as the model: "
                f"context_dim={settings.context_dim} is not dim={settings.dim}"
            )
        super().__init__(variant, config, settings, rngs=rngs)
        if tied:
            self.key = None


VARIANT = ExactVariant(Config, Score(scores.l2), layer=L2Layer)
attend, weights, make = VARIANT.attend, VARIANT.weights, VARIANT.make
