"""Part-of-speech tagging: one label for each word (words in, `word_TAG` out)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array

from attention.assembly import make_encoder
from attention.data.conllu import decoded_lines, format_conllu, read_conllu
from attention.data.encoded import EncodedSplit
from attention.data.streams import Encoded, Stream
from attention.data.tagging import read_examples
from attention.data.tokenizers.labels import NO_LABEL, UNKNOWN_LABEL, UNLABELLED, LabelSet
from attention.data.tokenizers.words import WordTokenizer
from attention.errors import UserError
from attention.losses import Sum, token_cross_entropy, token_sums
from attention.models.tagger import Tagger
from attention.models.word_encoder import WordEncoder

Example = Mapping[str, Any]
Batch = Mapping[str, Mapping[str, Array]]  # by stream and name
Outputs = Mapping[str, Mapping[str, np.ndarray]]  # likewise


class Task:
    """A tagger: words and characters -> Transformer encoder -> one class for each word.

    Args:
      config: the run's config.
      words, tags: the vocabulary, fitted on the training split or loaded from a run.
    """

    METRICS = ("accuracy", "loss")  # "best" is the first, on dev; higher is better
    STREAMS = (Stream("tokens", fill={"labels": UNLABELLED}),)
    UNIT = "words"  # what a length is counted in
    PIECES = True  # evaluation runs a long sentence in pieces
    PACKS_EVALUATION = True
    # Outputs by stream: what `score` reads, what an answer to new input is made of, its numbers.
    SCORED: ClassVar[Mapping[str, tuple[str, ...]]] = {"tokens": ("class", "loss")}
    ANSWERED: ClassVar[Mapping[str, tuple[str, ...]]] = {"tokens": ("class",)}
    LOGITS: ClassVar[Mapping[str, tuple[str, ...]]] = {"tokens": ("logits",)}

    def __init__(self, config: Any, words: WordTokenizer, tags: LabelSet) -> None:
        self.config = config
        self.words = words
        self.tags = tags

    @classmethod
    def fit(cls, config: Any, train: Sequence[Example]) -> Task:
        """Builds the vocabulary from the training split alone."""
        data = config.data
        sentences = list(train)
        words = WordTokenizer.build(
            [sentence["words"] for sentence in sentences],
            min_count=data.min_count,
            lowercase=data.lowercase,
            max_word_length=data.max_word_length,
        )
        tags = LabelSet.build(sentence[data.tag] for sentence in sentences)
        if not tags.names:
            raise UserError(
                f"no word of the training split has a label in the column data.tag={data.tag}; "
                "set data.tag to the column that has them"
            )
        return cls(config, words, tags)

    @staticmethod
    def paths(config: Any) -> dict[str, str | None]:
        """The user's files by split, for `dataset=files`."""
        data = config.data
        return {"train": data.train_path, "dev": data.eval_path, "test": data.test_path}

    @staticmethod
    def options(config: Any) -> dict[str, Any]:
        """What the data set is asked for; None is its own choice."""
        return {"distance": config.data.get("distance")}

    @classmethod
    def load(cls, config: Any, folder: Path) -> Task:
        """Reads what `save` wrote."""
        return cls(config, WordTokenizer.load(folder), LabelSet.load(folder))

    def save(self, folder: Path) -> None:
        """Writes everything needed to encode new text."""
        self.words.save(folder)
        self.tags.save(folder)

    def encode(self, example: Example) -> Encoded:
        """Arrays with one row a word, in `tokens`: `words` [t], `chars` [t c], `labels` [t]."""
        tags = example.get(self.config.data.tag)
        words = example["words"]
        labels = self.tags.encode(tags) if tags else np.full(len(words), UNLABELLED, np.int32)
        return {"tokens": {**self.words.encode(words), "labels": labels}}

    def make_model(self, rngs: nnx.Rngs) -> Tagger:
        """The model of the config, initialised."""
        model = self.config.model
        word_encoder = WordEncoder(
            self.words.num_words,
            self.words.num_chars,
            dim=model.dim,
            word_dim=model.word_dim,
            char_dim=model.char_dim,
            use_words=model.use_words,
            use_chars=model.use_chars,
            word_dropout_rate=model.word_dropout_rate,
            dtype=self.config.dtype,
            rngs=rngs,
        )
        encoder = make_encoder(self.config, rngs)
        return Tagger(word_encoder, encoder, len(self.tags.names), rngs=rngs)

    def _logits(self, model: nnx.Module, batch: Batch, rngs: nnx.Rngs | None):
        tokens = batch["tokens"]
        return model(
            tokens["words"],
            tokens["chars"],
            segment_ids=tokens["segment_ids"],
            positions=tokens["positions"],
            rngs=rngs,
        )

    def loss(
        self, model: nnx.Module, batch: Batch, *, rngs: nnx.Rngs, label_smoothing: Any
    ) -> dict[str, Sum]:
        """Sums over the labelled words of a batch: cross-entropy in nats, and hits."""
        logits, labels = self._logits(model, batch, rngs), batch["tokens"]["labels"]
        return token_sums(logits, labels, label_smoothing=label_smoothing)

    def predict(self, model: nnx.Module, batch: Batch) -> dict[str, dict[str, Array]]:
        """Each word's class [b t], its loss [b t], and the logits [b t c], in `tokens`."""
        logits = self._logits(model, batch, None)
        outputs = {
            "class": jnp.argmax(logits, axis=-1),
            "loss": token_cross_entropy(logits, batch["tokens"]["labels"]),
            "logits": logits,
        }
        return {"tokens": outputs}

    def scoring_settings(self) -> tuple[str, ...]:
        """What besides the files decides what a score means."""
        return (f"tag={self.config.data.tag}",)

    def score(
        self, encoded: EncodedSplit, outputs: Outputs
    ) -> tuple[dict[str, float], dict[str, int]]:
        """Metrics and counts from all words of a split, in file order.

        A word whose tag never occurs in training counts as an error; it has no loss.
        """
        labels, words = encoded.flat["tokens"]["labels"], outputs["tokens"]
        scored, known = labels != UNLABELLED, labels >= 0
        hits = int(np.sum((words["class"] == labels) & scored))
        counts = {
            "num_words": len(labels),
            "num_eval_tokens": int(scored.sum()),
            "num_unseen_tags": int(np.sum(labels == UNKNOWN_LABEL)),
        }
        if not counts["num_eval_tokens"]:
            return {}, counts
        # Over words in file order and in float64: the same whatever the batches were.
        total = float(np.sum(words["loss"][known], dtype=np.float64))
        metrics = {
            "accuracy": hits / counts["num_eval_tokens"],
            "loss": total / max(known.sum(), 1),
        }
        return metrics, counts

    def tags_of(self, outputs: Outputs) -> list[str]:
        """The predicted tag of each word."""
        return [self.tags.names[index] for index in outputs["tokens"]["class"]]

    def prediction_line(self, example: Example, outputs: Outputs) -> str:
        """`word_TAG word_TAG …`"""
        return _tagged(example["words"], self.tags_of(outputs))

    def reference_line(self, example: Example) -> str:
        """What it is compared with: the same words with the true tags, "_" where there is none."""
        words = example["words"]
        return _tagged(words, example.get(self.config.data.tag) or [NO_LABEL] * len(words))

    # -- new input -----------------------------------------------------------------------------

    FORMATS = ("text", "conllu")

    def read(self, paths: Sequence[Path]) -> list[Example]:
        """The examples of a user's CoNLL-U files, one file after the other."""
        return [example for path in paths for example in read_examples(path)]

    def read_input(self, stream: IO[bytes], *, format: str) -> Iterator[Example]:
        """The sentences of a stream: one a line, or CoNLL-U; some may have no word."""
        if format == "conllu":
            for sentence in read_conllu(stream, name="stdin"):
                yield {**sentence._asdict(), "sentence": sentence}
            return
        for number, line in decoded_lines(stream, "stdin"):
            words = [word for word in re.split("[ \t]", line) if word]
            yield {"words": words, "line": number, "file": "stdin"}

    def is_blank(self, example: Example) -> bool:
        """Whether there is nothing to tag."""
        return not example["words"]

    def write_output(self, example: Example, outputs: Outputs | None, *, format: str) -> str:
        """One line of tagged words, or the sentence as CoNLL-U; `outputs` is None without words."""
        tags = self.tags_of(outputs) if outputs else []
        if format == "conllu":
            column = self.config.data.tag
            return format_conllu(example["sentence"], tags, column=column)
        line = self.prediction_line(example, outputs) if outputs else ""
        if outputs and "logits" in outputs["tokens"]:
            rows = outputs["tokens"]["logits"]
            line += "\t" + json.dumps([[round(float(x), 6) for x in row] for row in rows])
        return line + "\n"


def _tagged(words: Sequence[str], tags: Sequence[str]) -> str:
    return " ".join(f"{word}_{tag}" for word, tag in zip(words, tags, strict=True))
