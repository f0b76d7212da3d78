"""Normalizers, from scores to weights, one file each; the file name is what the option accepts.

A file has `ARRAYS` (the learned arrays it takes), `OPTIONS` (the names of the options it takes),
perhaps `ONLY_POSITIVE` (True: a score of 0 or less has weight 0) and
`normalize(scores, visible, *, <arrays and options>)`: float32 scores [b n t s], visible bool
[#b #n #t #s] (True = may attend) or None (all), to float32 weights [b n t s]. A hidden key has
weight 0 and gradient 0 whatever its score is, ±inf and NaN included; a query that sees no key has
zeros.
"""

from types import ModuleType

from attention import found_by_name


def names() -> tuple[str, ...]:
    """Returns what `model.attention.normalizer` accepts."""
    return found_by_name.names_in(__path__)


def get(name: str) -> ModuleType:
    """Returns the module of a normalizer; an unknown name raises UserError."""
    return found_by_name.load(__name__, name, names(), key="model.attention.normalizer")
