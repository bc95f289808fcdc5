"""Numbers at the ends of what floats hold, and parameters that are nonsense: found by `tests/fuzz/estimators.py`."""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from plain import plain_completion
from rslm import (
    HankelModel,
    MatrixCompletion,
    MultiTaskClassifier,
    MultiTaskRegressor,
    ObservedMatrix,
    Problem,
    ReducedRankRegressor,
    load,
    solve,
)
from rslm.estimators.completion.bounds import clipped
from rslm.evaluation.objective import Evaluation, Objective
from rslm.inner.entries.active_set import MOST_STEPS, SmoothColumns
from rslm.inner.entries.leverage import leverages
from rslm.inner.features.shared_systems import _divided, _factorised
from rslm.inner.kept import nearest, worst_violation
from rslm.kernels import Columns, Factors
from rslm.losses import Absolute, Hinge, Huber, Square
from rslm.measurements import Entries
from rslm.solvers.conjugate_gradient import ConjugateGradient
from rslm.solvers.manifold import Tangent
from rslm.solvers.point import Point
from rslm.solvers.trust_region import TrustRegion
from rslm.structures import Box

RNG = np.random.default_rng(0)
X = RNG.standard_normal((9, 2)) @ RNG.standard_normal((2, 7)) + 0.1 * RNG.standard_normal((9, 7))


def product(model):
    return model.row_factors_ @ model.col_factors_.T


# ---- bounds --------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("C", [1e9, 1e12])
@pytest.mark.parametrize("loss", [Huber(0.01), "absolute"])
def test_bounds_are_kept_where_the_systems_are_almost_singular(C, loss):
    """All rows alike, so that most directions of the subspace are free, and C so large that nothing holds them."""
    alike = np.tile(RNG.standard_normal(9), (4, 1))
    model = plain_completion(4, C, loss=loss, bounds=(alike[0] - 0.2, None), tol=0.01, max_iter=15, random_state=0)
    W = product(model.fit(alike))
    assert model.outcome_ == "failed" or (alike[0] - 0.2 - W).max() <= 1e-9 * max(np.abs(alike).max(), np.abs(W).max())


def test_columns_that_are_beyond_their_bounds_are_moved_inside():
    U, V = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), np.array([[1.0, -1e-3], [0.2, 0.3]])
    lower, upper = np.zeros((3, 2)), np.ones((3, 2))
    assert worst_violation(U, V, lower, upper)[0] == pytest.approx(1e-3)
    moved = nearest(U, V, lower, upper, 1)
    violation, allowed = worst_violation(U, moved, lower, upper)
    assert violation <= allowed
    np.testing.assert_allclose(moved, [[1.0, 0.0], [0.2, 0.3]], atol=1e-12)


def test_predictions_are_at_the_bounds_themselves():
    """Not at what rounding errors of a difference make of them."""
    low, values = RNG.standard_normal(1000), RNG.standard_normal(1000)
    at = np.arange(1000)
    found = clipped(values, Box(low[None, :], None), np.zeros(1000, dtype=int), at)
    assert np.array_equal(found, np.maximum(values, low))


def test_a_bound_that_nothing_comes_near_is_none():
    plain = plain_completion(2, 10.0, random_state=0).fit(X)
    far = plain_completion(2, 10.0, bounds=(-1e300, None), random_state=0).fit(X)
    np.testing.assert_array_equal(product(far), product(plain))


@pytest.mark.filterwarnings("ignore:.* beyond the bounds:UserWarning")
def test_a_bound_beyond_all_data_is_refused_where_they_cannot_be_scaled():
    with pytest.raises(ValueError, match=r"bounds must be between −1e\+40 and 1e\+40, one is ±1e\+300"):
        plain_completion(2, loss="huber", bounds=(1e300, None)).fit(np.abs(X) + 1e-3)


