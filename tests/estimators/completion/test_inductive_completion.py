"""InductiveCompletion as a user sees it."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import rslm
from plain import plain_completion
from rslm import InductiveCompletion, ObservedMatrix

# Weights are those of entries. A sample twice is two rows of the matrix, which is another problem, unless all that is
# learned of a row is learned from its features.
NOT_OF_SAMPLES = {
    "check_sample_weight_equivalence_on_dense_data": "a sample twice is another matrix",
    "check_sample_weight_equivalence_on_sparse_data": "a sample twice is another matrix",
}
SHAPE = {"check_sample_weights_shape": "one weight for every entry is accepted, too"}


@pytest.mark.filterwarnings("ignore:.*neither an observed entry")
@parametrize_with_checks(
    [InductiveCompletion(rank=1, C=30.0), InductiveCompletion(rank=1, C=30.0, completion=False)],
    expected_failed_checks=lambda e: SHAPE | NOT_OF_SAMPLES if e.completion else SHAPE,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def ratings(*, seed=0, n=80, m=60, noise=0.3, own=0.5):
    """Features tell most of a matrix, rows and columns of their own the rest; some have no entry at all."""
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((n, 4)), rng.standard_normal((m, 3))
    M = rng.standard_normal((4, 1)) @ rng.standard_normal((1, 3))
    W = 3.0 + A @ M @ B.T + own * np.outer(rng.standard_normal(n), rng.standard_normal(m))
    X = W + noise * rng.standard_normal((n, m))
    X[rng.random((n, m)) < 0.85] = np.nan
    X[:5], X[:, :4] = np.nan, np.nan
    return X, A, B, W


def fitted(X, A, B, **options):
    numbers = {"rank": 3, "C": 30.0, "feature_weight": 0.2, "weighting": 0.0, "random_state": 0}
    return InductiveCompletion(**numbers | options).fit(X, row_features=A, column_features=B)


def matrix_of(model):
    effects = model.intercept_ + model.row_effects_[:, None] + model.col_effects_
    return effects + model.row_factors_ @ model.col_factors_.T


def rmse(a, b):
    return float(np.sqrt(np.mean((a - b) ** 2)))


def test_features_help_and_tell_of_rows_and_columns_without_an_entry():
    X, A, B, W = ratings()
    model = fitted(X, A, B, feature_weight=1.0)
    with pytest.warns(UserWarning, match="no observed"):
        plain = plain_completion(rank=3, C=30.0, random_state=0).fit(X)
    missing = np.isnan(X)
    ours, theirs = matrix_of(model), matrix_of(plain)
    assert rmse(ours[missing], W[missing]) < 0.5 * rmse(theirs[missing], W[missing])
    spread = W[:5, 4:].std()
    assert rmse(ours[:5, 4:], W[:5, 4:]) < 0.6 * spread
    assert rmse(ours[5:, :4], W[5:, :4]) < 0.6 * W[5:, :4].std()
    assert rmse(ours[:5, :4], W[:5, :4]) < 0.6 * W[:5, :4].std()


def test_without_the_completion_term_rows_with_the_same_features_are_the_same():
    X, A, B, _ = ratings()
    A[1] = A[40]
    model = fitted(X, A, B, completion=False)
    np.testing.assert_allclose(model.row_factors_[1], model.row_factors_[40])
    assert model.rank_ <= 3
    assert model.certificate_.relative_gap < 10
    assert model.converged_


def test_new_rows_and_columns_by_their_features():
    X, A, B, W = ratings(own=0.0)
    model = fitted(X[10:, 10:], A[10:], B[10:], completion=False, C=100.0, feature_weight=1.0)
    i, j = np.repeat(np.arange(10), 10), np.tile(np.arange(10), 10)
    new = model.predict(i, j, row_features=A[:10], column_features=B[:10])
    assert rmse(new, W[:10, :10].ravel()) < 0.25
    mixed = model.predict(i, j, row_features=A[:10])  # columns are those of the fit
    np.testing.assert_allclose(mixed, model.predict(i, j, row_features=A[:10], column_features=B[10:20]), atol=1e-9)


def test_a_new_row_with_entries_is_fitted_around_what_its_features_tell():
    X, A, B, W = ratings(noise=0.05)
    model = fitted(X[10:], A[10:], B, feature_weight=1.0, C=100.0)
    new = W[:10].copy()
    hidden = np.ones(new.shape, dtype=bool)
    hidden[:, ::30] = False  # one entry of columns that have some
    given = np.where(hidden, np.nan, new)
    given[:, :4] = np.nan
    with_features, without = (model.transform(given, row_features=f) for f in (A[:10], None))
    inside = hidden.copy()
    inside[:, :4] = False
    assert rmse(with_features[inside], new[inside]) < 0.5 * W.std()
    assert rmse(with_features[inside], new[inside]) < rmse(without[inside], new[inside])
    assert np.array_equal(with_features[~np.isnan(given)], given[~np.isnan(given)])
    nothing = np.full((10, 60), np.nan)
    by_features = model.predict(np.repeat(np.arange(10), 60), np.tile(np.arange(60), 10), row_features=A[:10])
    np.testing.assert_allclose(model.transform(nothing, row_features=A[:10]).ravel(), by_features, atol=1e-9)


@pytest.mark.parametrize("loss", ["square", "huber"])
@pytest.mark.parametrize("wide", [False, True])
def test_samples_of_the_fit_get_their_own_factors_back(loss, wide):
    X, A, B, _ = ratings()
    X, A, B = (X.T.copy(), B, A) if wide else (X, A, B)
    model = fitted(X, A, B, loss=loss, tol=1e-9)
    W = matrix_of(model)
    missing = np.isnan(X)
    np.testing.assert_allclose(model.transform(X)[missing], W[missing], atol=1e-4)
    np.testing.assert_allclose(model.predict(X), W, atol=1e-4)


def test_no_features_and_no_intercept_is_plain_completion():
    X, _, _, _ = ratings()
    with pytest.warns(UserWarning, match="neither an observed entry nor features"):
        model = InductiveCompletion(3, 30.0, effects=None, weighting=0.5, random_state=0).fit(X)
    with pytest.warns(UserWarning, match="no observed"):
        plain = plain_completion(3, 30.0, weighting=0.5, random_state=0).fit(X)
    assert model.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-7)
    ours, theirs = (m.row_factors_ @ m.col_factors_.T for m in (model, plain))
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    np.testing.assert_allclose(model.transform(X), plain.transform(X), atol=1e-4)


def test_sparse_and_dense_features_agree():
    X, A, B, _ = ratings()
    A[np.abs(A) < 0.8] = 0.0
    one, other = fitted(X, A, B), fitted(X, sparse.csc_array(A), sparse.coo_array(B))
    np.testing.assert_allclose(
        one.row_factors_ @ one.col_factors_.T, other.row_factors_ @ other.col_factors_.T, atol=1e-5
    )
    pair = np.array([3]), np.array([7])
    new = other.predict(*pair, row_features=sparse.csr_array(A))
    np.testing.assert_allclose(new, one.predict(*pair, row_features=A), atol=1e-5)


def test_probabilities_of_classes():
    X, A, B, W = ratings(own=0.0)
    model = fitted(np.where(np.isnan(X), np.nan, X > 3), A, B, loss="logistic", C=5.0, feature_weight=1.0)
    p = model.predict_proba(np.arange(5), np.full(5, 9))
    assert ((p > 0) & (p < 1)).all()
    guess = (matrix_of(model)[:5] > 0) == (W[:5] > 3)
    assert guess.mean() > 0.8
    assert set(np.unique(model.transform(np.where(np.isnan(X), np.nan, X > 3)))) == {0.0, 1.0}


def test_ids_find_their_features():
    X, A, B, _ = ratings()
    rows, cols = np.nonzero(~np.isnan(X))
    users, items = np.array([f"user {i}" for i in range(80)]), np.array([f"item {j}" for j in range(60)])
    data = ObservedMatrix.from_ratings(users[rows], items[cols], X[rows, cols])
    order = np.random.default_rng(1).permutation(80)
    table = pd.DataFrame(A[order], index=users[order])
    model = fitted(data, table, pd.DataFrame(B, index=items))
    positions = [int(u.split()[1]) for u in data.row_ids]
    same = fitted(data, A[positions], B[[int(i.split()[1]) for i in data.col_ids]])
    np.testing.assert_allclose(model.row_factors_, same.row_factors_, atol=1e-8)
    # users without a rating are not among the rows, but in the table
    one = model.predict(["user 2"], ["item 9"], row_features=table)
    np.testing.assert_allclose(one, model.predict([2], ["item 9"], row_features=A))
    with pytest.raises(ValueError, match="Unknown row id 'user 2'"):
        model.predict(["user 2"], ["item 9"])
    with pytest.raises(ValueError, match="27 ids of X are not in the index of the table, such as"):
        fitted(data, table.iloc[:50], None)


@pytest.mark.parametrize("rank", [3, 0])
def test_ids_that_fit_knows_keep_what_was_learned_of_them(rank):
    X, A, B, _ = ratings()
    users, items = [f"user {i}" for i in range(80)], [f"item {j}" for j in range(60)]
    people, things = pd.DataFrame(A, index=users), pd.DataFrame(B, index=items)
    known = pd.DataFrame(X[5:, 4:], index=users[5:], columns=items[4:])
    model = fitted(known, people, things, feature_weight=1.0)
    if rank == 0:
        noise = np.random.default_rng(0).standard_normal(X.shape) + np.arange(80)[:, None] / 20
        table = pd.DataFrame(noise, index=users, columns=items).iloc[5:, 4:]
        model = InductiveCompletion(random_state=0).fit(table, row_features=people, column_features=things)
        assert model.rank_ == 0
    i, j = np.array(users)[[5, 40, 79]], np.array(items)[[30, 4, 59]]
    expected = model.predict(i, j)
    np.testing.assert_array_equal(model.predict(i, j, row_features=people), expected)
    np.testing.assert_array_equal(model.predict(i, j, column_features=things), expected)
    np.testing.assert_array_equal(model.predict(i, j, row_features=people, column_features=things), expected)
    np.testing.assert_array_equal(model.predict(i, j, row_features=people.iloc[:5]), expected)  # only the new ones
    new = model.predict([*i, "user 2"], [*j, "item 1"], row_features=people, column_features=things)
    np.testing.assert_array_equal(new[:3], expected)
    alone = model.predict([2], [1], row_features=A, column_features=B)  # arrays have no ids
    np.testing.assert_allclose(new[3:], alone, rtol=1e-12)
    if rank:
        by_features = model.predict([5, 40, 79], j, row_features=A)
        assert np.abs(by_features - expected).max() > 0.01
    with pytest.raises(ValueError, match=r"Unknown row id 'user 2' at position 1; 1 of 2 .*give the features of all"):
        model.predict([i[0], "user 2"], j[:2], row_features=people.iloc[:2])


def test_a_saved_model_predicts_the_same(tmp_path):
    X, A, B, _ = ratings()
    model = fitted(X, A, B, weighting=0.5)
    model.save(tmp_path / "model.rslm")
    loaded = rslm.load(tmp_path / "model.rslm")
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.predict([1, 2], [3, 4]), model.predict([1, 2], [3, 4]))
    new = {"row_features": A[:3], "column_features": B[:3]}
    np.testing.assert_array_equal(loaded.predict([1, 2], [1, 2], **new), model.predict([1, 2], [1, 2], **new))
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert loaded.score(X) == model.score(X)


def test_grid_search_passes_the_features_of_rows_on():
    X, A, B, _ = ratings()
    with config_context(enable_metadata_routing=True):
        model = InductiveCompletion(3, 30.0, random_state=0)
        model.set_fit_request(row_features=True, column_features=True).set_score_request(row_features=True)
        search = GridSearchCV(model, {"feature_weight": [1e-3, 1.0]}, cv=3)
        search.fit(X, row_features=A, column_features=B)
    assert search.best_params_ == {"feature_weight": 1.0}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"row_features": np.ones((79, 2))}, ValueError, "row_features have 79 rows, but there are 80"),
        ({"column_features": np.ones((61, 2))}, ValueError, "column_features have 61 rows, but there are 60"),
        ({"row_features": np.ones(80)}, ValueError, "two dimensions"),
        ({"row_features": np.array([["a", "b"]] * 80)}, TypeError, "OneHotEncoder"),
        ({"row_features": np.full((80, 2), np.nan)}, ValueError, "finite"),
        ({"feature_weight": 0}, ValueError, "feature_weight must be 'auto' or a positive number"),
        ({"completion": False, "effects": None}, ValueError, "completion=False needs row_features"),
        ({"effects": (5.0, 5.0)}, ValueError, "effects must be 'auto', for a mean and effects of rows and columns, or"),
        ({"rank": "all"}, ValueError, "rank must be a number or 'auto'; got 'all'"),
        ({"C": "all"}, ValueError, "C must be a number or 'auto'; got 'all'"),
        ({"loss": "square root"}, ValueError, "loss must be one of"),
    ],
)
def test_bad_input(change, error, message):
    X, *_ = ratings()
    options = {k: v for k, v in change.items() if not k.endswith("features")}
    features = {k: v for k, v in change.items() if k.endswith("features")}
    with pytest.raises(error, match=message):
        InductiveCompletion(**{"rank": 2, "C": 30.0} | options).fit(X, **features)


def test_new_features_must_be_as_many_as_those_of_the_fit():
    X, A, B, _ = ratings()
    with pytest.raises(ValueError, match="row_features have 3 features, but fit was given 4"):
        fitted(X, A, B).predict([0], [0], row_features=A[:, :3])


def test_features_that_are_all_zero_are_no_trouble():
    X, A, B, _ = ratings()
    model = fitted(X, A * 0, B)
    assert np.isfinite(model.row_factors_).all()


def test_columns_of_tables_must_be_those_of_the_fit():
    X, A, B, _ = ratings()
    table = pd.DataFrame(A, columns=list("abcd"))
    model = fitted(X, table, B)
    np.testing.assert_array_equal(model.predict([1], [1], row_features=table), model.predict([1], [1], row_features=A))
    with pytest.raises(ValueError, match="give the same, in the same order"):
        model.predict([1], [1], row_features=table[list("dcba")])


def test_dummies_of_categories_are_numbers():
    X, _, B, _ = ratings()
    people = pd.DataFrame({"age": np.arange(80), "sex": ["f", "m"] * 40, "place": pd.Categorical(["x"] * 80)})
    with pytest.raises(TypeError, match=r"column 'sex' holds .*get_dummies"):
        fitted(X, people, B)
    assert fitted(X, pd.get_dummies(people), B).converged_


def test_outliers_and_a_loss_with_kinks():
    X, A, B, truth = ratings()
    rng = np.random.default_rng(0)
    spoilt = np.where(rng.random(X.shape) < 0.05, 100.0, X)
    spoilt[np.isnan(X)] = np.nan
    at = np.nonzero(~np.isnan(X))
    models = {loss: fitted(spoilt, A, B, loss=loss, C=10.0) for loss in ("absolute", "square")}
    errors = {loss: np.median(np.abs(model.predict(*at) - truth[at])) for loss, model in models.items()}
    assert models["absolute"].converged_
    assert errors["absolute"] < 0.2 * errors["square"]
    new = models["absolute"].predict([0, 1], [5, 5], row_features=A[:2])  # of rows that it has not seen
    assert np.isfinite(new).all()


def test_probabilities_of_new_rows():
    X, A, B, _ = ratings()
    model = fitted(np.where(np.isnan(X), np.nan, X > 3), A, B, loss="logistic", C=1.0)
    p = model.predict_proba([0, 1], [5, 5], row_features=A[:2])
    np.testing.assert_allclose(p, 1 / (1 + np.exp(-model.predict([0, 1], [5, 5], row_features=A[:2]))))


def test_a_path_of_growing_C_starts_from_where_it_was():
    X, A, B, _ = ratings()
    cold, warm = InductiveCompletion(3, random_state=0), InductiveCompletion(3, random_state=0, warm_start=True)
    spent = {"cold": 0, "warm": 0}
    for C in np.geomspace(10.0, 30.0, 5):
        for name, model in (("cold", cold), ("warm", warm)):
            model.set_params(C=C).fit(X, row_features=A, column_features=B)
            spent[name] += int(model.history_["evaluations"][-1] + model.history_["hessian_products"][-1])
    assert spent["warm"] < spent["cold"]


def test_sparse_features_that_are_stored_in_parts():
    X, A, B, _ = ratings()
    thin = sparse.coo_array(A)
    rows, cols = np.tile(thin.row, 2), np.tile(thin.col, 2)
    halves = sparse.csr_array((np.tile(thin.data / 2, 2), (rows, cols)), shape=A.shape)
    parts = sparse.csr_array(
        (np.repeat(thin.data / 2, 2), np.repeat(thin.col, 2), np.arange(0, 2 * A.size + 1, 2 * A.shape[1])),
        shape=A.shape,
    )
    expected = fitted(X, A, B).row_factors_
    for features in (halves, parts):
        np.testing.assert_allclose(fitted(X, features, B).row_factors_, expected, atol=1e-6)


def test_a_rank_above_the_number_of_features():
    X, A, B, _ = ratings()
    with pytest.raises(ValueError, match="rank is 10, but the smaller side has 4 features"):
        InductiveCompletion(10, completion=False).fit(X, row_features=A, column_features=B)
    found = InductiveCompletion(None, 30.0, completion=False, tol=1e-3).fit(X, row_features=A, column_features=B)
    assert found.row_factors_.shape[1] == 4
