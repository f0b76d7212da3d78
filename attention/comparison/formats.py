"""Numbers as a reader wants them."""

from __future__ import annotations

from attention.comparison.rows import Row

FRACTIONS = ("accuracy", "f1")  # shown as percentages
DASH = "–"
_SUFFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def scale_of(metric: str) -> int:
    """What a metric is multiplied by when it is shown: fractions of 1 are shown in percent."""
    return 100 if metric in FRACTIONS else 1


def metric_label(metric: str) -> str:
    """The metric's name with its unit."""
    unit = {**dict.fromkeys(FRACTIONS, " (%)"), "loss": " (nats)"}.get(metric, "")
    return metric_name(metric) + unit


def metric_name(metric: str) -> str:
    """The metric as the field spells it."""
    return {"bleu": "BLEU", "chrf": "chrF", "f1": "F1"}.get(metric, metric)


def score(value: float | None, metric: str) -> str:
    """A score of the metric: 94.05 for an accuracy of 0.9405."""
    if value is None:
        return DASH
    return f"{value * scale_of(metric):.{digits_of(metric)}f}"


def digits_of(metric: str) -> int:
    return 4 if metric == "loss" else 2


def score_text(row: Row) -> str:
    """`94.05 ± 0.20`, or the mean alone where there is one seed."""
    mean = score(row.mean, row.metric)
    return mean if row.sd is None else f"{mean} ± {score(row.sd, row.metric)}"


def interval_text(low: float | None, high: float | None, metric: str) -> str:
    if low is None or high is None:
        return DASH
    return f"{score(low, metric)} to {score(high, metric)}"


def signed(value: float | None, metric: str) -> str:
    """A difference of scores, with its sign."""
    if value is None:
        return DASH
    return f"{value * scale_of(metric):+.{digits_of(metric)}f}".replace("-", "−")


def signed_interval(low: float | None, high: float | None, metric: str) -> str:
    """The interval of a difference."""
    if low is None or high is None:
        return DASH
    return f"{signed(low, metric)} to {signed(high, metric)}"


def p_text(p: float | None) -> str:
    """A p-value; small ones as a bound."""
    if p is None:
        return DASH
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def short(value: float | None) -> str:
    """A large number with a suffix: 405678 is 406k, 6.66e10 is 66.6G."""
    if value is None:
        return DASH
    for power, suffix in _SUFFIXES:
        if abs(value) >= power * 0.9995:
            return f"{value / power:.3g}{suffix}"
    return f"{value:.3g}"


def memory(value: float | None) -> str:
    """Bytes as MiB or GiB."""
    if value is None:
        return DASH
    gib = value / 2**30
    return f"{gib:.2f} GiB" if gib >= 1 else f"{value / 2**20:.0f} MiB"


def seconds(value: float | None) -> str:
    if value is None:
        return DASH
    if value < 600:
        return f"{value:.1f} s"
    return f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


def whole(value: float | None) -> str:
    return DASH if value is None else f"{value:,.0f}"


def budget_text(row: Row) -> str:
    """What the row's sweep made equal, and how much: `5M FLOPs`."""
    if row.budget is None:
        return DASH
    write, unit = {
        "params": (whole, "parameters"),
        "steps": (whole, "steps"),
        "flops": (short, "FLOPs"),
        "time": (seconds, "of training"),
    }[row.budget]
    if row.budget_amount is None:
        return "time of training" if row.budget == "time" else unit
    return f"{write(row.budget_amount)} {unit}"
