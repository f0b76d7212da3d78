"""Multi30k as papers train and score on it: lower-cased, punctuation normalised, tokenised.

    pip install sacremoses
    python docs/results/translation/published_text.py multi30k multi30k_tokenised

The data set comes with such files (task1/tok/*.lc.norm.tok.*), by the scripts of Moses; these are
made from its raw text by sacremoses, in the same order. The German side of test_2016_flickr has
12,103 tokens, the length of references that the published figure gives. Set `score.tokenizer=none`
for them.
"""

import argparse
from pathlib import Path

from sacremoses import MosesPunctNormalizer, MosesTokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("raw", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for language in ("en", "de"):
        normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
        for split in ("train", "val", "test_2016_flickr"):
            name = f"{split}.{language}"
            lines = (arguments.raw / name).read_text("utf-8").rstrip("\n").split("\n")
            done = [tokenizer.tokenize(normalizer.normalize(line.lower())) for line in lines]
            text = "".join(" ".join(tokens) + "\n" for tokens in done)
            (arguments.out / name).write_text(text, "utf-8")
            print(f"{name}: {len(done):,} lines, {sum(map(len, done)):,} tokens")


if __name__ == "__main__":
    main()
