"""What a data set is here: something to fit, something held out, and how the error is measured."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
DATA = Path(os.environ.get("RSLM_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")


class AbsentError(Exception):
    """A data set or a tool that this machine does not have; the message says what to do."""


def needed(name: str) -> Path:
    """A file of the folder of data, which is not part of the repository."""
    path = DATA / name
    if not path.exists():
        raise AbsentError(f"{name} is not in {DATA}; set RSLM_DATA to the folder that holds it")
    return path


@dataclass(frozen=True)
class Entries:
    """A matrix with held-out entries: ratings as a sparse matrix, tables as an array with NaN."""

    X: Any
    rows: Array
    cols: Array
    values: Array
    scale: Array  # one number a column; errors are divided by it

    def error(self, prediction: Array) -> float:
        """Root mean square of the held-out entries, each divided by the scale of its column."""
        return float(np.sqrt(np.mean(((prediction - self.values) / self.scale[self.cols]) ** 2)))


@dataclass(frozen=True)
class Regressions:
    """Rows that belong to tasks, and held-out rows of the same tasks."""

    X: Array
    y: Array
    tasks: Array
    X_test: Array
    y_test: Array
    tasks_test: Array
    same_rows: bool = False  # whether all tasks have the same rows, in the same order

    def error(self, prediction: Array) -> float:
        """Mean square relative to the variance of the held-out targets (NMSE)."""
        return float(np.mean((prediction - self.y_test) ** 2) / np.var(self.y_test))


@dataclass(frozen=True)
class Classes:
    """One classification, solved by linear functions, one or more for every class."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array

    def error(self, prediction: Array) -> float:
        """Share of held-out rows in the wrong class."""
        return float(np.mean(prediction != self.y_test))


Case = Entries | Regressions | Classes
Maker = Callable[[int], Case]  # of a seed
Contestant = Callable[[Any], tuple[Array, float]]  # of a case: prediction of what is held out, seconds
