"""Streams with a mean and effects: near the fit of all samples, and better than effects alone."""

import numpy as np
import pytest

import rslm
from rslm import MatrixCompletion, ObservedMatrix
from rslm.estimators.completion.learned import effects_entries
from rslm.losses import Huber

C, RIDGES = 8.0, (5.0, 4.0)


def made(seed=0, n=4000, m=60, share=0.25, rank=3):
    """Ratings with effects of users and items; a part to learn from and one to predict."""
    rng = np.random.default_rng(seed)
    W = 3 + 0.5 * rng.standard_normal((n, 1)) + 0.4 * rng.standard_normal(m)
    W = W + 0.4 * rng.standard_normal((n, rank)) @ rng.standard_normal((rank, m))
    rows, cols = np.nonzero(rng.random((n, m)) < share)
    y = W[rows, cols] + 0.6 * rng.standard_normal(len(rows))
    held = rng.random(len(y)) < 0.2
    return [ObservedMatrix.from_triplets(rows[at], cols[at], y[at], (n, m)) for at in (~held, held)]


TRAIN, TEST = made()


def part(data, first, last):
    at = slice(data.indptr[first], data.indptr[last])
    weights = None if data.weights is None else data.weights[at]
    own = data.indptr[first : last + 1] - data.indptr[first]
    return ObservedMatrix(own, data.index[at], data.values[at], (last - first, data.shape[1]), weights=weights)


def streamed(data=TRAIN, step=1000, **options):
    model = MatrixCompletion(**{"rank": 3, "C": C, "weighting": 0, "random_state": 0, **options})
    for start in range(0, data.shape[0], step):
        model.partial_fit(part(data, start, min(start + step, data.shape[0])))
    return model


def rmse(predicted, test=TEST):
    return float(np.sqrt(np.mean((predicted - test.values) ** 2)))


def folded(model, train=TRAIN, test=TEST):
    """Entries that were held out of samples, which are fitted at what the stream has learned."""
    left, right = model._folded(train)
    return np.einsum("kr,kr->k", left[test.rows_of_entries()], right[test.index])


def test_near_the_fit_and_better_than_effects_alone_and_than_a_stream_without():
    batch = MatrixCompletion(3, C, weighting=0, random_state=0, tol=1e-4).fit(TRAIN)
    of_fit = rmse(batch.predict(TEST.rows_of_entries(), TEST.index))
    alone, plain = rmse(effects_entries(batch, TRAIN, TEST)), rmse(folded(streamed(effects=None)))
    found = rmse(folded(streamed()))
    assert found < 1.005 * of_fit  # measured: 1.0006
    assert found < 0.9 * min(alone, plain)  # measured: 0.83
    # With the ridges of the fit, mean and effects are those of the fit too.
    same = streamed(effects=(batch._ridges.rows, batch._ridges.columns))
    np.testing.assert_allclose(same.intercept_ + same.col_effects_, batch.intercept_ + batch.col_effects_, atol=0.06)


@pytest.mark.parametrize("loss", ["huber", "logistic"])
def test_other_losses(loss):
    train, test = TRAIN, TEST
    if loss == "logistic":
        train, test = (d.with_values((d.values > 3.2).astype(float)) for d in (train, test))
    else:  # one of ten is an outlier
        y = train.values + 20.0 * (np.random.default_rng(0).random(len(train)) < 0.1)
        train = train.with_values(y)
    given = Huber(0.5) if loss == "huber" else loss
    batch = MatrixCompletion(3, C, loss=given, weighting=0, random_state=0, tol=1e-4).fit(train)
    ours = streamed(train, loss=given), streamed(train, loss=given, effects=None)

    def error(predicted):
        return np.mean((predicted > 0) != (test.values > 0)) if loss == "logistic" else rmse(predicted, test)

    found, plain = (error(folded(model, train, test)) for model in ours)
    assert found < 1.05 * error(batch.predict(test.rows_of_entries(), test.index))
    assert found < plain


def test_what_is_auto_is_set_by_the_first_call():
    """C is found by held-out entries of the first samples; with effects alone the error would be larger."""
    model = streamed(rank="auto", C="auto", weighting="auto")
    assert model.C_ == model._stream.C
    assert model.weighting_ == 0.0
    assert 0.3 * C < model.C_ < 3.0 * C
    assert model.held_out_["model"] < model.held_out_["effects"] < model.held_out_["mean"]
    assert model.path_["C"].min() < model.C_ < model.path_["C"].max()
    assert rmse(folded(model)) < 0.95 * rmse(effects_entries(model, TRAIN, TEST))


def test_a_large_first_call_is_searched_by_a_sample(monkeypatch):
    monkeypatch.setattr("rslm.estimators.completion.stream.ENTRIES", 12_000)
    sampled, every = streamed(C="auto", step=4000), MatrixCompletion(3, weighting=0, random_state=0).fit(TRAIN)
    assert 0.5 * every.C_ < sampled.C_ < 2.0 * every.C_  # measured: 1.05
    assert sampled.path_["C"].min() < sampled.C_ < sampled.path_["C"].max()


