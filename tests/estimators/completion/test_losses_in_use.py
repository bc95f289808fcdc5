"""What a user sees of a loss: recovery, forecasts of classes, residuals, errors, files."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import rslm
from plain import plain_completion
from rslm import Objective, ObservedMatrix
from rslm.estimators.choices import as_loss
from rslm.losses import (
    BY_NAME,
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Interval,
    Logistic,
    Loss,
    Quantile,
    Square,
    SquaredHinge,
)
from rslm.solvers import answer

nan = np.nan


def panel(outliers=0.08, noise=0.0, shape=(120, 80), rank=3, observed=0.5, seed=0):
    """A low-rank matrix, what is observed of it, and where the observations are nonsense."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((shape[1], rank)).T
    wrong = rng.random(shape) < outliers
    X = W + noise * rng.standard_normal(shape) + np.where(wrong, 10 * W.std() * rng.standard_normal(shape), 0.0)
    X[rng.random(shape) >= observed] = nan
    return W, X, wrong & ~np.isnan(X)


def error(model, W, X):
    unseen = np.isnan(X)
    return np.linalg.norm((model.row_factors_ @ model.col_factors_.T - W)[unseen]) / np.linalg.norm(W[unseen])


def fit(X, loss, C=1e3, rank=3, **options):
    return plain_completion(rank, C, loss=loss, random_state=0, **options).fit(X)


# ---- recovery -------------------------------------------------------------------------------------------------------


def test_the_absolute_loss_ignores_outliers_where_the_square_does_not():
    """The setting of benchmarks/robust.py at its full size."""
    W, X, _ = panel(shape=(800, 500), rank=5, observed=0.25)
    robust = fit(X, "absolute", C=1e4, rank=5)
    assert robust.converged_
    assert error(robust, W, X) <= 1e-6
    assert error(fit(X, "square", C=1e4, rank=5), W, X) > 0.1


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("loss", [Absolute(), Quantile(0.5), Huber(1e-3)], ids=repr)
def test_recovery_in_either_orientation(loss, transposed):
    W, X, _ = panel()
    if transposed:
        W, X = W.T, X.T
    # Huber's loss shrinks by δ, the others by what their rounding ends at, 1e-5 of the data.
    assert error(fit(X, loss, C=1e5 if loss == Huber(1e-3) else 1e3), W, X) < (1e-3 if loss == Huber(1e-3) else 1e-4)


@pytest.mark.parametrize("loss", ["absolute", "huber", "epsilon_insensitive"])
def test_noise_and_outliers(loss):
    """The error is about that of the noise spread over the parameters, where the square loss is far off."""
    W, X, _ = panel(noise=0.1)
    kind = {"huber": Huber(0.1), "epsilon_insensitive": EpsilonInsensitive(0.05)}.get(loss, loss)
    C = 1000.0 if loss == "huber" else 100.0  # Huber's loss is at most δ steep
    assert error(fit(X, kind, C=C), W, X) < 0.06
    assert error(fit(X, "square", C=100.0), W, X) > 0.3


def test_quantiles_are_ordered_and_cover():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 3)) @ rng.standard_normal((3, 60)) + rng.standard_normal((100, 60))
    low, high = (fit(X, Quantile(tau), C=10.0, max_iter=1000) for tau in (0.1, 0.9))
    below = [np.mean(m.residuals_.values < 0) for m in (low, high)]
    # The trace norm pulls towards 0, and six parameters a column follow the data: so not exactly 0.1 and 0.9.
    assert 0.05 < below[0] < 0.3
    assert 0.7 < below[1] < 0.95


@pytest.mark.parametrize("weighting", [0.0, 0.5])
@pytest.mark.parametrize("solver", ["trust-region", "conjugate-gradient"])
@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_every_loss_converges_and_is_certified(name, solver, weighting):
    """With a small C and room for the rank: the global optimum, kinks or not."""
    _, X, _ = panel(noise=0.3, shape=(30, 20))
    X = np.where(np.isnan(X), nan, X > 0) if BY_NAME[name]().binary else X
    m = fit(X, name, C=0.3, rank=12, solver=solver, weighting=weighting, max_iter=2000)
    assert m.converged_
    assert m.certificate_.relative_gap < 1e-3  # the gradient of a rounded loss may be small before its gap is
    assert m.certificate_.dual <= m.certificate_.primal * (1 + 1e-14)  # rounding


