"""What the attention variants share: pure functions of arrays, without parameters."""
