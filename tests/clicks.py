"""What users took, generated for several tests."""

import numpy as np
from scipy import sparse


def clicks(users=60, items=40, seed=0):
    """Counts of users who each like one of four groups of items; everybody and every item has some."""
    rng = np.random.default_rng(seed)
    likes = np.arange(users)[:, None] % 4 == np.arange(items) % 4
    X = rng.poisson(np.where(likes, 1.5, 0.1))
    X[np.arange(users), np.arange(users) % items] += 1
    return sparse.csr_array(X.astype(np.float64))
