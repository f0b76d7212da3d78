"""Sweeps: many runs of one config file, each in its own run directory, done once each."""
