"""A loss as a user would write one, which several tests use: it overflows far out, and may be negative."""

import numpy as np
from scipy.special import xlogy

from rslm.losses import Loss


class Poisson(Loss):
    """ℓ(y, w) = exp(w) − y w for counts y."""

    def value(self, y, w):
        return np.exp(w) - y * w

    def gradient(self, y, w):
        return np.exp(w) - y

    def hessian(self, y, w):
        return np.exp(w)

    def conjugate(self, y, s):
        rate = s + y
        return np.where(rate >= 0, xlogy(rate, np.maximum(rate, 0)) - rate, np.inf)
