"""NLTK's averaged perceptron tagger on CoNLL-U files: what a user would otherwise pick.

    pip install nltk
    python docs/results/quality/perceptron_baseline.py --train=train.conllu --dev=dev.conllu

Prints one JSON object: accuracy over the words of the dev file, and the seconds of training. NLTK
shuffles between passes; `--seed` seeds it.
"""

import argparse
import json
import random
import time

from nltk.tag.perceptron import PerceptronTagger


def read(path: str) -> list[list[tuple[str, str]]]:
    """Sentences of (form, UPOS); ranges and empty nodes are left out."""
    sentences, sentence = [], []
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            columns = line.rstrip("\n").split("\t")
            if len(columns) == 10 and columns[0].isdigit():
                sentence.append((columns[1], columns[3]))
            elif not line.strip() and sentence:
                sentences.append(sentence)
                sentence = []
    return [*sentences, sentence] if sentence else sentences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", required=True)
    parser.add_argument("--dev", required=True)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    tagger = PerceptronTagger(load=False)
    start = time.perf_counter()
    tagger.train(read(arguments.train), nr_iter=arguments.passes)
    seconds = time.perf_counter() - start
    right = total = 0
    for sentence in read(arguments.dev):
        guessed = tagger.tag([form for form, _ in sentence])
        right += sum(g == t for (_, g), (_, t) in zip(guessed, sentence, strict=True))
        total += len(sentence)
    print(json.dumps({"accuracy": right / total, "words": total, "train_seconds": seconds}))


if __name__ == "__main__":
    main()
