"""MatrixCompletion as scikit-learn sees it, what it learns and predicts, and what it says to bad input."""

import logging
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from plain import RIDGES, WITH_EFFECTS, plain_completion
from rslm import MatrixCompletion, ObservedMatrix
from rslm.data import holdout
from rslm.estimators.automatic import folds, search
from rslm.losses import Square
from rslm.runtime.log import logger

nan, inf = np.nan, np.inf


def low_rank(rows=40, cols=25, missing=0.4, noise=0.1, seed=0):
    """An array with NaN for missing; every row and column has entries."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 2)) @ rng.standard_normal((2, cols)) + 1 + noise * rng.standard_normal((rows, cols))
    X[rng.random((rows, cols)) < missing] = nan
    return X


def model(**options):
    return plain_completion(**{"rank": 3, "C": 10.0, "tol": 1e-9, "random_state": 0} | options)


def learned(m):
    """Everything that is predicted, entry by entry."""
    return m.intercept_ + m.row_effects_[:, None] + m.col_effects_ + m.row_factors_ @ m.col_factors_.T


KINDS = pytest.mark.parametrize("kind", [{}, WITH_EFFECTS], ids=["plain", "effects"])


X = low_rank()
KNOWN = ~np.isnan(X)


# Weights are those of entries. A sample twice is two rows of the matrix, which is another problem.
NOT_OF_SAMPLES = {
    "check_sample_weights_shape": "one weight for every entry is accepted, too",
    "check_sample_weight_equivalence_on_dense_data": "a sample twice is another matrix",
    "check_sample_weight_equivalence_on_sparse_data": "a sample twice is another matrix",
}
A_STREAM_AFTER_A_FIT = {
    "check_fit_score_takes_y": "it calls partial_fit after fit, which would discard the fit, and is refused",
}


@parametrize_with_checks(
    [
        plain_completion(rank=1),
        plain_completion(rank=1, solver="conjugate-gradient", weighting=0.5),
        MatrixCompletion(rank=1, C=10.0, effects=RIDGES),
        MatrixCompletion(),
    ],
    expected_failed_checks=lambda m: NOT_OF_SAMPLES | (A_STREAM_AFTER_A_FIT if hasattr(m, "partial_fit") else {}),
)
def test_scikit_learn(estimator, check, monkeypatch):
    # A shorter search, as the checks are of what is around it; test_automatic is about what it finds.
    monkeypatch.setattr(folds, "FOLDS", 2)
    monkeypatch.setattr(search, "MOST_RANK", 2)
    monkeypatch.setattr(search, "FACTOR", 10.0)
    with warnings.catch_warnings():
        # The checks use data with rows that have nothing observed, and a single iteration.
        warnings.filterwarnings("ignore", message=".*have no observed entry", category=UserWarning)
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        check(estimator)


# ---- at home in scikit-learn --------------------------------------------------------------------------------


def test_pipeline():
    y = low_rank(missing=0, noise=0)[:, :5].sum(axis=1)
    pipe = make_pipeline(StandardScaler(), model(), Ridge()).fit(X, y)
    assert pipe.score(X, y) > 0.8
    by_hand = model().fit(StandardScaler().fit_transform(X)).transform(StandardScaler().fit_transform(X))
    np.testing.assert_allclose(pipe[:-1].transform(X), by_hand, atol=1e-12)


@pytest.mark.parametrize("cv", [2, 3])
def test_grid_search(cv):
    """Forty rows in two folds: test folds then have the shape of the training ones, but other samples."""
    search = GridSearchCV(model(tol=1e-6), {"C": [1e-3, 10.0], "rank": [1, 3]}, cv=cv).fit(X)
    assert search.best_params_ == {"C": 10.0, "rank": 3}
    first = -(-len(X) // cv)
    by_hand = model(tol=1e-6).fit(X[first:])
    assert search.cv_results_["split0_test_score"][3] == pytest.approx(by_hand.score(X[:first]), abs=1e-12)
    assert search.cv_results_["split0_test_score"][3] > 0.7


@KINDS
def test_clone_and_parameters(kind):
    m = model(**kind | {"weighting": 0.5, "max_time": 60.0, "n_threads": 1})
    before = m.get_params()
    m.fit(X)
    assert m.get_params() == before
    copy = clone(m)
    assert copy.get_params() == before
    assert not hasattr(copy, "row_factors_")
    np.testing.assert_array_equal(copy.fit(X).row_factors_, m.row_factors_)
    assert "rank=3" in repr(m)


def test_pandas_out():
    table = pd.DataFrame(X, columns=[f"f{j}" for j in range(25)], index=[f"s{i}" for i in range(40)])
    m = model().set_output(transform="pandas").fit(table)
    out = m.transform(table)
    assert out.columns.tolist() == table.columns.tolist()
    assert out.index.tolist() == table.index.tolist()
    assert m.get_feature_names_out().tolist() == table.columns.tolist()
    np.testing.assert_array_equal(out.to_numpy(), model().fit(X).transform(X))
    with pytest.raises(ValueError, match="feature names"):
        m.transform(table.rename(columns={"f0": "g0"}))
    with pytest.raises(ValueError, match="feature names"):
        m.transform(table[table.columns[::-1]])


class Recorder:
    """A callback that writes down what it is told, and stops the fit after some iterations."""

    def __init__(self, stop_after=None):
        self.stop_after, self.events, self.scores = stop_after, [], []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X):
        assert X is not None
        self.events.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, X, fitted_estimator):
        self.events.append(("end", context.task_name))
        if fitted_estimator is not None:
            rows, cols = np.nonzero(KNOWN)
            self.scores.append(r2_score(X[KNOWN], fitted_estimator.predict(rows, cols)))
        return context.task_name == f"iteration {self.stop_after}"


def test_callback():
    recorder = Recorder()
    m = model().set_callbacks(recorder).fit(X)
    names = [f"iteration {k}" for k in range(1, m.n_iter_ + 1)]
    assert recorder.events[:2] == ["setup", ("begin", "fit")]
    assert recorder.events[-2:] == [("end", "fit"), "teardown"]
    assert recorder.events[2:-2] == [(what, name) for name in names for what in ("begin", "end")]
    assert recorder.scores[-1] == pytest.approx(m.score(X), abs=1e-12)


def test_callback_stops_the_fit():
    recorder = Recorder(stop_after=2)
    m = model().set_callbacks(recorder).fit(X)
    assert (m.outcome_, m.n_iter_, m.converged_) == ("interrupted", 2, False)
    assert recorder.events[-1] == "teardown"
    assert recorder.scores[-1] == pytest.approx(m.score(X), abs=1e-12)


class Fitted:
    """A callback that uses the estimator it is given in every way."""

    def __init__(self):
        self.seen = []

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        if fitted_estimator is not None:
            self.seen.append(
                (fitted_estimator.score(X), fitted_estimator.transform(X[:5]), fitted_estimator.predict(X))
            )


@pytest.mark.parametrize("again", [False, True], ids=["first fit", "second fit"])
def test_callbacks_get_an_estimator_that_works(again):
    """As if the fit had stopped there; also where an earlier fit has left attributes behind."""
    m, callback = model(), Fitted()
    if again:
        m.fit(low_rank(seed=9))
    m.set_callbacks(callback).fit(X)
    score, filled, predicted = callback.seen[-1]
    assert score == pytest.approx(m.score(X), abs=1e-12)
    np.testing.assert_allclose(filled, m.transform(X[:5]), atol=1e-10)
    np.testing.assert_allclose(predicted, m.predict(X), atol=1e-10)


def test_scoring_monitor():
    """scikit-learn's own callback, which is given a fitted estimator at every iteration."""
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
    monitor = callback.ScoringMonitor(scoring="r2")
    m = model().set_callbacks(monitor).fit(X)
    names = [row["task_name"] for row in monitor.get_logs().data]
    assert [name for name in names if name != "fit"] == [f"iteration {k}" for k in range(1, m.n_iter_ + 1)]


