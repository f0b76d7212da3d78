"""Attention Lab: compare attention mechanisms in JAX and Flax."""

__version__ = "0.1.0"
