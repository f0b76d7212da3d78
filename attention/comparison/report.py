"""Writes a comparison into a folder: tables, plots, one page."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attention.comparison import methods, page, plots, tables
from attention.comparison.cautions import panel_name
from attention.comparison.comparing import Comparison, families
from attention.comparison.grouping import as_mapping
from attention.errors import UserError
from attention.training.atomic import write_json, write_text

MARK = "table.json"  # what tells a report from other folders
_LONGEST = 150  # bytes of a file's name, of which a file system takes 255


def check_folder(out: str) -> None:
    """Raises UserError where `out` is a file, or a folder that holds something else."""
    folder = Path(out).expanduser()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out={out} is a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not _is_report(folder):
        raise UserError(
            f"--out={out} holds other things and no report (no {MARK}); name a new or empty folder"
        )


def _is_report(folder: Path) -> bool:
    """Whether the table in a folder is ours: plots beside it are going to be removed."""
    try:
        rows = json.loads((folder / MARK).read_text("utf-8"))
        return all({"variant", "n_seeds", "workdirs"} <= row.keys() for row in rows)
    except (OSError, ValueError, AttributeError, TypeError):
        return False


def write(comparison: Comparison, out: str, *, command: str) -> list[str]:
    """Writes the report; returns the names of its files. An earlier report is replaced.

    Args:
      command: the command line that makes this report again.
    """
    check_folder(out)
    folder = Path(out).expanduser()
    drawn = _draw(comparison)
    folder.mkdir(parents=True, exist_ok=True)
    # First, so that a report that was cut short is known for one.
    write_json(folder / MARK, [chosen.row.to_dict() for chosen in comparison.chosen])
    pictures = folder / "plots"
    pictures.mkdir(exist_ok=True)
    for old in (*pictures.glob("*.svg"), *pictures.glob("*.png")):
        old.unlink(missing_ok=True)  # panels of an earlier report
    for plot in (plot for several in drawn.values() for plot in several):
        write_text(pictures / f"{plot.name}.svg", plot.svg)
        (pictures / f"{plot.name}.png").write_bytes(plot.png)
    texts = {
        "table.md": tables.markdown(comparison),
        "table.csv": tables.comma_separated(comparison),
        "table.tex": tables.latex(comparison),
        "settings.csv": tables.settings_table(comparison),
        "report.html": page.page(comparison, drawn, command=command),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    write_json(folder / "details.json", _details(comparison, command))
    return ["report.html", MARK, *(name for name in texts if name != "report.html"),
            "details.json", "plots/"]  # fmt: skip


def _draw(comparison: Comparison) -> dict[tuple[str, ...], list[plots.Plot]]:
    """The plots of each panel, and, with the key (), those across panels."""
    panels = comparison.panels()
    names = unlike([slug(panel_name(members[0].row)) for members in panels.values()])
    drawn = {
        key: plots.draw(members, name=name)
        for (key, members), name in zip(panels.items(), names, strict=True)
    }
    drawn[()] = []
    for number, (key, members) in enumerate(families(panels.values())):
        row = members[0][0].row
        name = slug(f"across_{key}-{row.task}-on-{row.dataset}-{row.size}-{number}")
        drawn[()].append(plots.draw_across(members, key, name=name))
    return drawn


def slug(text: str) -> str:
    """A text as part of a file's name, of at most so many bytes."""
    name = re.sub(r"[^\w.=-]+", "-", text).strip("-")
    return name.encode()[:_LONGEST].decode(errors="ignore")


def unlike(names: Sequence[str]) -> list[str]:
    """Names with numbers behind those that are there already, also for Windows and macOS."""
    found: list[str] = []
    for number, name in enumerate(names):
        taken = name.casefold() in {other.casefold() for other in found}
        found.append(f"{name}-{number}" if taken else name)
    return found


def _details(comparison: Comparison, command: str) -> dict[str, Any]:
    """What rows do not hold: every setting, what was left out, what to beware of, the methods."""
    return {
        "command": command,
        "cautions": list(comparison.cautions),
        "methods": list(methods.lines(comparison)),
        "bleu_signatures": list(comparison.signatures),
        "not_counted": [
            {"workdir": run.workdir, "status": run.status, "reason": reason}
            for run, reason in comparison.rejected
        ],
        "settings": _settings(comparison),
    }


def _settings(comparison: Comparison) -> Sequence[dict[str, Any]]:
    return [
        {
            "variant": chosen.row.name,
            "panel": panel_name(chosen.row),
            "config": as_mapping(chosen.group.setting),
            "tuned": as_mapping(setting.tuned),
            "chosen": setting is chosen.setting,
            "dev_mean": setting.dev,
            "scores": chosen.scores if setting is chosen.setting else None,
            "workdirs": [run.workdir for run in setting.runs.values()],
        }
        for chosen in comparison.chosen
        for setting in chosen.settings
    ]