# ---- every kind of input ------------------------------------------------------------------------------------


def stored(array, kind, dtype=None):
    """The known entries in a sparse format, zeros among them."""
    rows, cols = np.nonzero(~np.isnan(array))
    coo = sparse.coo_array((array[rows, cols].astype(dtype or float), (rows, cols)), shape=array.shape)
    if kind == "dok":
        dok = sparse.dok_array(array.shape)
        dok._dict.update({(i, j): array[i, j] for i, j in zip(rows.tolist(), cols.tolist(), strict=True)})
        return dok
    if kind == "lil":
        lil = sparse.lil_array(array.shape)
        for i in range(array.shape[0]):
            lil.rows[i], lil.data[i] = cols[rows == i].tolist(), array[i, cols[rows == i]].tolist()
        return lil
    return coo.asformat(kind)


WITH_ZEROS = np.where(KNOWN & (np.abs(X) < 0.3), 0.0, X)


@pytest.mark.parametrize("matrix", [False, True])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok"])
def test_sparse(kind, matrix):
    assert (WITH_ZEROS == 0).sum() > 20
    expected = model().fit(WITH_ZEROS)
    given = stored(WITH_ZEROS, kind)
    given = getattr(sparse, f"{kind}_matrix")(given) if matrix and kind not in ("dok", "lil") else given
    assert given.nnz == KNOWN.sum()
    m = model().fit(given)
    np.testing.assert_array_equal(m.row_factors_, expected.row_factors_)
    np.testing.assert_array_equal(m.transform(given), expected.transform(WITH_ZEROS))
    assert m.score(given) == expected.score(WITH_ZEROS)


def test_sparse_blocks_and_diagonals():
    """Formats that store whole blocks or diagonals: all that is stored is observed."""
    full = low_rank(8, 6, missing=0)
    bsr = sparse.bsr_array(full, blocksize=(2, 3))
    np.testing.assert_array_equal(model().fit(bsr).row_factors_, model().fit(full).row_factors_)
    offsets = [-2, 0, 1]
    banded = np.full((8, 6), nan)
    for k in offsets:
        i = np.arange(max(0, -k), min(8, 6 - k))
        banded[i, i + k] = full[i, i + k]
    banded[3, 3] = 0.0
    dia = sparse.dia_array((np.array([_diagonal(banded, k) for k in offsets]), offsets), shape=(8, 6))
    m, expected = model(rank=2).fit(dia), model(rank=2).fit(banded)
    np.testing.assert_array_equal(m.row_factors_, expected.row_factors_)


