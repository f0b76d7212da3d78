"""Epochs as one endless stream, and the orders they are made in."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Int

T = TypeVar("T")

KEPT_EPOCHS = 2


def permutation(number: int, *seeds: int) -> Int[np.ndarray, " n"]:
    """Returns an order of `number` things that is the same in every NumPy version.

    NumPy promises that of a bit generator's raw numbers, not of what `Generator` makes of them.
    """
    return np.argsort(_raw_numbers(number, *seeds), kind="stable")


def samples(number: int, *seeds: int) -> Int[np.ndarray, " n"]:
    """Returns a number from 0 to 2**31 - 1 for each of `number` things, as `permutation` does."""
    return (_raw_numbers(number, *seeds) >> np.uint64(33)).astype(np.int64)


def _raw_numbers(number: int, *seeds: int) -> np.ndarray:
    return np.random.PCG64(np.random.SeedSequence([s % 2**64 for s in seeds])).random_raw(number)


class KeptEpochs(Generic[T]):
    """What belongs to an epoch, made anew if it is none of the last two; safe to share by threads.

    Two, because a batch may reach over the end of an epoch.
    """

    def __init__(self, make_epoch: Callable[[int], T]):
        self._make_epoch = make_epoch
        self._kept: OrderedDict[int, T] = OrderedDict()
        self._lock = threading.Lock()

    def __getitem__(self, epoch: int) -> T:
        with self._lock:
            if epoch not in self._kept:
                self._kept[epoch] = self._make_epoch(epoch)
                if len(self._kept) > KEPT_EPOCHS:
                    self._kept.popitem(last=False)
            return self._kept[epoch]


class EpochStream(Generic[T]):
    """Things of epoch 0, then of epoch 1, and so on, counted through; safe to share by threads."""

    def __init__(self, make_epoch: Callable[[int], list[T]]):
        self._epochs = KeptEpochs(make_epoch)
        self._starts = [0]  # the number of the first thing of each epoch so far known
        self._lock = threading.RLock()

    def epoch(self, epoch: int) -> list[T]:
        """Returns the things of one epoch."""
        with self._lock:
            things = self._epochs[epoch]
            if epoch == len(self._starts) - 1:
                self._starts.append(self._starts[-1] + len(things))
            return things

    def start(self, epoch: int) -> int:
        """Returns the number of the epoch's first thing."""
        with self._lock:
            while len(self._starts) <= epoch:
                self.epoch(len(self._starts) - 1)
            return self._starts[epoch]

    def size(self, epochs: float) -> int:
        """Returns how many things the first epochs have; of a broken one, its share rounded up."""
        whole = math.floor(epochs)
        part = epochs - whole
        start = self.start(whole)
        return start + math.ceil(part * len(self.epoch(whole))) if part else start

    def take(self, start: int, stop: int) -> list[T]:
        """Returns the things numbered from `start` until before `stop`."""
        taken: list[T] = []
        epoch = self._epoch_of(start)
        while len(taken) < stop - start:
            first = start + len(taken) - self.start(epoch)
            taken += self.epoch(epoch)[first : first + stop - start - len(taken)]
            epoch += 1
        return taken

    def _epoch_of(self, number: int) -> int:
        with self._lock:
            while self._starts[-1] <= number:
                self.start(len(self._starts))
            return int(np.searchsorted(self._starts, number, side="right")) - 1
