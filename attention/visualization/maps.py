"""What a recorded layer did with its keys: its weights, or else how far each input moves an output.

The second is ‖∂y_i/∂x_j‖, the Frobenius norm of the layer's Jacobian from input j to output i,
dropout left out. It is defined for every layer; it does not add up to 1, says nothing of signs, and
has no heads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attention import variants
from attention.models.pointer import PointerHead
from attention.models.pooling import Max, Pooling
from attention.models.recurrent_decoder import RecurrentDecoder
from attention.visualization.places import Call, Place

WEIGHTS, EFFECTIVE, JACOBIAN = "weights", "effective weights", "jacobian"
# What each kind is called on a picture.
TITLES = {
    WEIGHTS: "weights",
    EFFECTIVE: "effective weights",
    JACOBIAN: "no weights: norm of the Jacobian ‖∂output/∂input‖",
}


class Found(NamedTuple):
    """What is known of a place before any number is.

    Attributes:
        place: which.
        kind: one of `TITLES`.
        variant: what stands there, by name; "" where that is no variant.
        note: what a reader must know: why there are no weights.
    """

    place: Place
    kind: str
    variant: str
    note: str


def map_of(call: Call) -> tuple[Found, Float[Array, "b n t s"]]:
    """Returns what is shown of a call, in float32; of a Jacobian n is 1."""
    variant = _variant(call.layer)
    try:
        values = _weights(call)
    except ValueError as error:  # what `weights` raises where there are none
        reason = str(error).partition(";")[0]  # what follows is what else to choose
        found = Found(call.place, JACOBIAN, variant, reason)
        return found, jacobian_norm(*_function(call))[:, None]
    # A layer that is no function of q, k and v makes them for its weights alone.
    explicit = not variant or hasattr(variants.get(variant), "attend")
    found = Found(call.place, WEIGHTS if explicit else EFFECTIVE, variant, "")
    return found, values.astype(jnp.float32)


def jacobian_norm(
    function: Callable[[Array], Array], x: Float[Array, "b s d"]
) -> Float[Array, "b t s"]:
    """Returns ‖∂y_i/∂x_j‖ of y = function(x) [b t e], in which no example may read another's x."""
    y, pull = jax.vjp(function, x)
    basis = jnp.eye(y.shape[2], dtype=y.dtype)

    def from_output(index):
        def squares(direction):
            at = (jnp.arange(y.shape[1]) == index)[None, :, None]
            cotangent = jnp.where(at, direction[None, None, :], jnp.zeros((), y.dtype))
            (gradient,) = pull(jnp.broadcast_to(cotangent, y.shape))
            return jnp.sum(jnp.square(gradient.astype(jnp.float32)), axis=2)

        return jnp.sum(jax.vmap(squares)(basis), axis=0)

    # One output after the other, so that no more than d gradients are held at a time.
    squares = jax.lax.map(from_output, jnp.arange(y.shape[1]))
    return jnp.sqrt(jnp.swapaxes(squares, 0, 1))


def _weights(call: Call) -> Float[Array, "b n t s"]:
    """Raises ValueError where there are none."""
    layer, given = call.layer, {**call.given}
    if isinstance(layer, Max):
        raise ValueError("model.pooling='max' takes the largest of each feature, and weighs none")
    if isinstance(layer, Pooling):
        return layer.weights(*call.arguments)[:, None]
    if isinstance(layer, PointerHead):
        x, keys = call.arguments[:2]
        return layer.weights(x, keys, visible=given["visible"])[:, None]
    given.pop("rngs", None)
    if isinstance(layer, RecurrentDecoder):
        return _recurrent_weights(layer, *call.arguments, **given)
    return layer.weights(*call.arguments, **given)


def _recurrent_weights(decoder: RecurrentDecoder, x, states, *, source_segment_ids, segment_ids):
    if decoder.attention is None:
        raise ValueError("a decoder without attention reads the source as one fixed vector")
    ids = {"source_segment_ids": source_segment_ids, "segment_ids": segment_ids}
    return decoder.attention.weights(
        decoder.queries(x, states, **ids),
        context=states,
        segment_ids=segment_ids,
        context_segment_ids=source_segment_ids,
    )


def _function(call: Call) -> tuple[Callable[[Array], Array], Array]:
    """Returns the layer as a function of what it reads, and that."""
    layer, given = call.layer, call.given
    if isinstance(layer, RecurrentDecoder):
        x, states = call.arguments
        return lambda states: layer(x, states, **given), states
    if given.get("context") is not None:
        context = given["context"]
        return lambda context: layer(*call.arguments, **{**given, "context": context}), context
    x, *others = call.arguments
    return lambda x: layer(x, *others, **given), x


def _variant(layer: Any) -> str:
    """Returns the name of the variant that a layer is of, or "" if it is of none."""
    if isinstance(layer, RecurrentDecoder):
        return _variant(layer.attention)
    for part in (getattr(layer, "config", None), layer):
        package, _, name = type(part).__module__.rpartition(".")
        if package == variants.__name__ and name in variants.names():
            return name
    return ""