def _diagonal(array, k):
    """As dia_array stores it: element j is that of column j."""
    out = np.zeros(array.shape[1])
    for j in range(array.shape[1]):
        if 0 <= j - k < array.shape[0]:
            out[j] = array[j - k, j]
    return out


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_whole_numbers_in_sparse_form(kind):
    whole = np.round(3 * WITH_ZEROS)
    np.testing.assert_array_equal(
        model().fit(stored(whole, kind, np.int32)).row_factors_, model().fit(whole).row_factors_
    )


def test_lists_and_masked_arrays():
    expected = model().fit(X).row_factors_
    np.testing.assert_array_equal(model().fit(X.tolist()).row_factors_, expected)
    np.testing.assert_array_equal(model().fit(ObservedMatrix.from_any(X)).row_factors_, expected)
    np.testing.assert_array_equal(model().fit(np.asfortranarray(X)).row_factors_, expected)


def test_single_precision():
    m, double = model(tol=1e-5).fit(X.astype(np.float32)), model(tol=1e-9).fit(X)
    assert m.converged_
    # The data are rounded to 6e-8 and the gradient is small to 1e-5.
    np.testing.assert_allclose(learned(m), learned(double), atol=1e-3)
    assert m.transform(X.astype(np.float32))[KNOWN].tolist() == X.astype(np.float32)[KNOWN].tolist()


def test_ids_of_ratings():
    users, items = np.nonzero(KNOWN)
    data = ObservedMatrix.from_ratings([f"u{i}" for i in users], items * 10, X[KNOWN])
    m, plain = model().fit(data), model().fit(X)
    expected = dict(zip(zip(users, items, strict=True), plain.predict(users, items), strict=True))
    got = m.predict([f"u{i}" for i in users], items * 10)
    # Names are sorted as text, so the rows are in another order: the same optimum, to the solver's tolerance.
    np.testing.assert_allclose(got, list(expected.values()), atol=1e-6)
    assert m.predict("u3", 20).shape == (1,)
    with pytest.raises(ValueError, match="Unknown row id 'u99'"):
        m.predict(["u99"], [20])
    with pytest.raises(ValueError, match="Unknown column id 7"):
        m.predict(["u1"], [7])


def test_ids_of_a_table():
    table = pd.DataFrame(X, columns=[f"f{j}" for j in range(25)], index=np.arange(40) + 100)
    m, plain = model().fit(table), model().fit(X)
    np.testing.assert_array_equal(m.predict([100, 139], ["f0", "f24"]), plain.predict([0, 39], [0, 24]))
    with pytest.raises(ValueError, match="Unknown row id 0"):
        m.predict([0], ["f0"])


def test_other_ids_are_not_taken_for_the_fitted_ones():
    """The same ratings with the items in another order: they are told by their ids, or refused."""
    users, items = np.nonzero(KNOWN)
    data = ObservedMatrix.from_ratings(users, [f"i{j:02d}" for j in items], X[KNOWN])
    backwards = ObservedMatrix(*_columns_reversed(data), data.shape, data.row_ids, data.col_ids[::-1].copy())
    m = model().fit(data)
    for call, as_before in ((m.transform, lambda filled: filled[:, ::-1]), (m.score, lambda score: score)):
        try:
            got = call(backwards)
        except ValueError as error:
            assert "id" in str(error)  # noqa: PT017
        else:
            np.testing.assert_allclose(as_before(got), call(data), atol=1e-8)


def test_unknown_items_are_refused():
    """As many other items are not the fitted ones."""
    users, items = np.nonzero(KNOWN)
    m = model().fit(ObservedMatrix.from_ratings(users, [f"i{j}" for j in items], X[KNOWN]))
    with pytest.raises(ValueError, match="id"):
        m.transform(ObservedMatrix.from_ratings(users, [f"other {j}" for j in items], X[KNOWN]))


def _columns_reversed(data):
    other = ObservedMatrix.from_any(data.to_dense()[:, ::-1])
    return other.indptr, other.index, other.values


def test_refit_forgets_the_names_of_features():
    table = pd.DataFrame(X, columns=[f"f{j}" for j in range(25)])
    m = model().fit(table).fit(ObservedMatrix.from_any(X[:, :20]))
    assert m.n_features_in_ == 20
    assert not hasattr(m, "feature_names_in_")


def test_the_input_is_not_changed():
    dense, csr = X.copy(), stored(X, "csr")
    unsorted = csr.copy()
    start, end = unsorted.indptr[:2]
    unsorted.indices[start:end] = unsorted.indices[start:end][::-1].copy()
    unsorted.data[start:end] = unsorted.data[start:end][::-1].copy()
    unsorted.has_sorted_indices = False
    before = unsorted.indices.copy(), unsorted.data.copy()
    for given in (dense, unsorted):
        m = model().fit(given)
        m.transform(given)
        m.score(given)
    np.testing.assert_array_equal(dense, X)
    np.testing.assert_array_equal(unsorted.indices, before[0])
    np.testing.assert_array_equal(unsorted.data, before[1])
    frozen = X.copy()
    frozen.flags.writeable = False
    model().fit(frozen).transform(frozen)


