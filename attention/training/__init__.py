"""Training: one loop, one pure step, one run directory."""
