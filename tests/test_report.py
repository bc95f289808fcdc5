"""Pictures: what is drawn is what the model says."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt

from rslm import HankelModel, MatrixCompletion, MultiTaskRegressor
from rslm.report import plot_convergence, plot_images, plot_residuals, plot_series, plot_spectrum

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20)) + 0.1 * rng.standard_normal((30, 20))
    X[rng.random(X.shape) < 0.4] = np.nan
    return MatrixCompletion(4, 100.0, random_state=0).fit(X)


def test_convergence(model):
    ax = plot_convergence(model)
    objective, gradient, tolerance = ax.lines
    np.testing.assert_array_equal(gradient.get_ydata(), model.history_["relative_gradient"])
    assert len(objective.get_ydata()) <= len(gradient.get_ydata())
    assert tolerance.get_ydata()[0] == model.tol
    assert model.outcome_ in ax.get_title()


def test_axes_in_axes_out(model):
    _, ax = plt.subplots()
    for plot in (plot_convergence, plot_spectrum, plot_residuals):
        assert plot(model, ax) is ax


def test_spectrum(model):
    values = plot_spectrum(model).lines[0].get_ydata()
    exact = np.linalg.svd(model.row_factors_ @ model.col_factors_.T, compute_uv=False)
    np.testing.assert_allclose(values, exact[: len(values)], rtol=1e-6)
    rng = np.random.default_rng(0)
    tasks = MultiTaskRegressor(2).fit(rng.standard_normal((40, 3)), rng.standard_normal(40), tasks=np.arange(40) % 4)
    assert 1 <= len(plot_spectrum(tasks).lines[0].get_ydata()) <= 3


def test_residuals(model):
    ax = plot_residuals(model)
    assert sum(bar.get_height() for bar in ax.patches) == len(model.residuals_)


def test_series():
    t = np.arange(60)
    y = np.cos(0.5 * t) + 0.05 * np.random.default_rng(0).standard_normal(60)
    series = HankelModel().fit(y)
    ax = plot_series(series, y, steps=10)
    np.testing.assert_allclose(ax.lines[1].get_ydata(), series.signal_)
    np.testing.assert_allclose(ax.lines[2].get_ydata(), series.forecast(10))
    assert len(ax.collections) == 1
    with pytest.raises(ValueError, match="must be the series"):
        plot_series(series, y[:-1])


def test_images():
    image = np.arange(12.0).reshape(3, 4)
    holes = image.copy()
    holes[1, 1] = np.nan
    left, right = plot_images(holes, image)
    assert left.images[0].get_array().mask[1, 1]
    assert left.images[0].get_clim() == right.images[0].get_clim() == (0.0, 11.0)
