"""Sentiment: one label for each text (text in, `label<TAB>probability` out)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array

from attention.assembly import make_encoder
from attention.data.conllu import decoded_lines
from attention.data.encoded import EncodedSplit
from attention.data.sentiment import read_examples
from attention.data.streams import Stream
from attention.data.tokenizers import text as text_tokenizers
from attention.data.tokenizers.labels import NO_LABEL, UNKNOWN_LABEL, UNLABELLED, LabelSet
from attention.errors import UserError
from attention.losses import Sum, token_cross_entropy
from attention.metrics.classification import confusion_matrix, macro_f1
from attention.models.classifier import Classifier
from attention.models.embedding import Embedding
from attention.models.pooling import make_pooling

Example = Mapping[str, Any]
Outputs = Mapping[str, Mapping[str, np.ndarray]]


class Task:
    """A classifier: subwords -> Transformer encoder -> pooling -> one class for each text.

    Args:
      config: the run's config.
      tokenizer, labels: fitted on the training split or loaded from a run.
    """

    METRICS = ("accuracy", "f1", "loss")  # "best" is the first, on dev; higher is better
    STREAMS = (Stream("tokens"), Stream("examples", {"labels": UNLABELLED}, one_each=True))
    UNIT = "tokens"
    PIECES = False  # half a text has not half a label
    PACKS_EVALUATION = True
    SCORED: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "examples": ("class", "probability", "loss")
    }
    ANSWERED: ClassVar[Mapping[str, tuple[str, ...]]] = {"examples": ("class", "probability")}
    LOGITS: ClassVar[Mapping[str, tuple[str, ...]]] = {"examples": ("logits",)}

    def __init__(self, config: Any, tokenizer: Any, labels: LabelSet) -> None:
        self.config = config
        self.tokenizer = tokenizer
        self.labels = labels

    @classmethod
    def fit(cls, config: Any, train: Sequence[Example]) -> Task:
        """Builds the vocabulary from the training split alone."""
        data = config.data
        examples = list(train)
        tokenizer = text_tokenizers.get(data.tokenizer).Tokenizer.build(
            (example["text"] for example in examples),
            vocab_size=data.vocab_size,
            lowercase=data.lowercase,
        )
        labels = LabelSet.build([example["label"]] for example in examples)
        if len(labels) < 2:
            raise UserError(
                f"the training split has {len(labels)} different labels "
                f"({', '.join(labels.names) or 'none'}): a classifier needs two or more"
            )
        return cls(config, tokenizer, labels)

    @staticmethod
    def paths(config: Any) -> dict[str, str | None]:
        """The user's files by split, for `dataset=files`."""
        data = config.data
        return {"train": data.train_path, "dev": data.eval_path, "test": data.test_path}

    @classmethod
    def load(cls, config: Any, folder: Path) -> Task:
        """Reads what `save` wrote."""
        tokenizer = text_tokenizers.get(config.data.tokenizer).Tokenizer.load(folder)
        return cls(config, tokenizer, LabelSet.load(folder))

    def save(self, folder: Path) -> None:
        """Writes everything needed to encode new text."""
        self.tokenizer.save(folder)
        self.labels.save(folder)

    def encode(
        self, example: Example, *, sample: int | None = None
    ) -> dict[str, dict[str, np.ndarray]]:
        """`tokens` has `ids` [t]; `examples` has `labels` [1].

        Args:
          example: text and label.
          sample: a seed: draws one of the text's segmentations instead of taking the likeliest.
        """
        alpha = self.config.data.subword_regularisation
        ids = self.tokenizer.encode(example["text"], sample=sample, alpha=alpha)
        label = self.labels.encode([example.get("label") or NO_LABEL])
        return {"tokens": {"ids": ids}, "examples": {"labels": label}}

    def make_model(self, rngs: nnx.Rngs) -> Classifier:
        """The model of the config, initialised."""
        model = self.config.model
        return Classifier(
            Embedding(self.tokenizer.size, model.dim, scaled=True, rngs=rngs),
            make_encoder(self.config, rngs),
            make_pooling(model.pooling, model.dim, rngs=rngs),
            len(self.labels),
            word_dropout_rate=model.word_dropout_rate,
            rngs=rngs,
        )

    def _logits(self, model: nnx.Module, batch: Any, rngs: nnx.Rngs | None) -> Array:
        tokens = batch["tokens"]
        return model(
            tokens["ids"],
            segment_ids=tokens["segment_ids"],
            positions=tokens["positions"],
            num_examples=batch["examples"]["segment_ids"].shape[1],
            rngs=rngs,
        )

    def loss(
        self, model: nnx.Module, batch: Any, *, rngs: nnx.Rngs, label_smoothing: Any
    ) -> dict[str, Sum]:
        """Sums over the labelled texts of a batch: cross-entropy in nats, and hits."""
        logits, labels = self._logits(model, batch, rngs), batch["examples"]["labels"]
        losses = token_cross_entropy(logits, labels, label_smoothing=label_smoothing)
        scored = jnp.sum(labels >= 0).astype(jnp.float32)
        hits = jnp.sum((jnp.argmax(logits, axis=-1) == labels).astype(jnp.float32))
        return {"loss": Sum(jnp.sum(losses), scored), "accuracy": Sum(hits, scored)}

    def predict(self, model: nnx.Module, batch: Any) -> dict[str, dict[str, Array]]:
        """Each text's class, the probability of that class, its loss, and the logits [b g c]."""
        logits = self._logits(model, batch, None)
        outputs = {
            "class": jnp.argmax(logits, axis=-1),
            "probability": jnp.max(jax.nn.softmax(logits, axis=-1), axis=-1),
            "loss": token_cross_entropy(logits, batch["examples"]["labels"]),
            "logits": logits,
        }
        return {"examples": outputs}

    def scoring_settings(self) -> tuple[str, ...]:
        """What besides the files decides what a score means."""
        return ("f1=macro",)

    def score(
        self, encoded: EncodedSplit, outputs: Outputs
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """Metrics and counts over all texts of a split.

        A text whose label never occurs in training counts as an error; it has no loss. F1 is the
        mean over the classes.
        """
        labels, found = encoded.flat["examples"]["labels"], outputs["examples"]
        scored, known = labels != UNLABELLED, labels >= 0
        counts: dict[str, Any] = {
            "num_eval_tokens": encoded.size("tokens"),
            "num_scored": int(scored.sum()),
            "num_unseen_labels": int(np.sum(labels == UNKNOWN_LABEL)),
        }
        if not scored.any():
            return {}, counts
        total = float(np.sum(found["loss"][known], dtype=np.float64))
        matrix = confusion_matrix(labels[known], found["class"][known], len(self.labels))
        metrics = {
            "accuracy": int(np.trace(matrix)) / int(scored.sum()),
            "f1": macro_f1(matrix),
            "loss": total / max(int(known.sum()), 1),
        }
        return metrics, counts

    def details(self, encoded: EncodedSplit, outputs: Outputs) -> dict[str, Any]:
        """What belongs in a report and not in a curve: the confusion matrix, gold class by row."""
        labels = encoded.flat["examples"]["labels"]
        known = labels >= 0
        matrix = confusion_matrix(
            labels[known], outputs["examples"]["class"][known], len(self.labels)
        )
        return {"labels": list(self.labels.names), "confusion": matrix.tolist()}

    def prediction_line(self, example: Example, outputs: Outputs) -> str:
        """`label<TAB>probability`"""
        found = outputs["examples"]
        return f"{self.labels.names[int(found['class'][0])]}\t{float(found['probability'][0]):.6f}"

    # -- new input -----------------------------------------------------------------------------

    FORMATS = ("text",)

    def read(self, paths: Sequence[Path]) -> list[Example]:
        """The examples of a user's TSV or JSONL files, one file after the other."""
        return [example for path in paths for example in read_examples(path)]

    def read_input(self, stream: IO[bytes], *, format: str) -> Iterator[Example]:
        """The texts of a stream, one a line; some may be empty."""
        for number, line in decoded_lines(stream, "stdin"):
            yield {"text": line, "label": NO_LABEL, "line": number, "file": "stdin"}

    def is_blank(self, example: Example) -> bool:
        """Whether there is nothing to label."""
        return not example["text"].strip()

    def write_output(self, example: Example, outputs: Outputs | None, *, format: str) -> str:
        """The label and its probability; `outputs` is None for an empty text."""
        if not outputs:
            return "\n"
        line = self.prediction_line(example, outputs)
        if "logits" in outputs["examples"]:
            numbers = outputs["examples"]["logits"][0]
            line += "\t" + json.dumps([round(float(x), 6) for x in numbers])
        return line + "\n"
