"""ImplicitCompletion as scikit-learn sees it, what it learns and recommends, and what it says to bad input."""

import logging
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import rslm
from clicks import clicks
from rslm import ImplicitCompletion, ObservedMatrix
from rslm.runtime.log import logger

GIVEN = {"rank": 4, "C": 5.0, "alpha0": 0.2, "weighting": 0.5, "random_state": 0, "tol": 1e-9}


X = clicks()
MODEL = ImplicitCompletion(**GIVEN).fit(X)


@parametrize_with_checks([ImplicitCompletion(rank=1, C=1.0, alpha0=0.5, weighting=0.0), ImplicitCompletion()])
def test_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        # The checks use data with users who took nothing, and a single iteration.
        warnings.filterwarnings("ignore", message=".*took", category=UserWarning)
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        check(estimator)


# ---- what is learned -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])  # the smaller side is that of the items, or of the users
@pytest.mark.parametrize("weighting", [0.0, 0.5])
def test_the_objective_is_that_of_the_certificate(shape, weighting):
    X = clicks(*shape)
    model = ImplicitCompletion(**GIVEN | {"weighting": weighting}).fit(X)
    W, x = model.row_factors_ @ model.col_factors_.T, X.toarray()
    p, q = ((np.maximum(n, 1) / n.mean()) ** weighting for n in ((x > 0).sum(axis=1), (x > 0).sum(axis=0)))
    loss = np.sum(np.log2(1 + x) * (1 - W) ** 2 * (x > 0)) + 0.2 * np.sum(W**2)
    norm = np.linalg.norm(np.sqrt(p)[:, None] * W * np.sqrt(q), "nuc")
    assert model.certificate_.primal == pytest.approx(5.0 * loss + 0.5 * norm**2, rel=1e-9)  # sums of 2400 numbers
    assert model.converged_


def test_it_is_certified_where_the_rank_does_not_bind():
    model = ImplicitCompletion(**GIVEN | {"rank": 40, "C": 0.2, "tol": 1e-6}).fit(X)
    assert model.outcome_ == "certified"
    assert model.certificate_.relative_gap <= 1e-6
    assert model.rank_ < 40


@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
def test_the_same_matrix_transposed_has_the_same_answer(shape):
    X = clicks(*shape)
    given = GIVEN | {"C": 0.5}
    one, other = ImplicitCompletion(**given).fit(X), ImplicitCompletion(**given).fit(X.T)
    W = one.row_factors_ @ one.col_factors_.T
    np.testing.assert_allclose(other.col_factors_ @ other.row_factors_.T, W, atol=1e-5)  # gradients of 1e-9


@pytest.mark.parametrize(
    ("confidence", "weight"), [("log", lambda x: np.log2(1 + x)), ("linear", lambda x: x), ("ones", np.ones_like)]
)
def test_confidences(confidence, weight):
    model = ImplicitCompletion(**GIVEN, confidence=confidence).fit(X)
    own = X.copy()
    own.data = weight(X.data)
    same = ImplicitCompletion(**GIVEN, confidence="linear").fit(own)
    np.testing.assert_array_equal(model.row_factors_, same.row_factors_)


def test_zeros_and_missing_entries_are_not_taken():
    dense = X.toarray()
    missing = np.where(dense == 0, np.nan, dense)
    stored = sparse.csr_array((np.append(X.tocoo().data, 0.0), tuple(np.hstack([X.nonzero(), [[3], [0]]]))), X.shape)
    assert dense[3, 0] == 0
    tables = pd.DataFrame(dense), pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(X))
    for other in (dense, missing, stored, *tables):
        np.testing.assert_array_equal(ImplicitCompletion(**GIVEN).fit(other).row_factors_, MODEL.row_factors_)


@pytest.mark.parametrize("kind", [np.float64, np.uint8, np.bool_])
def test_a_matrix_of_events_is_counted(kind):
    """Repeated entries of the COO format are summed, as SciPy does, also where a type cannot hold the sum."""
    counted = X.toarray()
    counted[0, 0] = 300.0
    users, items = np.repeat(np.argwhere(counted), counted[counted > 0].astype(int), axis=0).T
    events = sparse.coo_array((np.ones(len(users), dtype=kind), (users, items)), X.shape)
    found, same = (ImplicitCompletion(**GIVEN).fit(each) for each in (events, counted))
    np.testing.assert_array_equal(found.row_factors_, same.row_factors_)
    assert events.nnz == len(users)  # as it was


