"""What `visualize.py` is made of: what each query of a trained model looks at, in pictures."""
