"""Scores a trained run on dev, test or a file of your own; the last line printed is JSON."""

import argparse
import json

from attention import command


def main(arguments: argparse.Namespace) -> None:
    from attention.tools.evaluating import evaluate  # imports jax: --help does without
    from attention.training.result import evaluation_name
    from attention.training.run_directory import RunDirectory

    summary = evaluate(
        arguments.workdir,
        split=arguments.split,
        checkpoint=arguments.checkpoint,
        data=arguments.data,
        eval_batch_size=arguments.eval_batch_size,
    )
    first, *others = RunDirectory(arguments.workdir).evaluation_files(evaluation_name(summary))
    print(f"wrote {arguments.workdir}/eval/{first} and beside it {', '.join(others)}")
    print(json.dumps(summary))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="eval.py",
        description=__doc__,
        epilog="example: python eval.py --workdir=runs/pos --split=test",
    )
    parser.add_argument("--workdir", required=True, metavar="FOLDER", help="the run directory")
    parser.add_argument("--split", default="test", choices=["dev", "test"])
    parser.add_argument("--checkpoint", default="best", metavar="best|latest|average|STEP")
    parser.add_argument("--data", metavar="FILE[,FILE]", help="files to score in place of a split")
    parser.add_argument("--eval_batch_size", type=int, metavar="N", help="rows of a batch")
    return parser


if __name__ == "__main__":
    command.run(main, make_parser())
