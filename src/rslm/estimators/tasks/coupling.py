"""Several classes from the log-odds of all pairs of them.

If f_kj is the log-odds of class k against class j, the odds of k against all others are 1 / Σ_{j≠k} exp(−f_kj) (Price,
Knerr, Personnaz and Dreyfus, Advances in Neural Information Processing Systems 7, 1995). This is exact if the pairs
agree with one another. If they do not, the probabilities are divided by their sum. A pair of two wrong classes says
nothing about a row; here it hardly matters, as both classes have another pair that speaks against them.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_expit, logsumexp, softmax

from rslm.runtime.types import Floats, Indices64


def against_the_rest(log_odds: Floats, first: Indices64, second: Indices64) -> Floats:
    """The log-odds of every class against all others, (n, n_classes).

    `log_odds` are those of the second class of every pair against the first, (n, n_pairs).
    """
    classes = [np.hstack([log_odds[:, first == k], -log_odds[:, second == k]]) for k in range(int(second.max()) + 1)]
    return np.stack([-logsumexp(others, axis=1) for others in classes], axis=1)


def probabilities(log_odds: Floats) -> Floats:
    """Of every class, which add up to 1, from its log-odds against all others."""
    return np.asarray(softmax(log_expit(log_odds), axis=1))