def test_newton_steps_that_lead_nowhere_come_to_an_end(monkeypatch):
    """Targets from 1e-11 to 1, so that the kinks are rounded by next to nothing beside the largest."""
    steps = []
    newton_steps, solved = SmoothColumns._newton_steps, SmoothColumns.solve

    def counted(self, D):
        steps[-1] += 1
        return newton_steps(self, D)

    def solve_counted(self):
        steps.append(0)
        return solved(self)

    monkeypatch.setattr(SmoothColumns, "_newton_steps", counted)
    monkeypatch.setattr(SmoothColumns, "solve", solve_counted)
    rng = np.random.default_rng(1)
    Y = rng.standard_normal((2, 12)) * 10.0 ** rng.uniform(-13, 0, (2, 12))
    solve(Problem(Absolute(), Entries(Y), Box(-0.5, None), C=1e12), 2, max_iter=3, random_state=0)
    assert max(steps) < MOST_STEPS


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("bounds", [(0, None), (1, 5), (np.linspace(0.1, 0.7, 7), None), (np.ones((9, 1)), 5.0)])
@pytest.mark.parametrize("max_iter", [1, 10])
def test_no_answer_within_bounds_is_worse_than_the_one_nearest_to_zero(bounds, max_iter):
    Y = np.abs(X)
    model = plain_completion(3, 1e11, loss="absolute", bounds=bounds, max_iter=max_iter, random_state=0).fit(Y)
    lower, upper = Box(*bounds).planes(Y.shape)
    near, W = np.clip(np.zeros(Y.shape), lower, upper), product(model)
    assert np.abs(W - Y).sum() <= np.abs(near - Y).sum() * (1 + 1e-9)
    assert model.certificate_.primal == pytest.approx(1e11 * np.abs(W - Y).sum(), rel=1e-6)


def test_kinks_are_rounded_as_the_errors_within_bounds_ask_for():
    """No error is left without the bounds, large ones with them: the width of one would be hopeless for the other."""
    y, i = np.array([1.0, 1, -1, -1, -1, -1, -1]), np.array([0, 1, 1, 1, 1, 0, 0])
    data = ObservedMatrix.from_triplets(i, np.arange(7), y, (2, 7))
    for solver in ("trust-region", "conjugate-gradient"):
        result = solve(Problem(Hinge(), Entries(data), Box(0, 1), C=112.6), 2, solver=solver, random_state=0)
        assert result.converged
        assert result.certificate.relative_gap <= 1e-5


# ---- magnitudes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_scores_and_certificates_of_extreme_data(scale):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model, plain = (plain_completion(2, 10.0, random_state=0).fit(X * s) for s in (scale, 1.0))
        assert model.score(X * scale) == pytest.approx(plain.score(X))
        assert model.score(X[:4] * scale) == pytest.approx(plain.score(X[:4]))
        np.testing.assert_allclose(model.transform(X[:4] * scale) / scale, plain.transform(X[:4]), atol=1e-9)
        assert model.certificate_.relative_gap == pytest.approx(plain.certificate_.relative_gap, rel=1e-3)
        assert not np.isnan(model.history_["objective"]).any()


def test_zeros_stay_zero_in_any_unit():
    c = solve(Problem(Square(), Entries(np.zeros((3, 4)))), 2, random_state=0).certificate
    for scale in (2.0**-1000, 2.0**1000):
        scaled = c.scaled(scale)
        assert (scaled.primal, scaled.dual, scaled.gap, scaled.sigma_max) == (0.0, 0.0, 0.0, 0.0)


def test_an_objective_that_is_a_number_though_the_square_of_the_scale_is_none():
    model = plain_completion(2, 1e-30, random_state=0).fit(X * 1e160)
    assert math.isfinite(model.certificate_.primal)


def test_a_file_keeps_large_objectives(tmp_path):
    model = plain_completion(2, 1.0, random_state=0).fit(X * 1e100)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").certificate_ == model.certificate_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # promised is a finite answer, not the end
@pytest.mark.parametrize("seed", range(5))
def test_small_numbers_beside_large_ones_are_nothing(seed):
    mixed = X * 10.0 ** np.random.default_rng(seed).uniform(-300, 0, X.shape)
    mixed[0, 0] = 1.0
    model = plain_completion(2, 10.0, loss="absolute", tol=1e-3, random_state=0).fit(mixed)
    assert np.isfinite(product(model)).all()


@pytest.mark.parametrize("loss", ["absolute", "huber"])
@pytest.mark.parametrize("scale", [1e-100, 1e60])
def test_data_that_cannot_be_squared_are_refused_where_they_cannot_be_scaled(loss, scale):
    with pytest.raises(ValueError, match=r"the largest of 63 observed values is .*; multiply the data by a number"):
        plain_completion(2, loss=loss).fit(X * scale)


