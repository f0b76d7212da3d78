"""Runs the points of a config file's sweep(), or goes on where the same command stopped."""

import argparse

from attention import command


def main(arguments: argparse.Namespace) -> int | None:
    if arguments.worker:
        from attention.sweeping.worker import work

        return work()
    from attention.sweeping import budget, closing, plan, sweep

    chosen = sweep.Selection(arguments.trials, arguments.index)
    swept = plan.read_sweep(arguments.config, arguments.overrides, arguments.budget)
    chosen.check(swept, workers=arguments.workers)
    how = {"workers": arguments.workers, "storage": arguments.storage}
    how |= {"numbers": chosen.numbers(swept), "keep": not arguments.dry_run}
    swept = budget.solve_budget(swept, arguments.workdir, **how)
    setting = sweep.make_setting(
        swept,
        arguments.workdir,
        chosen,
        retries=arguments.retries,
        storage=arguments.storage,
        vectorize=arguments.vectorize,
    )
    if arguments.dry_run:
        print("\n".join(closing.planned_lines(swept, setting)))
        return None
    seen = sweep.run_sweep(swept, setting, workers=arguments.workers)
    print(closing.closing_words(setting, seen))
    closing.raise_failure(setting, seen)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sweep.py",
        description=__doc__,
        epilog="example: python sweep.py --config=configs/pos_tagging.py:size=tiny "
        "--workdir=sweeps/rates --workers=2",
    )
    parser.add_argument("--config", required=True, metavar="FILE[:KEY=VALUE,...]")
    parser.add_argument("--workdir", required=True, metavar="FOLDER", help="the sweep directory")
    parser.add_argument("--trials", type=int, metavar="N", help="the first N points alone")
    parser.add_argument("--index", type=int, metavar="I", help="point I alone, for job arrays")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes here")
    parser.add_argument("--vectorize", default="1", metavar="K|auto", help="trials at once")
    parser.add_argument("--budget", choices=("params", "steps", "flops", "time"), help="made equal")
    parser.add_argument("--retries", type=int, default=1, metavar="N", help="of a crashed trial")
    parser.add_argument("--storage", metavar="URL", help="a database, where files are not shared")
    parser.add_argument("--dry_run", action="store_true", help="print the planned trials")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    command.run(main, make_parser())
