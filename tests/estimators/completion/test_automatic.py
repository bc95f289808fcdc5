"""Everything that MatrixCompletion finds from the data: rank, C, weighting, effects and units."""

import signal
import time
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import rslm
from plain import RIDGES
from rslm import MatrixCompletion, ObservedMatrix
from rslm.estimators.automatic import folds, search

nan = np.nan


def made(rank=2, shape=(30, 20), missing=0.3, noise=0.3, effects=1.0, seed=0):
    """Low rank around row and column effects, with NaN for missing."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    X = 3.0 + W + effects * (rng.standard_normal((shape[0], 1)) + rng.standard_normal(shape[1]))
    X += noise * rng.standard_normal(shape)
    X[rng.random(shape) < missing] = nan
    return X


def automatic(**options):
    return MatrixCompletion(**{"random_state": 0} | options)


def everything(model, shape):
    """All predictions, entry by entry."""
    return model.predict(*np.indices(shape).reshape(2, -1)).reshape(shape)


SMALL = made(1, (16, 15), seed=1)


@pytest.fixture(scope="module", autouse=True)
def few_folds():
    """What is tested here does not depend on their number, and it takes less time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folds, "FOLDS", 3)
        yield


@pytest.fixture(scope="module")
def fitted():
    return automatic().fit(SMALL)


@pytest.fixture(scope="module")
def exact():
    return automatic(tol=1e-9).fit(SMALL)


# ---- what is found -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rank", "seed"), [(1, 0), (2, 1), (3, 0), (3, 1)])
def test_the_rank_is_found(rank, seed):
    model = automatic(tol=1e-4).fit(made(rank, noise=0.2, effects=0.0, seed=seed))
    assert model.rank_ == rank
    assert model.held_out_["model"] < 0.8 * model.held_out_["effects"]


@pytest.mark.parametrize("rank", [1, 3])
def test_the_rank_is_found_beside_effects(rank):
    """With ridges that count W as noise, W would need more columns to repair effects that are shrunk too much."""
    model = automatic(tol=1e-4).fit(made(rank, (40, 30), noise=0.1, effects=1.0))
    assert model.rank_ == rank
    assert model.path_["ridges"].min() < 0.1


def test_features_are_in_units_of_their_noise_where_that_helps(tmp_path):
    rng = np.random.default_rng(3)
    W = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 10))
    X = W + np.where(np.arange(10) < 5, 0.1, 1.5) * rng.standard_normal(W.shape)
    gone = rng.random(W.shape) < 0.3
    table = np.where(gone, nan, X)
    model, plain = automatic().fit(table), automatic(scale=False).fit(table)
    assert set(model.path_["noise_units"]) == {0.0, 1.0}
    assert not plain.path_["noise_units"].any()
    error, of_plain = (np.sqrt(np.mean((everything(m, W.shape) - W)[gone] ** 2)) for m in (model, plain))
    assert error < 0.9 * of_plain
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(rslm.load(tmp_path / "m").transform(table[:5]), model.transform(table[:5]))


def test_what_is_said_of_the_search(fitted, tmp_path):
    path = fitted.path_
    assert list(path) == ["rank", "C", "weighting", "row_effects", "ridges", "noise_units", "error", "seconds"]
    assert len({len(column) for column in path.values()}) == 1
    at = np.flatnonzero((path["C"] == fitted.C_) & (path["weighting"] == fitted.weighting_))
    assert path["error"][at].min() == fitted.held_out_["model"]
    assert fitted.held_out_["model"] < fitted.held_out_["effects"] < fitted.held_out_["mean"]
    fitted.save(tmp_path / "m")
    read = rslm.load(tmp_path / "m")
    assert (read.C_, read.weighting_, read.rank_) == (fitted.C_, fitted.weighting_, fitted.rank_)
    assert read.held_out_ == fitted.held_out_
    assert list(read.path_) == list(path)
    for name, values in path.items():
        np.testing.assert_array_equal(read.path_[name], values)
    assert read.get_params() == fitted.get_params()
    np.testing.assert_array_equal(everything(read, SMALL.shape), everything(fitted, SMALL.shape))
    np.testing.assert_array_equal(read.transform(SMALL[:3]), fitted.transform(SMALL[:3]))