# ---- what is learned and predicted --------------------------------------------------------------------------


@pytest.mark.parametrize("weighting", [0.0, 0.5])
@pytest.mark.parametrize("solver", ["trust-region", "conjugate-gradient"])
def test_tall_and_wide(solver, weighting):
    """1e-6: both are solved until the gradient is small to 1e-7, whichever side is the smaller one."""
    options = {"solver": solver, "weighting": weighting, "tol": 1e-7, "max_iter": 2000}
    tall, wide = model(**options).fit(X), model(**options).fit(X.T)
    assert tall.row_factors_.shape == wide.col_factors_.shape == (40, 3)
    assert tall.col_factors_.shape == wide.row_factors_.shape == (25, 3)
    np.testing.assert_allclose(learned(tall), learned(wide).T, atol=1e-6)
    assert tall.certificate_.primal == pytest.approx(wide.certificate_.primal, rel=1e-9)


@pytest.mark.parametrize("weighting", [0.0, 0.5])
def test_the_objective_is_the_stated_one(weighting):
    """No small change of W within its rank lowers C Σ (x − w)² + ½‖W‖_*², weights as documented."""
    m = model(weighting=weighting).fit(X)
    p = (KNOWN.sum(axis=1) / KNOWN.sum(axis=1).mean()) ** weighting
    q = (KNOWN.sum(axis=0) / KNOWN.sum(axis=0).mean()) ** weighting

    def objective(L, R):
        W = L @ R.T
        trace = np.linalg.svd(np.sqrt(p)[:, None] * W * np.sqrt(q), compute_uv=False).sum()
        return 10.0 * np.nansum((X - W) ** 2) + 0.5 * trace**2

    best = objective(m.row_factors_, m.col_factors_)
    assert m.certificate_.primal == pytest.approx(best, rel=1e-12)
    rng = np.random.default_rng(0)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(10):
            L = m.row_factors_ + size * rng.standard_normal((40, 3)) * np.abs(m.row_factors_).max()
            R = m.col_factors_ + size * rng.standard_normal((25, 3)) * np.abs(m.col_factors_).max()
            assert objective(L, R) > best


@KINDS
def test_predict(kind):
    m = model(**kind).fit(X)
    rows, cols = np.meshgrid(np.arange(40), np.arange(25), indexing="ij")
    np.testing.assert_allclose(m.predict(rows.ravel(), cols.ravel()).reshape(40, 25), learned(m), atol=1e-13)
    assert m.predict([], []).shape == (0,)
    assert m.predict(3, 4).shape == (1,)
    assert m.predict(np.array([1], np.uint8), [2])[0] == pytest.approx(learned(m)[1, 2], rel=1e-13)


@pytest.mark.parametrize("shape", [(40, 25), (25, 40)], ids=["tall", "wide"])
@pytest.mark.parametrize("weighting", [0.0, 0.5])
def test_fold_in_is_a_ridge_regression(shape, weighting):
    """New samples: observed entries are kept, the others are those of the best code at the learned subspace."""
    seen, new = low_rank(*shape), low_rank(*shape, missing=0)[:6] + 0.01
    new[np.random.default_rng(5).random(new.shape) < 0.5] = nan
    m = model(weighting=weighting).fit(seen)
    filled, known = m.transform(new), ~np.isnan(new)
    assert filled.shape == new.shape
    np.testing.assert_array_equal(filled[known], new[known])
    mean = (~np.isnan(seen)).sum(axis=1).mean()
    F = m._subspace.features
    expected = [
        F @ np.linalg.solve(F[k].T @ F[k] + (k.sum() / mean) ** weighting / 20.0 * np.eye(3), F[k].T @ x[k])
        for x, k in zip(new, known, strict=True)
    ]
    np.testing.assert_allclose(m.predict(new), expected, atol=1e-9)
    np.testing.assert_allclose(filled[~known], np.array(expected)[~known], atol=1e-9)
    # The subspace of the features is that of the learned matrix.
    assert np.linalg.matrix_rank(np.vstack([F.T, learned(m)]), tol=1e-7) == 3


@pytest.mark.parametrize("shape", [(40, 25), (25, 40)], ids=["tall", "wide"])
@pytest.mark.parametrize("weighting", [0.0, 0.5])
@KINDS
def test_fitted_samples_get_their_own_prediction_back(shape, weighting, kind):
    seen = low_rank(*shape)
    m = model(**kind | {"weighting": weighting}).fit(seen)
    np.testing.assert_allclose(m.predict(seen), learned(m), atol=1e-6)
    np.testing.assert_allclose(m.predict(seen[4:7]), learned(m)[4:7], atol=1e-6)
    filled = m.transform(seen)
    np.testing.assert_array_equal(filled[~np.isnan(seen)], seen[~np.isnan(seen)])
    np.testing.assert_allclose(filled[np.isnan(seen)], learned(m)[np.isnan(seen)], atol=1e-6)
    np.testing.assert_allclose(model(**kind | {"weighting": weighting}).fit_transform(seen), filled, atol=1e-12)


