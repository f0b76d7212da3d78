"""SentencePiece: subwords learned from the training split (arXiv 1808.06226), with ids 0 to 3 ours.

Unigram language model (arXiv 1804.10959) or BPE (arXiv 1508.07909). With the normalization
`nmt_nfkc` a text is brought to NFKC, and whitespace at its ends and repeated inside it is dropped;
with `identity` every character and every blank stays. Training reads the texts in their order with
one thread: the same texts give the same model, byte for byte. Of more than `max_texts` it reads as
many drawn at random, always the same ones: a corpus of millions would fill the memory.
"""

from __future__ import annotations

import hashlib
import io
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece as library
from jaxtyping import Int

from attention.data.tokenizers.drawn_texts import draw_texts
from attention.data.tokenizers.sealed import DAMAGED, read_sealed, write_sealed
from attention.data.tokenizers.special import BOS, EOS, NUM_SPECIAL, PAD, UNK, UNKNOWN_SURFACE
from attention.errors import UserError

NAME = "sentencepiece"
KINDS = ("unigram", "bpe")
NORMALIZATIONS = ("nmt_nfkc", "identity")

# Of an alphabet above this size the rarest 0.05 % of all characters stay unknown, as its authors
# advise for Chinese and Japanese; of a smaller one each character gets an id.
LARGE_ALPHABET = 1000
LARGE_COVERAGE = 0.9995
MAX_TEXT_BYTES = 1_000_000  # the library's own limit is 4,192, and says nothing

# The trainer drops a text that holds one of these, without a word: its mark of an unknown
# character, and the end of a C string.
RESERVED = str.maketrans({"\u2585": " ", "\0": " "})
FIXED: dict[str, Any] = {
    **{"pad_id": PAD, "unk_id": UNK, "bos_id": BOS, "eos_id": EOS},
    "unk_surface": UNKNOWN_SURFACE,
    "hard_vocab_limit": False,
    "shuffle_input_sentence": False,
    "num_threads": 1,
    "minloglevel": 2,  # the trainer reports every step on stderr
}
NUM_SEEDS = 2**32 - 1  # the library reads its highest seed as "none given"

logger = logging.getLogger(__name__)


class Tokenizer:
    """A trained model, held as the bytes of its file."""

    def __init__(self, model: bytes, *, lowercase: bool = False):
        self.lowercase = lowercase
        self._model = model
        self._processor: Any = library.SentencePieceProcessor(model_proto=model)

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        *,
        vocab_size: int,
        lowercase: bool = False,
        kind: str = "unigram",
        normalization: str = "nmt_nfkc",
        character_coverage: float | None = None,
        max_texts: int | None = None,
    ) -> Tokenizer:
        """Trains it on the texts of the training split.

        Args:
          vocab_size: the most ids, the four special ones included; a small corpus gives fewer,
            which is logged.
          kind: "unigram" or "bpe".
          normalization: "nmt_nfkc" or "identity".
          character_coverage: the share of all characters that get ids, 0 to 1; None: 0.9995 where
            there are over 1,000 different ones, else 1.
          max_texts: of more texts so many are drawn, each with the same chance, which is logged;
            None: no limit.

        Raises:
          UserError: for wrong options, for texts that leave nothing to train on, and for a
            vocabulary that is too small for the alphabet.
        """
        _check_options(vocab_size, kind, normalization, character_coverage)
        lines = _Lines((text.lower() if lowercase else text for text in texts), max_texts)
        settings: dict[str, Any] = {
            "vocab_size": vocab_size,
            "model_type": kind,
            "character_coverage": character_coverage or lines.coverage,
            "normalization_rule_name": normalization,
            "remove_extra_whitespaces": normalization != "identity",
            "max_sentence_length": MAX_TEXT_BYTES,
        }
        model = io.BytesIO()
        try:
            library.SentencePieceTrainer.train(
                sentence_iterator=iter(lines.kept), model_writer=model, **settings, **FIXED
            )
        except RuntimeError as error:
            raise UserError(_explain(error, vocab_size)) from None
        tokenizer = cls(model.getvalue(), lowercase=lowercase)
        if tokenizer.size < vocab_size:
            logger.warning(
                "the training texts allow a vocabulary of %s, not of data.vocab_size=%s",
                f"{tokenizer.size:,}", f"{vocab_size:,}",
            )  # fmt: skip
        return tokenizer

    @property
    def size(self) -> int:
        """Number of ids, the special ones included."""
        return self._processor.get_piece_size()

    def encode(
        self, text: str, *, sample: int | None = None, alpha: float = 0.0
    ) -> Int[np.ndarray, " t"]:
        """Returns the ids of a text as int32, without begin and end.

        Args:
          sample: the seed of a segmentation drawn at random (subword regularization); None for the
            best one.
          alpha: 0 for the best segmentation. Else, for unigram, the power of a segmentation's
            probability by which all are drawn (the smaller, the more at random; 0.1 is usual); for
            BPE the share of merges left out (BPE-dropout, arXiv 1910.13267).
        """
        text = text.lower() if self.lowercase else text
        if sample is None or alpha == 0.0:
            return np.array(self._processor.encode(text), np.int32)
        library.set_random_generator_seed(sample % NUM_SEEDS)  # of this thread's generator
        ids = self._processor.encode(text, enable_sampling=True, alpha=alpha, nbest_size=-1)
        return np.array(ids, np.int32)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids up to the first end, "□" for unknown characters."""
        before_end = takewhile(lambda i: i != EOS, map(int, ids))
        return self._processor.decode([i for i in before_end if i not in (PAD, BOS)])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the subword of each id of a text, "▁" for a blank and "□" for the unknown one."""
        name = self._processor.id_to_piece
        return [UNKNOWN_SURFACE if i == UNK else name(i) for i in map(int, ids)]

    def save(self, folder: Path, *, stem: str = "tokenizer") -> None:
        """Writes STEM.model and STEM.json into an existing folder."""
        (Path(folder) / f"{stem}.model").write_bytes(self._model)
        fields = {"lowercase": self.lowercase, "model": hashlib.sha256(self._model).hexdigest()}
        write_sealed(Path(folder) / f"{stem}.json", {"tokenizer": NAME, **fields})

    @classmethod
    def load(cls, folder: Path, *, stem: str = "tokenizer") -> Tokenizer:
        """Reads what `save` wrote, or raises a UserError that names the file."""
        fields = read_sealed(Path(folder) / f"{stem}.json", kind=NAME)
        path = Path(folder) / f"{stem}.model"
        try:
            model = path.read_bytes()
        except OSError as error:
            raise UserError(f"cannot read the tokenizer '{path}': {error.strerror}") from None
        if hashlib.sha256(model).hexdigest() != fields["model"]:
            raise UserError(f"cannot read the tokenizer '{path}': {DAMAGED}")
        return cls(model, lowercase=fields["lowercase"])


