"""A loss of one's own: ℓ(y, w) = log cosh(y − w), quadratic near 0 and linear far away."""

from __future__ import annotations

import numpy as np

from rslm.losses import Loss


class LogCosh(Loss):
    """log cosh(y − w)."""

    def value(self, y, w):
        e = np.abs(y - w)
        return e + np.log1p(np.exp(-2.0 * e)) - np.log(2.0)

    def gradient(self, y, w):
        return np.tanh(w - y)

    def hessian(self, y, w):
        return 1.0 - np.tanh(w - y) ** 2

    def conjugate(self, y, s):
        inside = np.abs(s) <= 1.0
        t = np.clip(s, -1.0, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = 0.5 * (
                np.where(t > -1.0, (1.0 + t) * np.log1p(t), 0.0) + np.where(t < 1.0, (1.0 - t) * np.log1p(-t), 0.0)
            )
        return np.where(inside, s * y + entropy, np.inf)
