"""What every fit promises, checked by plain formulas of its own."""

from __future__ import annotations

import math
import traceback
from typing import Any

import numpy as np
from scipy import sparse

from rslm import ObservedMatrix
from rslm.estimators.choices import as_loss

ALLOWED = (ValueError, TypeError, OSError, MemoryError)
OWN = "/rslm/"
#: Messages of NumPy, SciPy and scikit-learn that tell of our insides, or of nothing that the user has given.
RAW = (
    "did not converge",
    "Singular matrix",
    "Expected 2D array",
    "Expected 1D array",
    "should be a 1d array",
    "infs or NaNs",
)
KEPT = 1e-9  # of the scale of data and bounds: how far W may be beyond its bounds
ROUNDING = 1e4 * np.finfo(float).eps  # of sums over some hundred entries


def told(error: BaseException) -> None:
    """An error is of a kind that users expect, raised on purpose, and a sentence."""
    frames = traceback.extract_tb(error.__traceback__)
    where, message = frames[-1], str(error)
    ours = OWN in where.filename
    checked = "/sklearn/" in where.filename  # of data, in the words that its users know
    assert isinstance(error, ALLOWED), "an error of this kind says nothing to a user"
    assert not isinstance(error, np.linalg.LinAlgError), "an error of NumPy's own"
    assert ours or checked, f"raised in {where.filename}"
    assert "raise" in (where.line or ""), f"not raised on purpose: {where.line}"
    assert len(message.split()) >= 4, "not a sentence"
    assert not any(raw in message for raw in RAW), "a message about our insides"


def snapshot(given: Any) -> Any:
    """What can be compared after a fit with what was given."""
    if sparse.issparse(given):
        return type(given), given.shape, given.dtype, given.nnz, given.toarray().tobytes()
    if isinstance(given, ObservedMatrix):
        return given.indptr.tobytes(), given.index.tobytes(), given.values.tobytes()
    if isinstance(given, np.ma.MaskedArray):
        return given.data.tobytes(), np.ma.getmaskarray(given).tobytes()
    if isinstance(given, np.ndarray):
        return given.dtype, given.shape, given.tolist() if given.dtype.kind == "O" else given.tobytes()
    if hasattr(given, "columns"):
        return list(given.columns), list(given.index), repr(given.to_numpy().tolist())
    return repr(given)


def losses(loss: Any, y: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ℓ(y, w) by its formula, and how steep it is at most about there."""
    loss = as_loss(loss)
    name, e = type(loss).__name__, y - w
    if loss.binary:
        y = np.where(y > 0, 1.0, -1.0)
        gap = 1.0 - y * w
    match name:
        case "Square":
            return e**2, 2 * np.abs(e)
        case "Absolute":
            return np.abs(e), np.ones_like(e)
        case "EpsilonInsensitive":
            return np.maximum(np.abs(e) - loss.epsilon, 0), np.ones_like(e)
        case "Quantile":
            return np.maximum(loss.tau * e, (loss.tau - 1) * e), np.ones_like(e)
        case "Huber":
            d = loss.delta
            return np.where(np.abs(e) <= d, 0.5 * e**2, d * (np.abs(e) - 0.5 * d)), np.minimum(np.abs(e), d)
        case "Hinge":
            return np.maximum(gap, 0), np.ones_like(e)
        case "SquaredHinge":
            return np.maximum(gap, 0) ** 2, 2 * np.maximum(gap, 0)
        case "Logistic":
            return np.logaddexp(0, -y * w), np.ones_like(e)
    raise AssertionError(name)


def certified(c: Any, primal: float | None = None, slack: float = 0.0) -> None:
    """The certificate holds no NaN, the dual value is not above the primal one, and that is the objective."""
    numbers = c.primal, c.dual, c.gap, c.relative_gap, c.sigma_max, c.scaling, *(r.amount for r in c.relaxations)
    assert not any(math.isnan(x) for x in numbers), f"NaN in the certificate: {c!r}"
    assert c.dual <= c.primal + 1e-6 * abs(c.primal) + slack, f"dual above primal: {c!r}"
    assert c.gap >= 0
    assert c.relative_gap >= 0
    assert c.verdict
    assert c.meaning
    assert str(c)
    if primal is not None and math.isfinite(primal) and math.isfinite(slack):
        tiny = np.finfo(float).tiny  # below it numbers have fewer digits
        assert abs(c.primal - primal) <= 1e-6 * abs(primal) + slack + tiny, (
            f"the objective is {primal}, not the primal: {c!r}"
        )


def completion_primal(
    data: ObservedMatrix, loss: Any, C: float, weighting: float, left: np.ndarray, right: np.ndarray
) -> tuple[float, float]:
    """C Σ ℓ + ½ ‖W‖_*² from the factors, and how far rounding may take it."""
    with np.errstate(all="ignore"):
        i, j = data.rows_of_entries(), data.index
        W, size = left @ right.T, np.abs(left) @ np.abs(right).T
        y = data.values.astype(np.float64)
        cost, slope = losses(loss, y, W[i, j])
        wrong = (size[i, j] + np.abs(y)) * (1.0 if data.values.dtype == np.float64 else 1e9)
        counts = [np.maximum(n, 1) / n.mean() for n in (data.row_counts(), data.col_counts())]
        p, q = (n**weighting for n in counts)
        weights = np.sqrt(np.outer(p, q))
        if not (np.isfinite(W).all() and np.isfinite(cost).all()):
            return math.inf, math.inf
        weighted, of_size = W * weights, size * weights
        top = float(np.abs(of_size).max()) or 1.0
        trace = float(np.linalg.svd(weighted / top, compute_uv=False).sum()) * top if math.isfinite(top) else math.inf
        off = ROUNDING * float(np.linalg.norm(of_size / top)) * top * min(W.shape)
        rounding = C * ROUNDING * float((slope * wrong).sum()) + off * (trace + off)
        return C * float(cost.sum()) + 0.5 * trace * trace, rounding


def finite(**arrays: Any) -> None:
    for name, array in arrays.items():
        assert np.isfinite(np.asarray(array, dtype=float)).all(), f"{name} is not finite: {array!r}"


def within(box: Any, W: np.ndarray, scale: float) -> None:
    """W keeps its bounds, but for a small part of the scale of the data, the bounds and W itself."""
    if box is None:
        return
    lower, upper = box.planes(W.shape)
    scale = max(scale, float(np.abs(W).max()))
    with np.errstate(over="ignore"):
        beyond = float(np.maximum(lower - W, W - upper).max())
    assert beyond <= KEPT * scale, f"W is {beyond:g} beyond its bounds, at a scale of {scale:g}"
