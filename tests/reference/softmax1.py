"""Scaled dot products, normalized otherwise: exp(e) / (1 + Σ exp(e))."""

from __future__ import annotations

from reference.exact import Exact
from reference.scaled_dot import score

EXACT = Exact(score, normalizer="softmax1")
weights, attend = EXACT.weights, EXACT.attend
