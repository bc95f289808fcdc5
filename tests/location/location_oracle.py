"""Problems with a location, and the optimum that CVXPY finds for them."""

import cvxpy as cp
import numpy as np

from rslm.losses import EpsilonInsensitive, Huber, Quantile
from rslm.structures import Box


def losses(loss, y, w):
    """ℓ(y, w) of every observation, as an expression."""
    name = type(loss).__name__
    if name == "Huber":
        assert isinstance(loss, Huber)
        return 0.5 * cp.huber(w - y, loss.delta)
    if name == "EpsilonInsensitive":
        assert isinstance(loss, EpsilonInsensitive)
        return cp.pos(cp.abs(w - y) - loss.epsilon)
    if name == "Quantile":
        assert isinstance(loss, Quantile)
        return cp.maximum(loss.tau * (y - w), (loss.tau - 1) * (y - w))
    return {
        "Square": lambda: cp.square(w - y),
        "Absolute": lambda: cp.abs(w - y),
        "Logistic": lambda: cp.logistic(-cp.multiply(y, w)),
        "Hinge": lambda: cp.pos(1 - cp.multiply(y, w)),
    }[name]()


def optimum(problem):
    """The optimal value, without a limit on the rank."""
    (d, T), location, data = problem.shape, problem.location, problem.data
    p, q = (np.ones(n) if w is None else w for n, w in ((d, problem.row_weights), (T, problem.column_weights)))
    W, b, c, mean = cp.Variable((d, T)), cp.Variable(d), cp.Variable(T), cp.Variable()
    value = 0.5 * cp.square(cp.normNuc(np.diag(np.sqrt(p)) @ W @ np.diag(np.sqrt(q))))
    rows, columns = data.places()
    if "tasks" in data.traits:
        X = data.features.times(np.eye(d), 1)[rows]
        predicted = cp.sum(cp.multiply(X, W[:, columns].T), axis=1)
        predicted += X @ b if location.rows is not None else 0.0
    else:
        whole = cp.vec(W, order="F")
        predicted = whole[rows + d * columns] + (b[rows] if location.rows is not None else 0.0)
    predicted += c[columns] if location.columns is not None else 0.0
    predicted += mean if location.mean else 0.0
    if location.covariates is not None:
        predicted += location.covariates @ cp.Variable(location.covariates.shape[1])
    value += 0.5 * location.rows * cp.sum_squares(b) if location.rows else 0.0
    value += 0.5 * location.columns * cp.sum_squares(c) if location.columns else 0.0
    weights = np.ones(len(data)) if data.weights is None else data.weights
    value += problem.C * cp.sum(cp.multiply(weights, losses(problem.loss, data.values, predicted)))
    rules = []
    if isinstance(problem.structure, Box):
        whole = W + mean * np.ones((d, T)) if location.mean else W
        if location.rows is not None:
            whole += cp.reshape(b, (d, 1), order="C") @ np.ones((1, T))
        if location.columns is not None:
            whole += np.ones((d, 1)) @ cp.reshape(c, (1, T), order="C")
        lower, upper = problem.structure.planes((d, T))
        rules += [whole[np.isfinite(lower)] >= lower[np.isfinite(lower)]] if np.isfinite(lower).any() else []
        rules += [whole[np.isfinite(upper)] <= upper[np.isfinite(upper)]] if np.isfinite(upper).any() else []
    return float(cp.Problem(cp.Minimize(value), rules).solve(solver=cp.CLARABEL))


def predictions(result):
    """W plus the location at every entry."""
    W, effects = result.left @ result.V.T, result.effects
    return W + effects.mean + effects.rows[:, None] + effects.columns


def objective(problem, result):
    """The objective of a result, from its parts."""
    p, q = (
        np.ones(n) if w is None else w
        for n, w in zip(problem.shape, (problem.row_weights, problem.column_weights), strict=True)
    )
    W, data, effects, location = result.left @ result.V.T, problem.data, result.effects, problem.location
    rows, columns = data.places()
    if "tasks" in data.traits:
        X = data.features.times(np.eye(problem.shape[0]), 1)[rows]
        w = np.einsum("pk,kp->p", X, (W + effects.rows[:, None])[:, columns]) + effects.mean + effects.columns[columns]
    else:
        w = predictions(result)[rows, columns]
    if location.covariates is not None:
        w = w + location.covariates @ effects.coefficients
    weights = 1.0 if data.weights is None else data.weights
    loss = problem.C * float(np.sum(weights * problem.loss.value(np.asarray(data.values, dtype=float), w)))
    trace = float(np.linalg.norm(np.sqrt(p)[:, None] * W * np.sqrt(q), "nuc"))
    ridges = (location.rows or 0.0) * effects.rows @ effects.rows
    ridges += (location.columns or 0.0) * effects.columns @ effects.columns
    return loss + 0.5 * trace**2 + 0.5 * float(ridges)
