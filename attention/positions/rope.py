"""Rotary positions: queries and keys are turned by angles that grow with their position.

RoFormer (2021), arXiv 2104.09864. Pair i of the r = fraction·h features that turn, of the h of a
head, turns by position · θ_i, θ_i = base^(−2i/r), so that the product of a query and a key depends
on their distance only. No parameters, any position. Layout "half" pairs feature i with feature
i + r/2, "interleaved" feature 2i with 2i + 1; published weights fit one of them only.

Scalings stretch the angles for a context `factor` = s times the original one, of L positions:
- linear (Chen et al. 2023, arXiv 2306.15595): θ_i / s;
- ntk ("NTK-aware"): base · s^(r/(r−2)) in place of the base, which keeps the highest frequency and
  divides the lowest by s;
- yarn (Peng et al. 2023, arXiv 2309.00071): θ_i · (ramp_i / s + 1 − ramp_i), and rotated features
  are multiplied by the attention factor, 0.1 · ln s + 1 (the paper's √(1/t)), so that rotated
  products have its square. ramp_i = clip((i − low) / (high − low), 0, 1) between the pairs that
  make beta_fast and beta_slow turns in L positions: low = ⌊d(beta_fast)⌋, high = ⌈d(beta_slow)⌉,
  d(turns) = r · ln(L / (2π · turns)) / (2 · ln base), both clipped to 0 … r − 1. That is the ramp
  of the authors' code and of published models; the paper's is linear in the number of turns.
"""

import math
from dataclasses import dataclass, field, fields

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

from attention.errors import UserError
from attention.ops.option_checks import LARGEST, is_whole
from attention.positions.scheme import (
    PositionScheme,
    check,
    check_choice,
    is_positive,
)

PLACE = "attention"
FACTOR = f"a number of at least 1 and at most {LARGEST}"
LAYOUTS = ("half", "interleaved")
# What each scaling reads of the options.
SCALINGS = {
    "none": (),
    "linear": ("factor",),
    "ntk": ("factor",),
    "yarn": ("factor", "original_max_length", "beta_fast", "beta_slow", "attention_factor"),
}


@dataclass(frozen=True)
class Config:
    """Options, set under `model.positions.rope`.

    Attributes:
        layout: "half" or "interleaved".
        fraction: share of a head's features, the first ones, that turn; an even number of them.
        base: of the angles.
        scaling: "none", "linear", "ntk" or "yarn".
        factor: s, at least 1; scaling = none does not read it.
        original_max_length: L of yarn, in positions; None = max_length / factor, as the paper's
            s = L′/L has it.
        beta_fast, beta_slow: turns in L positions from where on a pair keeps its angle, and up to
            where it is fully stretched (yarn).
        attention_factor: of yarn; None = 0.1 · ln factor + 1.

    Raises:
        UserError: a value that is not allowed, or one that the scaling does not read.
    """

    layout: str = field(default="half", metadata={"examples": ("interleaved",)})
    fraction: float = field(default=1.0, metadata={"examples": (1 / 3,)})
    base: float = field(default=10000.0, metadata={"examples": (100.0,)})
    scaling: str = field(default="none", metadata={"examples": ("linear", "ntk", "yarn")})
    factor: float = 2.0
    original_max_length: int | None = None
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None

    def __post_init__(self):
        def need(name: str, holds: bool, expected: str):
            check(holds, "rope", name, getattr(self, name), expected)

        check_choice("rope", "layout", self.layout, LAYOUTS)
        check_choice("rope", "scaling", self.scaling, tuple(SCALINGS))
        length, attention_factor = self.original_max_length, self.attention_factor
        need("fraction", is_positive(self.fraction) and self.fraction <= 1, "a number in (0, 1]")
        need("base", is_positive(self.base) and self.base > 1, "a number above 1")
        need("factor", is_positive(self.factor) and 1 <= self.factor <= LARGEST, FACTOR)
        whole = length is None or (is_whole(length) and 1 <= length <= 2**30)
        need("original_max_length", whole, "None or a whole number of at least 1")
        need("beta_slow", is_positive(self.beta_slow), "a number above 0")
        faster = is_positive(self.beta_fast) and self.beta_fast > self.beta_slow
        need("beta_fast", faster, f"a number above beta_slow={self.beta_slow}")
        positive = attention_factor is None or is_positive(attention_factor)
        need("attention_factor", positive, "None or a number above 0")
        for option in fields(self):
            readers = [name for name, read in SCALINGS.items() if option.name in read]
            if readers and getattr(self, option.name) != option.default:
                expected = f"{option.default}: scaling={self.scaling!r} does not read it"
                need(option.name, self.scaling in readers, expected)