def test_samples_without_an_entry_are_average_ones():
    m = model().fit(X)
    new = np.vstack([X[:2], np.full((1, 25), nan)])
    filled = m.transform(new)
    np.testing.assert_allclose(filled[2], learned(m).mean(axis=0), atol=1e-12)
    np.testing.assert_array_equal(filled[:2], m.transform(X[:2]))
    np.testing.assert_allclose(m.transform(np.full((2, 25), nan)), [learned(m).mean(axis=0)] * 2, atol=1e-12)
    np.testing.assert_allclose(m.transform(sparse.csr_array((2, 25))), [learned(m).mean(axis=0)] * 2, atol=1e-12)


def test_score_on_held_out_entries():
    train, held = holdout(ObservedMatrix.from_any(X), 0.2, 0)
    m = model().fit(train)
    rows, cols = held.rows_of_entries(), held.index
    expected = r2_score(held.values, m.predict(rows, cols))
    assert m.score(held) == pytest.approx(expected, abs=1e-13)
    assert m.score(held.to_dense()) == m.score(held.to_csr()) == m.score(held)
    assert expected > 0.7
    everything = r2_score(train.values, m.predict(train.rows_of_entries(), train.index))
    assert m.score(train) == pytest.approx(everything, abs=1e-13)


def test_score_finds_samples_by_their_ids():
    """Held-out entries in a table of their own, its rows in another order."""
    train, held = holdout(ObservedMatrix.from_any(X), 0.2, 0)
    names = [f"s{i}" for i in range(40)]
    m = model().fit(pd.DataFrame(train.to_dense(), index=names))
    table = pd.DataFrame(held.to_dense(), index=names)
    assert m.score(table.iloc[::-1]) == pytest.approx(m.score(table), abs=1e-12)


@pytest.mark.parametrize("rows", [40, 12])
def test_score_with_effects_leaves_each_entry_out(rows):
    """Brute force: each entry is predicted from the other entries of its sample."""
    m = model(**WITH_EFFECTS).fit(X)
    new = low_rank(rows, 25, seed=0, noise=0.2)
    new[0] = nan
    known, predicted = ~np.isnan(new), np.full(new.shape, nan)
    for i, j in np.argwhere(known):
        others = new[i : i + 1].copy()
        others[0, j] = nan
        predicted[i, j] = m.predict(others)[0, j]
    assert m.score(new) == pytest.approx(r2_score(new[known], predicted[known]), abs=1e-9)


@pytest.mark.parametrize("rows", [40, 12])
@pytest.mark.parametrize("weighting", [0.0, 0.5])
def test_score_on_new_samples_leaves_each_entry_out(rows, weighting):
    """Brute force; 40 rows are as many as were fitted, and yet other samples."""
    m = model(weighting=weighting).fit(X)
    new = low_rank(rows, 25, seed=0, noise=0.2)
    new[0] = nan
    known = ~np.isnan(new)
    mean, F = KNOWN.sum(axis=1).mean(), m._subspace.features
    predicted = np.full(new.shape, nan)
    for i, j in np.argwhere(known):
        others = known[i].copy()
        others[j] = False
        ridge = (known[i].sum() / mean) ** weighting / 20.0  # the penalty of the sample stays what it is
        predicted[i, j] = F[j] @ np.linalg.solve(
            F[others].T @ F[others] + ridge * np.eye(3), F[others].T @ new[i, others]
        )
    assert m.score(new) == pytest.approx(r2_score(new[known], predicted[known]), abs=1e-9)


def test_attributes():
    m = model(rank=2).fit(X)
    assert m.n_features_in_ == 25
    assert m.rank_ == 2
    assert m.outcome_ == "stationary"
    assert m.converged_ is True
    assert m.n_iter_ == len(m.history_["objective"]) - 1
    assert m.history_["objective"][-1] == pytest.approx(m.certificate_.primal, rel=1e-6)
    assert "Stationary with a rank of at most 2" in str(m.certificate_)
    few = model(C=0.01).fit(X)
    assert (few.outcome_, few.rank_) == ("certified", 1)


@KINDS
def test_seeds_and_threads(kind):
    one = model(random_state=3, **kind).fit(X)
    np.testing.assert_array_equal(learned(model(random_state=3, n_threads=2, **kind).fit(X)), learned(one))
    np.testing.assert_array_equal(learned(model(random_state=np.random.default_rng(3), **kind).fit(X)), learned(one))
    other = model(random_state=np.random.RandomState(3), **kind).fit(X)
    np.testing.assert_allclose(learned(other), learned(one), atol=1e-6)


def test_a_loss_object():
    np.testing.assert_array_equal(model(loss=Square()).fit(X).row_factors_, model().fit(X).row_factors_)


# ---- budgets and words --------------------------------------------------------------------------------------


def test_max_iter_warns_once_where_the_user_called():
    with pytest.warns(ConvergenceWarning, match=r"max_iter=2 .*raise max_iter or tol") as caught:
        m = model(max_iter=2).fit(X)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert (m.outcome_, m.n_iter_, m.converged_) == ("iterations", 2, False)
    assert np.isfinite(m.transform(X)).all()