class _Lines:
    """The texts that can be trained on; says which cannot."""

    def __init__(self, texts: Iterable[str], most: int | None = None):
        self.num_long = 0
        self.num_texts = 0
        drawn = draw_texts(self._read(texts), most)
        self.kept = drawn.texts
        self._num_characters = len(set().union(*self.kept))
        if not self.kept:
            raise UserError(self._nothing_left())
        if drawn.number > len(self.kept):
            logger.info(
                "the tokenizer is trained on %s of %s texts, drawn at random "
                "(data.tokenizer_texts)",
                f"{len(self.kept):,}", f"{drawn.number:,}",
            )  # fmt: skip
        if self.num_long:
            logger.warning(
                "%d of %d texts are over %s bytes: the tokenizer is trained without them",
                self.num_long, self.num_texts, f"{MAX_TEXT_BYTES:,}",
            )  # fmt: skip

    @property
    def coverage(self) -> float:
        """The share of characters that should get ids."""
        return LARGE_COVERAGE if self._num_characters > LARGE_ALPHABET else 1.0

    def _read(self, texts: Iterable[str]) -> Iterator[str]:
        for text in texts:
            self.num_texts += 1
            text = text.translate(RESERVED)
            if len(text.encode()) > MAX_TEXT_BYTES:
                self.num_long += 1
            elif text.strip():
                yield text

    def _nothing_left(self) -> str:
        if self.num_long:
            return (
                f"no tokenizer can be trained: all {self.num_long} texts of the training split are "
                f"over {MAX_TEXT_BYTES:,} bytes; break them into shorter lines, or set "
                "data.tokenizer to bytes, characters or words"
            )
        return "the texts of the training split are blank: no tokenizer can be trained"


def _check_options(
    vocab_size: int, kind: str, normalization: str, character_coverage: float | None
) -> None:
    if vocab_size <= NUM_SPECIAL:
        raise UserError(f"data.vocab_size={vocab_size} must be above {NUM_SPECIAL}")
    if kind not in KINDS:
        raise UserError(f"the kind of SentencePiece {kind!r} must be one of {', '.join(KINDS)}")
    if normalization not in NORMALIZATIONS:
        allowed = ", ".join(NORMALIZATIONS)
        raise UserError(f"the normalization {normalization!r} must be one of {allowed}")
    if character_coverage is not None and not 0 < character_coverage <= 1:
        raise UserError(f"character_coverage={character_coverage} must be above 0 and at most 1")


def _explain(error: RuntimeError, vocab_size: int) -> str:
    """Returns what the user can do about an error of the trainer."""
    message = str(error)
    if needed := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return (
            f"data.vocab_size={vocab_size} is too small: the {int(needed[1]) - NUM_SPECIAL:,} "
            f"characters of the training texts and {NUM_SPECIAL} special ids need at least "
            f"{int(needed[1])}; raise it, or set data.tokenizer=bytes"
        )
    return f"SentencePiece cannot be trained with data.vocab_size={vocab_size}: {message[:200]}"
