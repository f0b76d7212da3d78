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
from jaxtyping import Array, Int

from attention.assembly import make_encoder
from attention.data.encoded import EncodedSplit
from attention.data.sentiment import read_examples
from attention.data.streams import Encoded, Stream
from attention.data.text_files import decoded_lines
from attention.data.tokenizers import text as text_tokenizers
from attention.data.tokenizers.labels import NO_LABEL, UNKNOWN_LABEL, UNLABELLED, LabelSet
from attention.errors import UserError
from attention.losses import Sum, token_cross_entropy, token_sums
from attention.metrics.classification import confusion_matrix, macro_f1
from attention.models.classifier import Classifier
from attention.models.embedding import Embedding
from attention.models.pooling import make_pooling

Example = Mapping[str, Any]
Batch = Mapping[str, Mapping[str, Array]]  # by stream and name
Outputs = Mapping[str, Mapping[str, np.ndarray]]  # likewise


class Task:
    """A classifier: subwords -> Transformer encoder -> pooling -> one class for each text.

    Args:
      config: the run's config.
      tokenizer, labels: fitted on the training split or loaded from a run.
    """

    METRICS = ("accuracy", "f1", "loss")  # "best" is the first, on dev; higher is better
    STREAMS = (Stream("tokens"), Stream("examples", {"labels": UNLABELLED}, one_each=True))
    UNIT = "tokens"  # what a length is counted in
    PIECES = False  # half a text has not half a label
    PACKS_EVALUATION = True
    # Outputs by stream: what `score` reads, what an answer to new input is made of, its numbers.
    SCORED: ClassVar[Mapping[str, tuple[str, ...]]] = {"examples": ("class", "loss")}
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
        labels = LabelSet.build([_label(example)] for example in examples)
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

    @staticmethod
    def options(config: Any) -> dict[str, Any]:
        """What the data set is asked for: nothing."""
        return {}

    @classmethod
    def load(cls, config: Any, folder: Path) -> Task:
        """Reads what `save` wrote."""
        tokenizer = text_tokenizers.get(config.data.tokenizer).Tokenizer.load(folder)
        return cls(config, tokenizer, LabelSet.load(folder))

    def save(self, folder: Path) -> None:
        """Writes everything needed to encode new text."""
        self.tokenizer.save(folder)
        self.labels.save(folder)

    def encode(self, example: Example, *, sample: int | None = None) -> Encoded:
        """`tokens` has `ids` [t], none of a blank text; `examples` has `labels` [1].

        Args:
          example: text and label.
          sample: a seed: draws one of the text's segmentations instead of taking the likeliest.
        """
        alpha = self.config.data.subword_regularisation
        ids = self.tokenizer.encode(example["text"], sample=sample, alpha=alpha)
        labels = self.labels.encode([_label(example)])
        return {"tokens": {"ids": ids}, "examples": {"labels": labels}}

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

    def _logits(self, model: nnx.Module, batch: Batch, rngs: nnx.Rngs | None) -> Array:
        tokens = batch["tokens"]
        return model(
            tokens["ids"],
            segment_ids=tokens["segment_ids"],
            positions=tokens["positions"],
            num_examples=batch["examples"]["segment_ids"].shape[1],
            rngs=rngs,
        )

    def loss(
        self, model: nnx.Module, batch: Batch, *, rngs: nnx.Rngs, label_smoothing: Any
    ) -> dict[str, Sum]:
        """Sums over the labelled texts of a batch: cross-entropy in nats, and hits."""
        logits, labels = self._logits(model, batch, rngs), batch["examples"]["labels"]
        return token_sums(logits, labels, label_smoothing=label_smoothing)

    def predict(self, model: nnx.Module, batch: Batch) -> dict[str, dict[str, Array]]:
        """Each text's class, the class's probability, the loss [b g], and the logits [b g c]."""
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

    def _confusion(self, encoded: EncodedSplit, outputs: Outputs) -> Int[np.ndarray, "c+1 c+1"]:
        """Labelled texts by gold class (row) and predicted class.

        The last class stands for all labels that training never saw: it is never predicted.
        """
        labels, unseen = encoded.flat["examples"]["labels"], len(self.labels)
        scored = labels != UNLABELLED
        classes = np.where(labels == UNKNOWN_LABEL, unseen, labels)
        return confusion_matrix(classes[scored], outputs["examples"]["class"][scored], unseen + 1)

    def score(
        self, encoded: EncodedSplit, outputs: Outputs
    ) -> tuple[dict[str, float], dict[str, int]]:
        """Metrics and counts over all texts of a split, blank ones included.

        F1 is the mean over the classes that occur or are predicted (`macro_f1`). A text whose
        label never occurs in training counts as an error in both scores; it has no loss.
        """
        matrix = self._confusion(encoded, outputs)
        known = encoded.flat["examples"]["labels"] >= 0
        counts = {
            "num_eval_tokens": encoded.size("tokens"),
            "num_scored": int(matrix.sum()),
            "num_unseen_labels": int(matrix[-1].sum()),
        }
        if not counts["num_scored"]:
            return {}, counts
        # Over texts in file order and in float64: the same whatever the batches were.
        total = float(np.sum(outputs["examples"]["loss"][known], dtype=np.float64))
        metrics = {
            "accuracy": int(np.trace(matrix)) / counts["num_scored"],
            "f1": macro_f1(matrix),
            "loss": total / max(int(known.sum()), 1),
        }
        return metrics, counts

    def details(self, encoded: EncodedSplit, outputs: Outputs) -> dict[str, Any]:
        """The confusion matrix: how often each label (row) was taken for each (column).

        `unseen_confusion` says what texts were taken for whose labels training never saw.
        """
        matrix = self._confusion(encoded, outputs).tolist()
        if not any(map(any, matrix)):
            return {}
        *known, unseen = [row[:-1] for row in matrix]
        found = {"labels": list(self.labels.names), "confusion": known}
        return {**found, "unseen_confusion": unseen} if any(unseen) else found

    def _answer(self, outputs: Outputs) -> str:
        return _one_line(self.labels.names[int(outputs["examples"]["class"][0])])

    def prediction_line(self, example: Example, outputs: Outputs) -> str:
        """`label<TAB>text`: a probability would differ in its last digit with the batch size."""
        return f"{self._answer(outputs)}\t{_one_line(example['text'])}"

    def reference_line(self, example: Example) -> str:
        """What it is compared with: the same text with its true label, "_" where there is none."""
        return f"{_one_line(_label(example))}\t{_one_line(example['text'])}"

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
        """`label<TAB>probability`, with the logits behind it; an empty line for a blank text."""
        if not outputs:
            return "\n"
        found = outputs["examples"]
        line = f"{self._answer(outputs)}\t{float(found['probability'][0]):.6f}"
        if "logits" in found:
            line += "\t" + json.dumps([round(float(x), 6) for x in found["logits"][0]])
        return line + "\n"


def _label(example: Example) -> str:
    return example.get("label") or NO_LABEL


def _one_line(text: str) -> str:
    """The text without tabs and line ends, which JSON lets in."""
    return " ".join(text.split())
