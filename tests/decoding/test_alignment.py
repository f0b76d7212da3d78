"""Alignments: the source token that each target token attended to most."""

import jax.numpy as jnp
import numpy as np
import pytest

from attention.decoding.alignment import align
from attention.decoding.searching import Search

pytestmark = pytest.mark.fast

BOS, EOS, PAD = 2, 3, 0
HOW = Search(bos=BOS, eos=EOS, pad=PAD, max_length=4)
SOURCE = np.array([[7, 8, 9, EOS, PAD], [7, EOS, PAD, PAD, PAD]])
TARGETS = np.array([[[5, 6, EOS, PAD], [6, 5, 5, 5]], [[5, EOS, PAD, PAD], [4, 4, EOS, PAD]]])


class Model:
    """Gives the weights it was made with, and notes what it was asked for."""

    def __init__(self, weights):
        self.weights = jnp.asarray(weights, jnp.float32)

    def alignments(self, source, inputs, **ids):
        self.asked = {"source": source, "inputs": inputs, **ids}
        return self.weights


def aligned(weights):
    model = Model(weights)
    ids = (SOURCE != PAD).astype(np.int32)
    given = jnp.asarray(SOURCE), jnp.asarray(TARGETS)
    places = align(model, *given, segment_ids=jnp.asarray(ids), how=HOW)
    return np.asarray(places), model.asked


def test_the_mean_of_all_heads_decides_and_the_end_of_the_source_is_no_place():
    weights = np.zeros((4, 2, 4, 5))
    weights[0, :, 0] = [[0.5, 0.0, 0.1, 0.4, 0.0], [0.0, 0.0, 0.7, 0.3, 0.0]]  # mean: place 2
    weights[0, :, 1] = [0.1, 0.3, 0.0, 0.6, 0.0]  # mostly at the end: place 1 instead
    weights[1, :, 3] = [0.2, 0.4, 0.4, 0.0, 0.0]  # a tie goes to the left
    places, _ = aligned(weights)
    assert places.shape == (2, 2, 4)
    assert places[0, 0, 0] == 2 and places[0, 0, 1] == 1 and places[0, 1, 3] == 1
    assert np.all(places[1] == 0), "one source token: all is made of it"


def test_a_token_is_aligned_by_the_step_that_gave_it():
    _, asked = aligned(np.zeros((4, 2, 4, 5)))
    np.testing.assert_array_equal(asked["inputs"][:2], [[BOS, 5, 6, EOS], [BOS, 6, 5, 5]])
    np.testing.assert_array_equal(asked["source"][:, 1], [8, 8, EOS, EOS])
    np.testing.assert_array_equal(asked["target_segment_ids"][2], [1, 1, 1, 0])
    np.testing.assert_array_equal(asked["source_segment_ids"][2], [1, 1, 0, 0, 0])
