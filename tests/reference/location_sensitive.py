"""Location-sensitive attention: arXiv 1506.07503, equations 8 and 9."""

from __future__ import annotations

import numpy as np
from reference import alignment, normalizers
from reference.exact import weigh

OPTIONS = ("location_input",)
IN_ORDER = True
OWN = {"score_vector": "n h", "location_filters": "n w r", "location_matrix": "n r h"}


def features(previous: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """Returns f [s r] for weights [s] and filters [w r]: zeros lie past both ends."""
    (s,), width = previous.shape, len(filters)
    result = np.zeros((s, filters.shape[1]))
    for j in range(s):
        for o in range(width):
            at = j + o - width // 2
            if 0 <= at < s:
                result[j] += filters[o] * previous[at]
    return result


def weights(
    q,
    k,
    visible,
    *,
    score_vector,
    location_filters,
    location_matrix,
    location_input="previous",
    segment_ids=None,
    previous=None,
):
    """Returns the weights [b n t s]."""

    def row(query, keys, before, seen, n):
        of_place = features(before, location_filters[n]) @ location_matrix[n]
        scores = np.tanh(query + keys + of_place) @ score_vector[n]
        found = np.zeros(len(keys))
        found[seen] = normalizers.softmax(scores[seen])
        return found

    def following(before, now):
        return before + now if location_input == "cumulative" else now

    if previous is not None:
        previous = np.where(visible.any(2), previous, 0.0)
    return alignment.weights(
        *(q, k, visible, row),
        first=np.zeros,
        following=following,
        segment_ids=segment_ids,
        previous=previous,
    )


def attend(q, k, v, visible, **given):
    """Returns the weighted sums of the values [b t n h]."""
    return weigh(weights(q, k, visible, **given), v)