def test_one_bit_accuracy_is_near_that_of_the_truth():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((1000, 3)) @ rng.standard_normal((800, 3)).T
    known = rng.random(W.shape) < 0.3
    Y = W + rng.logistic(size=W.shape) > 0
    m = fit(np.where(known, Y, nan), "logistic", C=100.0)
    guess = m.row_factors_ @ m.col_factors_.T > 0
    assert np.mean(guess[~known] == Y[~known]) >= np.mean((W > 0)[~known] == Y[~known]) - 0.01


# ---- attributes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Square(), Absolute(), Huber(0.1)], ids=repr)
def test_residuals_are_what_is_left(loss):
    _, X, _ = panel(noise=0.1)
    m = fit(X, loss, C=10.0)
    left = m.residuals_.to_dense()
    np.testing.assert_array_equal(np.isnan(left), np.isnan(X))
    rows, cols = np.nonzero(~np.isnan(X))
    np.testing.assert_allclose(left[rows, cols], X[rows, cols] - m.predict(rows, cols), atol=1e-12)


def test_outlier_scores_find_the_outliers():
    _, X, wrong = panel(noise=0.1)
    m = fit(X, "absolute", C=100.0)
    scores = m.outlier_scores_.to_dense()
    known = ~np.isnan(X)
    assert np.median(scores[known]) == pytest.approx(1 / 1.4826)
    assert np.mean(scores[wrong] > 5) > 0.9  # some outliers happen to be small
    assert np.mean(scores[known & ~wrong] > 5) < 0.01


def test_outlier_scores_of_a_perfect_fit_are_zero():
    m = fit(np.zeros((4, 3)), "absolute", rank=1)
    assert not m.residuals_.values.any()
    assert not m.outlier_scores_.values.any()


def test_residuals_keep_the_ids():
    rows, cols = np.divmod(np.arange(24), 4)
    values = (rows + 1.0) * (cols + 1.0)
    values[13] = -50.0
    data = ObservedMatrix.from_ratings([f"row {i}" for i in rows], [f"col {j}" for j in cols], values)
    m = fit(data, "absolute", C=100.0, rank=1)
    worst = int(np.argmax(m.outlier_scores_.values))
    assert m.residuals_.row_ids[m.residuals_.rows_of_entries()[worst]] == "row 3"
    assert m.residuals_.col_ids[m.residuals_.index[worst]] == "col 1"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", ["absolute", "logistic"])
def test_single_precision(loss, dtype):
    W, X, _ = panel(noise=0.1)
    X = (np.where(np.isnan(X), nan, X > 0) if loss == "logistic" else X).astype(dtype)
    m = fit(X, loss, C=100.0, tol=1e-4)
    assert m.converged_
    assert m.residuals_.values.dtype == dtype
    assert np.isfinite(m.certificate_.dual)
    if loss == "absolute":
        assert error(m, W, X) < 0.2


# ---- two classes ----------------------------------------------------------------------------------------------------

CODINGS = {
    "booleans": lambda yes: yes,
    "0 and 1": lambda yes: yes.astype(float),
    "-1 and 1": lambda yes: np.where(yes, 1.0, -1.0),
    "integers": lambda yes: yes.astype(np.int64),
}


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("loss", [Logistic(), Hinge(), SquaredHinge()], ids=repr)
def test_however_the_classes_are_written(loss, coding):
    rng = np.random.default_rng(0)
    yes = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20)) > 0
    rows, cols = np.nonzero(rng.random(yes.shape) < 0.8)
    data = ObservedMatrix.from_triplets(rows, cols, CODINGS[coding](yes[rows, cols]), shape=yes.shape)
    m = fit(data, loss, C=3.0, rank=2, max_iter=1000)
    reference = fit(np.where(data.to_dense() == 1, 1.0, np.where(np.isnan(data.to_dense()), nan, -1.0)), loss, C=3.0,
                    rank=2, max_iter=1000)  # fmt: skip
    np.testing.assert_allclose(m.predict(rows, cols), reference.predict(rows, cols), atol=1e-6)
    assert m.classes_.tolist() == ([-1.0, 1.0] if coding == "-1 and 1" else [0.0, 1.0])
    assert m.score(data) > 0.9
    filled = m.transform(data)
    assert set(np.unique(filled)) <= set(m.classes_)
    np.testing.assert_array_equal(filled[rows, cols], data.values)


