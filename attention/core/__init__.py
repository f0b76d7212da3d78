"""The exact core of attention and the layer around it, which every variant shares."""
