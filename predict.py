"""Runs a trained model on standard input: one line out for each line in."""

import argparse
import sys

from attention import command
from attention.errors import UserError


def main(arguments: argparse.Namespace) -> None:
    from attention.tools.predicting import predict_stream  # imports jax: --help does without
    from attention.tools.saved_run import open_run

    if sys.stdin is None:
        raise UserError("standard input is closed: give the text, as in < sentences.txt")
    saved = open_run(arguments.workdir, checkpoint=arguments.checkpoint)
    for answer in predict_stream(
        saved, sys.stdin.buffer, format=arguments.format, logits=arguments.logits
    ):
        sys.stdout.write(answer)
        sys.stdout.flush()


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="predict.py",
        description=__doc__,
        epilog="example: python predict.py --workdir=runs/pos < sentences.txt > tagged.txt",
    )
    parser.add_argument("--workdir", required=True, metavar="FOLDER", help="the run directory")
    parser.add_argument("--checkpoint", default="best", metavar="best|latest|STEP")
    parser.add_argument("--format", default="text", help="text; of a tagger also conllu")
    parser.add_argument("--logits", action="store_true", help="add the logits, as JSON after a tab")
    return parser


if __name__ == "__main__":
    command.run(main, make_parser())
