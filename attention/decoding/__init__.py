"""Greedy, beam and sampled decoding over any step function, each one compiled loop."""