def test_one_fit_finds_nothing(tmp_path):
    model = automatic(rank=2, C=10.0).fit(SMALL)
    assert (model.path_, model.held_out_) == (None, None)
    assert (model.C_, model.weighting_) == (10.0, 0.0)  # a C that is given is for a given weighting
    model.save(tmp_path / "m")
    read = rslm.load(tmp_path / "m")
    assert (read.path_, read.held_out_, read.C_) == (None, None, 10.0)


def test_the_answer_is_that_of_one_fit_with_what_was_found(fitted):
    """1e-4: both are solved until the relative gradient is 1e-6, from other starts."""
    given = fitted._ridges.rows, fitted._ridges.columns
    units = fitted._subspace.units is not None
    one = automatic(
        rank=fitted.col_factors_.shape[1], C=fitted.C_, weighting=fitted.weighting_, effects=given, scale=units
    ).fit(SMALL)
    np.testing.assert_allclose(everything(one, SMALL.shape), everything(fitted, SMALL.shape), atol=1e-4)
    assert one.certificate_.primal == pytest.approx(fitted.certificate_.primal, rel=1e-6)


def test_the_same_by_seed_and_for_any_number_of_threads(fitted):
    for other in (automatic(n_threads=1), automatic(n_threads=3), clone(fitted)):
        other.fit(SMALL)
        assert (other.C_, other.rank_, other.weighting_) == (fitted.C_, fitted.rank_, fitted.weighting_)
        for name in ("row_factors_", "col_factors_", "row_effects_", "col_effects_", "intercept_"):
            np.testing.assert_array_equal(getattr(other, name), getattr(fitted, name))
        np.testing.assert_array_equal(other.path_["error"], fitted.path_["error"])


@pytest.mark.parametrize(("factor", "shift"), [(1e3, 0.0), (1e-3, 10.0)])
def test_units_do_not_matter(exact, factor, shift):
    other = automatic(tol=1e-9).fit(factor * SMALL + shift)
    assert other.rank_ == exact.rank_
    found = (everything(other, SMALL.shape) - shift) / factor
    np.testing.assert_allclose(found, everything(exact, SMALL.shape), atol=1e-6)
    found = (other.transform(factor * SMALL[:4] + shift) - shift) / factor  # new samples, too
    np.testing.assert_allclose(found, exact.transform(SMALL[:4]), atol=1e-6)


@pytest.mark.parametrize("seed", [0, 2])
def test_effects_alone_where_there_is_nothing_else(seed, tmp_path):
    X = np.where(np.isnan(made(1, (30, 25))), nan, noise_around_effects(seed))
    model = automatic().fit(X)
    assert model.rank_ == 0
    assert model.held_out_["model"] == model.held_out_["effects"]
    location = model.intercept_ + model.row_effects_[:, None] + model.col_effects_
    np.testing.assert_allclose(everything(model, X.shape), location, atol=1e-12)
    np.testing.assert_allclose(model.predict(X), location, atol=1e-6)  # folded in again
    residuals = model.residuals_.to_dense()
    np.testing.assert_allclose(residuals[~np.isnan(X)], (X - location)[~np.isnan(X)], atol=1e-12)
    model.save(tmp_path / "m")
    read = rslm.load(tmp_path / "m")
    assert read.rank_ == 0
    np.testing.assert_array_equal(read.transform(X[:3]), model.transform(X[:3]))
    assert len(model.recommend([0], 3)[0][0]) == 3


