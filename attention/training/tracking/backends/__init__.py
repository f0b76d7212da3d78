"""One file per tracker, found by its name in `tracking.backend`; this folder holds nothing else.

Each has `start(description) -> Tracker` and imports its package at the top.
"""
