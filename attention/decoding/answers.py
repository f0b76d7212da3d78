"""What is answered to a line of input, and how it is written."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Int

from attention.decoding.searching import Search
from attention.errors import UserError


@dataclasses.dataclass(frozen=True)
class Answers:
    """What an answer holds.

    Attributes:
        num_best: so many lines for each line of input: its number, a score and a text, with tabs
            between them. None: one line, the text alone.
        alignments: what `alignment_columns` gives behind each text, after tabs.
    """

    num_best: int | None = None
    alignments: bool = False

    @property
    def outputs(self) -> tuple[str, ...]:
        """Which outputs of each example they are made of."""
        return ("hypotheses", "scores", *(("alignments",) if self.alignments else ()))

    def check(self, how: Search, *, attends: bool) -> None:
        """Raises UserError where a search keeps fewer hypotheses, or nothing attends to a source.

        Args:
            how: the search.
            attends: whether the model has attention from target to source.
        """
        if self.num_best is not None and self.num_best < 1:
            raise UserError(f"--nbest={self.num_best}: expected an int of 1 or more")
        if self.num_best and not how.temperature and self.num_best > how.beam_size:
            raise UserError(
                f"--nbest={self.num_best}: a search with decode.beam_size={how.beam_size} keeps no "
                f"more hypotheses than that: add --decode=beam_size={self.num_best}"
            )
        if self.alignments and not attends:
            raise UserError(
                "--alignments: a model with cross=none has no attention to the source, of which "
                "alignments are made"
            )

    def written(self, number: int, texts: Sequence[str], scores: Iterable[float]) -> str:
        """Returns the lines; where there are fewer hypotheses, "" with −inf stands for the rest.

        Args:
            number: of the line of input, from 1.
            texts, scores: of the hypotheses, in order.
        """
        if self.num_best is None:
            return f"{texts[0]}\n"
        given = itertools.chain(zip(scores, texts, strict=True), itertools.repeat((-math.inf, "")))
        return "".join(
            f"{number}\t{score:.4f}\t{text}\n"
            for score, text in itertools.islice(given, self.num_best)
        )


def alignment_columns(
    places: Int[np.ndarray, " t"], source: Sequence[str], target: Sequence[str]
) -> list[str]:
    """Returns the pairs "0-0 2-1" (of the source and of the target, from 0), and both in pieces.

    There is a pair for each piece of the target, in order; none where the source has no piece.
    Pieces stand between blanks, whitespace inside of one is "▁".
    """
    kept = places[: len(target)].tolist() if source else []
    pairs = " ".join(f"{of}-{at}" for at, of in enumerate(kept))
    return [
        pairs,
        *(" ".join(re.sub(r"\s", "\u2581", p) for p in side) for side in (source, target)),
    ]
