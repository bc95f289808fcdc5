"""Arrays in the types that the compiled kernels take."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rslm.runtime.types import Floats

Integer = TypeVar("Integer", np.int32, np.int64)


def matrix(a: Floats) -> Floats:
    if a.ndim != 2:
        raise ValueError(f"a factor must have two dimensions; got shape {a.shape}")
    return np.ascontiguousarray(a, dtype=np.float64)


def integers(a: NDArray[np.integer[Any]], dtype: type[Integer]) -> NDArray[Integer]:
    """The integers in another type; an error if they do not fit, instead of wrapping around."""
    if a.dtype.kind not in "iu":
        raise TypeError(f"indices must be integers; got {a.dtype}")
    if a.size and not np.can_cast(a.dtype, dtype) and (a.max() > np.iinfo(dtype).max or a.min() < np.iinfo(dtype).min):
        raise ValueError(f"an index does not fit into {np.dtype(dtype)}")
    return np.ascontiguousarray(a, dtype=dtype)
