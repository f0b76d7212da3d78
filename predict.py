"""Runs a trained model on standard input: one line out for each line in."""

import argparse
import sys

from attention import command
from attention.errors import UserError


def main(arguments: argparse.Namespace) -> None:
    from attention.tools import predicting  # imports jax: --help does without
    from attention.tools.saved_run import open_run

    if sys.stdin is None:
        raise UserError("standard input is closed: give the text, as in < sentences.txt")
    overrides = predicting.decode_overrides(arguments.decode)
    saved = open_run(arguments.workdir, checkpoint=arguments.checkpoint, overrides=overrides)
    saved = predicting.asking_for(saved, num_best=arguments.nbest, alignments=arguments.alignments)
    for answer in predicting.predict_stream(
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
    parser.add_argument("--checkpoint", default="best", metavar="best|latest|average|STEP")
    parser.add_argument("--format", default="text", help="text; of a tagger also conllu")
    parser.add_argument("--logits", action="store_true", help="add the logits, as JSON after a tab")
    of_translation = parser.add_argument_group("of translation")
    of_translation.add_argument(
        "--decode",
        metavar="KEY=VALUE[,…]",
        help="other values of the config's decode.KEY for this call, as in beam_size=1",
    )
    of_translation.add_argument(
        "--nbest",
        type=int,
        metavar="N",
        help="N lines for each, the best first: line number, score, text, with tabs between them",
    )
    of_translation.add_argument(
        "--alignments",
        action="store_true",
        help="add, after tabs: pairs of places (0-0 2-1), the source's pieces, the text's pieces",
    )
    return parser


if __name__ == "__main__":
    command.run(main, make_parser())