@pytest.mark.parametrize("C", [1e-300, 1e300, 10**400])
def test_a_weight_beside_which_nothing_is_left_is_refused(C):
    with pytest.raises(ValueError, match="C must be"):
        plain_completion(2, C).fit(X)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_targets_of_any_magnitude_that_are_not_explained(scale):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fits = [ReducedRankRegressor(1, random_state=0).fit(X[:, :2], X[:, 2:] * s) for s in (scale, 1.0)]
    assert fits[0].certificate_.relative_gap == pytest.approx(fits[1].certificate_.relative_gap, rel=1e-3)
    np.testing.assert_allclose(fits[0].coef_ / scale, fits[1].coef_, atol=1e-6)


def test_features_too_large_to_multiply_are_refused_when_predicting_too():
    model = MultiTaskRegressor(1).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="rescale"):
        model.predict(X * 1e200)


# ---- steps and systems that rounding errors have spoiled -----------------------------------------------------------


def test_a_matrix_that_is_positive_but_for_rounding_errors_is_solved():
    solved = _factorised(np.diag([3.0, -1e-9]))(np.array([6.0, 2.0]))
    np.testing.assert_allclose(solved, [2.0, 2.0])
    assert np.isnan(_factorised(np.diag([3.0, np.nan]))(np.ones(2))).all()


def test_coefficients_of_a_columns_own_are_eliminated_where_nothing_holds_them():
    H = np.array([[[2.0, 1.0], [1.0, 3.0]], [[1e300, 1e300], [1e300, 1e300]]])
    own = np.array([0.5, 1.0])
    expected = H[0] @ np.linalg.inv(np.eye(2) + 0.25 * H[0])
    for found in (_divided(H[:1], own[:1])[0], _divided(H, own)[0]):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(_divided(H, own)[1], np.full((2, 2), 0.5), rtol=1e-12)
    assert np.isnan(_divided(H * np.inf, own)).all()


def test_a_fit_that_finds_nothing_answers_zero(monkeypatch):
    def lost(self, *args, **kwargs):
        self.value = math.nan

    made = Evaluation.__init__
    monkeypatch.setattr(Evaluation, "__init__", lambda self, *args: (made(self, *args), lost(self))[0])
    result = solve(Problem(Square(), Entries(X), C=3.0), 2, random_state=0)
    assert result.outcome.value == "failed"
    assert not result.V.any()
    assert result.certificate.primal == pytest.approx(3.0 * float((X * X).sum()))


def test_a_search_that_fails_is_not_repeated():
    for kind in (ConjugateGradient, TrustRegion):
        objective = Objective(Problem(Square(), Entries(X), C=3.0), 1)
        method, point = kind(), Point(objective.evaluate(np.linalg.qr(RNG.standard_normal((9, 2)))[0] / math.sqrt(2)))
        tried = []

        def nowhere(U, objective=objective, tried=tried):
            tried.append(U)
            return SimpleNamespace(value=math.inf)

        assert method.step(point, nowhere) is point
        before = len(tried)
        assert method.step(point, nowhere) is point
        assert before > 1
        assert len(tried) - before <= 1


def test_a_preconditioner_that_is_not_positive_is_done_without(monkeypatch):
    monkeypatch.setattr(Point, "precondition", lambda self, eta: -eta)
    result = solve(Problem(Square(), Entries(X), C=3.0), 2, random_state=0, tol=1e-4)
    assert result.converged


@pytest.mark.parametrize("far", [1e200, np.inf, np.nan])
def test_a_step_beyond_all_numbers_ends_on_the_manifold(far):
    U = RNG.standard_normal((5, 2))
    tangent = Tangent(U / np.linalg.norm(U))
    for step in (np.full((5, 2), far), -tangent.U):
        assert np.linalg.norm(tangent.retract(step)) == pytest.approx(1.0)


def test_the_leverage_of_a_singular_matrix_is_unknown():
    columns, factors = Columns(np.array([0, 2]), np.array([0, 1], dtype=np.int32), 2), Factors.scratch(1, 2)
    factors.data[:] = np.nan
    assert np.array_equal(leverages(columns, np.ones((2, 2)), factors, 1), [0.0, 0.0])


def test_an_objective_that_is_no_number_is_infinite():
    solution = SimpleNamespace(value=math.nan, gradient=np.zeros((2, 1)), violation_cost=0.0, noise=0.0)
    assert Evaluation(np.ones((2, 1)), solution, SimpleNamespace(packing=None, single=False)).value == math.inf


