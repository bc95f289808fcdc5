"""A series as the command line reads, shows and writes it."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from rslm import HankelModel
from rslm.data.files.table import NamedColumns
from rslm.estimators.series.components import Component
from rslm.estimators.series.sampling import UnevenTimesError, check_even

STEADY = 0.1  # relative change of an amplitude over the whole series that counts as none
DIGITS = ".10g"  # of numbers in files: small swings about a large level are kept


@dataclass(frozen=True)
class Samples:
    """What was read."""

    name: str
    samples: NDArray[Any]
    inputs: NDArray[Any] | None
    remark: str


def read_samples(
    table: NamedColumns, column: str | None, imaginary: str | None, inputs: list[str], times: str | None
) -> Samples:
    """The series, with imaginary parts and inputs, on an even grid if there are times."""
    name, y = table.numbers(column)
    samples = y if imaginary is None else y + 1j * table.numbers(imaginary)[1]
    u = np.column_stack([table.numbers(one)[1] for one in inputs]) if inputs else None
    if times is None:
        return Samples(name, samples, u, "")
    try:
        check_even(_times(table, times))
    except UnevenTimesError as error:
        if error.positions is None or u is not None:  # inputs must be known at all times
            raise
        grid = np.full(int(error.positions[-1]) + 1, np.nan, dtype=samples.dtype)
        grid[error.positions] = samples
        return Samples(name, grid, u, f"; {len(grid) - len(samples)} of these at times that are not in the table")
    return Samples(name, samples, u, "")


def _times(table: NamedColumns, column: str) -> NDArray[Any]:
    """Numbers, or dates as ISO 8601 has them."""
    texts = table.ids(column)
    for kind in (np.float64, np.dtype("datetime64[s]")):
        try:
            return np.asarray(texts.astype(kind))
        except (ValueError, TypeError):
            continue
    raise ValueError(f"{table.name}: column {column!r} holds {texts[0]!r}; times are numbers, or dates like 2024-05-31")


def oscillations(model: HankelModel, samples: int) -> Table:
    """A table of the exponentials, each pair of conjugate poles once."""
    table = Table("period (samples)", "half-life (samples)", *(["amplitude"] if hasattr(model, "amplitudes_") else []))
    table.title = "Oscillations, levels and decay"
    both = np.iscomplexobj(model.signal_)
    for k, frequency in enumerate(model.frequencies_):
        if frequency < 0 and not both:
            continue
        period = f"{1 / frequency:.4g}" if frequency else "–"
        damping, steady = model.dampings_[k], STEADY / samples
        halves = f"{np.log(2) / damping:.4g}" if damping > steady else "never" if damping > -steady else "grows"
        row = [period, halves]
        if hasattr(model, "amplitudes_"):
            slope = k > 0 and model.poles_[k] == model.poles_[k - 1]  # a trend is a double pole
            twice = 2 if frequency > 0 and not both else 1
            row.append(f"{np.abs(model.amplitudes_[k]) * twice:.4g}{' per sample' if slope else ''}")
        table.add_row(*row)
    return table


def write_series(file: Any, y: Any, signal: Any, ahead: list[Any], start: int = 0) -> None:
    """The series, its signal, and what is `ahead`: nothing, the forecast, or the forecast and its intervals."""
    writer = csv.writer(file)
    ends = ["lower", "upper"] if len(ahead) > 1 else []
    writer.writerow(["sample", "observed", "signal", *ends])
    for k, (observed, clean) in enumerate(zip(y, signal, strict=True), 1):
        writer.writerow(
            [k, "" if np.isnan(observed) else f"{observed:{DIGITS}}", f"{clean:{DIGITS}}", *([""] * len(ends))]
        )
    for k, row in enumerate(zip(*ahead, strict=True), max(len(y), start) + 1):
        writer.writerow([k, "", *(f"{v:{DIGITS}}" for v in row)])


def write_components(file: Any, components: list[Component], samples: int) -> None:
    """A column for each component."""
    writer = csv.writer(file)
    names = [one.kind if one.kind != "oscillation" else f"period {one.period:.4g}" for one in components]
    writer.writerow(["sample", *names])
    for k in range(samples):
        writer.writerow([k + 1, *(f"{one.signal[k]:{DIGITS}}" for one in components)])
