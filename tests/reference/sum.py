"""Scaled dot products, normalized otherwise: relu(e) / Σ relu(e)."""

from __future__ import annotations

from reference.exact import Exact
from reference.scaled_dot import score

EXACT = Exact(score, normalizer="sum")
weights, attend = EXACT.weights, EXACT.attend
