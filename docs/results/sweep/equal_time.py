"""Six mechanisms that train for the same time: a sweep whose budget is seconds.

    python sweep.py --config=docs/results/sweep/equal_time.py --workdir=sweeps/equal-time
    python docs/results/collect.py sweeps/equal-time --out=docs/results/sweep/equal_time

The tiny tagger of 400 updates of `scaled_dot`; the others get as many as take it as long.
"""

from ml_collections import ConfigDict

from attention.configuration.budget import Budgeted, budgeted
from attention.configuration.points import grid
from configs import common, pos_tagging


def get_config(arg: str = "") -> ConfigDict:
    config = common.tiny_config(pos_tagging, arg, dataset="turkish_treebank")
    config.train_epochs, config.train_steps = None, 400
    return config.lock()


def sweep() -> Budgeted:
    names = ("scaled_dot", "additive", "cosine", "sliding_window", "rnn", "cnn")
    points = grid({"arg.variant": names})
    return budgeted(points, budget="time", like={"arg.variant": "scaled_dot"})
