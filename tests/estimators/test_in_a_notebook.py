"""All models in a notebook: what they show of themselves, and their plots."""

import builtins
import sys
from functools import cache
from types import ModuleType

import matplotlib as mpl
import numpy as np
import pytest
import sklearn
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rslm
from notebook_models import MAKE
from rslm import HankelModel, MatrixCompletion, MultiTaskRegressor
from rslm.estimators.base import Estimator
from rslm.losses import Loss
from rslm.report import figures, plot_spectrum, shown_figure

mpl.use("Agg")
PUBLIC = sorted(
    name for name in rslm.estimators.__all__ if isinstance(getattr(rslm.estimators, name), type)
)  # `load` is a function


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@cache
def fitted(name):
    return MAKE[name]()


@pytest.fixture(params=PUBLIC)
def model(request):
    return fitted(request.param)


def found(model):
    """What is shown below scikit-learn's diagram, without its style."""
    whole = model._repr_mimebundle_()["text/html"]
    return whole.partition("<div class='rslm'>")[2].partition("</style>")[2]


def test_every_public_estimator_is_tested():
    assert sorted(MAKE) == PUBLIC
    assert all(issubclass(getattr(rslm, name), Estimator) for name in PUBLIC)


# ---- HTML -----------------------------------------------------------------------------------------------------------


def test_what_was_found_is_below_the_diagram(model):
    bundle = model._repr_mimebundle_()
    assert bundle["text/plain"] == repr(model)
    assert "sk-container" in bundle["text/html"]
    text = found(model)
    assert "<svg" in text
    assert str(model.rank_) in text
    verdict = model.verdict_ if model.certificate_ is None else model.certificate_.verdict
    assert verdict in text
    assert text in model._repr_html_()
    for error in model._held_out_errors().values():
        assert f"{error:.4g}" in text


def test_an_unfitted_model_shows_the_diagram_alone(model):
    empty = clone(model)
    html = empty._repr_html_()
    assert "sk-container" in html
    assert "What was found" not in html
    assert "text/html" in empty._repr_mimebundle_()


def test_text_is_shown_if_scikit_learn_is_set_to(model):
    with sklearn.config_context(display="text"):
        assert list(model._repr_mimebundle_()) == ["text/plain"]
        assert not hasattr(model, "_repr_html_")


def test_a_loaded_model_shows_itself(model, tmp_path):
    model.save(tmp_path / "m.rslm")
    again = rslm.load(tmp_path / "m.rslm")
    assert "What was found" in again._repr_html_()
    assert isinstance(again.plot(), Figure)


class LogCosh(Loss):
    """log cosh(w − y), a loss of a user."""

    def value(self, y, w):
        return np.log(np.cosh(w - y))

    def gradient(self, y, w):
        return np.tanh(w - y)

    def hessian(self, y, w):
        return 1.0 - np.tanh(w - y) ** 2

    def conjugate(self, y, s):
        return s * y + 0.5 * ((1 + s) * np.log1p(s) + (1 - s) * np.log1p(-s))


def test_a_loaded_model_without_its_own_loss_shows_itself(tmp_path):
    model = MatrixCompletion(2, 1.0, loss=LogCosh(), random_state=0)
    model.fit(np.random.default_rng(0).standard_normal((12, 5))).save(tmp_path / "m.rslm")
    again = rslm.load(tmp_path / "m.rslm")
    for shown in (again._repr_html_(), again._repr_mimebundle_()["text/html"]):
        assert "What was found" in shown
        assert "a loss of your own: LogCosh" in shown
    assert not hasattr(again, "loss_")
    with pytest.raises(AttributeError, match="names its loss, LogCosh, but does not contain it"):
        again.loss_  # noqa: B018
    assert again.set_params(loss=LogCosh()).loss_ is again.loss


def test_a_model_as_a_callback_sees_it_shows_itself(model):
    """With few attributes, as the fit is not over."""
    early = clone(model)
    early.history_ = model.history_
    assert "What was found" in early._repr_html_()