def test_threads_and_repetition_change_no_bit():
    for threads in (1, 3):
        again = ImplicitCompletion(**GIVEN, n_threads=threads).fit(X)
        np.testing.assert_array_equal(again.col_factors_, MODEL.col_factors_)


# ---- recommendations -----------------------------------------------------------------------------------------------


def test_the_best_items_that_were_not_taken():
    W = np.where(X.toarray() > 0, -np.inf, MODEL.row_factors_ @ MODEL.col_factors_.T)
    items, scores = MODEL.recommend([7, 3, 7], 5)
    for row, found, values in zip((7, 3, 7), items, scores, strict=True):
        np.testing.assert_array_equal(found, np.argsort(-W[row])[:5])
        np.testing.assert_allclose(values, W[row, found], atol=1e-12)  # sums of four products
        np.testing.assert_allclose(values, MODEL.predict([row] * 5, found), atol=1e-12)
    assert items[0][0] % 4 == 3  # user 7 likes this group


def test_known_items_can_be_given():
    nothing = ObservedMatrix.from_any(sparse.csr_array(X.shape), allow_empty=True)
    W = MODEL.row_factors_ @ MODEL.col_factors_.T
    np.testing.assert_array_equal(MODEL.recommend([7], 5, known=nothing)[0][0], np.argsort(-W[7])[:5])
    with pytest.raises(ValueError, match="known must have the shape"):
        MODEL.recommend([7], known=ObservedMatrix.from_any(np.ones((2, 2))))


def test_more_than_there_are_and_a_user_who_took_everything():
    full = X.tolil()
    full[0] = 1.0
    model = ImplicitCompletion(**GIVEN).fit(full)
    items, scores = model.recommend([0, 1], 1000)
    assert [len(found) for found in items] == [len(found) for found in scores] == [0, 40 - full[[1]].nnz]


def test_users_of_the_fit_are_folded_in_where_they_are():
    W = MODEL.row_factors_ @ MODEL.col_factors_.T
    np.testing.assert_allclose(MODEL.predict(X.toarray()), W, atol=1e-6)  # at a relative gradient of 1e-9
    new, old = MODEL.recommend_for(X[[4, 9]], 5), MODEL.recommend([4, 9], 5)
    np.testing.assert_array_equal(new[0], old[0])


def test_new_users_are_the_solution_of_their_own_problem():
    rng = np.random.default_rng(5)
    new = rng.poisson(0.4, (3, 40)).astype(float)
    F, tau = MODEL.col_factors_, np.linalg.norm(weighted_matrix(), "nuc")
    for x, scores in zip(new, MODEL.predict(new), strict=True):
        omega, q = np.log2(1 + x), (np.count_nonzero(x) / (X.nnz / 60)) ** 0.5
        M = F.T @ (omega[:, None] * F) + 0.2 * F.T @ F + q * tau / 10.0 * np.eye(4)
        np.testing.assert_allclose(scores, F @ np.linalg.solve(M, F.T @ omega), atol=1e-8)  # condition numbers ≤ 1e4


def weighted_matrix():
    x = X.toarray() > 0
    p, q = ((n / n.mean()) ** 0.25 for n in (x.sum(axis=1), x.sum(axis=0)))
    return p[:, None] * (MODEL.row_factors_ @ MODEL.col_factors_.T) * q


def test_a_new_user_without_an_item_gets_what_an_average_user_would():
    nobody = np.zeros((1, 40))
    np.testing.assert_allclose(MODEL.predict(nobody)[0], MODEL.row_factors_.mean(axis=0) @ MODEL.col_factors_.T)
    assert len(MODEL.recommend_for(nobody, 5)[0][0]) == 5


def test_contributions_sum_to_the_score():
    for row, col in ((3, 0), (17, 39)):
        items, contributions = MODEL.explain(row, col, top=None)
        assert set(items) == set(X[[row]].nonzero()[1])
        assert sorted(contributions, reverse=True) == list(contributions)
        assert contributions.sum() == pytest.approx(MODEL.predict([row], [col])[0], abs=1e-6)  # at a gradient of 1e-9
    assert len(MODEL.explain(3, 0, top=2)[0]) == 2


def test_a_contribution_is_what_an_item_adds_to_the_right_hand_side():
    """With a confidence changed on the right-hand side alone, the score changes by its share of the contribution."""
    row, col = 3, 7
    items, contributions = MODEL.explain(row, col, top=None)
    F, x = MODEL.col_factors_, X.toarray()[row]
    omega, q = np.log2(1 + x), (np.count_nonzero(x) / (X.nnz / 60)) ** 0.5
    tau = np.linalg.norm(weighted_matrix(), "nuc")
    M = F.T @ (omega[:, None] * F) + 0.2 * F.T @ F + q * tau / 10.0 * np.eye(4)
    expected = [omega[j] * F[col] @ np.linalg.solve(M, F[j]) for j in items]
    np.testing.assert_allclose(contributions, expected, atol=1e-8)  # condition numbers ≤ 1e4


