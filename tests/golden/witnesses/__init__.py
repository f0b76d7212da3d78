"""One file a library: each builds golden files and checks them against the formula in NumPy."""
