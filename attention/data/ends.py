"""Where a run ends in a stream of rows, and where it ended before it was made longer."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable


class Ends:
    """Rows of a stream at which a batch stops short; the next batch begins at that very row.

    So that each row is read once, also by a run that ended inside a batch and was then given more
    epochs.
    """

    def __init__(self, rows: Iterable[int], *, rows_per_step: int):
        """Takes the ends, ascending, as numbers of the first row beyond."""
        self.rows = tuple(rows)
        self._rows_per_step = rows_per_step
        stretches = (stop - start for start, stop in itertools.pairwise((0, *self.rows)))
        # The steps taken when each end is reached; a part of a step counts as one.
        self.steps = tuple(itertools.accumulate(-(-rows // rows_per_step) for rows in stretches))

    def rows_of(self, step: int) -> tuple[int, int]:
        """Returns the first row of a step, from 0, and the row before which it stops."""
        passed = bisect_right(self.steps, step)
        first_step, first_row = (
            (self.steps[passed - 1], self.rows[passed - 1]) if passed else (0, 0)
        )
        start = first_row + (step - first_step) * self._rows_per_step
        stop = start + self._rows_per_step
        return start, min([stop, *self.rows[passed : passed + 1]])

    def reached_by(self, step: int) -> tuple[int, ...]:
        """Returns the rows of the ends that lie before a step."""
        return self.rows[: bisect_right(self.steps, step)]
