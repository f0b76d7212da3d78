"""The files of a report, the page, the plots, and the command that writes them."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import re
import runpy
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from support.fake_runs import write_run, write_tagging_run, write_translation_run

from attention import command
from attention.comparison import comparing, methods, page, plots, report, tables
from attention.comparison.columns import columns
from attention.comparison.comparing import Options, compare
from attention.comparison.formats import memory, p_text, seconds, short
from attention.errors import UserError

pytestmark = pytest.mark.fast

PROMISED = """task dataset variant size metric split n_seeds mean sd ci_low ci_high p_value p_holm
baseline num_params steps flops n_trials tokens_per_second peak_memory_bytes compile_seconds
train_seconds device_kind dtype matmul_precision workdirs"""
FILES = {
    *("report.html", "table.json", "table.md", "table.csv", "table.tex", "settings.csv"),
    *("details.json", "plots"),
}
HOSTILE = 'a<b>&"_%$'  # what HTML, LaTeX and XML each take for something else


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with a report of three variants, one with an unpleasant name, and a failed run."""
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 9, 60)
    for number, (variant, right) in enumerate((("scaled_dot", 0.7), ("cnn", 0.9), (HOSTILE, 0.72))):
        for seed in range(2):
            for rate in (0.1, 0.2):
                words = [[int(rng.random() < right) for _ in range(n)] for n in sizes]
                write_tagging_run(
                    folder / "runs" / f"{number}-{seed}-{rate}", words, variant=variant,
                    seed=seed, optimizer__learning_rate=rate, dev=right + rate / 10,
                    result={"train_seconds": 10.0 + 10 * number, "num_params": 1000 * (1 + number)},
                )  # fmt: skip
    write_run(folder / "runs" / "bad", seed=7, status="failed")
    found = compare([str(folder / "runs")], Options())
    names = report.write(found, str(folder / "out"), command="python compare.py runs --out=out")
    assert {name.rstrip("/") for name in names} == FILES
    return folder / "out", found


def test_every_file_is_there(written):
    out, _ = written
    assert {path.name for path in out.iterdir()} == FILES
    kinds = ("learning_curves", "quality_time", "quality_parameters")  # FLOPs are equal
    names = {
        f"{kind}-pos_tagging-on-made_up-tiny{end}" for kind in kinds for end in (".svg", ".png")
    }
    assert {path.name for path in (out / "plots").iterdir()} == names


def test_json_rows_have_the_promised_keys(written):
    out, _ = written
    rows, keys = json.loads((out / "table.json").read_text()), PROMISED.split()
    assert [row["variant"] for row in rows] == ["cnn", HOSTILE, "scaled_dot"]
    for row in rows:
        assert list(row)[: len(keys)] == keys
        assert row["n_seeds"] == 2 and row["n_trials"] == 4 + (row["variant"] == "scaled_dot")
    details = json.loads((out / "details.json").read_text())
    assert [run["status"] for run in details["not_counted"]] == ["failed"]
    assert len(details["settings"]) == 6 and len(details["cautions"]) >= 1


def test_the_methods_say_how_flops_are_counted(written):
    (costs,) = [line for line in methods.lines(written[1]) if line.startswith("Costs.")]
    for part in ("counted in the step's program", "attention", "padding", "computes again"):
        assert part in costs
    assert "six a parameter" not in costs


def test_the_software_of_the_runs_is_told(written):
    out, _ = written
    assert "Software of the runs: jax 0.12.0, flax 0.12.8, optax 0.2.8." in (
        out / "report.html"
    ).read_text("utf-8")


