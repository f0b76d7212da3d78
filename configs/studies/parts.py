"""What the studies share: which variants, with which options, and equal numbers of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from flax import nnx

from attention import variants
from attention.configuration.attention_sections import looks_back, own_options
from attention.configuration.points import Point, grid
from attention.errors import UserError

SEEDS = (0, 1, 2)
# A window and the like that hide something of a sentence of twenty words.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "bigbird": {"pattern_block": 4, "num_random": 1},
    "cnn": {"width": 3},
    "dilated": {"window": 2, "dilation": 2},
    "fixed": {"stride": 8, "summary": 1},
    "longformer": {"window": 4},
    "sliding_window": {"window": 4},
    "strided": {"stride": 4},
}


def encoders() -> tuple[str, ...]:
    """Returns every variant that the encoder of one sequence can have."""
    useful = {"bidirectional", "causal"}  # what only looks back reads in two passes
    return tuple(name for name in variants.names() if useful & variants.get(name).MODES)


def set_options(section: Any, options: Mapping[str, Mapping[str, Any]] = OPTIONS) -> None:
    """Sets in a section of attention what `options` has for its variant."""
    for name, value in options.get(section.variant, {}).items():
        section[name] = value


def each_variant(names: Sequence[str], learning_rates: Sequence[float]) -> list[Point]:
    """Returns each variant with each learning rate and seed; those of one share its program."""
    return grid(
        {"arg.variant": names, "optimizer.learning_rate": learning_rates, "arg.seed": SEEDS}
    )


def equal_mlp_dim(config: Any, *places: str) -> int:
    """Returns the width of an MLP that makes up for more or fewer parameters in attention.

    With it, a layer has as many as with `scaled_dot` and `model.mlp_dim`, within half of what one
    unit of the MLP has, 2 · dim + 1.

    Args:
      config: of the study, with the options of its attention set.
      places: the sections of `model` whose attention the layer has.

    Raises:
      UserError: attention alone has more than that.
    """
    more = 0
    for place in places:
        section = config.model[place]
        sizes = {"dim": config.model.dim, "num_heads": config.model.num_heads}
        sizes["max_length"] = config.data.max_length
        causal = looks_back(config, f"model.{place}")
        two_pass = place == "attention" and config.model.direction == "two_pass"
        own = tuple(sorted(own_options(section).items()))
        layer = _num_params(section.variant, causal, tuple(sizes.items()), own)
        usual = _num_params("scaled_dot", causal, tuple(sizes.items()), ())
        more += layer * (2 if two_pass else 1) - usual
    width = round(config.model.mlp_dim - more / (2 * config.model.dim + 1))
    if width < 1:
        names = ", ".join(config.model[place].variant for place in places)
        raise UserError(
            f"attention of {names} has {more:,} more parameters than scaled_dot, which no MLP of "
            f"model.mlp_dim={config.model.mlp_dim} makes up for: raise it"
        )
    return width


Items = tuple[tuple[str, Any], ...]


@cache
def _num_params(variant: str, causal: bool, sizes: Items, own: Items) -> int:
    """Counts the parameters of one attention layer, without making any."""

    def make() -> Any:
        return variants.make(variant, causal=causal, rngs=nnx.Rngs(0), **dict(sizes), **dict(own))

    state = nnx.state(nnx.eval_shape(make), nnx.Param)
    return sum(leaf.get_value().size for _, leaf in nnx.to_flat_state(state))