class Rope(PositionScheme):
    """Turns the pairs of features of each head."""

    def __init__(self, config: Config, head_dim: int, *, max_length: int | None = None):
        """Raises UserError for sizes that the options do not fit."""
        self.config = config
        self.max_length = max_length
        self.rotated = num_rotated(config, head_dim)
        frequencies(config, self.rotated, max_length)  # refuses now what it would refuse later

    def rotate(
        self, x: Float[Array, "b t n h"], positions: Int[Array, "#b t"]
    ) -> Float[Array, "b t n h"]:
        angles, amplitude = frequencies(self.config, self.rotated, self.max_length)
        turning, rest = x[..., : self.rotated], x[..., self.rotated :]
        turned = turn(turning, positions, angles, layout=self.config.layout, amplitude=amplitude)
        return jnp.concatenate([turned, rest], axis=-1) if rest.shape[-1] else turned


def turn(
    x: Float[Array, "b t n r"],
    positions: Int[Array, "#b t"],
    angles: np.ndarray,
    *,
    layout: str = "half",
    amplitude: float = 1.0,
) -> Float[Array, "b t n r"]:
    """Turns each pair of features by position · its angle, and multiplies it by the amplitude.

    Args:
        x: queries or keys.
        positions: of x.
        angles: one for each pair [r/2], in radians a position.
        layout: which features are a pair, "half" or "interleaved".
        amplitude: 1.0 = a rotation.
    """
    # Angles in float32, whatever the activations are: bfloat16 merges positions above 256.
    at = positions[:, :, None, None].astype(jnp.float32)
    by = at * jnp.asarray(angles, jnp.float32)[None, None, None, :]
    cos, sin = jnp.cos(by) * amplitude, jnp.sin(by) * amplitude
    wide = x.astype(jnp.float32)
    if layout == "half":
        first, second = jnp.split(wide, 2, axis=-1)
        turned = [first * cos - second * sin, second * cos + first * sin]
        return jnp.concatenate(turned, axis=-1).astype(x.dtype)
    first, second = wide[..., 0::2], wide[..., 1::2]
    turned = [first * cos - second * sin, second * cos + first * sin]
    return jnp.stack(turned, axis=-1).reshape(x.shape).astype(x.dtype)


def num_rotated(config: Config, head_dim: int) -> int:
    """Returns how many features of a head turn; raises UserError unless they make pairs."""
    share = config.fraction * head_dim
    rotated = round(share)
    pairs = rotated >= 2 and rotated % 2 == 0 and abs(share - rotated) < 1e-6
    if not pairs and config.fraction == 1:
        raise UserError(
            f"model.position='rope' pairs the features of a head, and {head_dim=} is odd: "
            f"change model.dim or model.num_heads"
        )
    expected = f"a share of head_dim={head_dim} that is an even number of features"
    check(pairs, "rope", "fraction", config.fraction, expected)
    # Its base would be raised to infinity.
    ntk = config.scaling == "ntk" and rotated < 4
    check(not ntk, "rope", "scaling", "ntk", f"another one for {rotated} rotated features a head")
    return rotated


def frequencies(
    config: Config, rotated: int, max_length: int | None = None
) -> tuple[np.ndarray, float]:
    """Returns the angles of the pairs [r/2] in radians a position, float64, and the amplitude.

    Args:
        config: base and scaling.
        rotated: r, the features that turn.
        max_length: L′, where yarn's original_max_length is None.

    Raises:
        UserError: yarn without either length.
    """
    half = rotated // 2
    base = config.base
    if config.scaling == "ntk":
        base = base * config.factor ** (rotated / (rotated - 2))
    angles = base ** (-np.arange(half) / half)
    if config.scaling == "linear":
        return angles / config.factor, 1.0
    if config.scaling != "yarn":
        return angles, 1.0
    ramp = _yarn_ramp(config, rotated, _original_length(config, max_length))
    amplitude = config.attention_factor
    if amplitude is None:
        amplitude = 0.1 * math.log(config.factor) + 1.0
    return angles * (ramp / config.factor + 1.0 - ramp), amplitude


def _original_length(config: Config, max_length: int | None) -> float:
    if config.original_max_length is not None:
        return config.original_max_length
    expected = "the length that the model was trained with, or data.max_length"
    check(max_length is not None, "rope", "original_max_length", None, expected)
    return (max_length or 0) / config.factor


def _yarn_ramp(config: Config, rotated: int, length: float) -> np.ndarray:
    """Returns how far each pair [r/2] is stretched: 0 not at all, 1 fully."""

    def pair(turns: float) -> float:
        return rotated * math.log(length / (2 * math.pi * turns)) / (2 * math.log(config.base))

    low = min(max(math.floor(pair(config.beta_fast)), 0), rotated - 1)
    high = min(max(math.ceil(pair(config.beta_slow)), 0), rotated - 1)
    # The published code's way to keep a ramp of no width a step.
    width = high - low or 0.001
    return np.clip((np.arange(rotated // 2) - low) / width, 0.0, 1.0)


def make(
    config: Config,
    width: int,
    *,
    num_heads: int,
    max_length: int | None,
    causal: bool,
    rngs: nnx.Rngs,
) -> Rope:
    """Makes rotary positions for heads of size `width`."""
    return Rope(config, width, max_length=max_length)
