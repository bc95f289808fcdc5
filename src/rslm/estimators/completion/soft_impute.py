"""The regularisation of soft-impute, λ, for a given C, and the C for a given λ."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.sparse.linalg import svds
from sklearn.utils.validation import check_is_fitted

from rslm.data import ObservedMatrix
from rslm.estimators.choices import as_loss
from rslm.estimators.completion.matrix_completion import MatrixCompletion
from rslm.linalg.low_rank import nuclear_norm

ACCURATE = 1e-12  # tol of the fits by which C is found: the error of ‖W‖_* grows with the root of the gap
LARGEST_STEP = 1e12  # C is looked for within this factor of its first guess


def soft_impute_lambda(model: MatrixCompletion) -> float:
    """λ at which soft-impute has the solution of a fitted model.

    Soft-impute minimises ``½ Σ (x_ij − w_ij)² + λ ‖W‖_*``, a fit ``C Σ (x_ij − w_ij)² + ½ ‖W‖_*²``. Both have the same
    solution W if λ = ‖W‖_* / (2C). This is also the ridge of a factorisation W = A Bᵀ that minimises
    ``Σ (x_ij − w_ij)² + λ (‖A‖² + ‖B‖²)`` at a rank of at least that of W.

    Parameters
    ----------
    model : MatrixCompletion
        Fitted in this process, with the square loss, ``weighting=0`` (or one that was found to be 0), without
        `average` and without standardised features. With effects, W is the low-rank part, and soft-impute finds it in
        X minus the effects.

    Returns
    -------
    float
        λ, to a relative accuracy of about √tol of a fit that has converged.

    Examples
    --------
    >>> import numpy as np
    >>> from rslm import MatrixCompletion
    >>> from rslm.estimators import soft_impute_lambda
    >>> X = np.diag([5.0, 3.0, 1.0])  # soft-impute reduces all singular values by λ
    >>> model = MatrixCompletion(rank=3, C=1.0, effects=None, tol=1e-9, random_state=0).fit(X)
    >>> round(soft_impute_lambda(model), 4)  # 5 − λ + 3 − λ = 2λ, and 1 < λ
    2.0
    """
    check_is_fitted(model)
    obstacle = _obstacle(model)
    if obstacle is not None:
        raise ValueError(f"{obstacle}; fit it here, with loss='square', weighting=0, scale=False and average=None")
    observed = model.residuals_  # at the solution, rows and columns without an entry are zero; the model fills them
    left, right = model.row_factors_[observed.row_counts() > 0], model.col_factors_[observed.col_counts() > 0]
    return nuclear_norm(left, right) / (2.0 * model.C_)


def C_for_soft_impute(X: Any, lam: float, rank: int, *, tol: float = 1e-6, random_state: int | None = 0) -> float:
    """C at which `MatrixCompletion` has the solution of soft-impute at λ.

    C = ‖W‖_* / (2λ) depends on the solution W, so it is found by about ten fits, ``MatrixCompletion(rank, C,
    effects=None, weighting=0)``, each with a warm start.

    Parameters
    ----------
    X : array, DataFrame, scipy.sparse matrix or ObservedMatrix of shape (n_samples, n_features)
        As in `MatrixCompletion.fit`. Centre it first if soft-impute does.
    lam : float
        λ, positive and below the largest singular value of X with zeros for missing entries. At that value and above
        it, the solution of soft-impute is zero.
    rank : int
        Limit on the rank of W, `rank.max` of softImpute.
    tol : float, default=1e-6
        Relative accuracy of C.
    random_state : int or None, default=0
        Seed of the fits.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from rslm.estimators import C_for_soft_impute
    >>> round(C_for_soft_impute(np.diag([5.0, 3.0, 1.0]), 2.0, rank=3), 4)
    1.0
    """
    data = ObservedMatrix.from_any(X)
    largest = _largest_singular_value(data)
    if not 0.0 < lam < largest:
        raise ValueError(
            f"lam must be positive and below the largest singular value of X, {largest:.6g}; from there on the "
            f"solution of soft-impute is zero; got {lam!r}"
        )
    model = MatrixCompletion(
        rank, effects=None, weighting=0, scale=False, tol=ACCURATE, warm_start=True, random_state=random_state
    )

    def excess(log_C: float) -> float:
        """The logarithm of λ at C relative to the one that is wanted; it falls with C, by less than log C rises."""
        return math.log(soft_impute_lambda(model.set_params(C=math.exp(log_C)).fit(data)) / lam)

    near = math.log((largest - lam) / (2.0 * lam))  # exact for a matrix of rank 1 without missing entries
    step = found = excess(near)
    far = near
    while found * step > 0.0:  # the root is at least `step` away
        if abs(step) > math.log(LARGEST_STEP):
            raise ValueError(
                f"no C was found for lam={lam!r} at rank {rank}; raise the rank, or take a lam further from "
                f"0 and from the largest singular value, {largest:.6g}"
            )
        near, far, step = far, far + step, 2.0 * step
        found = excess(far)
    return math.exp(far if found == 0.0 else brentq(excess, near, far, xtol=tol, rtol=4.0 * np.finfo(float).eps))


def _obstacle(model: MatrixCompletion) -> str | None:
    """Why the objective of a fit is not that of soft-impute up to the form of the regularisation."""
    if not as_loss(model.loss).quadratic:
        return f"soft-impute has the square loss, and the model has loss={model.loss!r}"
    if model.weighting_ != 0:
        return f"soft-impute has the plain trace norm, and the model has weighting_={model.weighting_:g}"
    if model._subspace.units is not None:
        return "the model has standardised the features, so that its trace norm is not that of the data"
    if model.average is not None:
        return "the model averages over draws, which do not solve the problem of soft-impute"
    if not hasattr(model, "residuals_"):
        return "the model has no residuals_, so it is not known which rows and columns had entries"
    return None


def _largest_singular_value(data: ObservedMatrix) -> float:
    weights = 1.0 if data.weights is None else data.weights
    matrix = data.with_values(data.values.astype(np.float64) * weights).to_csr()
    if min(matrix.shape) <= 2:  # Lanczos needs more
        return float(np.linalg.norm(matrix.toarray(), 2))
    return float(svds(matrix, k=1, return_singular_vectors=False, random_state=0)[0])
