"""Scaled dot products, normalized otherwise: arXiv 1905.05702, α = 1.5."""

from __future__ import annotations

from reference.exact import Exact
from reference.scaled_dot import score

EXACT = Exact(score, normalizer="entmax15")
weights, attend = EXACT.weights, EXACT.attend
