"""Comparing trained runs: rows with honest error bars, tests, plots and a report.

Nothing here imports JAX: a comparison reads what runs have written.
"""