def test_inside_others_the_diagram_is_theirs():
    inner = MatrixCompletion(rank=1, C=1.0)
    for outer in (make_pipeline(StandardScaler(), inner), GridSearchCV(inner, {"C": [1.0, 2.0]})):
        html = outer._repr_html_()
        assert "MatrixCompletion" in html
        assert "What was found" not in html
    X = np.random.default_rng(0).standard_normal((12, 5))
    assert "MatrixCompletion" in make_pipeline(StandardScaler(), inner).fit(X)._repr_html_()


def test_names_of_tasks_and_parameters_are_not_markup():
    shown = fitted("MultiTaskRegressor")._repr_html_()
    assert "<b>a" not in shown
    strange = MatrixCompletion(rank=1, C=1.0, solver="<i>fast")
    assert "<i>fast" not in strange._repr_html_()


def test_matplotlib_is_not_needed_for_html(model, monkeypatch):
    without_matplotlib(monkeypatch)
    assert "What was found" in model._repr_html_()


def test_settings_and_held_out_errors_of_a_completion():
    model = fitted("MatrixCompletion")
    text = found(model)
    for shown in ("the mean", "effects alone", "this model", "RMSE", f"{model.C_:.4g}", f"{model.weighting_:g}"):
        assert shown in text
    X = np.random.default_rng(0).standard_normal((12, 5))
    alone = MatrixCompletion(rank="auto", C=1.0, effects=None, random_state=0).fit(X)
    assert "effects alone" not in found(alone)  # they are the mean
    given = MatrixCompletion(rank=1, C=1.0).fit(X)
    assert "this model" not in found(given)


def test_effects_of_a_panel():
    model = fitted("PanelCompletion")
    text = found(model)
    for value in (model.att_, *model.att_interval_):
        assert f"{value:.4g}" in text
    assert "95 % interval" in text


def test_periods_of_a_series():
    text = found(fitted("HankelModel"))
    period = 1 / fitted("HankelModel").frequencies_.max()
    assert f"{period:.4g}" in text


def test_tasks_without_a_low_rank_part_say_so():
    rng = np.random.default_rng(0)
    X, tasks = rng.standard_normal((90, 3)), np.repeat([0, 1, 2], 30)
    model = MultiTaskRegressor(random_state=0).fit(X, X @ [1.0, 2.0, 3.0] + 0.5 * rng.standard_normal(90), tasks=tasks)
    assert model.task_part_ == "none"
    assert "One model for all tasks" in found(model)
    assert isinstance(model.plot(), Figure)


def test_singular_values_of_the_picture_are_those_of_the_matrix():
    model = fitted("MatrixCompletion")
    s = np.linalg.svd(model.row_factors_ @ model.col_factors_.T, compute_uv=False)[: model.rank_]
    np.testing.assert_allclose(model._spectrum()[: model.rank_], s, rtol=1e-6)  # roots of eigenvalues


# ---- plots ----------------------------------------------------------------------------------------------------------


def without_matplotlib(monkeypatch):
    real = builtins.__import__

    def imported(name, *rest, **more):
        if name.split(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", imported)


def test_every_model_has_a_plot(model):
    figure = model.plot()
    assert isinstance(figure, Figure)
    assert figure.axes
    assert plt.fignum_exists(figure.number)  # plt.show() of a script shows it


def test_every_kind_is_drawn_or_says_why_not(model):
    for kind in (*model._overview, *model._more_pictures):
        if kind == "intervals":  # of data that are given
            continue
        why = figures.PICTURES[kind].obstacle(model)
        if why is None:
            assert model.plot(kind).axes[0].has_data()
        else:
            with pytest.raises(ValueError, match=f"nothing to show as '{kind}'"):
                model.plot(kind)


def test_an_unknown_kind_is_refused(model):
    with pytest.raises(ValueError, match="kind must be None or one of"):
        model.plot("pie")
    assert plt.get_fignums() == []


def test_before_fit_there_is_nothing_to_plot(model):
    with pytest.raises(NotFittedError):
        clone(model).plot()


def test_without_matplotlib_plots_say_what_to_install(model, monkeypatch):
    without_matplotlib(monkeypatch)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "rslm\[plot\]"'):
        model.plot()


def test_a_notebook_shows_a_plot_once(monkeypatch):
    """As the value of a cell, and not once more at its end, where all open figures of pyplot are shown."""
    figure = fitted("MatrixCompletion").plot("spectrum")
    shown, inside = [], ModuleType("IPython.display")
    inside.display = lambda data, raw: shown.append(data)
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", inside)
    with pytest.raises(NotImplementedError):  # with windows or widgets, IPython does what it does with any figure
        figure._ipython_display_()
    monkeypatch.setattr(shown_figure, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    figure._ipython_display_()
    [data] = shown
    assert data["image/png"].startswith(b"\x89PNG")
    assert plt.get_fignums() == []


def test_a_plot_that_fails_leaves_no_figure():
    with pytest.raises(TypeError):
        fitted("MatrixCompletion").plot("spectrum", colour="red")
    assert plt.get_fignums() == []


def test_one_kind_is_the_function_of_that_name():
    model = fitted("MatrixCompletion")
    a, b = model.plot("spectrum").axes[0], plot_spectrum(model)
    np.testing.assert_array_equal(a.lines[0].get_ydata(), b.lines[0].get_ydata())


def test_a_rank_of_zero_and_streams_are_drawn():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 1)) + rng.standard_normal(20) + 0.5 * rng.standard_normal((100, 20))
    model = MatrixCompletion(random_state=0).fit(X)
    assert model.rank_ == 0
    assert isinstance(model.plot(), Figure)
    assert "What was found" in model._repr_html_()
    stream = MatrixCompletion(rank=2, C=1.0, random_state=0).partial_fit(X)
    assert isinstance(stream.plot(), Figure)
    assert "What was found" in stream._repr_html_()


