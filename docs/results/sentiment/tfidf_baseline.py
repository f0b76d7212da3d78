"""TF-IDF of words and pairs of words with logistic regression: what attention is to beat.

    pip install scikit-learn        # in the environment of this repository or beside it
    python docs/results/sentiment/tfidf_baseline.py --config=configs/sentiment.py:dataset=imdb

Reads the same splits of the same data set as `train.py --config=` with the same argument (and the
same `--config.KEY=VALUE` flags), fits on train, and prints the accuracy on dev and test. Nothing is
tuned: scikit-learn's defaults, with 1- and 2-grams, a sublinear term frequency and C of 10.
"""

import argparse
import json

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from attention import command, configuration
from attention.training.experiment import open_dataset


def main(arguments: argparse.Namespace) -> None:
    config = configuration.load_config(arguments.config, arguments.overrides)
    dataset = open_dataset(config)
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        LogisticRegression(C=10, max_iter=1000),
    )
    model.fit(*_texts(dataset.split("train")))
    scores = {
        split: model.score(*_texts(dataset.split(split)))
        for split in ("dev", "test")
        if split in dataset.splits
    }
    print(json.dumps({"config": arguments.config, "features": len(model[0].vocabulary_), **scores}))


def _texts(split) -> tuple[list[str], list[str]]:
    """Texts and labels of a split."""
    return [example["text"] for example in split], [example["label"] for example in split]


if __name__ == "__main__":
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--config", required=True, metavar="FILE[:KEY=VALUE,...]")
    command.run(main, flags)
