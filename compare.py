"""Compares trained runs and sweeps: a table with error bars and tests, plots, and a report."""

import argparse
import shlex
import shutil
import sys

from attention import command


def main(arguments: argparse.Namespace) -> None:
    from attention.comparison import report, tables  # SciPy and matplotlib: --help does without
    from attention.comparison.comparing import Options, compare
    from attention.comparison.grouping import Keys

    options = Options(
        baseline=arguments.baseline,
        metric=arguments.metric,
        split=arguments.split,
        keys=Keys.of(arguments.tuned, arguments.rows_by),
        allow_mixed=arguments.allow_mixed,
        checkpoint=arguments.checkpoint,
        include_running=arguments.include_running,
    )
    report.check_folder(arguments.out)
    comparison = compare(arguments.runs, options)
    again = shlex.join(["python", "compare.py", *sys.argv[1:]])
    written = report.write(comparison, arguments.out, command=again)
    print(tables.terminal(comparison, width=max(80, shutil.get_terminal_size((120, 24)).columns)))
    print(f"wrote {arguments.out}: {' '.join(written)}")


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="compare.py",
        description=__doc__,
        epilog="example: python compare.py sweeps/lr runs/cnn-0 runs/cnn-1 --out=report",
    )
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN_OR_SWEEP_DIR", help="runs, sweeps, or folders of such")
    add("--out", required=True, metavar="FOLDER", help="where the report goes")
    add("--baseline", metavar="VARIANT", help="what others are tested against (scaled_dot)")
    add("--metric", metavar="NAME", help="the score to compare (the first of the task)")
    add("--split", default="auto", choices=["auto", "dev", "test"], help="auto: test if there")
    add("--checkpoint", default="best", choices=["best", "average"], help="whose scores to take")
    add("--tuned", default="", metavar="KEY[,KEY]",
        help="further config keys whose best value is taken, by dev")  # fmt: skip
    add("--rows_by", default="", metavar="KEY[,KEY]",
        help="keys such as optimizer.learning_rate whose values each get a row")  # fmt: skip
    add("--allow_mixed", action="store_true", help="also compare scores on different data")
    add("--include_running", action="store_true",
        help="also take unfinished runs, at their best dev score so far")  # fmt: skip
    return parser


if __name__ == "__main__":
    command.run(main, make_parser())