def noise_around_effects(seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((30, 1)) + rng.standard_normal(25) + rng.standard_normal((30, 25))


@pytest.mark.parametrize(("rank", "noise"), [(1, 3.0), (2, 1.0), (3, 2.0), (5, 0.5)])
def test_never_worse_than_effects_alone(rank, noise):
    model = automatic(tol=1e-3).fit(made(rank, (30, 20), noise=noise, missing=0.5, seed=7))
    assert model.held_out_["model"] <= model.held_out_["effects"]


def test_a_given_rank():
    model = automatic(rank=3).fit(SMALL)
    assert model.row_factors_.shape[1] == 3
    assert set(model.path_["rank"]) == {3}
    assert len(set(model.path_["C"])) > 2


def test_a_given_C():
    model = automatic(C=7.0).fit(SMALL)
    assert model.C_ == 7.0
    assert set(model.path_["C"]) == {7.0}
    assert len(set(model.path_["rank"])) > 1


def test_without_effects():
    """The mean is what W is compared with."""
    model = automatic(effects=None).fit(SMALL)
    assert (model.intercept_, model.row_effects_.any(), model.col_effects_.any()) == (0.0, False, False)
    assert model.rank_ >= 1
    assert model.held_out_["effects"] == model.held_out_["mean"]


def test_weighting_is_compared_where_counts_differ():
    X = made(1, (40, 30), noise=0.5)
    rng = np.random.default_rng(0)
    X[rng.random(X.shape) < np.linspace(0.0, 0.9, 40)[:, None]] = nan
    X[:, 0], X[0] = 1.0, 1.0
    assert set(automatic(tol=1e-3).fit(X).path_["weighting"]) == {0.0, 0.5}
    assert set(automatic(tol=1e-3, weighting=0.3).fit(X).path_["weighting"]) == {0.3}


@pytest.mark.parametrize("ridges", [(2.0, None), (None, 3.0), (None, None), (0.0, 0.0), RIDGES])
def test_given_ridges(ridges):
    model = automatic(effects=ridges, rank=1, C=20.0).fit(SMALL)
    assert model.row_effects_.any() == (ridges[0] is not None)
    assert model.col_effects_.any() == (ridges[1] is not None)
    assert np.isfinite(everything(model, SMALL.shape)).all()
    np.testing.assert_allclose(model.predict(SMALL), everything(model, SMALL.shape), atol=1e-3)


# ---- units of features ---------------------------------------------------------------------------------------------


def test_columns_of_other_units_are_standardised():
    """Of any units: the answer of the standardised table, in these units."""
    rng = np.random.default_rng(0)
    X = made(2, (40, 6), effects=0.0, missing=0.2)
    X = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    units, shifts = 10.0 ** rng.uniform(-3, 3, 6), rng.uniform(-5, 5, 6)
    options = {"tol": 1e-9}
    standard = automatic(scale=True, **options).fit(X)
    for scale in (True, "auto"):
        other = automatic(scale=scale, **options).fit((X + shifts) * units)
        found = everything(other, X.shape) / units - shifts
        np.testing.assert_allclose(found, everything(standard, X.shape), atol=1e-6)
        np.testing.assert_allclose(
            other.transform((X[:5] + shifts) * units) / units - shifts, standard.transform(X[:5]), atol=1e-6
        )
        assert other.score((X + shifts) * units) > 0.9
    assert automatic(**options).fit(X)._subspace.units is None  # all spreads are 1


def test_units_in_a_file(tmp_path):
    X = made(1, (30, 5)) * 10.0 ** np.arange(5)
    model = automatic().fit(X)
    assert model._subspace.units is not None
    model.save(tmp_path / "m")
    read = rslm.load(tmp_path / "m")
    np.testing.assert_array_equal(read.transform(X[:6]), model.transform(X[:6]))
    assert read.score(X[:6]) == model.score(X[:6])


def test_a_feature_that_does_not_vary():
    X = made(1, (30, 5)) * 10.0 ** np.arange(5)
    X[:, 2] = 0.1  # whose mean is rounded
    model = automatic().fit(X)
    np.testing.assert_allclose(everything(model, X.shape)[:, 2], 0.1, atol=0.05)


# ---- losses, bounds, weights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "hinge", "absolute", "huber"])
def test_other_losses(loss):
    X = made(1, (16, 12), missing=0.1, effects=0.5, seed=3)
    X = np.where(np.isnan(X), nan, np.nanmedian(X) < X) if loss in ("logistic", "hinge") else X
    model = automatic(loss=loss, tol=1e-2).fit(X)
    assert model.held_out_["model"] <= model.held_out_["effects"]
    assert model.score(X) > (0.7 if model.classes_ is not None else 0.4)
    assert np.isfinite(model.transform(X)).all()


def test_bounds():
    X = np.clip(made(2, (30, 20)), 1.0, 5.0)
    model = automatic(bounds=(1.0, 5.0), tol=1e-4).fit(X)
    found = everything(model, X.shape)
    assert found.min() >= 1.0
    assert found.max() <= 5.0
    W = model.intercept_ + model.row_effects_[:, None] + model.col_effects_ + model.row_factors_ @ model.col_factors_.T
    np.testing.assert_allclose(W, found, atol=1e-6)  # the bounds are those of the prediction, location included
    assert model.predict(X[:4]).max() <= 5.0


def test_weights():
    rng = np.random.default_rng(0)
    out = rng.random(SMALL.shape) < 0.2
    without, zero = (
        automatic(tol=1e-4).fit(np.where(out, nan, SMALL)),
        automatic(tol=1e-4).fit(SMALL, sample_weight=np.where(out, 0.0, 1.0)),
    )
    np.testing.assert_array_equal(zero.row_factors_, without.row_factors_)
    np.testing.assert_array_equal(zero.path_["error"], without.path_["error"])
    weighted = automatic(tol=1e-4).fit(SMALL, sample_weight=rng.uniform(0.5, 2.0, SMALL.shape))
    assert weighted.held_out_["model"] < weighted.held_out_["effects"]


# ---- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "X",
    [
        np.array([[5.0]]),
        np.array([[1.0, nan], [nan, 3.0]]),
        np.array([[1.0, 3.0]]),
        np.array([[1.0], [3.0]]),
        np.arange(12.0)[None],
        np.arange(12.0)[:, None],
        np.array([[1.0, 2.0], [3.0, nan]]),
        np.where(np.eye(5) > 0, np.arange(5.0), nan),
    ],
    ids=["1", "2", "2 in a row", "2 in a column", "row", "column", "3", "diagonal"],
)
def test_hardly_anything(X):
    model = automatic().fit(X)
    found, known = everything(model, X.shape), ~np.isnan(X)
    assert np.isfinite(found).all()
    # Predictions are shrunk to each other, never far beyond the data.
    assert np.abs(found).max() <= 1.5 * np.abs(X[known]).max()
    assert np.isfinite(model.transform(X)).all()


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_all_values_equal(value):
    X = np.where(np.random.default_rng(0).random((10, 8)) < 0.7, value, nan)
    model = automatic().fit(X)
    assert model.rank_ == 0
    np.testing.assert_allclose(everything(model, X.shape), value, rtol=1e-6)


