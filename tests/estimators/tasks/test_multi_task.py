"""Linear models in a common subspace: what they find, tasks by name, files, scikit-learn's ways and bad input."""

import numpy as np
import pandas as pd
import pytest
import scipy.io
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_validate, train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

import rslm
from rslm import MultiTaskClassifier, MultiTaskRegressor, ReducedRankRegressor
from rslm.estimators.tasks.named_tasks import middles_of_tasks
from rslm.losses import Huber

NAMES = np.array([f"task {k}" for k in range(30)])


def regressor(rank=5, C=1.0, **more):
    """The paper's problem, where nothing is found by itself."""
    return MultiTaskRegressor(rank, C, effects=None, **more)


def classifier(rank=5, C=1.0, **more):
    return MultiTaskClassifier(rank, C, effects=None, **more)


def reduced_rank(rank=5, C=1.0, **more):
    return ReducedRankRegressor(rank, C, effects=None, **more)


def related(*, n=15, d=12, noise=0.3, seed=0):
    """30 tasks of 15 rows each with 12 features: too few rows for every task by itself."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((30, 2)) @ rng.standard_normal((2, d))
    b = 3.0 * rng.standard_normal(30) + 10.0
    tasks = np.repeat(np.arange(30), n)
    X = rng.standard_normal((30 * n, d))
    y = np.einsum("nd,nd->n", X, W[tasks]) + b[tasks] + noise * rng.standard_normal(30 * n)
    return X, y, tasks, W, b


TWICE = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
# Fits with given settings and weights are compared in test_sample_weight_of_tasks.
NOT_EQUAL = {
    MultiTaskRegressor: "weights change which rows are held out",
    MultiTaskClassifier: "probabilities agree to 1e-7, but not relative to the smallest ones",
}


@parametrize_with_checks(
    [MultiTaskRegressor(), classifier(), reduced_rank()],  # the first one finds its settings, which takes longer
    expected_failed_checks=lambda e: dict.fromkeys(TWICE, NOT_EQUAL[type(e)]) if type(e) in NOT_EQUAL else {},
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_tasks_teach_one_another():
    X, y, tasks, W, b = related()
    model = regressor(rank=2, C=10.0, random_state=0).fit(X, y, tasks=NAMES[tasks])
    alone = np.stack([Ridge(0.3).fit(X[tasks == t], y[tasks == t]).coef_ for t in range(30)])
    at = [int(np.flatnonzero(model.tasks_ == name)[0]) for name in NAMES]
    assert np.linalg.norm(model.coef_[at] - W) < 0.5 * np.linalg.norm(alone - W)
    assert np.abs(model.intercept_[at] - b).max() < 1.0
    assert model.converged_
    assert model.rank_ == 2
    assert model.subspace_.shape == (12, 2)
    assert np.allclose(model.coef_ @ model.subspace_ @ model.subspace_.T, model.coef_, atol=1e-8)


def test_predictions_by_label():
    X, y, tasks, _, _ = related()
    model = regressor(rank=2, C=10.0, random_state=0).fit(X, y, tasks=NAMES[tasks])
    assert model.score(X, y, tasks=NAMES[tasks]) > 0.95
    one = model.predict(X[:3], tasks="task 4")
    assert np.allclose(one, model.predict(X[:3], tasks=["task 4"] * 3))
    with pytest.raises(ValueError, match="Unknown task id 'task 99'"):
        model.predict(X[:2], tasks=["task 1", "task 99"])
    mean = X[:1] @ model.coef_.mean(axis=0) + model.intercept_.mean()
    assert model.predict(X[:1], tasks=["task 99"], unseen="mean") == pytest.approx(mean)
    with pytest.raises(ValueError, match="which of the 30 tasks"):
        model.predict(X[:2])


def test_lists_and_sparse_features():
    X, y, tasks, _, _ = related()
    X[np.abs(X) < 0.5] = 0.0
    stacked = regressor(rank=2, random_state=0).fit(X, y, tasks=tasks)
    lists = [X[tasks == t] for t in range(30)], [y[tasks == t] for t in range(30)]
    assert np.allclose(regressor(rank=2, random_state=0).fit(*lists).coef_, stacked.coef_, atol=1e-6)
    thin = regressor(rank=2, random_state=0).fit([sparse.csr_array(x) for x in lists[0]], lists[1])
    assert np.allclose(thin.coef_, stacked.coef_, atol=1e-6)
    assert np.allclose(thin.predict(sparse.csr_array(X), tasks=tasks), stacked.predict(X, tasks=tasks), atol=1e-5)


def test_a_new_task_needs_few_rows():
    X, y, tasks, _, _ = related(noise=0.1)
    rng = np.random.default_rng(9)
    model = regressor(rank=2, C=10.0, random_state=0).fit(X, y, tasks=tasks)
    truth = rng.standard_normal(2) @ model.subspace_.T
    few = rng.standard_normal((5, 12))  # fewer than features
    coef, intercept = model.fit_task(few, few @ truth + 7.0 + 0.05 * rng.standard_normal(5))
    assert np.linalg.norm(coef - truth) < 0.3 * np.linalg.norm(truth)
    assert intercept == pytest.approx(7.0, abs=0.4)


def test_a_robust_loss_ignores_outliers():
    X, y, tasks, W, _ = related(noise=0.1)
    hit = np.random.default_rng(1).random(len(y)) < 0.05
    y[hit] += 40.0
    models = [regressor(rank=2, C=10.0, loss=loss, random_state=0) for loss in (Huber(0.3), "square")]
    robust, square = (model.fit(X, y, tasks=tasks) for model in models)
    assert np.linalg.norm(robust.coef_ - W) < 0.3 * np.linalg.norm(square.coef_ - W)


def test_grid_search_routes_tasks():
    X, y, tasks, _, _ = related()
    with config_context(enable_metadata_routing=True):
        model = regressor(random_state=0).set_fit_request(tasks=True).set_score_request(tasks=True)
        search = GridSearchCV(model, {"rank": [1, 2], "C": [0.1, 10.0]}, cv=3).fit(X, y, tasks=tasks % 3)
    assert set(search.best_params_) == {"rank", "C"}


@pytest.mark.parametrize(("scoring", "jobs"), [(None, 2), ("r2", 1)])
def test_a_search_that_keeps_tasks_from_the_scores_is_an_error(scoring, jobs):
    """And not scores that are all NaN, of which the first is the best."""
    X, y, tasks, _, _ = related()
    search = GridSearchCV(regressor(random_state=0), {"rank": [1, 2]}, cv=3, scoring=scoring, n_jobs=jobs)
    with pytest.raises(ValueError, match=r"set_score_request\(tasks=True\)") as caught:
        search.fit(X, y, tasks=tasks % 3)
    assert str(caught.value).startswith("tasks reach fit, but not score; ")
    assert "\n" not in str(caught.value)  # and not what scikit-learn makes of an error in every fit


def test_a_cross_validation_that_keeps_tasks_from_the_scores_is_an_error():
    X, y, tasks, _, _ = related()
    with pytest.raises(ValueError, match=r"set_score_request\(tasks=True\)"):
        cross_validate(regressor(random_state=0), X, y, cv=3, params={"tasks": tasks % 3})


def test_a_search_whose_scores_know_the_tasks_is_none():
    X, y, tasks, _, _ = related()
    rows = np.column_stack([X, tasks % 3])  # of which a scorer from elsewhere may make use

    def scored(model, X, y):
        return model.score(X, y, tasks=X[:, -1].astype(int))

    search = GridSearchCV(regressor(random_state=0), {"rank": [1, 2]}, cv=3, scoring=scored)
    assert np.isfinite(search.fit(rows, y, tasks=tasks % 3).cv_results_["mean_test_score"]).all()
    one = GridSearchCV(regressor(random_state=0), {"rank": [1, 2]}, cv=3).fit(X, y)  # of one task there is no doubt
    assert np.isfinite(one.cv_results_["mean_test_score"]).all()


def test_files(tmp_path):
    X, y, tasks, _, _ = related()
    frame = pd.DataFrame(X, columns=[f"f{k}" for k in range(12)])
    model = regressor(rank=2, loss=Huber(1.0), random_state=0).fit(frame, y, tasks=NAMES[tasks])
    model.save(tmp_path / "model.rslm")
    back = rslm.load(tmp_path / "model.rslm")
    assert np.array_equal(back.predict(frame[:9], tasks=NAMES[:9]), model.predict(frame[:9], tasks=NAMES[:9]))
    assert back.certificate_ == model.certificate_
    assert np.array_equal(back.fit_task(frame[:5], y[:5])[0], model.fit_task(frame[:5], y[:5])[0])
    assert clone(back).fit(frame, y, tasks=NAMES[tasks]).rank_ == 2


def test_one_row_and_constant_targets():
    X, y, tasks, _, _ = related()
    y[tasks == 3] = 1.0
    keep = (tasks != 5) | (np.arange(len(tasks)) == 75)
    model = regressor(rank=2, random_state=0).fit(X[keep], y[keep], tasks=tasks[keep])
    assert np.isfinite(model.coef_).all()
    assert len(model.tasks_) == 30


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda m, X, y, t: m.fit([X[:3], X[3:, :5]], [y[:3], y[3:]]), "task 1 has 5, task 0 has 12"),
        (lambda m, X, y, t: m.fit([X[:3], X[:0]], [y[:3], y[:0]]), "task 1 has no rows"),
        (lambda m, X, y, t: m.fit([X[:3], X[3:]], [y[:3], y[4:]]), "task 1 has 447 rows in X, but 446 in y"),
        (lambda m, X, y, t: m.fit([X[:3], X[3:]], [y[:3]]), "2 tasks in X, but 1 in y"),
        (lambda m, X, y, t: m.fit([X, X], [y, y], tasks=t), "leave it out"),
        (lambda m, X, y, t: m.fit(X, y, tasks=t[:-1]), "tasks must have 450 labels"),
        (lambda m, X, y, t: m.fit(X, np.where(t == 2, np.nan, y), tasks=t), "NaN"),
        (lambda m, X, y, t: m.set_params(rank=0).fit(X, y, tasks=t), "rank must be a whole number ≥ 1; got 0"),
        (lambda m, X, y, t: m.set_params(loss="hinge").fit(X, y, tasks=t), "for two classes"),
        (lambda m, X, y, t: m.set_params(loss="l2").fit(X, y, tasks=t), "loss must be one of"),
        (lambda m, X, y, t: m.fit(X, y, tasks=t).predict(X, t, unseen="zero"), '"error" or "mean"'),
    ],
)
def test_bad_input(fit, message):
    X, y, tasks, _, _ = related()
    with pytest.raises(ValueError, match=message):
        fit(regressor(random_state=0), X, y, tasks)


def test_school(shared_data):
    """The gap falls as the paper says, and a low rank predicts best."""
    file = scipy.io.loadmat(shared_data("school/school.mat"))
    rng, train, test = np.random.default_rng(0), [], []
    for X, y in zip(file["X"].ravel(), file["Y"].ravel(), strict=True):
        order = rng.permutation(len(y))
        cut = 3 * len(y) // 4
        pair = X.astype(float), y.astype(float).ravel()
        train.append([a[order[:cut]] for a in pair])
        test.append([a[order[cut:]] for a in pair])
    held = np.vstack([X for X, _ in test]), np.concatenate([y for _, y in test])
    tasks = np.repeat(np.arange(len(test)), [len(y) for _, y in test])
    errors, gaps = {}, {}
    for rank in (1, 5, 28):
        model = regressor(rank, C=0.1, random_state=0).fit(*zip(*train, strict=True))
        errors[rank] = np.mean((model.predict(held[0], tasks=tasks) - held[1]) ** 2) / np.var(held[1])
        gaps[rank] = model.certificate_.relative_gap
    assert gaps[5] < 1e-5
    assert gaps[28] < 1e-5
    assert errors[1] < errors[28] + 0.01 < 0.66


# ---- several targets -------------------------------------------------------------------------------------------------


def targets(seed=0):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((25, 2)) @ rng.standard_normal((2, 15))
    X = rng.standard_normal((30, 15))
    return X, X @ W.T + 4.0 + 0.5 * rng.standard_normal((30, 25)), W


def test_targets_teach_one_another():
    X, Y, W = targets()
    model = reduced_rank(rank=2, C=10.0, random_state=0).fit(X, Y)
    assert np.linalg.norm(model.coef_ - W) < 0.6 * np.linalg.norm(Ridge(0.1).fit(X, Y).coef_ - W)
    assert model.predict(X).shape == Y.shape
    assert model.score(X, Y) > 0.9


def test_missing_targets():
    X, Y, W = targets()
    Y[np.random.default_rng(1).random(Y.shape) < 0.3] = np.nan
    model = reduced_rank(rank=2, C=10.0, random_state=0).fit(X, Y)
    assert np.linalg.norm(model.coef_ - W) < 0.4 * np.linalg.norm(W)
    Y[:, 4] = np.nan
    with pytest.raises(ValueError, match="target 4 has no value"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match=r"y must have shape \(30, n_targets\)"):
        model.fit(X, Y[:-1])


def test_several_targets_are_tasks_that_share_rows():
    X, Y, _ = targets()
    one = reduced_rank(rank=2, random_state=0).fit(X, Y)
    other = regressor(rank=2, random_state=0).fit([X] * 25, list(Y.T))
    assert np.allclose(one.coef_, other.coef_, atol=1e-6)
    assert np.allclose(one.intercept_, other.intercept_, atol=1e-6)


# ---- classes ---------------------------------------------------------------------------------------------------------


def related_classes(seed=0):
    X, y, tasks, W, _ = related(n=25, noise=0.5, seed=seed)
    side = np.einsum("nd,nd->n", X, W[tasks]) + 0.5 * np.random.default_rng(seed).standard_normal(len(y))
    return X, np.where(side > 0, "yes", "no"), tasks, W


def test_classifications_teach_one_another():
    X, y, tasks, W = related_classes()
    fresh = np.random.default_rng(5).standard_normal((30 * 40, 12))
    of = np.repeat(np.arange(30), 40)
    truth = np.where(np.einsum("nd,nd->n", fresh, W[of]) > 0, "yes", "no")
    model = classifier(rank=2, C=3.0, random_state=0).fit(X, y, tasks=tasks)
    alone = [LogisticRegression().fit(X[tasks == t], y[tasks == t]) for t in range(30)]
    right = np.mean([m.score(fresh[of == t], truth[of == t]) for t, m in enumerate(alone)])
    assert model.score(fresh, truth, tasks=of) > right + 0.03
    p = model.predict_proba(fresh, tasks=of)
    assert np.allclose(p.sum(axis=1), 1.0)
    assert np.array_equal(model.classes_[p.argmax(axis=1)], model.predict(fresh, tasks=of))


def test_digits():
    """Half of the rank, as right as multinomial regression to a point."""
    X, y = load_digits(return_X_y=True)
    ours, theirs = [], []
    for seed in range(3):
        train, test, y_train, y_test = train_test_split(X / 16.0, y, random_state=seed)
        model = classifier(rank=5, C=100.0, random_state=0, tol=1e-3).fit(train, y_train)
        ours.append(model.score(test, y_test))
        theirs.append(LogisticRegression(max_iter=2000).fit(train, y_train).score(test, y_test))
        assert model.rank_ <= 5
    assert np.mean(ours) >= np.mean(theirs) - 0.01
    assert np.allclose(model.predict_proba(test).sum(axis=1), 1.0)


def test_classes_by_file(tmp_path):
    X, y, tasks, _ = related_classes()
    model = classifier(rank=2, loss="hinge", random_state=0, tol=1e-3).fit(X, y, tasks=NAMES[tasks])
    model.save(tmp_path / "model.rslm")
    back = rslm.load(tmp_path / "model.rslm")
    assert np.array_equal(back.predict(X, tasks=NAMES[tasks]), model.predict(X, tasks=NAMES[tasks]))
    assert not hasattr(back, "predict_proba")
    several = classifier(rank=2, random_state=0, tol=1e-3).fit(X, NAMES[tasks % 3])
    several.save(tmp_path / "model.rslm")
    assert np.array_equal(rslm.load(tmp_path / "model.rslm").predict_proba(X), several.predict_proba(X))


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda m, X, y, t: m.fit(X, np.where(t == 3, "no", y), tasks=t), "1 of 30 tasks .* such as task 3 with 'no'"),
        (lambda m, X, y, t: m.fit(X, np.full(len(y), "no"), tasks=t), "one class only: "),
        (lambda m, X, y, t: m.fit(X, np.where(t == 3, "maybe", y), tasks=t), "only two classes, but y has 3: 'maybe'"),
        (lambda m, X, y, t: m.set_params(loss="square").fit(X, y, tasks=t), "a classification needs logistic"),
        (lambda m, X, y, t: m.fit(X, t).predict(X, tasks=t), "fitted without tasks"),
    ],
)
def test_bad_classes(fit, message):
    X, y, tasks, _ = related_classes()
    with pytest.raises(ValueError, match=message):
        fit(classifier(random_state=0, tol=1e-2), X, y, tasks)


def test_missing_targets_are_an_error_unless_they_are_to_be_dropped():
    X, y, tasks, _, _ = related()
    y[[3, 50]] = np.nan
    with pytest.raises(ValueError, match=r"2 of \d+ targets are missing, the first at row 3.*drop_missing=True"):
        regressor().fit(X, y, tasks=tasks)
    keep = ~np.isnan(y)
    model = regressor(random_state=0).fit(X, y, tasks=tasks, drop_missing=True)
    same = regressor(random_state=0).fit(X[keep], y[keep], tasks=tasks[keep])
    np.testing.assert_array_equal(model.coef_, same.coef_)
    frame = regressor(random_state=0).fit(pd.DataFrame(X), y, tasks=tasks, drop_missing=True)
    np.testing.assert_array_equal(frame.coef_, same.coef_)
    thin = regressor(random_state=0).fit(sparse.csc_array(X), y, tasks=tasks, drop_missing=True)
    np.testing.assert_allclose(thin.coef_, same.coef_, atol=1e-6)
    y[tasks == tasks[0]] = np.nan
    with pytest.raises(ValueError, match="has no rows: all its targets are missing"):
        regressor().fit(X, y, tasks=tasks, drop_missing=True)


def test_missing_classes():
    X, y, tasks, _, _ = related()
    classes = np.where(y > np.median(y), "high", "low").astype(object)
    classes[4] = None
    with pytest.raises(ValueError, match=r"1 of \d+ targets are missing, the first at row 4"):
        classifier().fit(X, classes, tasks=tasks % 2)
    model = classifier(random_state=0).fit(X, classes, tasks=tasks % 2, drop_missing=True)
    assert model.classes_.tolist() == ["high", "low"]


def test_a_path_of_growing_C_starts_from_where_it_was():
    X, y, tasks, _, _ = related()
    cold, warm = regressor(2, random_state=0), regressor(2, random_state=0, warm_start=True)
    spent = {"cold": 0, "warm": 0}
    for C in np.geomspace(0.1, 10.0, 9):
        for name, model in (("cold", cold), ("warm", warm)):
            model.set_params(C=C).fit(X, y, tasks=tasks)
            spent[name] += int(model.history_["evaluations"][-1] + model.history_["hessian_products"][-1])
        np.testing.assert_allclose(warm.coef_, cold.coef_, atol=1e-3 * np.abs(cold.coef_).max())
    assert spent["warm"] < spent["cold"]
    warm.set_params(rank=3).fit(X, y, tasks=tasks)  # another shape: from the data
    assert warm._U.shape[1] == 3


@pytest.mark.parametrize("intercept", [True, False])
def test_complete_targets_are_reduced_to_the_same_problem(intercept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((70, 6)) + 2.0
    Y = X @ rng.standard_normal((6, 2)) @ rng.standard_normal((2, 9)) + 5.0 + 0.5 * rng.standard_normal((70, 9))
    model = reduced_rank(3, 0.3, fit_intercept=intercept, tol=1e-9, random_state=0).fit(X, Y)
    general = reduced_rank(3, 0.3, fit_intercept=intercept, tol=1e-9, random_state=0)
    general.fit(sparse.csr_array(X), Y)  # sparse features are not factorised
    np.testing.assert_allclose(model.coef_, general.coef_, atol=1e-4)
    np.testing.assert_allclose(model.predict(X), general.predict(X), atol=1e-3)
    residual = Y - model.predict(X)
    objective = 0.3 * (residual**2).sum() + 0.5 * np.linalg.norm(model.coef_, "nuc") ** 2
    assert model.certificate_.primal == pytest.approx(objective, rel=1e-8)
    assert model.history_["objective"][-1] == pytest.approx(objective, rel=1e-8)
    assert general.certificate_.primal == pytest.approx(objective, rel=1e-5)
    assert model.certificate_.gap == pytest.approx(model.certificate_.primal - model.certificate_.dual, abs=1e-9)


@pytest.mark.parametrize("loss", ["square", "huber"])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_a_shift_of_the_features_is_a_matter_of_intercepts_only(loss, make):
    X, y, tasks, _, _ = related()
    one = regressor(2, loss=loss, random_state=0).fit(make(X), y, tasks=tasks)
    other = regressor(2, loss=loss, random_state=0).fit(make(X + 1e4), y, tasks=tasks)
    np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-4 * np.abs(one.coef_).max())
    assert other.certificate_.primal == pytest.approx(one.certificate_.primal, rel=1e-5)
    np.testing.assert_allclose(other.predict(X + 1e4, tasks), one.predict(X, tasks), atol=1e-2)


def test_a_shift_does_not_matter_to_classes_either():
    X, y, tasks, _, _ = related()
    classes = y > np.median(y)
    one, other = (classifier(2, random_state=0).fit(X + by, classes, tasks=tasks % 2) for by in (0.0, 1e4))
    np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-3 * np.abs(one.coef_).max())


@pytest.mark.parametrize("scale", [1e-200, 1e-100, 1e100, 1e150])
def test_targets_of_any_magnitude(scale):
    X, y, tasks, _, _ = related()
    one, other = (regressor(2, random_state=0).fit(X, y * s, tasks=tasks) for s in (1.0, scale))
    np.testing.assert_allclose(other.coef_ / scale, one.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.predict(X, tasks) / scale, one.predict(X, tasks), rtol=1e-6, atol=1e-9)


def test_features_beyond_all_squares_are_refused():
    with pytest.raises(ValueError, match="rescale"):
        regressor().fit(np.full((6, 2), 1e160), np.arange(6.0))


def test_labels_of_mixed_types_stay_what_they_are():
    X, y, tasks, _, _ = related()
    labels = [("a", 1) if t % 3 == 0 else int(t) if t % 3 == 1 else "x" for t in tasks]
    model = regressor(2, random_state=0).fit(X, y, tasks=labels)
    assert set(model.tasks_.tolist()) == set(labels)
    np.testing.assert_array_equal(model.predict(X, [1] * len(y)), model.predict(X, tasks=1))
    np.testing.assert_array_equal(model.predict(X[:1], [1], unseen="mean"), model.predict(X[:1], [1]))


def test_lists_of_tables_need_the_same_columns():
    X, y, *_ = related()
    names = [f"f{k}" for k in range(12)]
    tables = [pd.DataFrame(X[k : k + 20], columns=names) for k in (0, 20)]
    model = regressor(1).fit(tables, [y[:20], y[20:40]])
    assert model.feature_names_in_.tolist() == names
    with pytest.raises(ValueError, match="same features in the same order: task 1"):
        regressor(1).fit([tables[0], tables[1][names[::-1]]], [y[:20], y[20:40]])


def test_labels_and_classes_of_pandas(tmp_path):
    X, y, tasks, _, _ = related()
    labels = pd.Series([f"t{t % 2}" for t in tasks])
    classes = pd.Series(np.where(y > np.median(y), "high", "low"), dtype="string")
    classes[3] = pd.NA
    with pytest.raises(ValueError, match=r"1 of \d+ targets are missing"):
        classifier().fit(X, classes, tasks=labels)
    classifier(random_state=0).fit(X, classes, tasks=labels, drop_missing=True)
    single = np.where(labels == "t0", "low", np.where(y > 0, "low", "high"))
    with pytest.raises(ValueError, match="such as task 't0' with 'low'"):
        classifier().fit(X, pd.Series(single), tasks=labels)
    y = pd.Series(y)
    y[labels == "t1"] = np.nan
    with pytest.raises(ValueError, match="task 't1' has no rows"):
        regressor().fit(X, y, tasks=labels, drop_missing=True)
    three = pd.Series(np.array(["p", "q", "r"], dtype=object)[np.arange(len(y)) % 3])
    model = classifier(2, random_state=0).fit(X, three)
    model.save(tmp_path / "m.rslm")
    np.testing.assert_array_equal(rslm.load(tmp_path / "m.rslm").predict(X), model.predict(X))


def test_missing_targets_are_scored_by_the_others():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    Y = X @ rng.standard_normal((5, 4)) + 0.1 * rng.standard_normal((60, 4))
    Y[rng.random(Y.shape) < 0.2] = np.nan
    model = reduced_rank(4, 10.0, random_state=0)
    assert model.fit(X, Y).score(X, Y) > 0.95
    search = GridSearchCV(model, {"rank": [1, 4]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"rank": 4}
    with pytest.raises(ValueError, match="C must be a positive"):
        reduced_rank(C="a").fit(X, np.ones((60, 2)))


def test_wild_targets_do_not_move_what_a_robust_loss_starts_from():
    y, codes = np.array([1.0, 2.0, 1e9, 5.0, 7.0]), np.array([0, 0, 0, 1, 1])
    np.testing.assert_array_equal(middles_of_tasks(y, codes, robust=True), [2.0, 6.0])
    np.testing.assert_allclose(middles_of_tasks(y, codes, robust=False), [(1e9 + 3) / 3, 6.0])


def test_targets_that_are_no_numbers_are_refused():
    X, tasks = np.random.default_rng(0).standard_normal((8, 3)), np.repeat([0, 1], 4)
    with pytest.raises(TypeError, match="y has dtype <U1, but a regression needs real numbers"):
        regressor(1).fit(X, ["a"] * 8, tasks=tasks)
