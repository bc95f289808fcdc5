"""Checks of the parts of a file that rslm wrote; a ValueError names the part that is not what it must be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.runtime.types import Floats

LARGEST = float(np.finfo(np.float64).max)  # a model may hold such numbers: only in the fit are the data scaled

Arrays = dict[str, NDArray[Any]]


def part_of(error: Exception) -> str:
    """Which part is wrong, from the error that reading it raised."""
    said = str(error.args[0] if error.args else "").split("\n", 1)[0][:200]
    named = isinstance(error, ValueError | KeyError) and len(said.split()) == 1
    return said if named else f"a part of it{f' ({said})' if said else ''}"


def floats(arrays: Arrays, name: str, *shape: int | None, finite: bool = True, single: bool = False) -> Floats:
    """An array of floats of this shape, where None stands for any length. `single`: float32 is accepted too."""
    found = _array(arrays, name, "f", shape)
    if found.dtype.itemsize != 8 and not (single and found.dtype.itemsize == 4):
        raise ValueError(name)
    if finite and not (np.abs(found) <= LARGEST).all():
        raise ValueError(name)
    return np.ascontiguousarray(found, dtype=found.dtype.newbyteorder("="))


def positions(arrays: Arrays, name: str, length: int | None, most: int) -> NDArray[Any]:
    """An array of whole numbers from 0 to `most` − 1."""
    found = _array(arrays, name, "iu", (length,))
    if found.size and not 0 <= int(found.min()) <= int(found.max()) < most:
        raise ValueError(name)
    return found


def starts(arrays: Arrays, name: str, length: int, most: int) -> NDArray[Any]:
    """Where each of several consecutive ranges begins, and where the last one ends, which must be `most`."""
    found = positions(arrays, name, length, most + 1)
    if len(found) == 0 or found[0] != 0 or found[-1] != most or np.any(found[1:] < found[:-1]):
        raise ValueError(name)
    return found


def flags(arrays: Arrays, name: str, *shape: int | None) -> NDArray[Any]:
    return _array(arrays, name, "b", shape)


def words(arrays: Arrays, name: str, length: int) -> NDArray[Any]:
    return _array(arrays, name, "U", (length,)).astype(object)


def _array(arrays: Arrays, name: str, kinds: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
    found = arrays[name]
    fits = found.ndim == len(shape) and all(n is None or n == size for n, size in zip(shape, found.shape, strict=False))
    if not fits or found.dtype.kind not in kinds:
        raise ValueError(name)
    return found


def number(facts: Any, name: Any, least: float = -LARGEST, most: float = LARGEST) -> float:
    """A finite number from `least` to `most`."""
    value = facts[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError(name)
    return float(value)


def whole(facts: Any, name: Any, least: int = 0, most: int = 2**53) -> int:
    value = facts[name]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(name)
    return value


def flag(facts: Any, name: Any) -> bool:
    if not isinstance(facts[name], bool):
        raise ValueError(name)
    return bool(facts[name])


def text(facts: Any, name: Any) -> str:
    if not isinstance(facts[name], str):
        raise ValueError(name)
    return str(facts[name])


def any_number(facts: Any, name: Any) -> float:
    """A number, which may be infinite or NaN."""
    value = facts[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(name)
    try:
        return float(value)
    except OverflowError:  # an integer too large for a float
        return math.inf
