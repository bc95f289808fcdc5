"""Where a chain starts: at factors of a given matrix that are alike on both sides."""

from __future__ import annotations

import numpy as np

from rslm.linalg.low_rank import thin_svd
from rslm.runtime.types import Floats
from rslm.sampling.prior import Hyperprior

WEAK = 0.1  # size of the random numbers in coordinates that the matrix does not have, relative to usual factors


def balanced(rows: Floats, columns: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Factors of the same matrix with equal mean squares in every coordinate.

    From coordinates that are 0 on both sides a chain would not move away for long. They, and those that are small
    relative to usual factors, get small random numbers.
    """
    usual = Hyperprior.usual(rows.shape[1], False).sizes[0]
    P, s, Q = thin_svd(rows, columns)
    size = np.sqrt(s) / (len(P) * len(Q)) ** 0.25
    P, Q = (side * np.sqrt(len(side)) for side in (P, Q))
    weak = size < WEAK * usual
    for side in (P, Q):
        side[:, weak] = rng.standard_normal((len(side), int(weak.sum())))
    size = np.maximum(size, WEAK * usual)
    return P * size, Q * size
