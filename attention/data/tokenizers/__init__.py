"""Tokenizers: from text to ids. One file each; a run keeps its own copy of what it was built of."""
