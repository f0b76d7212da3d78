"""Attention Lab: compare attention mechanisms in JAX and Flax."""

from attention import python_version  # noqa: F401 (tells a Python that is too old)

__version__ = "0.1.0"
