"""Scaled dot products, normalized otherwise: arXiv 2309.08586."""

from __future__ import annotations

from reference.exact import Exact
from reference.scaled_dot import score

EXACT = Exact(score, normalizer="relu")
weights, attend = EXACT.weights, EXACT.attend