@pytest.mark.parametrize("effects", ["auto", (None, 4.0), (5.0, None)])
def test_a_stream_goes_on_from_a_file_bitwise(effects, tmp_path):
    model = MatrixCompletion(3, C, effects=effects, weighting=0, random_state=0).partial_fit(part(TRAIN, 0, 1500))
    model.save(tmp_path / "m")
    kept = rslm.load(tmp_path / "m")
    X = part(TEST, 0, 20).to_dense()
    np.testing.assert_array_equal(kept.predict(X), model.predict(X))
    for m in (model, kept):
        m.partial_fit(part(TRAIN, 1500, 3000))
    for name in ("col_factors_", "col_effects_", "row_effects_", "intercept_"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(model, name))
    np.testing.assert_array_equal(kept.transform(X), model.transform(X))


def test_features_in_units_of_their_own(tmp_path):
    units = np.geomspace(1e-3, 1e3, TRAIN.shape[1])
    train, test = (d.with_values(d.values * units[d.index]) for d in (TRAIN, TEST))
    model = streamed(train)
    np.testing.assert_allclose(np.log(model._subspace.units / units), 0.0, atol=0.7)
    assert rmse(folded(model, train, test) / units[test.index]) < 1.02 * rmse(folded(streamed()))
    model.save(tmp_path / "m")
    kept = rslm.load(tmp_path / "m")
    for m in (model, kept):
        m.partial_fit(part(train, 0, 600))
    np.testing.assert_array_equal(kept.col_effects_, model.col_effects_)


def test_weight_2_is_the_entry_twice_and_a_common_factor_is_one_of_C():
    first = part(TRAIN, 0, 1500)
    weighted = MatrixCompletion(3, C, effects=RIDGES, random_state=0).partial_fit(
        first, sample_weight=np.full(len(first), 2.0)
    )
    # The ridge of an effect is in observations of weight 1, so that twice the weight is half the ridge.
    half = tuple(ridge / 2 for ridge in RIDGES)
    other = MatrixCompletion(3, 2 * C, effects=half, random_state=0).partial_fit(first)
    np.testing.assert_allclose(weighted.col_effects_, other.col_effects_, atol=1e-8)
    np.testing.assert_allclose(weighted._right @ weighted._left.T, other._right @ other._left.T, atol=1e-7)
    some = np.random.default_rng(0).random(len(first)) + 0.5
    assert np.abs(weighted.partial_fit(first, sample_weight=some).col_effects_ - other.col_effects_).max() > 1e-4


def test_features_that_were_never_observed_or_not_in_the_last_call():
    seen = TRAIN.index != 7
    model = streamed(TRAIN.subset(seen), effects=RIDGES)
    assert model.col_effects_[7] == 0.0
    assert not model.col_factors_[7].any()
    X = np.full((2, TRAIN.shape[1]), np.nan)
    X[0, :5] = 4.5
    low, high = model.predict(X)[[1, 0], 7]
    assert low == pytest.approx(model.intercept_)  # nothing is known of this sample either
    assert high > low + 0.3  # by the effect of the sample
    before = model.col_effects_[3] + model.intercept_
    late = part(TRAIN.subset(TRAIN.index != 3), 0, 600)
    model.partial_fit(late)  # it is not forgotten because one call has none of it
    assert model.col_effects_[3] + model.intercept_ == pytest.approx(before, abs=0.05)


def test_recommendations_use_the_effects():
    model = streamed()
    new = part(TEST, 0, 5)
    columns, predicted = model.recommend_for(new, 3)
    W = model.predict(new.to_dense())
    for k in range(5):
        np.testing.assert_allclose(predicted[k], W[k, columns[k]], rtol=1e-12)
        known = new.index[new.indptr[k] : new.indptr[k + 1]]
        assert W[k, np.setdiff1d(np.arange(60), known)].max() == pytest.approx(predicted[k][0])


def test_how_samples_come_in_calls_does_not_matter():
    a, b = (streamed(effects=RIDGES, step=step) for step in (512, 4000))
    np.testing.assert_array_equal(a._stream.steps.effects.rows, b._stream.steps.effects.rows)
    np.testing.assert_array_equal(a.col_factors_, b.col_factors_)


def test_a_fit_polishes_it():
    model, cold = streamed(effects=RIDGES), MatrixCompletion(3, C, effects=RIDGES, random_state=0).fit(TRAIN)
    model.set_params(warm_start=True).fit(TRAIN)
    assert model.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=1e-6)


@pytest.mark.parametrize(("begun", "now"), [(RIDGES, None), (None, RIDGES), (RIDGES, (1.0, 1.0)), ("auto", RIDGES)])
def test_other_effects_are_refused(begun, now):
    model = MatrixCompletion(3, C, effects=begun, random_state=0).partial_fit(part(TRAIN, 0, 600))
    with pytest.raises(ValueError, match="learned with effects"):
        model.set_params(effects=now).partial_fit(part(TRAIN, 0, 600))
    model.set_params(effects="auto").partial_fit(part(TRAIN, 0, 600))  # as it was begun


def test_data_of_extreme_size():
    """What the first call divides by holds for all calls."""
    large = TRAIN.with_values(TRAIN.values * 2.0**600)
    model, usual = (streamed(data, effects=RIDGES, scale=False) for data in (large, TRAIN))
    np.testing.assert_allclose(model.col_effects_, usual.col_effects_ * 2.0**600, rtol=1e-9)


def test_scale_without_effects_is_refused():
    with pytest.raises(ValueError, match="scale=True standardises features"):
        streamed(effects=None, scale=True)