@pytest.mark.parametrize("side", ["items", "users"])
def test_similar_ones_have_the_largest_cosines(side):
    factors = MODEL.col_factors_ if side == "items" else MODEL.row_factors_
    found, cosines = (MODEL.similar_items if side == "items" else MODEL.similar_users)([2, 5], 3)
    unit = factors / np.linalg.norm(factors, axis=1, keepdims=True)
    for at, names, values in zip((2, 5), found, cosines, strict=True):
        others = unit @ unit[at]
        others[at] = -np.inf
        np.testing.assert_array_equal(names, np.argsort(-others)[:3])
        np.testing.assert_allclose(values, others[names], atol=1e-12)  # sums of four products
        assert all(name % 4 == at % 4 for name in names)


def test_ids_in_ids_out():
    table = pd.DataFrame(X.toarray(), [f"u{i}" for i in range(60)], [f"item {j}" for j in range(40)])
    model = ImplicitCompletion(**GIVEN).fit(table)
    items, _ = model.recommend(["u7"], 2)
    np.testing.assert_array_equal(items[0], [f"item {j}" for j in MODEL.recommend([7], 2)[0][0]])
    np.testing.assert_array_equal(model.similar_users("u3", 1)[0][0], [f"u{MODEL.similar_users(3, 1)[0][0][0]}"])
    names, _ = model.explain("u7", "item 0", 1)
    assert names[0] == f"item {MODEL.explain(7, 0, 1)[0][0]}"
    with pytest.raises(ValueError, match="Unknown row id 'who'"):
        model.recommend(["who"])


def test_items_of_new_users_are_found_by_id():
    """Only the items that they took, in any order; with weights, which move with their entries."""
    table = pd.DataFrame(X.toarray(), columns=[f"item {j}" for j in range(40)])
    model = ImplicitCompletion(**GIVEN).fit(ObservedMatrix.from_any(table))
    at, counts, weights = ([0, 1, 1, 0], [31, 7, 20, 3]), [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 0.5, 3.0]
    values, of_entries = np.full((2, 40), np.nan), np.ones((2, 40))
    values[at], of_entries[at] = counts, weights
    wanted = model.recommend_for(ObservedMatrix.from_any(values).weighted(of_entries), 5)
    new = ObservedMatrix.from_ratings(at[0], [f"item {j}" for j in at[1]], counts, weights=weights)
    assert new.shape == (2, 4)
    for one, other in zip(model.recommend_for(new, 5), wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="1 of 1 columns of X are unknown to the model, the first is 'item 99'"):
        model.recommend_for(ObservedMatrix.from_ratings(["a"], ["item 99"], [1.0]))
    known = ObservedMatrix.from_ratings(["a"], ["item 3"], [1.0])
    more = ObservedMatrix.from_ratings(["a", "a"], ["item 3", "item 99"], [1.0, 1.0])
    with pytest.warns(
        UserWarning, match="1 of 2 entries of X are left out: .*unknown to the model, the first is 'item 9"
    ):
        found = model.recommend_for(more, 5)
    np.testing.assert_array_equal(found, model.recommend_for(known, 5))


# ---- settings that are found ---------------------------------------------------------------------------------------


def test_settings_are_found_by_held_out_items():
    model = ImplicitCompletion(random_state=0).fit(X)
    assert model.held_out_["model"] > model.held_out_["popularity"]
    assert model.path_["score"].max() >= model.held_out_["model"]
    tried = list(zip(*(model.path_[name] for name in ("C", "alpha0", "weighting")), strict=True))
    assert (model.C_, model.alpha0_, model.weighting_) in tried
    assert len(set(tried)) >= 6
    again = ImplicitCompletion(random_state=0, n_threads=1).fit(X)
    np.testing.assert_array_equal(again.row_factors_, model.row_factors_)


def test_what_is_given_is_not_searched():
    model = ImplicitCompletion(rank=3, alpha0=0.3, random_state=0).fit(X)
    assert set(model.path_["rank"]) == {3}
    assert set(model.path_["alpha0"]) == {0.3}
    assert len(set(model.path_["C"])) > 1
    assert MODEL.path_ is None
    assert MODEL.held_out_ is None