def lines(ax):
    return {line.get_label(): np.asarray(line.get_ydata()) for line in ax.lines}


def test_the_samples_of_a_series_are_those_that_were_fitted():
    t = np.arange(60)
    y = np.cos(0.4 * t) + 0.1 * np.random.default_rng(0).standard_normal(60)
    y[7] = np.nan
    model = HankelModel().fit(y)
    [ax] = model.plot(steps=5).axes
    drawn = lines(ax)
    np.testing.assert_allclose(drawn["samples"], y)
    np.testing.assert_array_equal(drawn["signal"], model.signal_)
    np.testing.assert_array_equal(drawn["forecast"], model.forecast(5))


def test_channels_are_drawn_one_below_the_other():
    t, rng = np.arange(60), np.random.default_rng(0)
    Y = np.stack([np.cos(0.4 * t), np.sin(0.4 * t)], axis=1) + 0.1 * rng.standard_normal((60, 2))
    model = HankelModel().fit(Y)
    axes = model.plot(steps=3).axes
    assert len(axes) == 2
    for k, ax in enumerate(axes):
        np.testing.assert_array_equal(lines(ax)["signal"], model.signal_[:, k])
        np.testing.assert_array_equal(lines(ax)["forecast"], model.forecast(3)[:, k])
    assert len(model.plot("series", channel=1).axes) == 1
    with pytest.raises(ValueError, match="channel must be at least 0 and below 2"):
        model.plot(channel=2)


def test_a_complex_series_and_one_with_inputs():
    t, rng = np.arange(80), np.random.default_rng(0)
    noise = 0.1 * (rng.standard_normal(80) + 1j * rng.standard_normal(80))
    model = HankelModel().fit(np.exp(0.3j * t) + noise)
    real, imaginary = model.plot(steps=2).axes
    np.testing.assert_array_equal(lines(real)["signal"], model.signal_.real)
    np.testing.assert_array_equal(lines(imaginary)["signal"], model.signal_.imag)
    assert "What was found" in model._repr_html_()
    u = rng.standard_normal(80)
    driven = HankelModel().fit(np.convolve(u, 0.8 ** np.arange(20))[:80] + 0.01 * rng.standard_normal(80), u=u)
    assert driven.plot().axes
    assert "What was found" in driven._repr_html_()


def test_a_series_without_order_and_a_robust_one():
    noise = np.random.default_rng(0).standard_normal(60)
    with pytest.warns(UserWarning, match="no order"):
        model = HankelModel().fit(noise)
    assert model.rank_ == 0
    assert model.plot().axes
    assert "What was found" in model._repr_html_()
    robust = HankelModel(loss="huber").fit(np.cos(0.4 * np.arange(60)) + 0.1 * noise)
    assert robust.plot().axes
