"""Scaled dot products, normalized otherwise: arXiv 2202.10447."""

from __future__ import annotations

from reference.exact import Exact
from reference.scaled_dot import score

EXACT = Exact(score, normalizer="relu2")
weights, attend = EXACT.weights, EXACT.attend
