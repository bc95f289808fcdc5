"""Checks of arguments. Messages say what was given, what is needed and what to do."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rslm.runtime.types import Floats

LARGEST = np.iinfo(np.int32).max  # rows and columns are numbered in 32 bits


def real_numbers(array: NDArray[Any], what: str) -> Floats:
    """The array as float32 if it is float32, else as float64; an error if it is not one of real numbers."""
    if array.dtype.kind == "c":
        # The wording is the one that scikit-learn's estimator checks expect.
        raise ValueError(f"Complex data not supported: {what} has dtype {array.dtype}. Use its real part or modulus.")
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"{what} has dtype {array.dtype}, but real numbers are needed. Convert it with .astype(float) first."
        )
    single = array.dtype.kind == "f" and array.dtype.itemsize == 4
    return np.ascontiguousarray(array, dtype=np.float32 if single else np.float64)


def integers(given: ArrayLike, what: str) -> NDArray[np.integer[Any]]:
    array = np.asarray(given)
    if array.ndim != 1:
        raise ValueError(f"{what} has shape {array.shape}, but one dimension is needed. Use {what}.ravel().")
    if array.size == 0:
        return array.astype(np.int64)  # an empty list arrives as float64
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"{what} has dtype {array.dtype}, but integers that count from 0 are needed. Convert whole numbers with "
            ".astype(np.int64), a mask with np.flatnonzero; for names use ObservedMatrix.from_ratings."
        )
    return array


def check_lengths(**arrays: NDArray[Any]) -> None:
    for name, array in arrays.items():
        if array.ndim != 1:
            raise ValueError(f"{name} has shape {array.shape}, but one dimension is needed. Use {name}.ravel().")
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        parts = "column, one value and one weight" if "weights" in lengths else "column and one value"
        raise ValueError(f"One row, one {parts} are needed for every entry, but {listed}.")
    if not lengths["values"]:
        raise ValueError("Nothing is observed: values is empty. Give at least one entry.")


def checked_shape(given: tuple[int, ...]) -> tuple[int, int]:
    try:
        n, m = map(operator.index, given)
    except (TypeError, ValueError):
        raise ValueError(f"shape is {given!r}, but two integers (rows, columns) are needed.") from None
    for size, kind in (n, "sample(s)"), (m, "feature(s)"):
        if size < 1:
            # The wording is the one that scikit-learn's estimator checks expect.
            raise ValueError(f"Found a matrix with {size} {kind} (shape=({n}, {m})) while a minimum of 1 is required.")
        if size > LARGEST:
            raise ValueError(
                f"Found a matrix with {size} {kind}, but at most {LARGEST} are supported. If the positions are ids, "
                "ObservedMatrix.from_ratings numbers them."
            )
    return n, m


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) != 2:
        advice = "Give one row for every sample."
        if len(shape) == 1:
            advice = "Reshape your data: X.reshape(-1, 1) if it is one feature, X.reshape(1, -1) if it is one sample."
        elif len(shape) > 2:
            advice = "Choose one matrix of it, or make a row of every X[i]: X.reshape(len(X), -1)."
        raise ValueError(f"Expected a matrix of two dimensions (n_samples × n_features), got shape {shape}. {advice}")
    return checked_shape(shape)


def check_range(positions: NDArray[np.integer[Any]], count: int, what: str) -> None:
    if len(positions) and (positions.min() < 0 or positions.max() >= count):
        at = np.flatnonzero((positions < 0) | (positions >= count))[0]
        raise ValueError(
            f"{what}[{at}] is {positions[at]}, but positions from 0 to {count - 1} are allowed. "
            "Count from 0, or state a larger shape when you build the matrix."
        )
