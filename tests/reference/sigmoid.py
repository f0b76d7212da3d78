"""Scaled dot products, normalized otherwise: arXiv 2409.04431."""

from __future__ import annotations

from reference.exact import Exact
from reference.scaled_dot import score

EXACT = Exact(score, normalizer="sigmoid")
weights, attend = EXACT.weights, EXACT.attend
