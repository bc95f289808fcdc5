"""Effects of a treatment: found, with intervals, an event study, a check of trends, and files."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import rslm
from panels import long_columns, make_panel
from rslm import PanelCompletion


@pytest.fixture(scope="module")
def fitted():
    Y, treated, _ = make_panel()
    return PanelCompletion(random_state=0, n_refits=60).fit(Y, treated)


def test_the_effect_is_found(fitted):
    _, treated, without = make_panel()
    assert fitted.rank_ == 1
    assert fitted.att_ == pytest.approx(np.nanmean(fitted.effect_))
    low, high = fitted.att_interval_
    assert low < 2.0 < high
    assert high - low < 1.0  # noise 0.3, 30 treated outcomes of six units
    assert fitted.p_value_ < 1e-4
    assert np.array_equal(np.isnan(fitted.effect_), ~treated)
    error = (fitted.counterfactual_ - without)[treated]
    assert np.sqrt(np.mean(error**2)) < 0.9  # the noise of these outcomes, 0.3, and the error of the factor
    assert fitted.noise_ == pytest.approx(0.3, rel=0.15)  # some 300 degrees of freedom


def test_the_fit_is_certified_and_lambda_is_that_of_mc_nnm(fitted):
    assert fitted.certificate_.relative_gap <= 1e-8
    assert fitted.outcome_ == "certified"
    Y, treated, _ = make_panel()
    plain = PanelCompletion(C=2.0, debias=False, inference=None, pre_periods=0).fit(Y, treated)
    W = plain.counterfactual_ - plain.unit_effects_[:, None] - plain.period_effects_
    left = np.where(treated, 0.0, Y - plain.counterfactual_)
    u, _, vt = np.linalg.svd(W)
    # Stationarity of Σ(y − W − b − c)² + λ‖W‖_*: the singular vectors of W are those of the residual, with value λ/2.
    leading = u[:, : plain.rank_].T @ left @ vt[: plain.rank_].T
    np.testing.assert_allclose(leading, 0.5 * plain.lambda_ * np.eye(plain.rank_), atol=1e-3)  # λ/2 is about 5
    assert np.linalg.norm(2 * left, 2) == pytest.approx(plain.lambda_, rel=1e-3)


@pytest.mark.parametrize("C", [0.02, 0.5, 20.0, 500.0])
def test_the_gap_is_closed_at_any_C(C):
    Y, treated, _ = make_panel()
    model = PanelCompletion(C=C, inference=None, pre_periods=0).fit(Y, treated)
    assert model.certificate_.relative_gap <= 1e-8


def test_the_unit_of_the_outcomes_does_not_matter(fitted):
    Y, treated, _ = make_panel()
    other = PanelCompletion(random_state=0, n_refits=60).fit(1e6 * Y - 3e7, treated)
    # The numbers that the solver sees differ by rounding only.
    assert other.att_ == pytest.approx(1e6 * fitted.att_, rel=1e-5)
    assert other.standard_error_ == pytest.approx(1e6 * fitted.standard_error_, rel=1e-3)
    assert other.pretrend_["p_value"] == pytest.approx(fitted.pretrend_["p_value"], rel=1e-2)


def test_without_the_refit_factors_are_shrunk():
    """Units with large loadings adopt: what the trace norm shrinks of their factor looks like an effect."""
    Y, treated, _ = make_panel(factors=0, noise=0.5, effect=0.0)
    Y = Y + np.linspace(2.0, -2.0, 24)[:, None] * np.sqrt(np.arange(18))
    plain, better = (
        PanelCompletion(debias=debias, inference=None, random_state=0).fit(Y, treated) for debias in (False, True)
    )
    assert abs(better.att_) < 0.5 * abs(plain.att_)


@pytest.mark.parametrize("inference", ["jackknife", "placebo"])
def test_other_inference(inference, fitted):
    Y, treated, _ = make_panel()
    model = PanelCompletion(inference=inference, n_refits=60, random_state=0).fit(Y, treated)
    assert model.att_ == fitted.att_
    assert 0.4 < model.standard_error_ / fitted.standard_error_ < 2.5  # of six treated units, so rough


def test_without_inference():
    Y, treated, _ = make_panel()
    model = PanelCompletion(inference=None, random_state=0).fit(Y, treated)
    assert np.isnan(model.standard_error_)
    assert np.isfinite(model.event_study_["effect"]).all()


def test_one_treated_unit():
    Y, treated, _ = make_panel()
    treated[1:] = False
    model = PanelCompletion(random_state=0, n_refits=60, inference="placebo").fit(Y, treated)
    assert np.isfinite(model.att_interval_).all()
    with pytest.raises(ValueError, match="needs two treated units"):
        PanelCompletion(inference="jackknife").fit(Y, treated)


def test_event_study_and_trend(fitted):
    study = fitted.event_study_
    assert list(study["relative_time"]) == [-3, -2, -1, *range(8)]
    after = study["relative_time"] >= 0
    assert np.average(study["effect"][after], weights=study["n"][after]) == pytest.approx(fitted.att_)
    assert list(study["n"][:5]) == [6, 6, 6, 6, 6]
    assert (study["lower"] < study["effect"]).all()
    assert fitted.pretrend_["n"] == 18
    assert fitted.pretrend_["p_value"] > 0.01  # there is none


def test_an_effect_before_adoption_is_seen():
    Y, treated, _ = make_panel()
    early = np.roll(treated, -2, axis=1) | treated
    Y = Y + 2.0 * (early & ~treated)
    assert PanelCompletion(random_state=0, n_refits=60).fit(Y, treated).pretrend_["p_value"] < 0.01


def test_treatment_may_end_and_outcomes_may_be_missing():
    Y, treated, _ = make_panel()
    treated[:2, 16:] = False
    Y[:2, 16:] -= 2.0
    Y[10, 3] = Y[0, 2] = Y[3, 14] = np.nan
    model = PanelCompletion(random_state=0, n_refits=60).fit(Y, treated)
    assert np.isnan(model.effect_[3, 14])
    assert abs(model.att_ - 2.0) < 0.5
    assert np.isfinite(model.counterfactual_).all()


def test_long_tables_ids_and_files(tmp_path):
    Y, treated, _ = make_panel()
    table = pd.DataFrame(long_columns(Y, treated))
    model = PanelCompletion(random_state=0, n_refits=20).fit(table, "on", unit="who", time="when", outcome="y")
    assert model.predict(["unit 03"], [2014]) == model.counterfactual_[3, 14]
    model.save(tmp_path / "panel.rslm")
    loaded = rslm.load(tmp_path / "panel.rslm")
    assert loaded.predict(["unit 03"], [2014]) == model.predict(["unit 03"], [2014])
    assert (loaded.att_, loaded.att_interval_) == (model.att_, model.att_interval_)
    assert loaded.pretrend_ == model.pretrend_
    assert loaded.certificate_ == model.certificate_
    for name, column in model.event_study_.items():
        assert np.array_equal(loaded.event_study_[name], column)
    with pytest.raises(ValueError, match="Unknown unit id 'x'"):
        loaded.predict(["x"], [2014])


def test_seeds_and_threads(fitted):
    Y, treated, _ = make_panel()
    again = PanelCompletion(random_state=0, n_refits=60, n_threads=2).fit(Y, treated)
    assert again.standard_error_ == fitted.standard_error_


def test_the_input_stays_as_it_is():
    Y, treated, _ = make_panel()
    before = Y.copy(), treated.copy()
    PanelCompletion(random_state=0, inference=None).fit(Y, treated)
    assert np.array_equal(Y, before[0])
    assert np.array_equal(treated, before[1])


def test_outcomes_without_noise():
    Y, treated, _ = make_panel(noise=0.0)
    model = PanelCompletion(C=100.0, rank=1, random_state=0, n_refits=10).fit(Y, treated)
    assert model.att_ == pytest.approx(2.0, abs=1e-4)  # the refit ends at a relative step of 1e-8
    constant = PanelCompletion(random_state=0, n_refits=10).fit(np.full_like(Y, 7.0), treated)
    assert constant.att_ == pytest.approx(0.0, abs=1e-12)


def test_a_rank_that_the_panel_does_not_determine():
    Y, treated, _ = make_panel()
    with pytest.warns(UserWarning, match="the panel is too small to determine rank"):
        model = PanelCompletion(rank=15, inference=None, pre_periods=0).fit(Y, treated)
    assert model.rank_ < 15


@pytest.mark.parametrize("C", [1.0, "auto"])
def test_no_time_for_refits(C):
    Y, treated, _ = make_panel()
    with pytest.warns(ConvergenceWarning, match="not finished within max_time"):
        model = PanelCompletion(C=C, n_refits=20_000, max_time=1e-6).fit(Y, treated)  # refits take seconds
    assert np.isfinite(model.att_)
    assert np.isnan(model.standard_error_)
    assert not model.converged_


@pytest.mark.parametrize(
    "wrong",
    [
        {"C": -1.0},
        {"rank": 1.5},
        {"rank": 2, "debias": False},
        {"inference": ["placebo"]},
        {"n_refits": 1},
        {"level": 95},
        {"pre_periods": -1},
    ],
    ids=str,
)
def test_wrong_parameters(wrong):
    Y, treated, _ = make_panel()
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        PanelCompletion(**wrong).fit(Y, treated)


def test_ids_of_units_and_periods(tmp_path):
    Y, treated, _ = make_panel()
    quick = PanelCompletion(C=1.0, inference=None, pre_periods=0)
    roles = {"unit": "who", "time": "when", "outcome": "y"}
    model = quick.fit(pd.DataFrame(long_columns(Y, treated)).sample(frac=1.0, random_state=0), "on", **roles)
    model.save(tmp_path / "panel.rslm")
    for known in (model, rslm.load(tmp_path / "panel.rslm")):
        assert known.unit_ids_.tolist() == [f"unit {k:02}" for k in range(len(Y))]
        assert known.period_ids_.tolist() == list(range(2000, 2000 + Y.shape[1]))
    assert quick.fit(Y, treated).unit_ids_ is None


def test_a_certified_fit_without_time_is_named_if_standard_errors_are_not_missing():
    Y, treated, _ = make_panel()
    with pytest.warns(ConvergenceWarning, match="certified fit was stopped by max_time at a relative gap"):
        PanelCompletion(C=1.0, inference=None, tol=1e-15, max_time=1e-6).fit(Y, treated)


def test_the_least_of_values_of_C_that_predict_equally_well():
    Y, treated, _ = make_panel()
    model = PanelCompletion(debias=False, inference=None, pre_periods=0, random_state=0).fit(Y, treated)
    C, error = model.path_["C"], model.path_["error"]
    equal = error <= 1.001 * error.min()  # the search solves to a relative gap of 1e-3
    assert C[equal][0] == model.C_
    assert len(C) <= np.flatnonzero(equal)[0] + 3


def test_a_fit_that_leaves_nothing_to_bootstrap():
    Y, treated, _ = make_panel()
    with pytest.warns(UserWarning, match="C=1e\\+06 is so large .* use inference='placebo'"):
        PanelCompletion(C=1e6, debias=False, n_refits=2, pre_periods=0).fit(Y, treated)


@pytest.mark.parametrize("inference", ["bootstrap", "jackknife", "placebo"])
def test_standard_errors_do_not_depend_on_how_many_refits_are_in_memory(inference, monkeypatch):
    Y, treated, _ = make_panel()
    model = PanelCompletion(1, 1.0, inference=inference, n_refits=20, random_state=0)
    whole = model.fit(Y, treated).event_study_
    monkeypatch.setattr("rslm.estimators.panel.resampling.PART", 7 * Y.size)
    parts = model.fit(Y, treated).event_study_
    assert np.array_equal(whole["standard_error"], parts["standard_error"])


@pytest.mark.parametrize("inference", ["bootstrap", "jackknife", "placebo"])
def test_standard_errors_are_those_of_repeated_panels(inference):
    """Without factors, over panels that differ by their noise alone."""
    treated = np.zeros((24, 16), dtype=bool)
    treated[:6, 10:] = True
    rng, found = np.random.default_rng(0), []
    for seed in range(60):
        Y = rng.standard_normal((24, 16)) + 1.0 * treated
        settings = {"inference": inference, "n_refits": 60, "pre_periods": 0, "random_state": seed}
        model = PanelCompletion(C=1e-3, rank=0, **settings).fit(Y, treated)
        found.append((model.att_ - 1.0, model.standard_error_))
    missed, errors = np.array(found).T
    # The standard deviation of 60 numbers is known to 9 %: four of these, and the jackknife is known to be too wide.
    assert 0.64 < errors.mean() / missed.std() < (1.8 if inference == "jackknife" else 1.45)


class Recorder:
    """A callback that keeps the names of tasks, and stops at one that begins with these words."""

    def __init__(self, stop=None):
        self.names, self._stop = [], stop

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.names.append(context.task_name)
        return self._stop is not None and context.task_name.startswith(self._stop)

    def teardown(self, estimator, context):
        pass


def test_the_search_and_the_refits_report_progress(monkeypatch):
    monkeypatch.setattr("rslm.estimators.panel.stack.BATCH", 8000)  # some 20 panels
    Y, treated, _ = make_panel()
    recorder = Recorder()
    model = PanelCompletion(n_refits=40, pre_periods=0, random_state=0).set_callbacks(recorder).fit(Y, treated)
    tried = [name for name in recorder.names if name.startswith("C ")]
    assert len(tried) == len(model.path_["C"])
    assert tried[0].startswith(f"C {model.path_['C'][0]:.4g}: RMSE")
    assert [name for name in recorder.names if name.startswith("refit")] == [f"refit {k} of 40" for k in (18, 36, 40)]


@pytest.mark.parametrize("words", ["C ", "refit "])
def test_a_callback_stops_the_search_or_the_refits(words):
    Y, treated, _ = make_panel()
    model = PanelCompletion(n_refits=40, random_state=0).set_callbacks(Recorder(words)).fit(Y, treated)
    assert model.outcome_ == "interrupted"
    assert np.isfinite(model.att_)
    assert np.isnan(model.standard_error_)
    assert (len(model.path_["C"]) == 1) == (words == "C ")