def test_probabilities():
    _, X, _ = panel(noise=0.3)
    m = fit(np.where(np.isnan(X), nan, X > 0), "logistic", C=10.0)
    rows, cols = [0, 1, 2], [3, 4, 5]
    np.testing.assert_allclose(m.predict_proba(rows, cols), 1 / (1 + np.exp(-m.predict(rows, cols))))
    assert m.predict_proba(X[:2] > 0).shape == (2, X.shape[1])
    assert np.abs(m.residuals_.values).max() < 1


@pytest.mark.parametrize("loss", ["square", "hinge", Absolute()])
def test_only_the_logistic_loss_has_probabilities(loss):
    m = plain_completion(loss=loss)
    assert not hasattr(m, "predict_proba")
    with pytest.raises(AttributeError):
        m.predict_proba([0], [0])


# ---- new samples ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Absolute(), Huber(0.1), EpsilonInsensitive(0.05), Logistic(), Hinge()], ids=repr)
def test_fitted_samples_get_their_own_factors_back(loss):
    _, X, _ = panel(noise=0.1)
    X = np.where(np.isnan(X), nan, X > 0) if loss.binary else X
    m = fit(X, loss, C=3.0, tol=1e-8, max_iter=2000)
    np.testing.assert_allclose(m.predict(X[:10]), m.row_factors_[:10] @ m.col_factors_.T, atol=1e-3)


def test_new_samples_with_outliers_are_filled_robustly():
    W, X, _ = panel(shape=(160, 80))
    m = fit(X[:120], "absolute")
    assert error(m, W[:120], X[:120]) < 1e-4
    filled = m.transform(X[120:])
    unseen = np.isnan(X[120:])
    assert np.linalg.norm((filled - W[120:])[unseen]) < 1e-3 * np.linalg.norm(W[120:][unseen])


@pytest.mark.parametrize("loss", [Huber(0.3), Logistic(), SquaredHinge()], ids=repr)
def test_left_out_entries_are_predicted_from_the_others(loss):
    """One Newton step away from where the sample really goes without the entry."""
    _, X, _ = panel(noise=0.3, outliers=0.02)
    X = np.where(np.isnan(X), nan, X > 0) if loss.binary else X
    m = fit(X[:100], loss, C=1.0)
    new = ObservedMatrix.from_any(X[100:])
    quick = m._subspace.left_out(new, loss, 1)
    slow = np.empty(len(new))
    for k, (i, j) in enumerate(zip(new.rows_of_entries(), new.index, strict=True)):
        without = X[100 + i].copy()
        without[j] = nan
        slow[k] = m.predict(without[None])[0, j]
    kept = X[100:][new.rows_of_entries(), new.index] - (0 if loss.binary else slow)
    moved = m.predict(X[100:])[new.rows_of_entries(), new.index]
    # The step removes nearly all of the difference that the entry itself makes.
    assert np.median(np.abs(quick - slow)) < 0.1 * np.median(np.abs(moved - slow))
    assert np.isfinite(kept).all()


# ---- files, copies --------------------------------------------------------------------------------------------------


class Pseudo(Loss):
    """√(1 + e²): a user's own, smooth and robust."""

    def value(self, y, w):
        return np.sqrt(1 + (y - w) ** 2)

    def gradient(self, y, w):
        return (w - y) / np.sqrt(1 + (y - w) ** 2)

    def hessian(self, y, w):
        return (1 + (y - w) ** 2) ** -1.5

    def conjugate(self, y, s):
        inside = np.abs(s) <= 1
        return np.where(inside, s * y - np.sqrt(np.where(inside, 1 - s**2, 0.0)), np.inf)