def test_a_row_with_one_entry_only():
    """It is never held out, and predicted by its effect, half-way to the mean at most."""
    X = SMALL.copy()
    X[4], X[:, 3] = nan, nan
    X[4, 0], X[7, 3] = 2.0, 1.0
    model = automatic().fit(X)
    assert np.isfinite(everything(model, X.shape)).all()


@pytest.mark.filterwarnings("ignore:.*have no observed entry")
def test_rows_and_columns_without_entries_are_predicted_by_what_is_left_of_the_location():
    X = SMALL.copy()
    X[4], X[:, 3] = nan, nan
    model = automatic().fit(X)
    found = everything(model, X.shape)
    assert model.row_effects_[4] == model.col_effects_[3] == 0.0
    others = np.setdiff1d(np.arange(15), [3])
    np.testing.assert_allclose(found[4, others], (model.intercept_ + model.col_effects_)[others], atol=1e-9)
    np.testing.assert_allclose(found[4, 3], model.intercept_, atol=1e-9)
    np.testing.assert_allclose(model.transform(np.full((1, 15), nan))[0], found[4], atol=1e-9)


def test_data_without_noise():
    X = made(2, (20, 15), noise=0.0, effects=0.0)
    model = automatic().fit(X)
    assert model.rank_ == 2
    assert model.held_out_["model"] < 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": "high"}, "rank must be a number or 'auto'; got 'high'"),
        ({"rank": [2]}, r"rank must be a whole number or 'auto'; got \[2\]"),
        ({"rank": 0}, "rank must be a whole number from 1 to 15, the smaller side of the data; got 0"),
        ({"rank": -1}, "got -1"),
        ({"C": "big"}, "C must be a number or 'auto'; got 'big'"),
        ({"C": None}, "C must be a positive finite number; got None"),
        ({"C": -2.0}, r"C must be a positive finite number; got -2\.0"),
        ({"C": nan}, "C must be a positive finite number; got nan"),
        ({"weighting": "heavy"}, "weighting must be a number or 'auto'; got 'heavy'"),
        ({"weighting": nan}, "weighting must be a finite number"),
        ({"effects": "rows"}, "effects must be 'auto', None, or the ridges.*got 'rows'"),
        ({"effects": (-1, 2)}, r"effects must be .*got \(-1, 2\)"),
        ({"effects": (1.0,)}, r"effects must be .*got \(1.0,\)"),
        ({"effects": (1.0, 2.0, 3.0)}, "effects must be"),
        ({"effects": 5.0}, "effects must be .*got 5.0"),
        ({"effects": (nan, 1.0)}, "effects must be"),
        ({"effects": (np.inf, 1.0)}, "effects must be"),
        ({"effects": ("auto", 1.0)}, "effects must be"),
        ({"scale": "columns"}, "scale must be True, False or 'auto'; got 'columns'"),
        ({"scale": None}, "scale must be True, False or 'auto'; got None"),
        ({"scale": True, "bounds": (-9, 9)}, "scale=True standardises features, which bounds"),
        ({"scale": True, "loss": "logistic"}, "scale=True standardises features"),
        ({"effects": None, "scale": "columns"}, "scale must be True, False or 'auto'"),
    ],
)
def test_wrong_settings_of_a_search(options, message):
    X = np.where(np.isnan(SMALL), nan, SMALL > 3) if "loss" in options else SMALL
    with pytest.raises(ValueError, match=message):
        automatic(**options).fit(X)


