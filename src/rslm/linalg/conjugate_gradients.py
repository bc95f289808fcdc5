"""Conjugate gradients for A x = b with a symmetric positive definite A, given by its products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats

Map = Callable[[Floats], Floats]


def conjugate_gradients(
    product: Map, b: Floats, precondition: Map, *, tol: float, most: int, start: Floats | None = None
) -> Floats:
    """x with ‖A x − b‖ at most `tol`·‖b‖, or the x after `most` products.

    Arrays may have any shape. The iteration ends early where rounding errors make A look indefinite.
    """
    x = np.zeros_like(b) if start is None else start.copy()
    residual = b.copy() if start is None else b - product(x)
    target = tol * float(np.linalg.norm(b))
    z = precondition(residual)
    direction, rz = z, float(np.vdot(residual, z))
    for _ in range(most):
        if not float(np.linalg.norm(residual)) > target:
            break
        raise_if_stopped()
        turned = product(direction)
        bend = float(np.vdot(direction, turned))
        if not bend > 0:
            break
        alpha = rz / bend
        x = x + alpha * direction
        residual = residual - alpha * turned
        z = precondition(residual)
        rz, before = float(np.vdot(residual, z)), rz
        direction = z + (rz / before) * direction
    return x
