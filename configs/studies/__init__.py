"""Studies: questions with their answer's recipe, each with get_config(arg) and sweep()."""
