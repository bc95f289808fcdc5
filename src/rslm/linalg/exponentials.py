"""The space of series that a linear recurrence generates, from the space of their windows.

The windows of a sum of exponentials Σ c_j z_j^t span a space that a shift by one sample maps into itself: with a basis
Q of it, Q[1:] = Q[:-1] F, and the poles z_j are the eigenvalues of F.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr

from rslm.runtime.types import Floats

SEPARATE = 1e-7  # exponentials whose part outside the span of the others is smaller, relatively, are left out


def exponential_space(Q: Floats, n: int) -> Floats:
    """An orthonormal basis of the series z^t and t z^t, t = 0 … n − 1, for all poles z of the windows that Q spans."""
    if len(Q) < 2 or Q.shape[1] == 0:
        return np.zeros((n, 0))
    poles = np.linalg.eigvals(np.linalg.lstsq(Q[:-1], Q[1:], rcond=None)[0]).astype(np.complex128)
    poles = poles[(poles.imag >= 0) & np.isfinite(poles)]  # the conjugate ones have the same real and imaginary parts
    growing = np.abs(poles) > 1
    steps = np.arange(n)[:, None]
    with np.errstate(divide="ignore", under="ignore"):
        logs = np.where(growing, -1.0, 1.0) * np.log(poles)
        powers = np.exp(np.maximum(logs.real, np.log(np.finfo(float).tiny)) * steps + 1j * logs.imag * steps)
    powers[:, growing] = powers[::-1, growing]  # up to a factor, z^t that is at most 1
    both = np.hstack([powers, powers * (steps / n)])
    columns = np.hstack([both.real, both.imag])
    sizes = np.linalg.norm(columns, axis=0)
    columns = columns[:, sizes > SEPARATE * sizes.max()]
    basis, R, _ = qr(columns / np.linalg.norm(columns, axis=0), mode="economic", pivoting=True)
    return np.ascontiguousarray(basis[:, np.abs(np.diag(R)) > SEPARATE])
