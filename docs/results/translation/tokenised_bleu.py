"""BLEU of lower-cased text, tokenised as Moses does: what papers on Multi30k report.

    pip install sacremoses
    python docs/results/translation/tokenised_bleu.py HYPOTHESES REFERENCES [LANGUAGE]

It depends on the tokenizer and is no score to compare beyond them; sacreBLEU's own is.
"""

import argparse

import sacrebleu
from sacremoses import MosesTokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hypotheses")
    parser.add_argument("references")
    parser.add_argument("language", nargs="?", default="de")
    arguments = parser.parse_args()
    tokenizer = MosesTokenizer(arguments.language)
    hypotheses, references = (
        [tokenizer.tokenize(line.lower(), return_str=True, escape=False) for line in _lines(name)]
        for name in (arguments.hypotheses, arguments.references)
    )
    if len(hypotheses) != len(references):
        raise SystemExit(f"{len(hypotheses)} hypotheses and {len(references)} references")
    print(sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", force=True))


def _lines(name: str) -> list[str]:
    with open(name, encoding="utf-8") as file:
        return file.read().rstrip("\n").split("\n")


if __name__ == "__main__":
    main()
