"""Recipes: one file a task or study, each with get_config(arg) and, where it is swept, sweep()."""
