"""RSLM: min C Σ (y − h)² + ½‖H(h)‖_*² over series h whose Hankel matrix has rank r at most, the problem of the paper.

Riemannian trust region on the spectrahedron. C is found without the truth. At the optimum, H*(S) = 2 C (y − h) with
‖S‖₂ = ‖H(h)‖_*, and of all S with given sums along the antidiagonals the mean along each is nearly the least. So C is
the weight at which the noise alone, of the size that the maximum of the likelihood leaves, would have this norm.

P. Jawanpuria, B. Mishra: Structured low-rank matrix learning: algorithms and applications, 2017.
"""

from __future__ import annotations

import warnings

import numpy as np

from paper.methods.hankel.products import counts, singular_triplets
from rslm import HankelModel, Problem, solve
from rslm.losses import Square
from rslm.measurements import Samples
from rslm.runtime.types import Floats
from rslm.structures import Hankel

NAME = "RSLM"
TOL = 1e-3  # as in HankelModel
DRAWS = 5  # of noise, to know the usual norm of its Hankel matrix
PART = 0.35  # of that norm, because the rank is limited too: between 0.25 and 0.5 on systems that are not in the study


def maximum_likelihood(y: Floats, rank: int) -> HankelModel:
    """The limit of large C, where nothing is shrunk; the order is chosen, up to the rank."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="no order up to")
        model: HankelModel = HankelModel(rank).fit(y)
    return model


def weight(y: Floats, window: int, rank: int) -> float:
    """C from the noise."""
    model = maximum_likelihood(y, rank)
    rng, occurs = np.random.default_rng(0), counts(len(y), window)
    draws = [singular_triplets(rng.standard_normal(len(y)) / occurs, window, 1)[1][0] for _ in range(DRAWS)]
    order = max(model.rank_, 1)
    signal = model.signal_ if model.rank_ else y
    trace_norm = float(np.sum(singular_triplets(signal, window, order)[1]))
    return trace_norm / (2 * PART * model.noise_ * float(np.mean(draws)))


def fit(y: Floats, window: int, rank: int) -> Floats:
    return fit_at(y, window, rank, weight(y, window, rank))


def fit_at(y: Floats, window: int, rank: int, C: float) -> Floats:
    size = float(np.sqrt(np.mean(y**2)))  # C is the same for all units: both terms are squares
    problem = Problem(Square(), Samples(y / size), Hankel(window, len(y) - window + 1), C=C)
    left, values, _ = singular_triplets(y / size, window, rank)
    result = solve(problem, rank, start=left * np.sqrt(values), tol=TOL)
    return size * np.asarray(result.parameters).ravel()
