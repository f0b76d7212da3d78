"""Training and beam search against the `wmt` example of Flax, in turn, in one run.

    git clone https://github.com/google/flax
    python docs/results/translation/speed.py --flax_wmt=flax/examples/wmt --data=multi30k

The folder of data holds train.en, train.de, val.en, val.de, test_2016_flickr.en and .de. Both are
encoder-decoders of 2+2 layers, width 128, MLP 512, 4 heads, one vocabulary of 8,000, all embeddings
shared, dropout 0.1, Adam, 32 rows of 64 positions a side. Of Flax's example the model and the beam
search run as they are, over pairs packed in the order in which they come, as it packs them, and
prepared beforehand; loss and Adam are Optax's, and no metric is computed. Ours is what `train.py`
does, with its input pipeline and its metrics; beside it stands its compiled step alone, again and
again on one batch. Prints every round as a JSON line, then medians.
"""

import argparse
import importlib
import json
import statistics
import sys
import tempfile
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from attention import configuration
from attention.training.evaluate import plan_split
from attention.training.experiment import encode_for_evaluation, prepare
from attention.training.run_directory import RunDirectory
from attention.training.runtime import set_up_runtime

ROWS, LENGTH, BEAM, PENALTY = 32, 64, 4, 0.6
SENTENCES = 64  # decoded at once


class Speed(NamedTuple):
    """What a stretch of training or decoding did."""

    amount: int  # real tokens of both sides, or sentences
    seconds: float
    padding: float = 0.0
    tokens: int | None = None  # of the best hypotheses, each with its end


class Ours:
    """The repository's own training and prediction."""

    def __init__(self, data: str, folder: str, dtype: str) -> None:
        overrides = {
            "batch_size": ROWS,
            "data.max_length": LENGTH,
            "data.pack": "always",
            "data.vocab_size": 8000,
            "decode.beam_size": BEAM,
            "decode.length_penalty": PENALTY,
            "decode.max_length": LENGTH,
            "dtype": dtype,
            "eval_batch_size": SENTENCES,
            "label_smoothing": 0.0,
            "model.decoder_mlp_dim": 512,
            "model.dropout_rate": 0.1,
            "model.mlp_dim": 512,
            "model.num_decoder_layers": 2,
            "model.num_layers": 2,
            "optimizer.learning_rate": 2e-3,
            "optimizer.warmup_steps": 200,
        }
        for split, name in (("train", "train"), ("eval", "val"), ("test", "test_2016_flickr")):
            overrides[f"data.{split}_source_path"] = f"{data}/{name}.en"
            overrides[f"data.{split}_target_path"] = f"{data}/{name}.de"
        config = configuration.choose_implementation(
            configuration.load_config(
                "configs/translation.py:dataset=files", [(k, str(v)) for k, v in overrides.items()]
            )
        )
        set_up_runtime(config)
        run = RunDirectory(folder)
        with run.lock():
            self.x = prepare(config, run)
        self.state = self.x.parallel.place(self.x.initial_state())
        self.hyper = self.x.parallel.place(self.x.hyper)
        self.batches, self.step = self.x.iterator(), self.x.train_step()
        self.predictor = self.x.predictor()
        self.test = encode_for_evaluation(self.x.task, self.x.dataset.split("test"), config)
        self.plan = plan_split(self.test, self.x.task, config, self.x.parallel)

    def train(self, steps: int) -> Speed:
        """Takes so many steps."""
        start, tokens, metrics = time.perf_counter(), 0, None
        for _ in range(steps):
            batch = next(self.batches)
            placed = self.x.parallel.place_batch(batch)
            self.state, new = self.step(self.state, placed, self.hyper)
            if metrics is not None:
                jax.device_get(metrics)
            metrics = new
            tokens += sum(np.count_nonzero(batch[s]["segment_ids"]) for s in ("source", "target"))
        jax.block_until_ready(self.state)
        return _speed(tokens, start, steps)

    def step_alone(self, steps: int) -> Speed:
        """Takes so many steps on one batch that lies there, without input or metrics.

        They are a copy's: what is decoded by has not read one batch again and again.
        """
        batch = next(self.batches)
        state = jax.tree.map(jnp.copy, self.state)
        placed = self.x.parallel.place_batch(batch)
        jax.block_until_ready((placed, state))
        tokens = sum(np.count_nonzero(batch[s]["segment_ids"]) for s in ("source", "target"))
        start = time.perf_counter()
        for _ in range(steps):
            state, _ = self.step(state, placed, self.hyper)
        jax.block_until_ready(state)
        return _speed(tokens * steps, start, steps)

    def decode(self) -> Speed:
        """Translates the test split."""
        start = time.perf_counter()
        names = {"examples": ("hypotheses",)}
        found = self.predictor.outputs(self.state.params, self.test, self.plan, names=names)
        spent = time.perf_counter() - start
        tokens = int(np.count_nonzero(found["examples"]["hypotheses"][:, 0]))
        return Speed(len(self.test.examples), spent, tokens=tokens)


