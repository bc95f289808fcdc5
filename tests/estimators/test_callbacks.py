"""What watchers of a fit are told, whatever the estimator."""

import numpy as np
import pytest

from clicks import clicks
from plain import plain_completion
from rslm import HankelModel, ImplicitCompletion, MultiTaskClassifier, MultiTaskRegressor, ReducedRankRegressor, solve
from rslm.losses import Square
from rslm.measurements import Entries
from rslm.problem import Problem
from rslm.solvers import Outcome, answer, loop
from rslm.solvers.trust_region import TrustRegion

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 6))
TASKS = np.repeat(list("abcd"), 30)
COEF = np.outer([1.0, 2.0, -1.0, 0.5], RNG.standard_normal(6))
Y = np.einsum("ij,ij->i", X, COEF[np.repeat(range(4), 30)]) + 3.0 + 0.1 * RNG.standard_normal(120)
MATRIX = RNG.standard_normal((30, 3)) @ RNG.standard_normal((3, 20)) + 0.3 * RNG.standard_normal((30, 20))


class Watcher:
    """A callback that keeps every model that it is shown, and stops the fit if it is told to."""

    def __init__(self, stop_after=None):
        self.models, self.begun, self.ended, self.stop_after = [], 0, False, stop_after

    def setup(self, estimator, context):
        self.begun += 1

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if fitted_estimator is not None:
            self.models.append(fitted_estimator)
        return len(self.models) == self.stop_after

    def teardown(self, estimator, context):
        self.ended = True


FITS = {
    "regressor": (lambda: MultiTaskRegressor(2, 10.0, random_state=0), lambda m: m.fit(X, Y, tasks=TASKS)),
    "robust": (lambda: MultiTaskRegressor(2, 10.0, loss="huber", random_state=0), lambda m: m.fit(X, Y, tasks=TASKS)),
    "classifier": (
        lambda: MultiTaskClassifier(1, 10.0, random_state=0),
        lambda m: m.fit(X, Y > 3, tasks=TASKS),
    ),
    "reduced": (lambda: ReducedRankRegressor(2, 10.0, random_state=0), lambda m: m.fit(X, X @ COEF.T + 2.0)),
}