def test_max_time():
    m = model(max_time=1e-9).fit(X)
    assert (m.outcome_, m.converged_) == ("time", False)
    assert np.isfinite(m.transform(X)).all()
    assert model(max_time=600.0).fit(X).converged_


def test_ctrl_c_keeps_what_was_learned(monkeypatch):
    def interrupt(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt
        return "line"

    monkeypatch.setattr("rslm.estimators.callbacks.line", interrupt)
    m = model(verbose=1).fit(X)
    assert (m.outcome_, m.n_iter_) == ("interrupted", 2)
    assert np.isfinite(m.transform(X)).all()


def test_verbose(caplog, capsys):
    level = logger.level
    try:
        with caplog.at_level(logging.INFO, "rslm"):
            m = model(verbose=1).fit(X)
            lines = [r.getMessage() for r in caplog.records if r.name == "rslm"]
            assert len(lines) == m.n_iter_ + 1
            assert lines[0].startswith("rank 3  iteration   0  objective ")
            assert "relative gradient" in lines[-1]
            caplog.clear()
            model(verbose=0).fit(X)
            assert not caplog.records
    finally:
        logger.setLevel(level)
    assert capsys.readouterr().out == ""


@pytest.mark.filterwarnings("ignore:not converged after max_iter=1")
def test_verbose_is_about_one_fit_only(capsys):
    """What the next fits tell, and the logger itself, are as before; also of fits in other threads at the same time."""
    before = logger.level, list(logger.handlers), list(logger.filters)
    beside = threading.Event()

    def look(progress):
        other = threading.Thread(target=lambda: logger.info("from another fit"))
        other.start()
        other.join()
        beside.set()
        return "from this fit"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rslm.estimators.callbacks.line", look)
        patch.setattr(logging.getLogger(), "handlers", [])  # those of pytest
        model(verbose=1, max_iter=1, tol=0.0, C=1.0).fit(X)
        told = capsys.readouterr().err
        model(verbose=0).fit(X)
        assert capsys.readouterr().err == ""
    assert beside.is_set()
    assert "from this fit" in told
    assert "from another fit" not in told
    assert (logger.level, list(logger.handlers), list(logger.filters)) == before


def test_verbose_leaves_nothing_behind_when_a_fit_fails():
    before = logger.level, list(logger.handlers), list(logger.filters)
    with pytest.raises(ValueError, match="rank must be"):
        model(verbose=1, rank=1000).fit(X)
    assert (logger.level, list(logger.handlers), list(logger.filters)) == before


@pytest.mark.parametrize(("shape", "rank"), [((30, 4), 4), ((3, 20), 3), ((1, 1), 1), ((30, 20), 10)])
def test_the_default_rank_is_one_that_there_can_be(shape, rank):
    m = plain_completion(random_state=0, tol=1e-3).fit(low_rank(*shape, missing=0.0))
    assert m.row_factors_.shape[1] == rank
    assert m.get_params()["rank"] is None


# ---- bad input ----------------------------------------------------------------------------------------------


def changed(i, j, value):
    other = X.copy()
    other[i, j] = value
    return other


def sparse_with(value):
    other = stored(X, "csr")
    other.data[3] = value
    return other


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (sparse_with(nan), "NaN or infinite.*row 0, column"),
        (sparse_with(inf), "row 0, column"),
        (changed(3, 4, inf), "row 3, column 4"),
        (changed(3, 4, -inf), "row 3, column 4"),
        (np.empty((0, 3)), "0 sample"),
        (np.empty((3, 0)), "0 feature"),
        (np.full((4, 3), nan), "Nothing is observed: X is 4 × 3"),
        (sparse.csr_array((4, 3)), "Nothing is observed: X is 4 × 3"),
        (X + 1j, "Complex data not supported"),
        (stored(X, "csr").astype(complex), "Complex data not supported"),
        (np.ones(5), "Reshape your data"),
        (np.ones((2, 2, 2)), "dim"),
        (sparse.coo_array(([1.0, 2.0, 3.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2)), "repeat.*row 0, column 1.*sum"),
    ],
    ids=[
        "sparse nan",
        "sparse inf",
        "inf",
        "-inf",
        "no rows",
        "no columns",
        "all nan",
        "nothing stored",
        "complex",
        "complex sparse",
        "vector",
        "three dimensions",
        "duplicates",
    ],
)
def test_bad_data(given, message):
    before = getattr(given, "nnz", None)
    with pytest.raises(ValueError, match=message):
        model(rank=1).fit(given)
    assert getattr(given, "nnz", None) == before


@pytest.mark.parametrize(
    "given", [np.array([["a", "b"], ["c", "d"]]), np.array([["a", 1.0], [2.0, 3.0]], dtype=object), [["x", "y"]]]
)
def test_text_is_no_number(given):
    with pytest.raises((TypeError, ValueError), match=r"'(a|x)'|dtype <U1, but real numbers"):
        model(rank=1).fit(given)