@pytest.mark.parametrize(
    ("p", "adjusted", "text"),
    [
        (1e-4, 2.7e-3, "≤0.003"),
        (1e-4, 1.4e-3, "≤0.002"),
        (2e-4, 5.4e-3, "0.005"),
        (1e-4, 1e-4, "<0.001"),
        (None, None, "–"),
    ],
)
def test_a_p_that_no_draw_came_near_is_a_bound(tmp_path, p, adjusted, text):
    write_run(tmp_path / "a")
    row = compare([str(tmp_path)], Options()).chosen[0].row
    row.p_examples, row.p_examples_holm, row.difference = p, adjusted, 0.1
    columns_of = columns([row, dataclasses.replace(row, p_examples_holm=0.5)]).scores
    (column,) = [column for column in columns_of if column.head == "p examples"]
    assert column.cell(row) == text


def test_csv_is_the_json_unrounded(written):
    out, _ = written
    rows = json.loads((out / "table.json").read_text())
    with (out / "table.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["variant"] for line in lines] == [row["variant"] for row in rows]
    assert [float(line["mean"]) for line in lines] == [row["mean"] for row in rows]
    assert [json.loads(line["workdirs"]) for line in lines] == [row["workdirs"] for row in rows]
    assert lines[-1]["p_value"] == ""


def test_all_settings_are_listed_by_dev_alone(written):
    out, _ = written
    with (out / "settings.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 6 and not any("test" in key for key in lines[0])
    chosen = [line["tuned"] for line in lines if line["chosen"] == "True"]
    assert chosen == ["optimizer.learning_rate=0.2"] * 3


def test_markdown_has_as_many_cells_in_each_line(written):
    out, _ = written
    text = (out / "table.md").read_text()
    table = [line for line in text.splitlines() if line.startswith("|")]
    scores, costs = table[:5], table[5:]
    assert len(costs) == 5 and costs[0].startswith("| variant | params | train time")
    for lines in (scores, costs):
        assert len({line.count("|") for line in lines}) == 1
    assert "In all rows: FLOPs 5M, " in text and "FLOPs |" not in text
    assert "bad: failed: training failed" in text


def test_latex_is_escaped_and_its_braces_match(written):
    out, _ = written
    text = (out / "table.tex").read_text()
    assert r"a$<$b$>$\&" in text and r"\_\%\$" in text and r"scaled\_dot" in text
    assert r"\toprule" in text and r"\bottomrule" in text and "±" not in text
    bare = re.sub(r"\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 4 and len({len(re.findall(r"(?<!\\)&", row)) for row in rows}) == 1


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_table_fits(written, width):
    _, found = written
    text = tables.terminal(found, width=width)
    lines = text.split("\n\n")[1].splitlines()
    assert all(len(line) <= width for line in lines) and lines[0].startswith("variant")
    assert "test accuracy (%)" in lines[0] and "p seeds" in lines[0]
    assert ("verdict" in lines[0]) == (width == 120)
    assert "read 13 runs: 6 are in the table, 6 are of settings" in text
    assert "1 could not be counted (1 failed)" in text and "bad: failed" in text


class Page(HTMLParser):
    """What a browser would fetch, the ids, and the tags that are open."""

    VOID = ("meta", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched, self.ids, self.open, self.svg = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.fetched += [v for k, v in attrs if k in ("src", "srcset", "data", "poster", "action")]
        self.fetched += [v for k, v in attrs if k.endswith("href") and not v.startswith("#")]
        self.ids += [values["id"]] if "id" in values else []
        self.svg += [values] if tag == "svg" else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_fetches_nothing_and_is_well_formed(written):
    out, _ = written
    text = (out / "report.html").read_text(encoding="utf-8")
    parsed = Page(text)
    assert parsed.open == [] and parsed.fetched == []
    assert not re.search(r"url\((?!#)|@import|<link|<iframe|fetch\(|XMLHttp|import\(", text)
    assert len(parsed.ids) == len(set(parsed.ids)) > 0
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', text))
    assert used and used <= set(parsed.ids)


def test_the_page_speaks_to_all(written):
    out, _ = written
    text = (out / "report.html").read_text(encoding="utf-8")
    parsed = Page(text)
    assert len(parsed.svg) == 3
    for svg in parsed.svg:
        assert svg["role"] == "img" and len(svg["aria-label"]) > 60
        assert "viewbox" in svg and "width" not in svg
    for needed in ("width=device-width", "prefers-color-scheme: dark", "@media print", 'lang="en"'):
        assert needed in text
    assert text.index("The answer") < text.index("<table>") < text.index("How the numbers")
    assert "cnn is best on dev" in text and "a&lt;b&gt;&amp;" in text and HOSTILE not in text
    assert "python compare.py runs --out=out" in text
    assert plots.INK not in text  # else black on black in the dark


def test_plots_are_valid_files_and_the_same_each_time(written, tmp_path):
    out, found = written
    report.write(found, str(tmp_path / "again"), command="x")
    for path in (out / "plots").iterdir():
        data = path.read_bytes()
        assert data == (tmp_path / "again" / "plots" / path.name).read_bytes(), path.name
        if path.suffix == ".svg":
            assert ElementTree.fromstring(data).tag.endswith("svg")
        else:
            assert data.startswith(b"\x89PNG")


def test_scores_are_plotted_across_a_number_that_panels_differ_in(tmp_path):
    for variant in ("scaled_dot", "cnn"):
        for size in (1000, 20, 100):
            for kind in ("a", "b"):
                dev = 0.5 + size / 9999 + (variant == "cnn") * (0.1 - size / 5000)
                write_run(tmp_path / f"{variant}{size}{kind}", variant=variant, dev=dev,
                          data__train_examples=size, data__kind=kind)  # fmt: skip
    found = compare([str(tmp_path)], Options())
    families = comparing.families(found.panels().values())
    assert [(key, len(panels)) for key, panels in families] == [("data.train_examples", 3)] * 2
    sizes = [dict(panel[0].group.panel)["data.train_examples"] for panel in families[0][1]]
    assert sizes == [20, 100, 1000]
    plot = plots.draw_across(families[0][1], families[0][0], name="x")
    assert "20: cnn" in plot.description and "1000: scaled_dot" in plot.description
    text = page.page(found, {(): [plot]}, command="x")
    assert text.index("Across settings") < text.index("<table>") and len(Page(text).svg) == 1


def test_runs_that_ended_well_are_not_counted_by_that(tmp_path):
    write_run(tmp_path / "a")
    write_run(tmp_path / "b")  # the same seed once more
    found = compare([str(tmp_path)], Options())
    first, reason = tables.left_out(found)
    assert first.endswith("1 could not be counted") and "complete: " in reason


def test_numbers_for_readers():
    assert [short(x) for x in (405_678, 999_700, 6.66e10, 12, None)] == [
        "406k", "1M", "66.6G", "12", "–",
    ]  # fmt: skip
    assert [p_text(p) for p in (0.0004, 0.0321, None)] == ["<0.001", "0.032", "–"]
    assert (memory(3 * 2**29), memory(5 << 20)) == ("1.50 GiB", "5 MiB")
    assert (seconds(9.94), seconds(1200), seconds(9000)) == ("9.9 s", "20.0 min", "2.5 h")


def test_the_signature_of_bleu_is_in_the_report(tmp_path):
    lines = ["the dog sees a cat .", "a cat sleeps now here ."]
    write_translation_run(tmp_path / "run", lines, lines)
    report.write(compare([str(tmp_path / "run")], Options()), str(tmp_path / "out"), command="x")
    for name in ("report.html", "table.md", "details.json"):
        text = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in text, name


def test_only_an_empty_folder_or_a_report_is_written_to(written, tmp_path):
    out, found = written
    write_run(tmp_path / "run")
    for name in ("run", "run/config.json"):
        with pytest.raises(UserError, match="--out="):
            report.check_folder(str(tmp_path / name))
    (tmp_path / "empty").mkdir()
    report.check_folder(str(tmp_path / "empty"))
    report.check_folder(str(out))
    (out / "plots" / "old.svg").write_text("of a panel that is gone")
    report.write(found, str(out), command="python compare.py runs --out=out")
    assert not (out / "plots" / "old.svg").exists()


def test_a_folder_with_another_table_keeps_its_plots(tmp_path):
    out = tmp_path / "out"
    (out / "plots").mkdir(parents=True)
    (out / "plots" / "mine.png").write_text("precious")
    for text in ('{"rows": 3}', '[{"a": 1}]', "[1]", "{"):
        (out / "table.json").write_text(text)
        with pytest.raises(UserError, match="no report"):
            report.check_folder(str(out))


@pytest.mark.long
@pytest.mark.parametrize("part", ["draw", "learning_curves", "_plot"])
def test_a_report_that_was_cut_short_is_made_again(tmp_path, monkeypatch, part):
    found = compare([str(write_run(tmp_path / "run"))], Options())
    with monkeypatch.context() as patch:
        patch.setattr(report.plots, part, lambda *given, **more: (_ for _ in ()).throw(OSError()))
        with pytest.raises(OSError):
            report.write(found, str(tmp_path / "out"), command="x")
    with monkeypatch.context() as patch:
        patch.setattr(report.tables, "latex", lambda comparison: (_ for _ in ()).throw(OSError()))
        with pytest.raises(OSError):
            report.write(found, str(tmp_path / "out"), command="x")
    report.write(found, str(tmp_path / "out"), command="x")


def test_names_of_files_are_short_and_unlike_each_other():
    assert len(report.slug("字" * 300).encode()) <= 150
    assert report.slug("a <b>/../c|d") == "a-b-..-c-d"
    assert report.unlike(["a", "A", "b", "a"]) == ["a", "A-1", "b", "a-3"]


def test_what_markdown_latex_and_matplotlib_read_in_names_is_text(tmp_path, recwarn):
    for number, name in enumerate(("$x_{$", "$a$", "<b>|`*", "[x", "two\nlines", "中" * 60)):
        write_run(tmp_path / "runs" / f"{number}", variant=name, dev=0.5 + number / 100)
    found = compare([str(tmp_path / "runs")], Options())
    report.write(found, str(tmp_path / "out"), command="x")
    assert [str(each.message) for each in recwarn if each.category is UserWarning] == []
    svg = (tmp_path / "out" / "plots").glob("learning_curves*.svg").__next__().read_text("utf-8")
    assert ">$a$<" in svg and ">$x_{$<" in svg and f">{'中' * 17}…<" in svg
    markdown = tables.markdown(found)
    assert "| \\<b>\\|\\`\\* |" in markdown and "| two lines |" in markdown
    assert "\n{}[x & " in tables.latex(found) and "\ntwo lines & " in tables.latex(found)


def test_the_command_needs_no_display(tmp_path, repository):
    for seed in (0, 1):
        write_run(tmp_path / "runs" / str(seed), seed=seed)
    kept = {key: value for key, value in os.environ.items() if key != "DISPLAY"}
    done = subprocess.run(
        [sys.executable, repository / "compare.py", "runs", "--out=out"], cwd=tmp_path,
        env={**kept, "MPLBACKEND": "TkAgg"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and "only scaled_dot was run" in done.stdout
    assert "wrote out: report.html table.json" in done.stdout
    assert "compare.py runs --out=out" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rum", "--out=out"], "did you mean 'run'?"),
        (["run"], "--out"),
        (["run", "--out=out"], "none of 1 runs can be compared (run: training failed"),
        (["run", "--out=out", "--baselin=x"], "did you mean '--baseline'?"),
        (["run", "--out=run"], "--out=run holds other things"),
    ],
)
def test_wrong_input_is_one_line_and_exit_status_2(
    tmp_path, monkeypatch, capsys, repository, words, message
):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run", status="failed")
    script = runpy.run_path(str(repository / "compare.py"))
    assert command.execute(script["main"], script["make_parser"](), words) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and message in captured.err and captured.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_comparing_imports_no_jax(repository):
    code = (
        "import sys; from attention.comparison import report, comparing; "
        "sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=repository).returncode == 0
