"""Telling a tracker (Weights & Biases, MLflow, Trackio) what a run writes down itself."""

from attention.training.tracking.choose import forget, require, start
from attention.training.tracking.tracked import Tracked

__all__ = ["Tracked", "forget", "require", "start"]