def test_nothing_to_hold_out():
    """Nobody took two items, so the usual settings are used."""
    model = ImplicitCompletion(rank=2, random_state=0).fit(sparse.eye_array(6))
    assert model.path_ is None
    assert model.C_ > 0


def test_large_data_are_searched_by_some_users(monkeypatch):
    from rslm.estimators.implicit import search

    monkeypatch.setattr(search, "ENTRIES", 200)
    model = ImplicitCompletion(rank=3, weighting=0.5, random_state=0).fit(X)
    assert model.row_factors_.shape == (60, 3)
    assert model.C_ not in model.path_["C"]  # corrected for the number of users


def test_a_C_that_is_given_stays_as_it_is(monkeypatch):
    from rslm.estimators.implicit import search

    monkeypatch.setattr(search, "ENTRIES", 200)
    assert ImplicitCompletion(rank=3, C=5.3, weighting=0.5, random_state=0).fit(X).C_ == 5.3


def test_the_search_keeps_to_its_time():
    """No time for a whole trial; the fit has the best model so far."""
    with pytest.warns(ConvergenceWarning, match="has ended the search for settings before one was compared"):
        model = ImplicitCompletion(random_state=0, max_time=1e-6).fit(X)
    assert model.path_ is None
    assert model.held_out_ is None
    assert model.outcome_ == "time"
    assert model.row_factors_.any()
    assert len(model.recommend([0], 3)[0][0]) == 3


def test_a_rank_above_the_width_of_the_kernels():
    wide = clicks(150, 140)
    model = ImplicitCompletion(rank=132, C=50.0, alpha0=0.2, weighting=0.0, random_state=0, tol=1e-6).fit(wide)
    items, contributions = model.explain(3, 0, top=None)
    assert len(items) == wide[[3]].nnz
    assert contributions.sum() == pytest.approx(model.predict([3], [0])[0], abs=1e-4)  # at a gradient of 1e-6


def test_progress_is_logged(caplog):
    with caplog.at_level(logging.INFO, logger=logger.name):
        ImplicitCompletion(rank=2, weighting=0.5, random_state=0, verbose=1).fit(X)
    said = "\n".join(record.message for record in caplog.records)
    assert "ndcg@100" in said
    assert "relative gradient" in said


# ---- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", ["log", "ones"])
def test_a_file_recommends_the_same(tmp_path, confidence):
    table = pd.DataFrame(X.toarray(), columns=[f"item {j}" for j in range(40)])
    model = ImplicitCompletion(rank=3, random_state=0, confidence=confidence).fit(table)
    model.save(tmp_path / "model")
    loaded = rslm.load(tmp_path / "model")
    for one, other in (
        (model.recommend([1, 2]), loaded.recommend([1, 2])),
        (model.recommend_for(table), loaded.recommend_for(table)),
        (model.explain(1, "item 3"), loaded.explain(1, "item 3")),
        (model.similar_items("item 1"), loaded.similar_items("item 1")),
    ):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert loaded.held_out_ == model.held_out_
    assert loaded.get_params() == model.get_params()
    assert str(loaded.certificate_) == str(model.certificate_)
    np.testing.assert_array_equal(loaded.path_["C"], model.path_["C"])


# ---- bad input -----------------------------------------------------------------------------------------------------


def test_negative_counts():
    bad = X.tolil()
    bad[4, 7] = -2.0
    with pytest.raises(ValueError, match="Negative values in data: -2 at row 4, column 7"):
        ImplicitCompletion(**GIVEN).fit(bad)


@pytest.mark.parametrize("count", [1e41, 1e-41])  # squares of what the solver computes would overflow, or vanish
def test_confidences_out_of_range(count):
    bad = X.tolil()
    bad[4, 7] = count
    with pytest.raises(ValueError, match=r"the confidence of .* at row 4, column 7 .* use confidence='ones'"):
        ImplicitCompletion(**GIVEN, confidence="linear").fit(bad)
    ImplicitCompletion(**GIVEN, confidence="ones").fit(bad)


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_settings_are_found_at_any_scale_of_confidences(size):
    """C and alpha0 follow the scale, and the ranking stays."""
    usual = ImplicitCompletion(rank=3, random_state=0, confidence="linear").fit(X)
    model = ImplicitCompletion(rank=3, random_state=0, confidence="linear").fit(X * size)
    assert model.converged_
    assert model.alpha0_ == pytest.approx(usual.alpha0_ * size, rel=1e-9)  # rounding of the mean
    assert model.held_out_["model"] == pytest.approx(usual.held_out_["model"], rel=1e-3)  # of rough fits