@pytest.mark.parametrize("loss", ["absolute", Quantile(0.3), EpsilonInsensitive(0.2), "logistic"])
def test_there_and_back(tmp_path, loss):
    _, X, _ = panel(noise=0.1)
    X = np.where(np.isnan(X), nan, X > 0) if loss == "logistic" else X
    m = fit(X, loss, C=3.0)
    m.save(tmp_path / "m")
    back = rslm.load(tmp_path / "m")
    assert back.get_params() == m.get_params()
    np.testing.assert_array_equal(back.transform(X[:5]), m.transform(X[:5]))
    assert back.certificate_ == m.certificate_
    with pytest.raises(AttributeError, match="loaded from a file or fitted by a cluster has no residuals"):
        _ = back.outlier_scores_
    assert clone(m).get_params()["loss"] == m.loss


def test_a_users_loss_is_only_named_in_a_file(tmp_path):
    W, X, _ = panel(noise=0.1)
    m = fit(X, Pseudo(), C=100.0)
    assert error(m, W, X) < 0.15
    assert m.converged_
    m.save(tmp_path / "m")
    back = rslm.load(tmp_path / "m")
    np.testing.assert_array_equal(back.predict([0], [1]), m.predict([0], [1]))
    with pytest.raises(ValueError, match=r"names its loss, Pseudo, but .*set_params\(loss=Pseudo"):
        back.transform(X[:5])
    np.testing.assert_array_equal(back.set_params(loss=Pseudo()).transform(X[:5]), m.transform(X[:5]))


# ---- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("abs", r"loss must be one of \['absolute', .* or a Loss, such as rslm\.losses\.Huber\(0\.5\); got 'abs'"),
        ("squared_error", r"got 'squared_error', which is 'square' here"),
        (Huber, "loss must be one of"),
        (3, "loss must be one of"),
    ],
)
def test_a_loss_that_is_none(loss, message):
    with pytest.raises(ValueError, match=message):
        plain_completion(loss=loss).fit(np.ones((4, 4)))


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_targets_that_are_no_classes(loss):
    X = np.ones((4, 4))
    X[1, 2] = 0.3
    with pytest.raises(
        ValueError, match=r"needs two classes.* 1 of 16 targets have other values, the first is 0\.3\. Turn"
    ):
        plain_completion(2, loss=loss).fit(X)
    with pytest.raises(ValueError, match="the targets are −1, 0 and 1"):
        plain_completion(2, loss=loss).fit(np.array([[-1.0, 0.0], [1.0, 1.0]]))


class Nonsense(Pseudo):
    def __init__(self, part, answer):
        self.part, self.answer = part, answer

    def __getattribute__(self, name):
        if name in ("value", "gradient", "hessian", "conjugate") and name == self.part:
            return self.answer
        return super().__getattribute__(name)


@pytest.mark.parametrize("part", ["value", "gradient", "hessian"])
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda y, w: 1.0, r"has shape \(\) for targets and predictions of shape .* one number for every entry"),
        (lambda y, w: np.zeros(3), r"has shape \(3,\)"),
        (lambda y, w: np.full(y.shape, nan), r"is nan at y = .*, w = .*check_loss helps"),
        (lambda y, w: np.full(y.shape, 1j), "real numbers are needed"),
    ],
    ids=["scalar", "short", "nan", "complex"],
)
def test_a_users_loss_that_answers_nonsense(part, answer, message):
    with pytest.raises(
        (ValueError, TypeError), match=rf"{part} of Nonsense\(\) .*{message}|{part} of Nonsense.*{message}"
    ):
        plain_completion(1, loss=Nonsense(part, answer)).fit(np.arange(12.0).reshape(4, 3))


