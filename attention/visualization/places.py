"""Where a model attends: its places by name, and recorders that stand there during a pass.

A recorder calls the layer it stands for and notes what the layer was given, so the pass computes
what it computes without one. What was noted is then given to the layer's own `weights`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from jaxtyping import Array

from attention.models.decoder import Decoder
from attention.models.encoder import Encoder
from attention.models.two_pass import TwoPass


class Place(NamedTuple):
    """A place in a model where queries meet keys.

    Attributes:
        name: for files and arrays; layers are counted from 1.
        title: for people.
        queries, keys: which of an example's sequences they are: "tokens", "source", "read" (the
            target behind its BOS), "written" (the target up to its EOS), or "text" as a whole.
        turned: the layer reads the sequence from its end; what it gives is in that order.
    """

    name: str
    title: str
    queries: str
    keys: str
    turned: bool = False


class Call(NamedTuple):
    """One call of a layer: where, and what it was given."""

    place: Place
    layer: Any
    arguments: tuple[Any, ...]
    given: dict[str, Any]


class Recorder:
    """Stands where a layer stood."""

    def __init__(self, layer: Any, place: Place, calls: list[Call]):
        self._layer = layer
        self._place = place
        self._calls = calls

    def __call__(self, *arguments: Any, **given: Any) -> Array:
        self._calls.append(Call(self._place, self._layer, arguments, given))
        return self._layer(*arguments, **given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)


def record(model: Any) -> list[Call]:
    """Puts recorders into a model; returns the list that they write to, in the order of calls.

    The model is changed: give one that is made for this pass alone.
    """
    calls: list[Call] = []
    for owner, attribute, place in [*_places(model)]:
        layer = getattr(owner, attribute)
        if isinstance(layer, TwoPass):
            layer.onward = Recorder(layer.onward, _way(place, "forward"), calls)  # type: ignore
            backward = _way(place, "backward")._replace(turned=True)
            layer.backward = Recorder(layer.backward, backward, calls)  # type: ignore
        else:
            setattr(owner, attribute, Recorder(layer, place, calls))
    return calls


def _way(place: Place, way: str) -> Place:
    return place._replace(name=f"{place.name}-{way}", title=f"{place.title}, {way}")


def _places(model: Any) -> Iterator[tuple[Any, str, Place]]:
    """Yields each place with the module and the attribute where its layer is."""
    decoder = getattr(model, "decoder", None)
    if isinstance(model.encoder, Encoder):
        read = "tokens" if decoder is None else "source"
        for number, block in enumerate(model.encoder.blocks, start=1):
            place = Place(f"encoder-{number}", f"encoder layer {number}", read, read)
            yield block, "attention", place
    if getattr(model, "pooling", None) is not None:
        yield model, "pooling", Place("pooling", "pooling", "text", "tokens")
    if isinstance(decoder, Decoder):
        for number, block in enumerate(decoder.blocks, start=1):
            name, title = f"decoder-{number}", f"decoder layer {number}"
            to_itself = Place(f"{name}-self", f"{title}, to the target", "read", "read")
            to_source = Place(f"{name}-cross", f"{title}, to the source", "written", "source")
            yield block, "self_attention", to_itself
            yield block, "cross_attention", to_source
    elif decoder is not None:
        yield (
            model,
            "decoder",
            Place("decoder-cross", "decoder, to the source", "written", "source"),
        )
    if getattr(model, "pointer", None) is not None:
        yield model, "pointer", Place("pointer", "pointer, to the source", "written", "source")
