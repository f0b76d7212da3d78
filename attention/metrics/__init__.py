"""Scores that more than one task reports, as plain functions of NumPy arrays."""