def test_a_users_loss_that_is_not_convex():
    with pytest.raises(ValueError, match=r"hessian of Nonsense\(\) is -1\.0 at y = .*must be convex"):
        plain_completion(1, loss=Nonsense("hessian", lambda y, w: np.full(y.shape, -1.0))).fit(np.ones((4, 3)))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda y, s: s * y - 10 * s * s, r"conjugate of Nonsense\(\) is .* value and gradient imply"),
        (lambda y, s: np.full(y.shape, nan), r"conjugate of Nonsense\(\) is nan"),
        (lambda y, s: np.full(y.shape, np.inf), r"conjugate of Nonsense\(\) is inf"),
        (lambda y, s: 0.0, r"conjugate of Nonsense\(\) has shape \(\)"),
    ],
    ids=["wrong", "nan", "inf", "scalar"],
)
def test_a_users_conjugate_that_is_wrong(answer, message):
    with pytest.raises(ValueError, match=message):
        plain_completion(1, loss=Nonsense("conjugate", answer)).fit(np.arange(12.0).reshape(4, 3))


class WrongFarAway(Pseudo):
    """A conjugate that is right far from the targets, where it is tried out, and far too small near them."""

    def conjugate(self, y, s):
        right = super().conjugate(y, s)
        return np.where(np.abs(s) > 0.9, right, right - 1e6)


def test_a_dual_value_above_the_primal_one_certifies_nothing():
    m = fit(100.0 + np.arange(12.0).reshape(4, 3), WrongFarAway(), C=1e4, rank=1)
    assert m.outcome_ != "certified"
    assert m.certificate_.relative_gap == np.inf
    assert "contradicts" in m.certificate_.method


@pytest.mark.parametrize("part", ["targets", "guess"])
@pytest.mark.parametrize(
    ("answer", "got"),
    [
        (None, "None"),
        (np.zeros(3), r"float64 of shape \(3,\)"),
        (np.ones(12, dtype=int), "int64"),
        ([1.0], r"\[1\.0\]"),
    ],
    ids=["none", "short", "whole numbers", "list"],
)
def test_targets_and_guesses_of_users_that_are_wrong(part, answer, got):
    kind = type("Odd", (Pseudo,), {part: lambda self, y, usual=None: answer})
    with pytest.raises(ValueError, match=rf"{part} of Odd\(\) must be floats of shape \(12,\).*got {got}"):
        plain_completion(1, loss=kind()).fit(np.arange(12.0).reshape(4, 3))


class OfLogarithms(Pseudo):
    def targets(self, y):
        return np.log1p(y)


def test_residuals_and_scores_are_in_the_units_of_the_targets():
    X = np.expm1(np.outer(np.arange(1.0, 7), np.arange(1.0, 6)) / 6)
    m = fit(X, OfLogarithms(), C=1e3, rank=1)
    assert np.abs(m.residuals_.values).max() < 0.1
    bounded = fit(X, OfLogarithms(), C=1e3, rank=1, bounds=(0, None))  # by way of other problems with the same loss
    assert np.abs(bounded.residuals_.values).max() < 0.1
    assert m.score(X) > 0.99


@pytest.mark.parametrize(
    "box",
    [(1.0, -1.0), (0.0, 0.0), (0.5, 1.0), (-1.0, np.inf), (nan, 1.0)],
    ids=["turned", "empty", "off", "open", "nan"],
)
def test_a_box_that_is_none(box):
    with pytest.raises(ValueError, match=r"an interval needs lower ≤ 0 ≤ upper.* got lower = "):
        Interval(*box)


def test_one_class_only_is_told():
    with pytest.warns(UserWarning, match="only one class is observed"):
        fit(sparse.csr_array(np.eye(4)), "logistic", rank=1)