class Flax:
    """The model and the beam search of Flax's example, on the same pairs of ids."""

    def __init__(self, folder: str, ours: Ours, dtype: str) -> None:
        sys.path.insert(0, folder)
        models, self.search = importlib.import_module("models"), importlib.import_module("decode")
        size = ours.x.task.tokenizers["source"].size
        config = models.TransformerConfig(
            vocab_size=size,
            output_vocab_size=size,
            share_embeddings=True,
            logits_via_embedding=True,
            dtype=jnp.dtype(dtype),
            emb_dim=128,
            num_heads=4,
            num_layers=2,
            qkv_dim=128,
            mlp_dim=512,
            max_len=LENGTH,
            dropout_rate=0.1,
            attention_dropout_rate=0.1,
        )
        self.model = models.Transformer(config)
        self.decoder = models.Transformer(config.replace(deterministic=True, decode=True))
        self.batches = _packed(ours)
        shape = jnp.zeros((ROWS, LENGTH), jnp.int32)
        self.params = self.model.clone(config=config.replace(deterministic=True)).init(
            jax.random.key(0), shape, shape
        )["params"]
        rate = optax.schedules.warmup_cosine_decay_schedule(0.0, 2e-3, 200, 100_000)
        self.optimizer = optax.adam(rate, b1=0.9, b2=0.98, eps=1e-9)
        self.state = self.optimizer.init(self.params)
        self.taken = 0
        self.sources = _sources(ours)
        self._step = jax.jit(self._train_step, donate_argnums=(0, 1))
        self._decode = jax.jit(self._translate)

    def _train_step(self, params, state, batch, key):
        source, target = batch["source"], batch["target"]

        def loss(params):
            logits = self.model.apply(
                {"params": params},
                source["ids"],
                target["ids"],
                source["positions"],
                target["positions"],
                source["segment_ids"],
                target["segment_ids"],
                rngs={"dropout": key},
            )
            each = optax.softmax_cross_entropy_with_integer_labels(logits, target["ids"])
            real = target["ids"] > 0
            return jnp.sum(each * real) / jnp.sum(real)

        updates, state = self.optimizer.update(jax.grad(loss)(params), state)
        return optax.apply_updates(params, updates), state

    def train(self, steps: int) -> Speed:
        """Takes so many steps."""
        start, tokens = time.perf_counter(), 0
        for _ in range(steps):
            batch = self.batches[self.taken % len(self.batches)]
            key = jax.random.fold_in(jax.random.key(1), self.taken)
            self.params, self.state = self._step(self.params, self.state, batch, key)
            tokens += sum(np.count_nonzero(batch[s]["ids"]) for s in ("source", "target"))
            self.taken += 1
        jax.block_until_ready(self.params)
        return _speed(tokens, start, steps)

    def _translate(self, params, source):
        module, search = self.decoder, self.search
        shape = jnp.zeros((source.shape[0], LENGTH), jnp.int32)
        fresh = jax.eval_shape(module.init, jax.random.key(0), shape, shape)["cache"]
        cache = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), fresh)
        encoded = module.apply({"params": params}, source, method=module.encode)
        encoded = search.flat_batch_beam_expand(encoded, BEAM)
        raw = search.flat_batch_beam_expand(source, BEAM)

        def logits_of(ids, cache):
            variables = {"params": params, "cache": cache}
            logits, new = module.apply(
                variables, encoded, raw, ids, mutable=["cache"], method=module.decode
            )
            return logits.squeeze(axis=1), new["cache"]

        found, _ = search.beam_search(
            source, cache, logits_of, beam_size=BEAM, alpha=PENALTY, eos_id=3, max_decode_len=LENGTH
        )
        return found[:, -1]

    def decode(self) -> Speed:
        """Translates the test split, in the order of the file, as the example does."""
        start = time.perf_counter()
        for batch in self.sources:
            jax.device_get(self._decode(self.params, batch))
        return Speed(sum(len(batch) for batch in self.sources), time.perf_counter() - start)


