"""Models: they take an attention factory, and know no variant by name."""