def test_stalling_far_from_the_end_is_told():
    """A user's loss with kinks, which Newton's method cannot find the minimum of."""

    class Kinked(Pseudo):
        def value(self, y, w):
            return np.abs(y - w) + 1e-9 * (y - w) ** 2

        def gradient(self, y, w):
            return np.sign(w - y) + 2e-9 * (w - y)

        def hessian(self, y, w):
            return np.full_like(y, 2e-9)

        def conjugate(self, y, s):
            return s * y + np.maximum(np.abs(s) - 1, 0) ** 2 / 4e-9

    with pytest.warns(ConvergenceWarning, match="no step lowers the objective|not converged"):
        fit(np.random.default_rng(0).standard_normal((6, 5)), Kinked(), C=10.0, rank=2, max_iter=2)


# ---- stopping -------------------------------------------------------------------------------------------------------


def ratings():
    rng = np.random.default_rng(1)
    W = rng.standard_normal((60, 2)) @ rng.standard_normal((40, 2)).T
    R = np.clip(np.round(3 + W), 1, 5)
    R[rng.random(W.shape) < 0.4] = nan
    return R


@pytest.mark.parametrize(("loss", "C"), [(EpsilonInsensitive(0.5), 10.0), (Absolute(), 30.0)], ids=repr)
def test_a_finer_rounding_never_makes_it_worse(loss, C, monkeypatch):
    """Of all answers that are certified on the way the best is returned."""
    gaps = []
    original = answer.certify

    def seen(*args):
        gaps.append(original(*args).relative_gap)
        return original(*args)

    monkeypatch.setattr(answer, "certify", seen)
    m = fit(ratings(), loss, C=C, rank=10)
    assert m.converged_
    assert m.certificate_.relative_gap == min(gaps)


@pytest.mark.parametrize("after", [1, 4, 9, 25, 60])
def test_an_interrupt_at_any_time(after, monkeypatch):
    """Whatever the stage: the outcome says so, and value, certificate and factors belong to one problem."""
    counter = iter(range(1, 10**6))
    original = Objective.evaluate

    def evaluate(self, U):
        if next(counter) == after + 1:
            raise KeyboardInterrupt
        return original(self, U)

    monkeypatch.setattr(Objective, "evaluate", evaluate)
    m = fit(ratings(), Absolute(), C=30.0, rank=10)
    assert m.outcome_ == "interrupted"
    assert not m.converged_
    X = ratings()
    W = m.row_factors_ @ m.col_factors_.T
    value = 30.0 * np.nansum(np.abs(X - W)) + 0.5 * np.linalg.norm(W, "nuc") ** 2
    assert m.certificate_.primal == pytest.approx(value, rel=1e-9)
    assert m.certificate_.dual <= m.certificate_.primal


# ---- odd data -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(BY_NAME))
@pytest.mark.parametrize(
    "X",
    [
        np.zeros((4, 3)),
        np.ones((3, 3)),
        np.array([[1.0, nan], [nan, nan]]),
        sparse.csr_array(([1.0, 1.0, 0.0], ([0, 0, 1], [0, 1, 1])), shape=(3, 3)),
    ],
    ids=["zeros", "ones", "one entry", "hardly any"],
)
def test_hardly_any_data(name, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = fit(X, name, C=1.0, rank=2)
    assert m.converged_
    assert np.isfinite(m.row_factors_ @ m.col_factors_.T).all()


def test_the_same_answer_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr("rslm.inner.entries.newton.PIECE", 1 << 13)
    _, X, _ = panel(noise=0.1, shape=(400, 300))
    for loss in (Absolute(), Pseudo()):
        one, three = (fit(X, loss, C=10.0, tol=1e-4, n_threads=n) for n in (1, 3))
        np.testing.assert_array_equal(one.row_factors_, three.row_factors_)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("huber:0.5", Huber(0.5)), ("epsilon_insensitive:0", EpsilonInsensitive(0.0)), ("quantile:0.9", Quantile(0.9))],
)
def test_a_name_with_a_parameter(given, meant):
    assert as_loss(given) == meant


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("huber:", "must be a number"),
        ("huber:wide", "must be a number"),
        ("huber:-1", "delta"),
        ("square:2", "'square' has no parameter"),
        ("cubic:2", "loss must be one of"),
    ],
)
def test_a_parameter_that_makes_no_sense(given, message):
    with pytest.raises(ValueError, match=message):
        as_loss(given)
