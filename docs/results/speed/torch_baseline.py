"""The same training step in PyTorch: nn.TransformerEncoder and AdamW on the sentences of a file.

    pip install torch
    python docs/results/speed/torch_baseline.py --data=train.conllu --batching=sorted --steps=8

One JSON object: real tokens a second (padding is not counted) over the steps after the warm-up.
`random` pads each batch of sentences to its longest, as they come after a shuffle; `sorted` makes
batches of similar length, which wastes least. A batch holds `--positions` positions at most.
"""

import argparse
import json
import random
import time

import torch
from torch import nn

DIM, LAYERS, HEADS, MLP, TAGS = 512, 6, 8, 2048, 17
LONGEST = 256


def read_words(path: str) -> list[list[str]]:
    sentences, words = [], []
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            columns = line.split("\t")
            if len(columns) == 10 and columns[0].isdigit():
                words.append(columns[1])
            elif not line.strip() and words:
                sentences.append(words[:LONGEST])
                words = []
    return [*sentences, words] if words else sentences


def batches(sentences: list[list[int]], *, positions: int, in_order_of_length: bool, seed: int):
    """Lists of sentences; sentences × longest stays within `positions`."""
    generator = random.Random(seed)
    sentences = list(sentences)
    generator.shuffle(sentences)
    if in_order_of_length:
        sentences.sort(key=len)
    made, batch, longest = [], [], 0
    for sentence in sentences:
        if batch and (len(batch) + 1) * max(longest, len(sentence)) > positions:
            made.append(batch)
            batch, longest = [], 0
        batch.append(sentence)
        longest = max(longest, len(sentence))
    made.append(batch)
    generator.shuffle(made)
    return made


def padded(batch: list[list[int]]) -> torch.Tensor:
    return nn.utils.rnn.pad_sequence([torch.tensor(s) for s in batch], batch_first=True)


class Tagger(nn.Module):
    def __init__(self, num_words: int, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(num_words, DIM, padding_idx=0)
        self.places = nn.Parameter(torch.zeros(LONGEST, DIM))
        layer = nn.TransformerEncoderLayer(
            DIM, HEADS, MLP, dropout, "gelu", batch_first=True, norm_first=True
        )
        norm = nn.LayerNorm(DIM)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, norm, enable_nested_tensor=False)
        self.head = nn.Linear(DIM, TAGS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words) + self.places[: words.shape[1]]
        return self.head(self.encoder(x, src_key_padding_mask=words == 0)).float()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, metavar="FILE")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--batching", default="sorted", choices=["random", "sorted"])
    parser.add_argument("--positions", type=int, default=64 * 256)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)

    text = read_words(arguments.data)
    ids = {word: i for i, word in enumerate(sorted({w for s in text for w in s}), start=1)}
    sentences = [[ids[word] for word in sentence] for sentence in text]
    made = batches(
        sentences,
        positions=arguments.positions,
        in_order_of_length=arguments.batching == "sorted",
        seed=arguments.seed,
    )
    model = Tagger(len(ids) + 1, arguments.dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    low = arguments.dtype == "bfloat16"
    seconds = tokens = positions = 0.0
    for step, batch in enumerate(made[: arguments.steps + arguments.warmup]):
        words = padded(batch)
        tags = words % TAGS
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            logits = model(words)
        loss = nn.functional.cross_entropy(logits[words != 0], tags[words != 0])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        if step >= arguments.warmup:
            seconds += time.perf_counter() - start
            tokens += int((words != 0).sum())
            positions += words.numel()
    print(
        json.dumps(
            {
                "real_tokens_per_second": tokens / seconds,
                "padding_fraction": 1 - tokens / positions,
                "seconds_per_step": seconds / arguments.steps,
                "batching": arguments.batching,
                "dtype": arguments.dtype,
                "torch": torch.__version__,
            }
        )
    )


if __name__ == "__main__":
    main()
