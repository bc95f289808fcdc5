"""Pictures and the report of effects in panels."""

import numpy as np
import pytest

from rslm import PanelCompletion
from rslm.report import panel_report, plot_counterfactual, plot_event_study
from rslm.report.plots import figure


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    Y, treated = rng.standard_normal((12, 14)), np.zeros((12, 14), dtype=bool)
    treated[:4, 9:] = True
    return PanelCompletion(random_state=0, n_refits=10).fit(Y, treated)


def test_event_study(model):
    ax = plot_event_study(model, figure()[1])
    before, after = ax.lines[:2]
    assert list(before.get_xdata()) == [-3, -2, -1]
    assert np.array_equal(after.get_ydata(), model.event_study_["effect"][3:])
    assert f"{model.att_:.3g}" in ax.get_title()


def test_counterfactual(model):
    ax = plot_counterfactual(model, 2, figure()[1])
    assert np.array_equal(ax.lines[1].get_ydata(), model.counterfactual_[2])
    average = plot_counterfactual(model, ax=figure()[1])
    assert list(average.lines[0].get_xdata()) == list(range(-9, 5))
    assert "4 treated units" in average.get_title()


def test_report(model):
    html = panel_report(model, title="Sales & taxes", how="text")
    assert "Sales &amp; taxes" in html
    assert html.count("<img") == 2
    assert model.certificate_.verdict in html
