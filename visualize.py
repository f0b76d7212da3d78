"""Shows what each layer and head of a trained model looks at: pictures, a page, arrays, numbers."""

import argparse

from attention import command


def main(arguments: argparse.Namespace) -> None:
    from attention.visualization.show import visualize  # imports jax: --help does without

    files = visualize(
        arguments.workdir,
        arguments.input,
        arguments.out,
        checkpoint=arguments.checkpoint,
        format=arguments.format,
        target=arguments.target,
        examples=arguments.examples,
        max_tokens=arguments.max_tokens,
        each_head=arguments.each_head,
    )
    pictures = sum(file.suffix == ".png" for file in files)
    print(f"wrote {arguments.out}/visualization.json, measures.csv and arrays/")
    print(f"wrote {arguments.out}/pictures: {pictures} pictures, each as PNG and SVG")
    print(f"wrote {arguments.out}/index.html: open it in a browser")


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="visualize.py",
        description=__doc__,
        epilog="example: python visualize.py --workdir=runs/pos --input=sentences.txt --out=seen",
    )
    parser.add_argument("--workdir", required=True, metavar="FOLDER", help="the run directory")
    parser.add_argument(
        "--input", required=True, metavar="FILE", help="examples, as predict.py reads them"
    )
    parser.add_argument("--out", required=True, metavar="FOLDER", help="new, empty, or its own")
    parser.add_argument("--checkpoint", default="best", metavar="best|latest|average|STEP")
    parser.add_argument("--format", default="text", help="text; of a tagger also conllu")
    parser.add_argument(
        "--target", metavar="FILE", help="of a translator: a target for each line of --input"
    )
    parser.add_argument("--examples", type=int, default=8, metavar="N", help="the most examples")
    parser.add_argument(
        "--max_tokens", type=int, default=64, metavar="N", help="the most tokens of a sequence"
    )
    parser.add_argument("--each_head", action="store_true", help="a picture for each head as well")
    return parser


if __name__ == "__main__":
    command.run(main, make_parser())
