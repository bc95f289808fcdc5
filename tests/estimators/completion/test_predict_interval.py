"""Intervals of completed matrices: they cover, are kept in files, and say what they need."""

import math

import numpy as np
import pytest
from scipy import sparse

import rslm
from rslm import InductiveCompletion, MatrixCompletion, ObservedMatrix
from rslm.data import holdout
from rslm.datasets import make_ratings
from rslm.estimators.automatic import held_out_again
from rslm.estimators.automatic.calibrated import predicted
from rslm.estimators.completion.error_size import coefficients_of
from rslm.estimators.completion.leverage import Leverage
from rslm.estimators.completion.ridges import Ridges
from rslm.evaluate import coverage_and_width

GIVEN = {"rank": 3, "C": 10.0, "weighting": 0.0, "random_state": 0}


def ratings(seed=0, noise=0.5):
    """12,000 entries, more in some rows than in others, and a quarter of them held out."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 120))
    X = 3.5 + 0.4 * truth + noise * rng.standard_normal(truth.shape)
    known = rng.random(X.shape) < rng.uniform(0.1, 0.6, (300, 1))
    return holdout(ObservedMatrix.from_any(np.where(known, X, np.nan)), 0.25, seed)


@pytest.fixture(scope="module")
def split():
    return ratings()


@pytest.fixture(scope="module")
def fitted(split):
    return MatrixCompletion(**GIVEN).fit(split[0])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        GIVEN,
        GIVEN | {"effects": None},
        GIVEN | {"weighting": 0.5},
        GIVEN | {"loss": "absolute"},
        GIVEN | {"bounds": (0.0, 7.0)},
    ],
)
@pytest.mark.filterwarnings("ignore:.*beyond the bounds")
def test_held_out_entries_are_covered_as_often_as_asked(split, settings):
    train, test = split
    model = MatrixCompletion(**{"random_state": 0} | settings).fit(train)
    for coverage in (0.5, 0.9):
        covered, width = coverage_and_width(model, test, coverage)
        # 3,000 test entries and as many calibration entries: five standard deviations of their difference, and one
        # per cent because the model is fitted to more entries than those that the errors come from.
        assert abs(covered - coverage) < 5 * math.sqrt(2 * coverage * (1 - coverage) / len(test)) + 0.01
        assert 0 < width < math.inf


def test_the_fit_to_a_part_has_forgotten_the_held_out_entries(split, monkeypatch):
    """It starts where these were fitted, too: their errors must be those of a fit that has never seen them."""
    kept = []
    monkeypatch.setattr(held_out_again, "calibrated", lambda fitted, *rest: kept.extend(fitted))
    settings = GIVEN | {"rank": 6, "C": 30.0}
    seen = MatrixCompletion(**settings).fit(split[0])
    with pytest.raises(ValueError, match="no held-out entries"):  # nothing is calibrated
        seen.predict_interval([0], [0])
    for fold, layout, model in kept:
        unseen = MatrixCompletion(**settings | {"C": layout.C, "effects": effects_of(layout)}, tol=1e-8).fit(fold.train)
        found, exact, leaked = (
            np.abs(fold.held.values - predicted(m, fold.held, 1)).mean()
            for m in (model, unseen._attributes, seen._attributes)
        )
        assert leaked < 0.85 * exact
        assert abs(found / exact - 1) < 0.01  # half the standard deviation of a mean of 3,000 errors; a leak has 12 %


def effects_of(layout):
    return layout.ridges.rows, layout.ridges.columns


def test_rank_zero_has_intervals():
    train, test = ratings(noise=4.0)
    model = MatrixCompletion(random_state=0).fit(train)
    assert model.rank_ == 0
    assert abs(coverage_and_width(model, test, 0.9)[0] - 0.9) < 0.04  # as above


def test_wide_coverage_contains_narrow(fitted, split):
    at = split[1].rows_of_entries(), split[1].index
    narrow, wide = fitted.predict_interval(*at, 0.5), fitted.predict_interval(*at, 0.95)
    assert (wide[0] <= narrow[0]).all()
    assert (narrow[1] <= wide[1]).all()
    w = fitted.predict(*at)
    assert ((narrow[0] <= w) & (w <= narrow[1])).all()


def test_intervals_are_within_the_bounds(split):
    model = MatrixCompletion(**GIVEN, bounds=(2.0, 5.0)).fit(ObservedMatrix.from_any(clipped(split[0])))
    lower, upper = model.predict_interval(split[1].rows_of_entries(), split[1].index, 0.99)
    assert lower.min() == 2.0
    assert upper.max() == 5.0


def clipped(data):
    return data.with_values(np.clip(data.values, 2.0, 5.0))


def test_noisier_rows_have_wider_intervals():
    made = make_ratings(200, 100, 10_000, rank=2, noise=0.01, random_state=1).data
    rows, rng = made.rows_of_entries(), np.random.default_rng(1)
    data = made.with_values(made.values + np.where(rows < 100, 0.1, 1.0) * rng.standard_normal(len(made)))
    model = MatrixCompletion(**GIVEN).fit(data)
    lower, upper = model.predict_interval(rows, made.index)
    assert (upper - lower)[rows < 100].mean() < 0.5 * (upper - lower)[rows >= 100].mean()


def test_rows_with_fewer_entries_have_wider_intervals(fitted, split):
    counts = split[0].row_counts()
    order = np.argsort(counts)
    column = np.zeros(30, dtype=int)
    few, many = (np.subtract(*fitted.predict_interval(rows, column)[::-1]) for rows in (order[:30], order[-30:]))
    assert few.mean() > many.mean()


def test_the_same_seed_gives_the_same_intervals_for_any_number_of_threads(split):
    at = split[1].rows_of_entries(), split[1].index
    one, two = (MatrixCompletion(**GIVEN, n_threads=n).fit(split[0]).predict_interval(*at) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_a_file_keeps_them(fitted, split, tmp_path):
    at = split[1].rows_of_entries(), split[1].index
    before = fitted.predict_interval(*at, 0.8, missing=True)
    fitted.save(tmp_path / "m.rslm")
    np.testing.assert_array_equal(rslm.load(tmp_path / "m.rslm").predict_interval(*at, 0.8, missing=True), before)


def test_a_model_saved_before_its_first_interval_needs_entries(split, tmp_path):
    train, test = split
    MatrixCompletion(**GIVEN).fit(train).save(tmp_path / "m.rslm")
    model = rslm.load(tmp_path / "m.rslm")
    with pytest.raises(ValueError, match=r"no held-out entries.*calibrate\(X\)"):
        model.predict_interval([0], [0])
    halves = holdout(test, 0.5, 0)
    covered, _ = coverage_and_width(model.calibrate(halves[0]), halves[1], 0.9)
    assert abs(covered - 0.9) < 5 * math.sqrt(2 * 0.09 / len(halves[1]))  # five standard deviations


def test_calibrated_intervals_cover_their_own_entries_exactly_as_often(split):
    train, test = split
    model = MatrixCompletion(**GIVEN).fit(train).calibrate(test)
    covered, _ = coverage_and_width(model, test, 0.9)
    assert covered == math.ceil(0.9 * (len(test) + 1)) / len(test)


def test_a_search_with_a_checkpoint_has_the_same_intervals(split, tmp_path):
    at = split[1].rows_of_entries(), split[1].index
    settings = {"rank": 2, "random_state": 0}
    here = MatrixCompletion(**settings).fit(split[0]).predict_interval(*at)
    for _ in range(2):  # the second one reads what the first one has found
        there = MatrixCompletion(**settings).fit(split[0], checkpoint=tmp_path / "c")
        np.testing.assert_array_equal(there.predict_interval(*at), here)


def test_another_fit_forgets_them(split):
    train, test = split
    model = MatrixCompletion(**GIVEN).fit(train).calibrate(test)
    narrow = coverage_and_width(model, test)[1]
    noisy = train.with_values(train.values + np.random.default_rng(0).standard_normal(len(train)))
    assert coverage_and_width(model.fit(noisy), test)[1] > 1.2 * narrow


def test_features_with_units_of_their_own():
    rng, units = np.random.default_rng(0), np.array([1.0, 1e3, 1e-3] * 4)
    X = (np.outer(rng.standard_normal(400), rng.standard_normal(12)) + 0.3 * rng.standard_normal((400, 12))) * units
    known = rng.random(X.shape) < 0.7
    model = MatrixCompletion(random_state=0).fit(np.where(known, X, np.nan))
    test = ObservedMatrix.from_any(np.where(known, np.nan, X))
    lower, upper = model.predict_interval(test.rows_of_entries(), test.index)
    inside = (lower <= test.values) & (test.values <= upper)
    for unit in (1.0, 1e3, 1e-3):
        of_unit = units[test.index] == unit
        # About 480 entries each: five standard deviations, and the coverage of a part is not promised.
        assert abs(inside[of_unit].mean() - 0.9) < 0.07
        assert (upper - lower)[of_unit].mean() < 4.0 * unit


def test_inductive_completion():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((150, 4)), rng.standard_normal((80, 3))
    X = A @ rng.standard_normal((4, 3)) @ B.T + 0.5 * rng.standard_normal((150, 80))
    known = rng.random(X.shape) < 0.4
    model = InductiveCompletion(random_state=0).fit(np.where(known, X, np.nan), row_features=A, column_features=B)
    test = ObservedMatrix.from_any(np.where(known, np.nan, X))
    covered, width = coverage_and_width(model, test)
    assert abs(covered - 0.9) < 0.03  # 7,000 entries: five standard deviations and one per cent, as above
    assert width < 2 * 1.7 * 0.5 * 1.645  # of the noise alone 1.645 deviations to each side


def test_inductive_completion_with_given_settings_needs_entries():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 20))
    model = InductiveCompletion(rank=2, C=1.0).fit(X, row_features=rng.standard_normal((30, 2)))
    with pytest.raises(ValueError, match=r"calibrate\(X\)"):
        model.predict_interval([0], [0])
    with pytest.raises(ValueError, match="nothing is held out"):
        model.calibrate(X)


def test_exact_data_have_intervals_of_no_width():
    X = np.outer(np.arange(1.0, 31.0), np.arange(1.0, 21.0))
    model = MatrixCompletion(rank=1, C=1e8, effects=None, random_state=0).fit(X)
    lower, upper = model.predict_interval([3], [5])
    assert upper[0] - lower[0] < 1e-3 * X[3, 5]


def test_two_classes_have_no_intervals(split):
    data = split[0].with_values(np.where(split[0].values > 3.5, 1.0, -1.0))
    model = MatrixCompletion(rank=1, C=1.0, loss="logistic").fit(data)
    for call in (lambda: model.predict_interval([0], [0]), lambda: model.calibrate(data)):
        with pytest.raises(ValueError, match=r"intervals are for real numbers.*predict_proba"):
            call()


def test_too_few_entries_for_the_coverage():
    rng = np.random.default_rng(0)
    model = MatrixCompletion(rank=1, C=1.0, random_state=0).fit(rng.standard_normal((6, 5)))
    with pytest.raises(ValueError, match=r"coverage=0.99 needs at least 99 held-out observations; there are \d+"):
        model.predict_interval([0], [0], 0.99)


def test_a_single_row_has_nothing_to_hold_out():
    model = MatrixCompletion(rank=1, C=1.0, effects=None).fit(np.array([[1.0, 2.0, 3.0]]))
    with pytest.raises(ValueError, match=r"calibrate\(X\)"):
        model.predict_interval([0], [0])


def test_other_rows_cannot_calibrate(fitted):
    with pytest.raises(ValueError, match="X has 3 rows, but the model was fitted to 300"):
        fitted.calibrate(sparse.csr_array(np.ones((3, 120))))


def test_fitted_entries_cannot_calibrate(fitted, split):
    with pytest.raises(ValueError, match="nothing is held out: of the entries of X, 9499 are"):
        fitted.calibrate(split[0])


def test_rows_and_columns_are_found_by_id(split):
    train, test = split
    names = np.array([f"r{i:03d}" for i in range(300)]), np.array([f"c{j:03d}" for j in range(120)])
    train, held = (
        ObservedMatrix.from_ratings(names[0][d.rows_of_entries()], names[1][d.index], d.values) for d in (train, test)
    )
    model, some = MatrixCompletion(**GIVEN).fit(train), held.rows_of_entries() < 100
    fewer = ObservedMatrix.from_ratings(  # of some rows only
        held.row_ids[held.rows_of_entries()[some]], held.col_ids[held.index[some]], held.values[some]
    )
    lower, upper = model.calibrate(fewer).predict_interval(
        held.row_ids[held.rows_of_entries()[some]], held.col_ids[held.index[some]]
    )
    inside = (lower <= held.values[some]) & (held.values[some] <= upper)
    assert inside.sum() == math.ceil(0.9 * (len(fewer) + 1))


def test_missing_entries_of_rare_rows_count_more(fitted, split):
    """Where rows with few entries have larger errors, intervals for missing entries are wider."""
    order = np.argsort(split[0].row_counts())
    at = order[-50:], np.full(50, 5)
    like_observed, like_missing = (np.subtract(*fitted.predict_interval(*at, missing=m)[::-1]) for m in (False, True))
    assert like_missing.mean() > like_observed.mean()


# ---- what the size of an error depends on --------------------------------------------------------------------------


def test_leverages_are_those_of_the_regressions_where_all_columns_are_alike():
    """With orthogonal factors and all entries observed, sums over a row are n times the average: exact leverages."""
    rng, n, m, C = np.random.default_rng(0), 16, 8, 5.0
    r, c = (np.linalg.qr(rng.standard_normal((size, 2)))[0] * math.sqrt(size) for size in (n, m))
    counts = np.full(n, float(m)), np.full(m, float(n))
    found = Leverage.of((r, c), counts, C, 0.0, Ridges(2.0, None)).at(np.arange(8), np.arange(8))
    sizes = np.linalg.svd(r @ c.T, compute_uv=False)
    P, s, Qt = np.linalg.svd(r @ c.T)
    balanced = [P[:, :2] * np.sqrt(s[:2]), Qt[:2].T * np.sqrt(s[:2])]
    ridge = sizes.sum() / (2 * C) * np.eye(2)
    of_rows, of_columns = (
        np.einsum("ij,jk,ik->i", b, np.linalg.inv(b.T @ b + ridge), b) for b in (balanced[1], balanced[0])
    )
    np.testing.assert_allclose(found[0], of_rows + 1 / (m + 2.0), rtol=1e-10)  # row effects with a ridge of 2
    np.testing.assert_allclose(found[1], of_columns[:8], rtol=1e-10)


def test_coefficients_are_those_of_non_negative_least_squares():
    rng = np.random.default_rng(0)
    features = np.column_stack([np.ones(500), rng.random((500, 4))])
    errors = np.maximum(features @ [0.2, 1.0, 0.0, -0.5, 0.3] + 0.1 * rng.standard_normal(500), 0.0)
    found = coefficients_of(features, errors)
    assert (found >= 0).all()
    slope = features.T @ (features @ found - errors)
    # Optimality: no slope where a coefficient is positive, none downwards where it is 0.
    assert np.abs(slope[found > 0]).max() < 1e-8 * len(errors)
    assert slope[found == 0].min() > -1e-8 * len(errors)


def test_errors_of_zero_need_no_coefficients():
    np.testing.assert_array_equal(coefficients_of(np.ones((3, 5)), np.zeros(3)), [1, 0, 0, 0, 0])
