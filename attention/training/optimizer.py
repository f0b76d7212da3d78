"""AdamW with clipping and a schedule, built from numbers that may be traced.

Every hyperparameter that is only a number is an input of the compiled step (`Hyper`), never baked
into it: runs that differ only in numbers share one program.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float, Int

from attention.errors import UserError, did_you_mean


class Hyper(NamedTuple):
    """The numbers of a run; leaves are scalars, so a pytree of them can be stacked and mapped."""

    key: Array  # root of all randomness of the training steps
    learning_rate: Float[Array, ""]
    weight_decay: Float[Array, ""]
    warmup_steps: Float[Array, ""]
    total_steps: Float[Array, ""]
    clip_norm: Float[Array, ""]
    b1: Float[Array, ""]
    b2: Float[Array, ""]
    label_smoothing: Float[Array, ""]
    rates: nnx.State  # the dropout rates of the model, as the model holds them


def make_hyper(config: Any, *, total_steps: int, warmup_steps: int, rates: nnx.State) -> Hyper:
    """Reads the numbers of a config into device scalars."""
    optimizer = config.optimizer
    numbers = dict(
        learning_rate=optimizer.learning_rate,
        weight_decay=optimizer.weight_decay,
        warmup_steps=warmup_steps,
        total_steps=total_steps,
        clip_norm=optimizer.clip_norm,
        b1=optimizer.b1,
        b2=optimizer.b2,
        label_smoothing=config.label_smoothing,
    )
    # The model was initialised from the same seed: fold in a constant to part the two streams.
    key = jax.random.fold_in(jax.random.key(config.seed), 1)
    scalars = {name: jnp.asarray(value, jnp.float32) for name, value in numbers.items()}
    return Hyper(key=key, rates=rates, **scalars)


def _cosine(step: Array, hyper: Hyper) -> Array:
    span = jnp.maximum(hyper.total_steps - hyper.warmup_steps, 1.0)
    progress = jnp.clip((step - hyper.warmup_steps) / span, 0.0, 1.0)
    return 0.5 * (1.0 + jnp.cos(jnp.pi * progress))


def _inverse_sqrt(step: Array, hyper: Hyper) -> Array:
    return jnp.sqrt(jnp.maximum(hyper.warmup_steps, 1.0) / jnp.maximum(step, 1.0))


_COOLDOWN = 0.25  # of all steps


def _inverse_sqrt_cooldown(step: Array, hyper: Hyper) -> Array:
    after_warmup = hyper.total_steps - hyper.warmup_steps
    span = jnp.maximum(jnp.minimum(_COOLDOWN * hyper.total_steps, after_warmup), 1.0)
    left = jnp.clip((hyper.total_steps - step) / span, 0.0, 1.0)
    return _inverse_sqrt(step, hyper) * left


def _constant(step: Array, hyper: Hyper) -> Array:
    del step, hyper
    return jnp.ones(())


_DECAYS = {
    "cosine": _cosine,
    "inverse_sqrt": _inverse_sqrt,
    "inverse_sqrt_cooldown": _inverse_sqrt_cooldown,
    "constant": _constant,
}


def learning_rate(step: Int[Array, ""], hyper: Hyper, *, schedule: str) -> Float[Array, ""]:
    """The learning rate of the update after `step` updates (so 0 is the first).

    It climbs in a straight line and has its peak, `learning_rate`, at update number
    `warmup_steps` (counted from 1; the first update is never zero). Then `cosine` falls along a
    half cosine and would reach zero one update after the last; `inverse_sqrt` falls as
    sqrt(warmup/n); `inverse_sqrt_cooldown` likewise, and over the last quarter of all updates also
    in a straight line towards zero (Zhai et al. 2022, arXiv 2106.04560); `constant` stays.
    """
    if schedule not in _DECAYS:
        hint = did_you_mean(schedule, _DECAYS)
        raise UserError(f"optimizer.schedule is '{schedule}'; allowed: {', '.join(_DECAYS)}{hint}")
    number = jnp.asarray(step, jnp.float32) + 1.0
    climb = number / jnp.maximum(hyper.warmup_steps, 1.0)
    # `number - 1` after the warm-up: its last update and the first decayed one are both near peak.
    decay = _DECAYS[schedule](jnp.maximum(number - 1.0, hyper.warmup_steps), hyper)
    return hyper.learning_rate * jnp.where(number <= hyper.warmup_steps, climb, decay)


def _decayed(params: Any) -> Any:
    """True for matrices; biases, gains and other vectors are not decayed."""
    return jax.tree.map(lambda p: jnp.ndim(p) > 1, params)


def make_optimizer(hyper: Hyper, rate: Float[Array, ""]) -> optax.GradientTransformation:
    """AdamW (arXiv 1711.05101) behind global-norm clipping, for one update at this rate.

    Decay is added to Adam's direction before the learning rate scales both, so it shrinks weights
    in proportion to the rate. Build it inside the step: its numbers may be traced.
    """
    return _chain(hyper.clip_norm, hyper.b1, hyper.b2, hyper.weight_decay, rate)


def init_optimizer(params: nnx.State) -> Any:
    """The optimizer's state before the first update; it does not depend on any number."""
    return _chain(1.0, 0.9, 0.999, 0.0, 0.0).init(params)


def _chain(clip_norm, b1, b2, weight_decay, rate) -> optax.GradientTransformation:
    return optax.chain(
        optax.clip_by_global_norm(clip_norm),
        optax.scale_by_adam(b1=b1, b2=b2),
        optax.add_decayed_weights(weight_decay, mask=_decayed),
        optax.scale(-rate),
    )