@pytest.mark.parametrize("name", FITS)
def test_tasks_show_models_that_predict(name):
    make, fit = FITS[name]
    watcher = Watcher()
    model = fit(make().set_callbacks(watcher))
    assert (watcher.begun, watcher.ended) == (1, True)
    assert len(watcher.models) == model.n_iter_
    arguments = (X, TASKS) if hasattr(model, "tasks_") else (X,)
    np.testing.assert_allclose(watcher.models[-1].predict(*arguments), model.predict(*arguments), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(
        model.predict(*arguments), fit(make()).predict(*arguments)
    )  # watching changes nothing
    objectives = [m.history_["objective"][-1] for m in watcher.models]
    np.testing.assert_allclose(objectives[-1], model.history_["objective"][-1], rtol=1e-9)


def test_a_watcher_can_stop_tasks():
    make, fit = FITS["regressor"]
    model = fit(make().set_callbacks(Watcher(stop_after=1)))
    assert (model.outcome_, model.n_iter_, model.converged_) == ("interrupted", 1, False)


def test_the_search_of_clicks_shows_its_trials_and_can_be_stopped():
    watcher = Watcher()
    model = ImplicitCompletion(rank=3, random_state=0).set_callbacks(watcher).fit(clicks())
    trying = [getattr(m, "_trying", False) for m in watcher.models]
    assert any(trying)
    assert not trying[-1]
    assert len(watcher.models) > model.n_iter_
    stopped = ImplicitCompletion(rank=3, random_state=0).set_callbacks(Watcher(stop_after=1)).fit(clicks())
    assert stopped.outcome_ == "interrupted"
    assert stopped.row_factors_.any()


def test_scikit_learns_own_callback_is_told():
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
    monitor = callback.ScoringMonitor(scoring="r2")
    model = ReducedRankRegressor(2, 10.0, random_state=0).set_callbacks(monitor).fit(X, X @ COEF.T)
    names = [row["task_name"] for row in monitor.get_logs().data]
    assert [name for name in names if name != "fit"] == [f"iteration {k}" for k in range(1, model.n_iter_ + 1)]


def test_series_report_every_iteration():
    t = np.arange(120)
    y = np.sin(0.3 * t) + 0.05 * RNG.standard_normal(120)
    watcher = Watcher()
    model = HankelModel(C=100.0).set_callbacks(watcher).fit(y)
    assert watcher.ended
    assert len(watcher.models) == model.n_iter_ > 1
    assert np.isfinite(watcher.models[-1].history_["objective"]).all()


@pytest.mark.parametrize("options", [{}, {"loss": "absolute"}, {"bounds": (-8, 8)}])
def test_the_gap_is_told_now_and_then(monkeypatch, options):
    monkeypatch.setattr(loop, "FIRST_GAP", 0.0)
    monkeypatch.setattr(loop, "TIME_FOR_GAP", np.inf)  # every time
    watcher = Watcher()
    make = lambda: plain_completion(5, 3.0, random_state=0, **options)  # noqa: E731
    model = make().set_callbacks(watcher).fit(MATRIX)
    gaps = np.array([m.history_["relative_gap"][-1] for m in watcher.models])
    known = gaps[np.isfinite(gaps)]
    assert len(known) > 0
    assert (known >= 0).all()
    assert known[-1] < max(0.1 * known[0], 2 * model.certificate_.relative_gap)  # it falls with the iterations
    np.testing.assert_array_equal(model.row_factors_, make().fit(MATRIX).row_factors_)  # looking changes nothing


def test_the_gap_is_for_watchers_only(monkeypatch):
    monkeypatch.setattr(loop, "FIRST_GAP", 0.0)
    monkeypatch.setattr(loop, "TIME_FOR_GAP", np.inf)  # every time
    real, calls = answer.certify, []
    monkeypatch.setattr(answer, "certify", lambda *arguments: calls.append(1) or real(*arguments))
    plain_completion(3, 3.0, random_state=0).fit(MATRIX)
    assert len(calls) == 1  # of the answer


def test_an_interrupt_while_the_gap_is_computed(monkeypatch):
    """It ends the fit, and is not taken for a gap."""
    monkeypatch.setattr(loop, "FIRST_GAP", 0.0)
    real, calls = answer.certify, []

    def interrupted_once(*arguments):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(answer, "certify", interrupted_once)
    result = solve(Problem(Square(), Entries(MATRIX.T), C=3.0), 5, callback=lambda progress: None, random_state=0)
    assert result.outcome is Outcome.INTERRUPTED
    assert np.isfinite(result.certificate.gap)


@pytest.mark.parametrize("size", [1e-200, 1e80])
def test_the_objective_is_told_in_the_units_of_the_data(size):
    """Data of extreme size are scaled for the solver."""
    watcher = Watcher()
    model = plain_completion(3, 3.0, random_state=0).set_callbacks(watcher).fit(size * MATRIX)
    assert watcher.models[-1].history_["objective"][-1] == pytest.approx(model.history_["objective"][-1], rel=1e-9)
    tasks = Watcher()
    regressor = MultiTaskRegressor(2, 10.0, random_state=0).set_callbacks(tasks).fit(X, size * Y, tasks=TASKS)
    assert tasks.models[-1].history_["objective"][-1] == pytest.approx(regressor.history_["objective"][-1], rel=1e-9)


def test_looking_at_the_gap_takes_a_small_part_of_the_time(monkeypatch):
    """The next look is as far away as the last one allows."""
    now = [0.0]
    monkeypatch.setattr(loop.time, "perf_counter", lambda: now[0])
    looks = []

    def gap(point, objective):
        looks.append(now[0])
        now[0] += 1.0  # as long as it takes
        return 0.5

    run = loop.Loop(TrustRegion, 1, lambda p: None, 0.0, None)
    run.gap_of, run.records, run.point, run.objective = gap, [1], None, None
    while now[0] < 100:
        run._relative_gap()
        now[0] += 0.1
    assert looks[0] == pytest.approx(loop.FIRST_GAP, abs=0.11)
    assert np.diff(looks).min() >= 1.0 / loop.TIME_FOR_GAP