# ---- time and interrupts -------------------------------------------------------------------------------------------


def test_no_time_to_search():
    with pytest.warns(ConvergenceWarning, match="ended the search for settings before one was compared: rank 10, C="):
        model = automatic(max_time=1e-9).fit(SMALL)
    assert (model.outcome_, model.path_, model.held_out_) == ("time", None, None)
    assert np.isfinite(model.transform(SMALL)).all()


def stopping_after(number, how):
    """`solve` of the search, which stops the fit after its n-th call."""
    real, calls = search.solve, []

    def solve(*arguments, **more):
        calls.append(1)
        result = real(*arguments, **more)
        if len(calls) == number:
            how()
        return result

    return solve, calls


def press():
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("number", [1, 4, 12])
def test_ctrl_c_keeps_the_best_setting_so_far(monkeypatch, number):
    solve, calls = stopping_after(number, press)
    monkeypatch.setattr(search, "solve", solve)
    model = automatic().fit(SMALL)
    assert len(calls) == number
    assert model.outcome_ == "interrupted"
    assert np.isfinite(model.transform(SMALL)).all()
    tried = (number - 1) // 3  # on all of three folds
    assert (0 if model.path_ is None else len(model.path_["C"])) == tried
    if tried:
        assert model.held_out_["model"] <= model.path_["error"].min()


@pytest.mark.parametrize("number", [1, 12])
def test_the_time_for_searching_ends(monkeypatch, number):
    late = []
    solve, calls = stopping_after(number, lambda: late.append(1))
    monkeypatch.setattr(search, "solve", solve)
    monkeypatch.setattr(search, "time", SimpleNamespace(perf_counter=lambda: time.perf_counter() + 1e6 * len(late)))
    said = "before one was compared" if number == 1 else "with 3 of them tried, and the best so far were used"
    with pytest.warns(ConvergenceWarning, match=f"max_time=1000.0 has ended the search for settings {said}"):
        model = automatic(max_time=1000.0).fit(SMALL)
    assert len(calls) == number
    assert model.converged_  # with all the time that is left
    assert np.isfinite(model.transform(SMALL)).all()


# ---- as everywhere -------------------------------------------------------------------------------------------------


def test_ids_and_the_input(fitted):
    rows, cols = np.nonzero(~np.isnan(SMALL))
    data = ObservedMatrix.from_ratings([f"u{i:02d}" for i in rows], [f"i{j:02d}" for j in cols], SMALL[rows, cols])
    before = data.values.copy()
    model = automatic().fit(data)
    np.testing.assert_array_equal(data.values, before)
    np.testing.assert_allclose(model.predict(["u03", "u15"], ["i00", "i14"]), fitted.predict([3, 15], [0, 14]))
    assert model.get_params() == automatic().get_params()


def test_a_second_fit_forgets_the_first():
    model = automatic(C=10.0).fit(SMALL)
    model.set_params(rank=2, C=10.0, effects=None).fit(SMALL)
    assert (model.path_, model.held_out_, model.intercept_, model._ridges) == (None, None, 0.0, None)
    other = automatic(rank=2, C=10.0, effects=None).fit(SMALL)
    np.testing.assert_array_equal(model.row_factors_, other.row_factors_)
