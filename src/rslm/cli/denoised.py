"""A denoised series: its loss in words, its oscillations, and the series as a table."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
from rich.table import Table

from rslm import HankelModel

STEADY = 0.1  # relative change of an amplitude over the whole series that counts as none


def in_words(loss: str, used: Any) -> str:
    """The loss as it can be given again: Huber's with its width."""
    return f"huber:{used.delta:.4g}" if loss == "huber" else loss


def oscillations(model: HankelModel) -> Table:
    """A table of the oscillations, each pair of conjugate poles once."""
    table = Table("period (samples)", "half-life (samples)", "amplitude", title="Oscillations")
    for k, frequency in enumerate(model.frequencies_):
        if frequency < 0:
            continue
        period = f"{1 / frequency:.4g}" if frequency > 0 else "–"
        damping, steady = model.dampings_[k], STEADY / len(model.signal_)
        halves = f"{np.log(2) / damping:.4g}" if damping > steady else "never" if damping > -steady else "grows"
        table.add_row(period, halves, f"{np.abs(model.amplitudes_[k]) * (2 if frequency > 0 else 1):.4g}")
    return table


def write_series(file: Any, y: Any, signal: Any, ahead: list[Any], start: int = 0) -> None:
    """The series, its signal, and what is `ahead`: nothing, the forecast, or the forecast and its intervals."""
    writer = csv.writer(file)
    ends = ["lower", "upper"] if len(ahead) > 1 else []
    writer.writerow(["sample", "observed", "signal", *ends])
    for k, (observed, clean) in enumerate(zip(y, signal, strict=True), 1):
        writer.writerow([k, "" if np.isnan(observed) else f"{observed:.6g}", f"{clean:.6g}", *([""] * len(ends))])
    for k, row in enumerate(zip(*ahead, strict=True), max(len(y), start) + 1):
        writer.writerow([k, "", *(f"{v:.6g}" for v in row)])
