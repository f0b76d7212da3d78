"""Scaled dot products, normalized otherwise: arXiv 2508.10925: a learned key without a value."""

from __future__ import annotations

from reference.exact import Exact
from reference.scaled_dot import score

EXACT = Exact(score, normalizer="sink")
weights, attend = EXACT.weights, EXACT.attend
