"""λ of soft-impute and C: the solutions agree with independent solvers of the other problem."""

import cvxpy as cp
import numpy as np
import pytest

from rslm import MatrixCompletion, ObservedMatrix, load
from rslm.estimators import C_for_soft_impute, soft_impute_lambda


def observed(seed=0, shape=(20, 12), rank=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    X += 0.3 * rng.standard_normal(shape)
    X[rng.random(shape) < 0.4] = np.nan
    return X


def soft_imputed(X, lam):
    """By the algorithm: fill, reduce the singular values by λ, fill again."""
    seen, W, change = ~np.isnan(X), np.zeros_like(X), np.inf
    while change > 1e-10:
        left, values, right = np.linalg.svd(np.where(seen, X, W), full_matrices=False)
        new = (left * np.maximum(values - lam, 0.0)) @ right
        change, W = np.linalg.norm(new - W), new
    return W


def fitted(X, C, rank=12, **params):
    settings = {"effects": None, "weighting": 0, "tol": 1e-9, "random_state": 0} | params
    return MatrixCompletion(rank, C, **settings).fit(X)


@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
def test_soft_impute_at_lambda_has_the_same_solution(C):
    X = observed()
    model = fitted(X, C)
    np.testing.assert_allclose(soft_imputed(X, soft_impute_lambda(model)), model.predict(X), atol=1e-5)


@pytest.mark.parametrize("lam", [0.3, 2.0, 6.0])
def test_C_gives_the_solution_of_soft_impute(lam):
    X = observed(1)
    C = C_for_soft_impute(X, lam, rank=12)
    model = fitted(X, C)
    assert soft_impute_lambda(model) == pytest.approx(lam, rel=1e-5)
    np.testing.assert_allclose(model.predict(X), soft_imputed(X, lam), atol=1e-5)


def test_the_convex_problem_of_soft_impute():
    X, lam = observed(2, (8, 6)), 1.5
    seen = ~np.isnan(X)
    W = cp.Variable(X.shape)
    errors = cp.multiply(seen, W - np.where(seen, X, 0.0))
    cp.Problem(cp.Minimize(0.5 * cp.sum_squares(errors) + lam * cp.normNuc(W))).solve(solver=cp.SCS, eps=1e-8)
    model = fitted(X, C_for_soft_impute(X, lam, rank=6), rank=6)
    np.testing.assert_allclose(model.predict(X), W.value, atol=1e-4)


def test_alternating_ridge_regressions_have_the_same_lambda():
    """Σ (x − w)² + λ (‖A‖² + ‖B‖²), as ALS minimises it, at the rank of W or above."""
    X, rank = observed(3, (12, 8)), 5
    model = fitted(X, 1.0, rank=min(X.shape), tol=1e-12)
    assert model.rank_ <= rank
    lam, seen, rng = soft_impute_lambda(model), ~np.isnan(X), np.random.default_rng(0)
    A, B = rng.standard_normal((len(X), rank)), rng.standard_normal((X.shape[1], rank))
    for _ in range(600):
        for left, right, x, of in ((A, B, X, seen), (B, A, X.T, seen.T)):
            for i in range(len(left)):
                R = right[of[i]]
                left[i] = np.linalg.solve(R.T @ R + lam * np.eye(rank), R.T @ x[i, of[i]])
    np.testing.assert_allclose(A @ B.T, model.predict(X), atol=1e-5)


def test_with_effects_W_solves_soft_impute_for_what_they_leave():
    X = observed(4) + 3.0
    model = fitted(X, 1.0, effects=(5.0, 5.0), scale=False)
    W = model.row_factors_ @ model.col_factors_.T
    rest = X - (model.predict(X) - W)
    np.testing.assert_allclose(soft_imputed(rest, soft_impute_lambda(model)), W, atol=1e-5)


def test_a_limit_on_the_rank():
    X = observed(5)
    C = C_for_soft_impute(X, 0.5, rank=1)
    assert soft_impute_lambda(fitted(X, C, rank=1)) == pytest.approx(0.5, rel=1e-5)


def test_other_forms_of_data():
    X = observed(6)
    C = C_for_soft_impute(X, 1.0, rank=12)
    assert C_for_soft_impute(ObservedMatrix.from_any(X), 1.0, rank=12) == C
    twice = ObservedMatrix.from_any(X).weighted(np.full((~np.isnan(X)).sum(), 2.0))
    # 2 · ½ Σ (x − w)² + 2λ ‖W‖_* is the same problem, and so is 2 (C/2) Σ (x − w)².
    assert C_for_soft_impute(twice, 2.0, rank=12) == pytest.approx(C / 2, rel=1e-5)
    assert C_for_soft_impute(np.diag([5.0, 3.0]), 1.0, rank=2) == pytest.approx(3.0)


def test_rows_and_columns_without_an_entry():
    """`MatrixCompletion` predicts them like average ones; at the solution they are zero."""
    X = observed(7)
    C = C_for_soft_impute(X, 1.0, rank=12)
    X = np.pad(X, ((0, 4), (0, 3)), constant_values=np.nan)
    with pytest.warns(UserWarning, match="no observed entry"):
        assert C_for_soft_impute(X, 1.0, rank=12) == pytest.approx(C, rel=1e-5)


@pytest.mark.parametrize("lam", [0.0, -1.0, 1e9, np.nan])
def test_lambda_without_a_C_is_refused(lam):
    with pytest.raises(ValueError, match="lam must be positive and below the largest singular value"):
        C_for_soft_impute(observed(), lam, rank=3)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"loss": "huber"}, "square loss"),
        ({"weighting": 0.5}, "plain trace norm"),
        ({"effects": (5.0, 5.0), "scale": True}, "standardised"),
        ({"effects": (5.0, 5.0), "average": 3, "scale": False}, "draws"),
    ],
)
def test_other_objectives_are_refused(params, message):
    model = fitted(observed(), 1.0, rank=2, **{"tol": 1e-3} | params)
    with pytest.raises(ValueError, match=message):
        soft_impute_lambda(model)


def test_a_model_from_a_file_is_refused(tmp_path):
    fitted(observed(), 1.0).save(tmp_path / "model.rslm")
    with pytest.raises(ValueError, match="no residuals_"):
        soft_impute_lambda(load(tmp_path / "model.rslm"))
