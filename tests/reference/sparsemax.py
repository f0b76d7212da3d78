"""Scaled dot products, normalized otherwise: arXiv 1602.02068."""

from __future__ import annotations

from reference.exact import Exact
from reference.scaled_dot import score

EXACT = Exact(score, normalizer="sparsemax")
weights, attend = EXACT.weights, EXACT.attend