def test_confidences_far_above_alpha0_are_warned_of():
    with pytest.warns(ConvergenceWarning, match="confidences of .* leave what was not taken hardly any weight"):
        ImplicitCompletion(**GIVEN | {"tol": 1e-6}, confidence="linear", max_iter=50).fit(X * 1e12)


def test_times_are_no_counts():
    with pytest.warns(UserWarning, match="all values are at least 1.7e.09, like times"):
        ImplicitCompletion(**GIVEN | {"alpha0": 1.0}).fit(sparse.csr_array(X.astype(bool) * 1.7e9))


def test_a_log_of_events_is_counted(tmp_path):
    path = tmp_path / "log.csv"
    events = np.repeat(np.argwhere(X.toarray()), X.data.astype(int), axis=0)
    path.write_text("user,item\n" + "".join(f"{i},{j}\n" for i, j in events))
    np.testing.assert_array_equal(ImplicitCompletion(**GIVEN).fit(path).row_factors_, MODEL.row_factors_)


def test_nothing_was_taken():
    with pytest.raises(ValueError, match="X has no positive entry: 3 × 4"):
        ImplicitCompletion(**GIVEN).fit(np.zeros((3, 4)))


def test_empty_users_and_items_are_warned_of():
    sparse_X = X.tolil()
    sparse_X[0], sparse_X[:, 1] = 0.0, 0.0
    with (
        pytest.warns(UserWarning, match="1 of 60 users took nothing"),
        pytest.warns(match="1 of 40 items have no positive entry"),
    ):
        model = ImplicitCompletion(**GIVEN).fit(sparse_X)
    np.testing.assert_allclose(model.row_factors_[0], model.row_factors_[1:].mean(axis=0), rtol=1e-12)
    assert not model.col_factors_[1].any()
    assert len(model.explain(0, 3)[0]) == 0
    items, cosines = model.similar_items([1, 2], 2)
    assert [len(found) for found in items] == [len(found) for found in cosines] == [0, 2]  # nothing is like item 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"alpha0": 0},
            "alpha0 must be a positive .*; got 0; use a small one, such as 0.01, or MatrixCompletion",
        ),
        ({"alpha0": -1.0}, "alpha0 must be a positive finite number or 'auto'; got -1.0"),
        ({"alpha0": 1e-50}, "alpha0 must be a number from 1e-40 to 1e.40 or 'auto'; got 1e-50"),
        ({"C": 0.0}, "C must be a positive finite number or 'auto'; got 0.0"),
        ({"C": "much"}, "C must be a positive finite number or 'auto'; got 'much'"),
        ({"weighting": -101.0}, "weighting must be a number from -100 to 100 or 'auto'; got -101.0"),
        ({"weighting": np.nan}, "weighting must be a finite number or 'auto'; got nan"),
        ({"rank": 0}, "rank must be a whole number ≥ 1 or 'auto'; got 0"),
        ({"rank": 2.5}, "rank must be a whole number ≥ 1 or 'auto'; got 2.5"),
        ({"confidence": "sure"}, "confidence must be one of"),
        ({"metric": "auc"}, "metric must be one of recall@k"),
        ({"metric": "ndcg@0"}, "metric must be one of recall@k"),
        ({"tol": -1.0}, "tol"),
    ],
)
def test_wrong_settings(given, message):
    with pytest.raises(ValueError, match=message):
        ImplicitCompletion(**GIVEN | given).fit(X)


def test_other_mistakes():
    with pytest.raises(NotFittedError):
        ImplicitCompletion().recommend([0])
    with pytest.raises(TypeError, match="give its client too"):
        ImplicitCompletion().fit(SimpleNamespace(map_partitions=None))
    with pytest.raises(ValueError, match="top must be a whole number"):
        MODEL.recommend([0], 0)
    with pytest.raises(ValueError, match="top must be a whole number ≥ 1 or None"):
        MODEL.explain(0, 0, top=0)
    with pytest.raises(ValueError, match="explain takes one user and one item; got 2 and 1"):
        MODEL.explain([0, 1], 0)
    with pytest.raises(ValueError, match="rows and cols must have the same length"):
        MODEL.predict([0, 1], [0])
    with pytest.raises(ValueError, match="features"):
        MODEL.recommend_for(np.ones((1, 3)))
    with pytest.raises(ValueError, match=r"use recommend_for\(X\)"):
        MODEL.predict(X)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        clone(MODEL).set_params(max_iter=1).fit(X)
