"""Less training data: the first examples of an order that is always the same.

So a smaller part lies within every larger one, and is the same for all variants and seeds. The
vocabulary is built of it too, since nothing else of the training split is read.
"""

from __future__ import annotations

import dataclasses
import logging

import numpy as np

from attention.data.dataset import Dataset
from attention.data.epochs import permutation
from attention.data.preparation import hash_parts
from attention.errors import UserError

ORDER_SEED = 20_170_612

logger = logging.getLogger(__name__)


def with_train_examples(dataset: Dataset, number: int | None) -> Dataset:
    """Returns the data set with so many training examples, in the order of their source.

    Args:
      number: `data.train_examples`; None, or as many as there are: the same data set.

    Raises:
      UserError: if there are fewer.
    """
    if number is None or number == len(train := dataset.split("train")):
        return dataset
    if number > len(train):
        raise UserError(
            f"data.train_examples={number}: data set '{dataset.name}' has {len(train)} training "
            "examples; give at most that, or None for all"
        )
    chosen = np.sort(permutation(len(train), ORDER_SEED)[:number])
    content_hash = hash_parts(train.content_hash, f"{ORDER_SEED}", f"{number}")
    part = train.part(chosen, content_hash=content_hash)
    logger.info(
        "training on %s of the %s examples of %s: data.train_examples",
        *(f"{number:,}", f"{len(train):,}", dataset.name),
    )
    return dataclasses.replace(dataset, splits={**dataset.splits, "train": part})
