"""`rslm info` says what a model is also where nothing of low rank was found."""

import sys

import numpy as np
import pytest

from rslm import HankelModel, InductiveCompletion, MultiTaskRegressor, ReducedRankRegressor
from rslm.cli import main
from rslm.report import plot_convergence, plot_path

RNG = np.random.default_rng(0)
X, TASKS = RNG.standard_normal((360, 5)), np.repeat(np.arange(12), 30)
NOISE = RNG.standard_normal((12, 30))
for e, x in zip(
    NOISE, X.reshape(12, 30, 5), strict=True
):  # nothing in the noise of a task speaks for coefficients of its own
    x = np.column_stack([np.ones(30), x])
    e -= x @ np.linalg.lstsq(x, e, rcond=None)[0]
Y = X @ RNG.standard_normal(5) + 0.3 * NOISE.ravel()
M = np.where(RNG.random((20, 12)) < 0.6, RNG.standard_normal((20, 12)), np.nan)


def the_same():
    """All tasks have the same coefficients."""
    return MultiTaskRegressor(random_state=0).fit(X, Y, tasks=TASKS)


MODELS = {
    "tasks": (the_same, "One model for all tasks, with an intercept for each, predicts held-out rows as well"),
    "targets": (
        lambda: ReducedRankRegressor(random_state=0).fit(X, np.random.default_rng(0).standard_normal((360, 3))),
        "Settings found: one model for all tasks; the best of",
    ),
    "series": (lambda: HankelModel().fit(RNG.standard_normal(60)), "No order explains the series better than noise"),
    "features": (
        lambda: InductiveCompletion(random_state=0).fit(M, row_features=RNG.standard_normal((20, 2))),
        "by entries held out of those to learn from",
    ),
}


@pytest.mark.filterwarnings("ignore:no order up to")
@pytest.mark.parametrize("kind", MODELS)
def test_info(monkeypatch, capsys, tmp_path, kind):
    make, words = MODELS[kind]
    make().save(tmp_path / "model.rslm")
    monkeypatch.setattr(sys, "argv", ["rslm", "info", str(tmp_path / "model.rslm")])
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert words in " ".join(capsys.readouterr().out.split())


def test_plots_of_what_was_not_solved_are_refused_in_words():
    model = the_same()
    assert model.task_part_ == "none"
    with pytest.raises(ValueError, match="tasks that a ridge predicts best"):
        plot_convergence(model)
    with pytest.raises(TypeError, match="only the path of a completion can be drawn; path_ of MultiTaskRegressor"):
        plot_path(model)