def _speed(tokens: int, start: float, steps: int) -> Speed:
    positions = max(steps, 1) * 2 * ROWS * LENGTH
    return Speed(int(tokens), time.perf_counter() - start, 1 - tokens / positions)


def _packed(ours: Ours) -> list[dict]:
    """Batches of pairs that follow each other in a shuffled order; a row ends where one side of the
    next pair does not fit."""
    split, names = ours.x.train, (("source", "ids"), ("target", "labels"))
    rows, row = [], {side: ([], [], []) for side, _ in names}
    number = 0
    for index in np.random.default_rng(0).permutation(len(split.item_lengths)):
        item = split.item(int(index))
        pair = {side: np.asarray(item[side][name]) for side, name in names}
        if any(len(row[side][0]) + len(ids) > LENGTH for side, ids in pair.items()):
            rows.append(row)
            row, number = {side: ([], [], []) for side, _ in names}, 0
        number += 1
        for side, ids in pair.items():
            new_entries = (ids, [number] * len(ids), range(len(ids)))
            for kept, new in zip(row[side], new_entries, strict=True):
                kept.extend(new)
    batches = []
    for start in range(0, len(rows) - ROWS, ROWS):
        batch = {}
        for side, _ in names:
            arrays = np.zeros((3, ROWS, LENGTH), np.int32)
            for where, kept in enumerate(rows[start : start + ROWS]):
                for kind in range(3):
                    arrays[kind, where, : len(kept[side][kind])] = kept[side][kind]
            batch[side] = dict(zip(("ids", "segment_ids", "positions"), arrays, strict=True))
        batches.append(batch)
    return batches


def _sources(ours: Ours) -> list[np.ndarray]:
    """The sources of the test split, so many a batch, each filled to the full length."""
    ids = []
    for index in range(len(ours.test.examples)):
        one = np.asarray(ours.test.item(index)["source"]["ids"])
        ids.append(np.pad(one, (0, LENGTH - len(one))))
    return [np.stack(ids[at : at + SENTENCES]) for at in range(0, len(ids), SENTENCES)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flax_wmt", required=True, metavar="FOLDER")
    parser.add_argument("--data", required=True, metavar="FOLDER")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--steps", type=int, default=40, help="of training, each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trained", type=int, default=400, help="steps before decoding")
    arguments = parser.parse_args()
    for dtype in arguments.dtypes.split(","):
        with tempfile.TemporaryDirectory() as folder:
            ours = Ours(arguments.data, folder, dtype)
            measure(ours, Flax(arguments.flax_wmt, ours, dtype), dtype, arguments)


def measure(ours: Ours, flax: Flax, dtype: str, arguments: argparse.Namespace) -> None:
    """Training, ours beside its compiled step alone, then decoding by what was trained."""
    both = {"ours": ours, "flax": flax}
    for one in both.values():
        one.train(3)
    rates: dict[tuple[str, str], list[float]] = {}

    def note(what: str, of: str, number: int, speed: Speed) -> None:
        rates.setdefault((what, of), []).append(speed.amount / speed.seconds)
        row = {"dtype": dtype, "what": what, "round": number, "of": of}
        rate = speed.amount / speed.seconds
        print(json.dumps({**row, **speed._asdict(), "rate": rate}), flush=True)

    for number in range(arguments.rounds):
        for name, one in both.items():
            note("train", name, number, one.train(arguments.steps))
        note("step alone", "ours", number, ours.step_alone(arguments.steps))
    done = 3 + arguments.steps * arguments.rounds
    for one in both.values():
        one.train(max(arguments.trained - done, 0))
        one.decode()
    for number in range(max(arguments.rounds // 2, 1)):
        for name, one in both.items():
            note("decode", name, number, one.decode())
    for (what, of), each in rates.items():
        print(f"{dtype} {what}: {of} {statistics.median(each):.0f} a second", flush=True)


if __name__ == "__main__":
    main()
