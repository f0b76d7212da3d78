"""Translation: a text in another language (text in, text out)."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array

from attention.assembly import make_sequence_to_sequence
from attention.data.dataset import Direction
from attention.data.encoded import EncodedSplit
from attention.data.streams import Encoded, Stream
from attention.data.text_files import decoded_lines
from attention.data.tokenizers import sides
from attention.data.tokenizers.labels import UNLABELLED
from attention.data.tokenizers.sealed import read_sealed, write_sealed
from attention.data.tokenizers.sides import SIDES
from attention.data.tokenizers.special import BOS, EOS, PAD
from attention.data.translation import read_examples
from attention.decoding.alignment import align
from attention.decoding.answers import Answers, alignment_columns
from attention.decoding.sampling import keys_of
from attention.decoding.searching import Search, check_how, search, search_of
from attention.errors import UserError
from attention.losses import Sum, token_cross_entropy, token_sums
from attention.metrics.translation import score_translations, signatures, tokenizer_for
from attention.models.token_loss import token_loss

Example = Mapping[str, Any]
Batch = Mapping[str, Mapping[str, Array]]
Outputs = Mapping[str, Mapping[str, np.ndarray]]

log = logging.getLogger(__name__)

DIRECTION_FILE = "direction.json"  # beside the vocabulary


class Task:
    """A translator: source subwords -> encoder -> decoder -> target subwords, one by one.

    Args:
      config: the run's config.
      tokenizers: of source and target, fitted on the training split or loaded from a run; the same
        object twice where they share a vocabulary.
      direction: the languages, where the data set said them; None: those of the config, if any.
    """

    METRICS = ("bleu", "chrf", "loss", "accuracy")  # "best" is the first, on dev
    STREAMS = (
        Stream("source"),
        Stream("target", {"labels": UNLABELLED}),
        Stream("examples", one_each=True),
    )
    UNIT = "tokens"
    PIECES = False
    PACKS_EVALUATION = False  # a search has one source a row
    SCORED: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "target": ("class", "loss"),
        "examples": ("hypotheses",),
    }
    LOGITS: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __init__(
        self, config: Any, tokenizers: Mapping[str, Any], direction: Direction | None = None
    ) -> None:
        self.config = config
        self.tokenizers = tokenizers
        self.direction = direction
        self.answers = Answers()

    @classmethod
    def fit(cls, config: Any, train: Sequence[Example]) -> Task:
        """Builds the vocabularies from the training split alone."""
        if config.data.lowercase and not config.score.lowercase:
            log.warning(
                "data.lowercase=true makes hypotheses of small letters, and score.lowercase=false "
                "compares them with references as they are written: each capital is an error, in "
                "the choice of the best checkpoint too; set score.lowercase=true to score without"
            )
        return cls(config, sides.build(config.data, train))

    @staticmethod
    def paths(config: Any) -> dict[str, str | None]:
        """The user's files by split and side, for `dataset=files`."""
        names = {"train": "train", "dev": "eval", "test": "test"}
        return {
            f"{split}_{side}": config.data[f"{name}_{side}_path"]
            for split, name in names.items()
            for side in SIDES
        }

    @staticmethod
    def options(config: Any) -> dict[str, Any]:
        """What the data set is asked for: the languages."""
        return {key: config.data[key] for key in ("source_language", "target_language")}

    @classmethod
    def load(cls, config: Any, folder: Path) -> Task:
        """Reads what `save` wrote; a run from before the direction was kept has none."""
        path = folder / DIRECTION_FILE
        direction = Direction(**read_sealed(path)) if path.exists() else None
        return cls(config, sides.load(config.data, folder), direction)

    def save(self, folder: Path) -> None:
        """Writes everything needed to encode new text and to score it."""
        sides.save(self.tokenizers, folder, shared=self.config.data.shared_vocabulary)
        if self.direction is not None:
            write_sealed(folder / DIRECTION_FILE, self.direction._asdict())

    def encode(self, example: Example, *, sample: int | None = None) -> Encoded:
        """What `sides.encode_pair` gives of both sides.

        `examples` has the `line`, where hypotheses are drawn: by it two of one text differ.

        Args:
          example: source and target.
          sample: a seed: draws segmentations of both instead of taking the likeliest.
        """
        alpha = self.config.data.get("subword_regularisation", 0.0)
        arrays = sides.encode_pair(self.tokenizers, example, sample=sample, alpha=alpha)
        if not self.search_settings().temperature:
            return arrays
        return {**arrays, "examples": {"line": np.array([example["line"]], np.int32)}}

    def make_model(self, rngs: nnx.Rngs) -> nnx.Module:
        """The model of the config, initialised; refuses also a search or scores that cannot be."""
        how = self.search_settings()
        check_how(how)
        signatures(**self._scoring())
        sizes = {f"{side}_size": self.tokenizers[side].size for side in SIDES}
        model: Any = make_sequence_to_sequence(self.config, rngs=rngs, end_id=EOS, **sizes)
        model.check_length(how.max_length)
        return model

    def loss(
        self, model: Any, batch: Batch, *, rngs: nnx.Rngs, label_smoothing: Any
    ) -> dict[str, Sum]:
        """Sums over the target tokens of a batch: cross-entropy in nats, and hits."""
        labels = batch["target"]["labels"]
        if getattr(model, "pointer", None) is None:
            states = model.states(*_ids(batch), **_places(batch), rngs=rngs)
            table = model.output_embed.embedding[...]
            count = jnp.sum(labels >= 0).astype(jnp.float32)
            sums = token_loss(states, table, labels, label_smoothing=label_smoothing)
            return {"loss": Sum(sums.loss, count), "accuracy": Sum(sums.correct, count)}
        logits = model(*_ids(batch), **_places(batch), rngs=rngs)
        return token_sums(logits, labels, label_smoothing=label_smoothing)

    def predict(self, model: Any, batch: Batch) -> dict[str, dict[str, Array]]:
        """Of each target token the likeliest class and the loss; of each source its hypotheses.

        These are [b 1 m t], since an example has one entry, and m is 1 unless `answers` says more;
        with a score each, and where asked for the source token that each token came from.
        """
        logits = model(*_ids(batch), **_places(batch))
        source, how = batch["source"], self.search_settings()
        found = search(
            model,
            source["ids"],
            segment_ids=source["segment_ids"],
            positions=source["positions"],
            how=how,
            keys=keys_of(batch["examples"]["line"][:, 0], how.seed) if how.temperature else None,
        )
        tokens = {
            "class": jnp.argmax(logits, axis=-1),
            "loss": token_cross_entropy(logits, batch["target"]["labels"]),
        }
        examples = {"hypotheses": found.tokens, "scores": found.scores}
        if self.answers.alignments:
            examples["alignments"] = align(
                model, source["ids"], found.tokens, segment_ids=source["segment_ids"], how=how
            )
        one_each = {name: array[:, None] for name, array in examples.items()}
        return {"target": tokens, "examples": one_each}

    def search_settings(self) -> Search:
        """How `predict` searches, or draws."""
        special = {"bos": BOS, "eos": EOS, "pad": PAD}
        return search_of(self.config.decode, num_best=self.answers.num_best or 1, **special)

    def scoring_settings(self) -> tuple[str, ...]:
        """What besides the files decides what a score means."""
        score = self.config.score
        return (f"tokenizer={self._bleu_tokenizer()}", f"lowercase={score.lowercase}")

    def score(
        self, encoded: EncodedSplit, outputs: Outputs
    ) -> tuple[dict[str, float], dict[str, int]]:
        """Metrics and counts over all lines of a split.

        BLEU and chrF compare the text of the hypotheses with the whole references, blank ones
        included; loss and accuracy are those of each token after the true ones before it, EOS
        counted.
        """
        labels, tokens = encoded.flat["target"]["labels"], outputs["target"]
        hypotheses, references = self._lines(encoded, outputs)
        counts = {
            "num_eval_tokens": len(labels),
            "num_empty_references": sum(not text.strip() for text in references),
            "num_empty_hypotheses": sum(not text.strip() for text in hypotheses),
        }
        if counts["num_empty_references"] == len(references):
            return {}, counts
        scores = score_translations(hypotheses, references, **self._scoring())
        metrics = {
            "bleu": scores.bleu,
            "chrf": scores.chrf,
            "loss": float(np.mean(tokens["loss"], dtype=np.float64)),
            "accuracy": float(np.mean(tokens["class"] == labels)),
        }
        return metrics, counts

    def details(self, encoded: EncodedSplit, outputs: Outputs) -> dict[str, Any]:
        """sacreBLEU's words for how the scores were computed."""
        if not any(example["target"].strip() for example in encoded.examples):
            return {}
        how = signatures(**self._scoring())
        return {"bleu_signature": how.bleu, "chrf_signature": how.chrf}

    def prediction_line(self, example: Example, outputs: Outputs) -> str:
        """The translation."""
        return self._text(example, outputs["examples"]["hypotheses"][0, 0])

    def reference_line(self, example: Example) -> str:
        """What it is compared with, on one line, which BLEU and chrF do not see."""
        return " ".join(example["target"].splitlines())

    def _scoring(self) -> dict[str, Any]:
        return {"tokenize": self._bleu_tokenizer(), "lowercase": self.config.score.lowercase}

    def _bleu_tokenizer(self) -> str:
        chosen = self.config.score.tokenizer
        if chosen != "auto":
            return chosen
        known = self.direction
        return tokenizer_for(known.target if known else self.config.data.target_language or "")

    def _lines(self, encoded: EncodedSplit, outputs: Outputs) -> tuple[list[str], list[str]]:
        """The hypotheses and the references of a split."""
        pairs = zip(encoded.examples, outputs["examples"]["hypotheses"][:, 0], strict=True)
        hypotheses = [self._text(example, ids) for example, ids in pairs]
        return hypotheses, [example["target"] for example in encoded.examples]

    def _text(self, example: Example, ids: np.ndarray) -> str:
        if not example["source"].strip():
            return ""
        # One line an answer, whatever bytes or characters were produced.
        return " ".join(self.tokenizers["target"].decode(ids.tolist()).split())

    # -- new input -----------------------------------------------------------------------------

    FORMATS = ("text",)

    def read(self, paths: Sequence[Path]) -> list[Example]:
        """The lines of a file of sources, and of one of references if there are two."""
        if len(paths) > 2:
            raise UserError(
                f"--data takes a file of sources and one of references, not {len(paths)}"
            )
        return [*read_examples(*paths)]

    def read_input(self, stream: IO[bytes], *, format: str) -> Iterator[Example]:
        """The texts of a stream, one a line; some may be empty."""
        for number, line in decoded_lines(stream, "stdin"):
            yield {"source": line, "target": "", "line": number, "file": "stdin"}

    @property
    def ANSWERED(self) -> Mapping[str, tuple[str, ...]]:
        return {"examples": self.answers.outputs}

    def asked_for(self, *, num_best: int | None, alignments: bool) -> Task:
        """Returns a task that answers with `Answers`; raises UserError where it cannot."""
        answers = Answers(num_best, alignments)
        answers.check(self.search_settings(), attends="cross_attention" in self.config.model)
        task = copy.copy(self)
        task.answers = answers
        return task

    def is_blank(self, example: Example) -> bool:
        """Whether there is nothing to translate."""
        return not example["source"].strip()

    def write_output(self, example: Example, outputs: Outputs | None, *, format: str) -> str:
        """The translation, or what `answers` says; `outputs` is None for an empty text."""
        if outputs is None:
            return self.answers.written(example["line"], [""], [0.0])
        found = outputs["examples"]
        hypotheses = found["hypotheses"][0]
        texts = [self._text(example, ids) for ids in hypotheses]
        if self.answers.alignments:
            places = found["alignments"][0]
            texts = [
                "\t".join([text, *self._alignment(example, *of)])
                for text, *of in zip(texts, hypotheses, places, strict=True)
            ]
        return self.answers.written(example["line"], texts, found["scores"][0])

    def _alignment(self, example: Example, ids: np.ndarray, places: np.ndarray) -> list[str]:
        """Pairs of places, and the pieces that are counted."""
        source = self.encode(example)["source"]["ids"][: self.config.data.max_length]
        return alignment_columns(places, *sides.pieces(self.tokenizers, source, ids))


def _ids(batch: Batch) -> tuple[Array, Array]:
    return batch["source"]["ids"], batch["target"]["inputs"]


def _places(batch: Batch) -> dict[str, Array]:
    return {
        f"{side}_{what}": batch[side][what]
        for side in SIDES
        for what in ("segment_ids", "positions")
    }
