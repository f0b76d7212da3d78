"""Dropout, under the name that models use; see `attention.core.dropout`."""

from attention.core.dropout import Dropout, Rate

__all__ = ["Dropout", "Rate"]