def test_a_column_of_text():
    with pytest.raises((TypeError, ValueError), match=r"'a'|'u'"):
        model(rank=1).fit(pd.DataFrame({"a": ["u", "v"], "b": [1.0, 2.0]}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank must be a whole number from 1 to 25, the smaller side of the data; got 0"),
        ({"rank": 26}, "from 1 to 25, .*got 26"),
        ({"rank": 1.0}, "got 1.0"),
        ({"C": 0}, "C must be a positive finite number; got 0"),
        ({"C": -2.5}, r"got -2\.5"),
        ({"C": nan}, "got nan"),
        ({"C": inf}, "got inf"),
        ({"C": "big"}, "got 'big'"),
        ({"loss": "cubic"}, "loss must be one of .*'square'.*got 'cubic'"),
        ({"loss": 3}, "got 3"),
        ({"bounds": 0}, r"bounds must be None, \(lower, upper\).*got 0"),
        ({"weighting": nan}, "weighting must be a finite number.*got nan"),
        ({"weighting": "heavy"}, "weighting .*got 'heavy'"),
        ({"weighting": None}, "weighting .*got None"),
        ({"solver": "adam"}, "solver must be one of .*got 'adam'"),
        ({"max_iter": -1}, "max_iter .*got -1"),
        ({"tol": -1}, "tol .*got -1"),
        ({"max_time": 0}, "max_time .*got 0"),
        ({"n_threads": 0}, "n_threads .*got 0"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        model(**options).fit(X)


@pytest.mark.parametrize("call", ["predict", "transform", "score", "save", "get_feature_names_out"])
def test_not_fitted(call, tmp_path):
    arguments = {"predict": ([0], [0]), "save": (tmp_path / "m",), "get_feature_names_out": ()}.get(call, (X,))
    with pytest.raises(NotFittedError):
        getattr(model(), call)(*arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("rows", "cols", "message"),
    [
        ([40], [0], r"row positions\[0\] is 40, but positions from 0 to 39"),
        ([0, 3], [1, 25], r"column positions\[1\] is 25, but positions from 0 to 24"),
        ([-1], [0], r"row positions\[0\] is -1"),
        ([0, 1], [0], "same length; got 2 and 1"),
    ],
)
def test_predict_outside(rows, cols, message):
    with pytest.raises(ValueError, match=message):
        model().fit(X).predict(rows, cols)


def test_positions_must_be_whole_numbers():
    m = model().fit(X)
    with pytest.raises(TypeError, match="float64, but integers"):
        m.predict([0.5], [1])
    with pytest.raises(ValueError, match=r"transform\(X\)"):
        m.predict(stored(X, "csr"))


def test_other_numbers_of_features():
    m = model().fit(X)
    for given in (X[:, :24], stored(X[:, :24], "csr"), ObservedMatrix.from_any(X[:, :24])):
        with pytest.raises(ValueError, match="24 features"):
            m.transform(given)
        with pytest.raises(ValueError, match="24 features"):
            m.score(given)


@pytest.mark.parametrize("turn", [False, True], ids=["tall", "wide"])
@pytest.mark.parametrize("weighting", [0.0, 0.5])
def test_rows_and_columns_without_entries(turn, weighting):
    holes = X.copy()
    holes[[3, 8]], holes[:, 5] = nan, nan
    holes = holes.T if turn else holes
    samples, features = (1, 2) if turn else (2, 1)
    rows, cols = ("row 5", "columns 3, 8") if turn else ("rows 3, 8", "column 5")
    expected = (
        rf"{samples} of {holes.shape[0]} samples \({rows}\) and {features} of {holes.shape[1]} features \({cols}\) "
        "have no observed"
    )
    with pytest.warns(UserWarning, match=expected) as caught:
        m = model(weighting=weighting).fit(holes)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    W = learned(m).T if turn else learned(m)
    assert W.shape == (40, 25)
    others_rows, others_cols = np.setdiff1d(np.arange(40), [3, 8]), np.setdiff1d(np.arange(25), [5])
    # Like an average row, and like an average column.
    np.testing.assert_allclose(W[3], W[others_rows].mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(W[:, 5], W[:, others_cols].mean(axis=1), atol=1e-10)
    filled = m.transform(holes).T if turn else m.transform(holes)
    assert np.isfinite(filled).all()
    np.testing.assert_allclose(filled[others_rows, 5], W[others_rows, 5], atol=1e-6)
    np.testing.assert_allclose(filled[3], W[3], atol=1e-6)
    # They do not change what is learned elsewhere.
    if weighting == 0:
        without = model().fit(X[np.ix_(others_rows, others_cols)])
        np.testing.assert_allclose(W[np.ix_(others_rows, others_cols)], learned(without), atol=1e-6)


def test_nothing_missing():
    full = low_rank(missing=0)
    m = model(C=1e4).fit(full)
    U, s, Vt = np.linalg.svd(full)
    # Exact: each singular value is shrunk by τ = Σσ(W) / 2C, which C makes small.
    tau = s[:3].sum() / (2e4 + 3)
    np.testing.assert_allclose(learned(m), U[:, :3] * (s[:3] - tau) @ Vt[:3], atol=1e-6)
    np.testing.assert_array_equal(m.transform(full), full)


@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (1, 1)])
def test_one_row_or_column(shape):
    values = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    m = model(rank=1, C=1e6).fit(values)
    np.testing.assert_allclose(learned(m), values, rtol=1e-4)  # shrunk by ‖W‖/2C
    assert m.transform(values).shape == shape
    with pytest.raises(ValueError, match="from 1 to 1, the smaller side of the data; got 2"):
        model(rank=2).fit(values)


@pytest.mark.parametrize("value", [0.0, 3.0, -1e-3])
def test_constant_data(value):
    constant = np.where(KNOWN, value, nan)
    m = model(C=1e3).fit(constant)
    assert m.converged_
    assert m.rank_ == (value != 0)
    # Shrunk by about 1/2C over the observed part of the entries, of which some rows have few.
    np.testing.assert_allclose(m.transform(constant), np.full(X.shape, value), atol=1e-2 * abs(value))


@pytest.mark.parametrize("weighting", [0.0, 0.5])
@pytest.mark.parametrize("exponent", [150, -150])
def test_extreme_values(exponent, weighting):
    """The problem is homogeneous: the answer scales with the data."""
    scale = 10.0**exponent
    m, plain = model(weighting=weighting).fit(X * scale), model(weighting=weighting).fit(X)
    assert m.converged_
    np.testing.assert_allclose(learned(m) / scale, learned(plain), atol=1e-6)
    np.testing.assert_allclose(m.transform(X * scale) / scale, plain.transform(X), atol=1e-6)
    np.testing.assert_allclose(m.transform(X[:3] * scale) / scale, plain.transform(X[:3]), atol=1e-6)
    assert m.score(X * scale) == pytest.approx(plain.score(X), abs=1e-9)
    assert m.score(X[:7] * scale) == pytest.approx(plain.score(X[:7]), abs=1e-9)
    assert m.certificate_.relative_gap == pytest.approx(plain.certificate_.relative_gap, rel=1e-6)
    assert m.certificate_.primal / scale / scale == pytest.approx(plain.certificate_.primal, rel=1e-9)
    assert m.history_["objective"][-1] / scale / scale == pytest.approx(plain.history_["objective"][-1], rel=1e-9)


def test_extremely_different_values():
    mixed = X.copy()
    mixed[0, KNOWN[0]] *= 1e-150
    m = model().fit(mixed)
    assert np.isfinite(m.transform(mixed)).all()


def test_what_a_masked_array_hides_is_not_learned():
    M = np.ma.masked_array(np.outer([1.0, 2, 3, 4], [1.0, 2, 3]))
    M.data[3, 2] = 999.0
    M[3, 2] = np.ma.masked
    assert plain_completion(rank=1, C=1e4).fit(M).predict([3], [2])[0] == pytest.approx(12, rel=1e-3)


@pytest.mark.parametrize(
    "given", [np.array([["1", "2"], ["3", "4"]]), np.array([["2020-01-01"]], dtype="datetime64[D]")]
)
def test_text_and_dates_are_not_read_as_numbers(given):
    with pytest.raises(TypeError, match="real numbers are needed"):
        plain_completion(rank=1).fit(given)


@pytest.mark.parametrize("weighting", [1000.0, -1000.0])
def test_weights_out_of_range(weighting):
    X = np.random.default_rng(0).standard_normal((6, 5))
    X[0, :4] = np.nan
    with pytest.raises(ValueError, match=f"weighting={weighting} turns entry counts of 5 to 6 into weights"):
        plain_completion(rank=1, weighting=weighting).fit(X)


def test_a_path_is_read(tmp_path):
    (tmp_path / "ratings.csv").write_text("user,item,rating\na,x,1\na,y,2\nb,x,2\nb,y,4\n")
    model = plain_completion(1, C=1e4).fit(tmp_path / "ratings.csv")
    assert model.predict(["b"], ["y"]) == pytest.approx(4.0, abs=0.01)
    assert model.fit(str(tmp_path / "ratings.csv")).row_ids_.tolist() == ["a", "b"]
    with pytest.raises(FileNotFoundError, match="does not exist"):
        model.fit("missing.csv")


def test_what_is_no_matrix_is_named():
    with pytest.raises(TypeError, match="X is None, but a matrix of samples"):
        plain_completion(1).fit(None)
    with pytest.raises(TypeError, match=r"Column 'b' of X contains the text 'x'.*ObservedMatrix\.from_ratings"):
        plain_completion(1).fit(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("change", ["new columns", "another order"])
def test_a_warm_start_matches_columns_by_their_ids(change):
    rng = np.random.default_rng(0)
    W = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 100)) + 0.5 * rng.standard_normal((300, 100))
    W[rng.random(W.shape) < 0.8] = np.nan
    table = pd.DataFrame(W, columns=[f"film {j}" for j in range(100)])
    first = np.arange(98) if change == "new columns" else rng.permutation(100)
    best = plain_completion(3, 10.0, random_state=0).fit(table).certificate_.primal
    model = plain_completion(3, 10.0, warm_start=True, random_state=0).fit(table.iloc[:, first])
    begun = clone(model).set_params(max_iter=0).fit(table).certificate_.primal
    warm = model.set_params(max_iter=0).fit(table).certificate_.primal
    assert warm == pytest.approx(best, rel=1e-6) if change == "another order" else warm < begun
    assert model.set_params(max_iter=1000).fit(table).certificate_.primal == pytest.approx(best, rel=1e-6)
