"""FLOATER: positions are points on the path of a learned dynamical system.

Learning to Encode Position for Transformer with Continuous Dynamical Model (2020), arXiv
2003.09229: p(τ) = p(0) + ∫₀^τ h(u, p(u)) du, and position i has the vector p(i · step). Here
h(τ, p) = tanh([p, τ] · W₁ + b₁) · W₂ + b₂, with p(0) learned, solved by classical Runge-Kutta steps
of size step / substeps. 2(w + 1)f + 2w parameters for vectors of width w and a hidden width f,
however long the path; max_length · substeps steps one after the other, in each pass. Departs from
the paper in where the vectors go: into the model's input only, not into every block.
"""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention.positions import scheme
from attention.positions.scheme import PositionScheme, check, is_count, is_positive

PLACE = "input"
MOST_SUBSTEPS = 2**8  # they are written out


@dataclass(frozen=True)
class Config:
    """Options, set under `model.positions.floater`.

    Attributes:
        hidden_dim: width f of the hidden layer of h; None = that of the vectors.
        step: time between two positions.
        substeps: steps of the solver between two positions.

    Raises:
        UserError: a value that is not allowed.
    """

    hidden_dim: int | None = field(default=None, metadata={"examples": (5,)})
    step: float = field(default=0.1, metadata={"examples": (0.5,)})
    substeps: int = field(default=1, metadata={"examples": (2,)})

    def __post_init__(self):
        hidden = self.hidden_dim
        whole = hidden is None or is_count(hidden)
        check(whole, "floater", "hidden_dim", hidden, "None or a whole number of at least 1")
        check(is_positive(self.step), "floater", "step", self.step, "a number above 0")
        few = is_count(self.substeps) and self.substeps <= MOST_SUBSTEPS
        expected = f"a whole number from 1 to {MOST_SUBSTEPS}"
        check(few, "floater", "substeps", self.substeps, expected)


class Floater(PositionScheme):
    """The dynamics and the start of the path."""

    def __init__(self, config: Config, width: int, max_length: int, *, rngs: nnx.Rngs):
        self.config = config
        self.max_length = max_length
        hidden = config.hidden_dim or width

        def parameter(initial, *shape: int) -> nnx.Param:
            return nnx.Param(initial(rngs.params(), shape, jnp.float32))

        # Biases apart from each other let the path leave its start at once; a small map out of the
        # hidden layer keeps it at the size of the input (a usual one goes to 40 in 500 positions).
        self.start = parameter(nnx.initializers.normal(0.02), width)
        self.hidden_kernel = parameter(nnx.initializers.xavier_uniform(), width + 1, hidden)
        self.hidden_bias = parameter(nnx.initializers.normal(0.5), hidden)
        self.out_kernel = parameter(nnx.initializers.normal(0.01), hidden, width)
        self.out_bias = parameter(nnx.initializers.zeros, width)

    def vectors(self, positions: Int[Array, "#b t"]) -> Float[Array, "#b t w"]:
        """Returns the points of the path; a position past max_length: see `scheme.rows`."""
        return scheme.rows("floater", self.path(), positions)

    def path(self) -> Float[Array, "p w"]:
        """Returns the vectors of positions 0 … max_length − 1."""
        start = self.start[...]
        small = self.config.step / self.config.substeps

        # Recomputed in the backward pass: what is kept of a step is its point, not its inside.
        @jax.checkpoint
        def between(point, index):
            begin = index.astype(jnp.float32) * self.config.step
            for part in range(self.config.substeps):
                point = self._runge_kutta(begin + part * small, point, small)
            return point, point

        _, later = jax.lax.scan(between, start, jnp.arange(self.max_length - 1))
        return jnp.concatenate([start[None], later])

    def _runge_kutta(self, time, point, step: float):
        first = self._slope(time, point)
        second = self._slope(time + step / 2, point + step / 2 * first)
        third = self._slope(time + step / 2, point + step / 2 * second)
        fourth = self._slope(time + step, point + step * third)
        return point + step / 6 * (first + 2 * second + 2 * third + fourth)

    def _slope(self, time: Float[Array, ""], point: Float[Array, " w"]) -> Float[Array, " w"]:
        given = jnp.concatenate([point, time[None]])
        # The errors of a product add up along the path: none of an accelerator's short cuts.
        hidden = jnp.tanh(
            jnp.dot(given, self.hidden_kernel[...], precision="highest") + self.hidden_bias[...]
        )
        return jnp.dot(hidden, self.out_kernel[...], precision="highest") + self.out_bias[...]


def make(
    config: Config,
    width: int,
    *,
    num_heads: int,
    max_length: int | None,
    causal: bool,
    rngs: nnx.Rngs,
) -> Floater:
    """Makes the dynamics; raises UserError without a max_length."""
    return Floater(config, width, scheme.table_length("floater", max_length), rngs=rngs)