# ---- what is said --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [MultiTaskRegressor, MultiTaskClassifier, ReducedRankRegressor])
@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (X.ravel(), ValueError, r"Expected a matrix of two dimensions .* got shape \(63,\)\. Reshape your data"),
        (X.astype("M8[s]"), TypeError, "real numbers are needed"),
        (X.astype("M8[s]").tolist(), TypeError, "values that are not real numbers"),
    ],
    ids=["vector", "dates", "list of dates"],
)
def test_what_is_no_matrix_of_numbers_is_told_in_our_words(estimator, given, kind, message):
    with pytest.raises(kind, match=message):
        estimator().fit(given, np.arange(len(given)) % 2)


@pytest.mark.parametrize("estimator", [MultiTaskRegressor, MultiTaskClassifier])
def test_targets_are_one_column(estimator):
    with pytest.raises(
        ValueError, match=r"y must have shape \(n,\), one target for every row of X; got \(9, 7\)\. ReducedRank"
    ):
        estimator().fit(X, X > 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"random_state": "x"}, "random_state must be a whole number"),
        ({"random_state": -1}, "random_state must be a whole number"),
        ({"weighting": 10**400}, "weighting must be a finite number"),
        ({"max_time": 10**400}, "max_time must be None or a positive number"),
        ({"tol": np.inf}, "tol must be a finite number"),
        ({"tol": True}, "tol must be a finite number"),
        ({"n_threads": 10**9}, "n_threads must be at most 32768"),
    ],
)
def test_nonsense_is_told(options, message):
    with pytest.raises(ValueError, match=message):
        plain_completion(2, **options).fit(X)


@pytest.mark.parametrize(
    "options", [{"tol": None}, {"rank": "x"}, {"C": "x"}, {"effects": "x"}, {"max_time": 10**400}], ids=str
)
def test_nonsense_is_told_by_a_search(options):
    with pytest.raises(ValueError, match="must be"):
        MatrixCompletion(**options).fit(X)


@pytest.mark.parametrize("options", [{"C": 10**400}, {"max_time": 10**400}], ids=str)
def test_nonsense_is_told_by_a_series(options):
    with pytest.raises(ValueError, match="positive finite number"):
        HankelModel(**options).fit(np.arange(20.0))


def test_what_has_no_entry_has_no_score():
    model = plain_completion(2).fit(X)
    for ask in (model.score, model.certify):
        with pytest.raises(ValueError, match="Nothing is observed"):
            ask(np.full((2, 7), np.nan))


def test_rows_that_all_have_to_be_moved_to_zero():
    """Of rank 1, with all data on the far side of a bound at 0."""
    with pytest.warns(UserWarning, match=r"beyond the bounds|is zero everywhere"):
        model = plain_completion(1, 0.03, bounds=(0.0, 2.0), random_state=0).fit(np.full((3, 1), -2.0))
    np.testing.assert_allclose(product(model), 0.0, atol=1e-9)


def test_a_search_compares_errors_whose_squares_are_not_finite():
    model = MatrixCompletion(random_state=0, tol=1e-3).fit(X * 1e200)
    assert np.isfinite(model.path_["error"]).all()
    assert np.isfinite(list(model.held_out_.values())).all()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_primal_value_is_the_objective_where_the_soft_problem_has_none():
    """Stopped on the way, with kinks still rounded: the certificate is about the loss itself all the same."""
    rng = np.random.default_rng(0)
    Y = np.where(rng.random((12, 11)) < 0.3, rng.integers(0, 2, (12, 11)), np.nan)
    Y[0], Y[:, 0] = 1.0, 0.0  # rows and columns without an entry would get factors that the objective does not know
    for C in (8.0, 1e12):
        model = plain_completion(11, C, loss="hinge", bounds=(0.2, 0.6), max_iter=3, random_state=0).fit(Y)
        W, known = product(model), ~np.isnan(Y)
        hinge = np.maximum(1 - (2 * Y[known] - 1) * W[known], 0).sum()
        objective = C * hinge + 0.5 * np.linalg.svd(W, compute_uv=False).sum() ** 2
        assert model.certificate_.primal == pytest.approx(objective, rel=1e-6)
