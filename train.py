"""Trains a model from a config file, or goes on where the same command stopped."""

import argparse

from attention import command


def main(arguments: argparse.Namespace) -> None:
    from attention import configuration
    from attention.training.profiled_steps import read_steps

    profile = read_steps(arguments.profile_steps) if arguments.profile_steps is not None else None
    saved = configuration.read_saved(arguments.workdir)
    config = configuration.load_config(arguments.config, arguments.overrides, saved=saved)
    from attention.training.loop import train  # imports jax: a wrong config is told without it
    from attention.training.result import closing_words
    from attention.training.run_directory import RunDirectory

    result = train(config, arguments.workdir, profile=profile)
    print(closing_words(RunDirectory(arguments.workdir), result))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="train.py",
        description=__doc__,
        epilog="example: python train.py --config=configs/pos_tagging.py:size=tiny "
        "--workdir=runs/pos --config.optimizer.learning_rate=1e-3",
    )
    parser.add_argument("--config", required=True, metavar="FILE[:KEY=VALUE,...]")
    parser.add_argument("--workdir", required=True, metavar="FOLDER", help="the run directory")
    parser.add_argument(
        "--profile_steps",
        metavar="FIRST:LAST",
        help="writes a trace of these steps, both included and counted from 1, to FOLDER/profile "
        "for xprof; begin after the first step of the call, which compiles",
    )
    return parser


if __name__ == "__main__":
    command.run(main, make_parser())
