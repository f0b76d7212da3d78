"""Translation: a text in another language (text in, text out)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array

from attention.assembly import make_sequence_to_sequence
from attention.data.conllu import decoded_lines
from attention.data.encoded import EncodedSplit
from attention.data.streams import Encoded, Stream
from attention.data.tokenizers import text as text_tokenizers
from attention.data.tokenizers.labels import UNLABELLED
from attention.data.tokenizers.special import BOS, EOS, PAD
from attention.data.translation import read_examples
from attention.decoding.searching import Search, search
from attention.errors import UserError
from attention.losses import Sum, token_cross_entropy, token_sums
from attention.metrics.translation import Scores, score_translations, tokenizer_for
from attention.models.token_loss import token_loss

Example = Mapping[str, Any]
Batch = Mapping[str, Mapping[str, Array]]
Outputs = Mapping[str, Mapping[str, np.ndarray]]
SIDES = ("source", "target")
SHARED = "tokenizer"


class Task:
    """A translator: source subwords -> encoder -> decoder -> target subwords, one by one.

    Args:
      config: the run's config.
      tokenizers: of source and target, fitted on the training split or loaded from a run; the same
        object twice where they share a vocabulary.
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
        "examples": ("hypothesis",),
    }
    ANSWERED: ClassVar[Mapping[str, tuple[str, ...]]] = {"examples": ("hypothesis",)}
    LOGITS: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __init__(self, config: Any, tokenizers: Mapping[str, Any]) -> None:
        self.config = config
        self.tokenizers = tokenizers

    @classmethod
    def fit(cls, config: Any, train: Sequence[Example]) -> Task:
        """Builds the vocabularies from the training split alone."""
        data = config.data

        def build(*sides: str) -> Any:
            return text_tokenizers.get(data.tokenizer).Tokenizer.build(
                (example[side] for side in sides for example in train),
                vocab_size=data.vocab_size,
                lowercase=data.lowercase,
            )

        if data.shared_vocabulary:
            return cls(config, dict.fromkeys(SIDES, build(*SIDES)))
        return cls(config, {side: build(side) for side in SIDES})

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
        """Reads what `save` wrote."""
        kind = text_tokenizers.get(config.data.tokenizer).Tokenizer
        if config.data.shared_vocabulary:
            return cls(config, dict.fromkeys(SIDES, kind.load(folder, stem=SHARED)))
        return cls(config, {side: kind.load(folder, stem=side) for side in SIDES})

    def save(self, folder: Path) -> None:
        """Writes everything needed to encode new text."""
        if self.config.data.shared_vocabulary:
            self.tokenizers["source"].save(folder, stem=SHARED)
            return
        for side, tokenizer in self.tokenizers.items():
            tokenizer.save(folder, stem=side)

    def encode(self, example: Example, *, sample: int | None = None) -> Encoded:
        """`source` has `ids` and an EOS; `target` has `inputs` behind a BOS, and `labels`.

        Args:
          example: source and target.
          sample: a seed: draws segmentations of both instead of taking the likeliest.
        """
        alpha = self.config.data.get("subword_regularisation", 0.0)
        ids = {
            side: self.tokenizers[side].encode(example[side], sample=sample, alpha=alpha)
            for side in SIDES
        }
        source = np.append(ids["source"], np.int32(EOS))
        inputs = np.concatenate([[BOS], ids["target"]]).astype(np.int32)
        labels = np.append(ids["target"], np.int32(EOS))
        return {"source": {"ids": source}, "target": {"inputs": inputs, "labels": labels}}

    def make_model(self, rngs: nnx.Rngs) -> nnx.Module:
        """The model of the config, initialised."""
        sizes = {f"{side}_size": self.tokenizers[side].size for side in SIDES}
        return make_sequence_to_sequence(self.config, rngs=rngs, end_id=EOS, **sizes)

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
        """Of each target token the likeliest class and the loss; of each source a hypothesis."""
        logits = model(*_ids(batch), **_places(batch))
        source = batch["source"]
        found = search(
            model,
            source["ids"],
            segment_ids=source["segment_ids"],
            positions=source["positions"],
            how=self.search_settings(),
        )
        tokens = {
            "class": jnp.argmax(logits, axis=-1),
            "loss": token_cross_entropy(logits, batch["target"]["labels"]),
        }
        return {"target": tokens, "examples": {"hypothesis": found.tokens}}

    def search_settings(self) -> Search:
        """How `predict` searches."""
        decode = self.config.decode
        return Search(
            bos=BOS,
            eos=EOS,
            pad=PAD,
            max_length=decode.max_length,
            beam_size=decode.beam_size,
            length_penalty=decode.length_penalty,
            use_cache=decode.use_cache,
        )

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
        scores = self._scores(hypotheses, references)
        metrics = {
            "bleu": scores.bleu,
            "chrf": scores.chrf,
            "loss": float(np.mean(tokens["loss"], dtype=np.float64)),
            "accuracy": float(np.mean(tokens["class"] == labels)),
        }
        return metrics, counts

    def details(self, encoded: EncodedSplit, outputs: Outputs) -> dict[str, Any]:
        """sacreBLEU's words for how the scores were computed."""
        hypotheses, references = self._lines(encoded, outputs)
        if not any(text.strip() for text in references):
            return {}
        scores = self._scores(hypotheses, references)
        return {"bleu_signature": scores.bleu_signature, "chrf_signature": scores.chrf_signature}

    def prediction_line(self, example: Example, outputs: Outputs) -> str:
        """The translation."""
        return self._text(example, outputs["examples"]["hypothesis"][0])

    def reference_line(self, example: Example) -> str:
        """What it is compared with."""
        return example["target"]

    def _scores(self, hypotheses: list[str], references: list[str]) -> Scores:
        return score_translations(
            hypotheses,
            references,
            tokenize=self._bleu_tokenizer(),
            lowercase=self.config.score.lowercase,
        )

    def _bleu_tokenizer(self) -> str:
        chosen = self.config.score.tokenizer
        language = self.config.data.target_language or ""
        return tokenizer_for(language) if chosen == "auto" else chosen

    def _lines(self, encoded: EncodedSplit, outputs: Outputs) -> tuple[list[str], list[str]]:
        """The hypotheses and the references of a split."""
        pairs = zip(encoded.examples, outputs["examples"]["hypothesis"], strict=True)
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

    def is_blank(self, example: Example) -> bool:
        """Whether there is nothing to translate."""
        return not example["source"].strip()

    def write_output(self, example: Example, outputs: Outputs | None, *, format: str) -> str:
        """The translation; `outputs` is None for an empty text."""
        return (self.prediction_line(example, outputs) if outputs else "") + "\n"


def _ids(batch: Batch) -> tuple[Array, Array]:
    return batch["source"]["ids"], batch["target"]["inputs"]


def _places(batch: Batch) -> dict[str, Array]:
    return {
        f"{side}_{what}": batch[side][what]
        for side in SIDES
        for what in ("segment_ids", "positions")
    }
