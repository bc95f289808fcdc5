"""Pictures and reports: what is shown is what the model says."""

import re
import shutil
import subprocess
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt

from rslm import HankelModel, MatrixCompletion, MultiTaskRegressor, ObservedMatrix
from rslm.data import holdout
from rslm.datasets import make_ratings
from rslm.report import (
    completion_report,
    plot_convergence,
    plot_images,
    plot_residuals,
    plot_series,
    plot_spectrum,
    series_report,
    write_report,
)
from rslm.report.biases import bias_model

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


# ---- reports --------------------------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """Texts and pictures of a page, and that its tags close one another."""

    def __init__(self, text):
        super().__init__()
        self.open, self.pictures, self.said = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.pictures.append(dict(attrs)["src"])
        elif tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.said.append(data)


@pytest.fixture(scope="module")
def page():
    ratings = make_ratings(200, 100, 10_000, rank=2, noise=0.5, random_state=0).data
    train, test = holdout(ratings, 0.1, 0)
    names = np.array([f"<b>user {k}</b>" for k in range(200)], dtype=object)
    named = ObservedMatrix(train.indptr, train.index, train.values, train.shape, names, None)
    fitted = MatrixCompletion(4, 40.0, weighting=0.5, random_state=0).fit(named)
    return fitted, completion_report(fitted, named, test, title="Ratings & more", how="made here")


def test_a_report_tells_what_there_is_to_know(page):
    fitted, text = page
    read = Reader(text)
    said = " ".join(read.said)
    for fact in ("Ratings & more", "200 × 100", "made here", "means of rows and columns", fitted.certificate_.verdict):
        assert fact in said
    assert "<b>user" in said  # ids are text, not tags
    assert len(read.pictures) == 3
    errors = [
        float(said.split(name)[1].split()[0]) for name in ("mean of all entries", "rows and columns", "the model")
    ]
    assert errors[2] < errors[1] < errors[0]


def test_a_report_needs_nothing_but_itself(page):
    _, text = page
    assert all(p.startswith("data:image/png;base64,") for p in Reader(text).pictures)
    assert "http" not in text
    assert "<script" not in text


def test_a_report_of_a_series(tmp_path):
    t = np.arange(60)
    y = np.cos(0.5 * t) + 0.05 * np.random.default_rng(0).standard_normal(60)
    series = HankelModel().fit(y)
    write_report(series_report(series, y, 5), tmp_path / "series.html")
    read = Reader((tmp_path / "series.html").read_text(encoding="utf-8"))
    assert len(read.pictures) == 2
    assert f"{series.forecast(5)[4]:.6g}" in read.said
    assert [p.name for p in tmp_path.iterdir()] == ["series.html"]


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
@pytest.mark.parametrize("width", [1100, 390])
def test_a_browser_shows_it(page, tmp_path, width):
    path, picture = tmp_path / "r.html", tmp_path / "r.png"
    write_report(page[1], path)
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"]
    command += [f"--window-size={width},1500", f"--screenshot={picture}", f"file://{path}"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stderr
    assert "CONSOLE" not in told
    assert plt.imread(picture)[..., :3].std() > 0.05  # something is drawn


def test_the_bias_model_knows_rows_and_columns():
    truth = 3.0 + np.linspace(-1, 1, 40)[:, None] + np.linspace(-2, 2, 30)[None, :]
    guess = bias_model(ObservedMatrix.from_any(truth))
    i, j = np.repeat(np.arange(40), 30), np.tile(np.arange(30), 40)
    np.testing.assert_allclose(guess(i, j), truth.ravel(), atol=0.5)  # drawn to the mean, by five entries of it
    assert np.corrcoef(guess(np.zeros(30, dtype=int), np.arange(30)), truth[0])[0, 1] > 0.999
    assert np.corrcoef(guess(np.arange(40), np.zeros(40, dtype=int)), truth[:, 0])[0, 1] > 0.999


def test_classes_are_judged_by_the_part_that_is_right():
    rng = np.random.default_rng(0)
    odds = 3 * rng.standard_normal((60, 1)) @ rng.standard_normal((1, 50))
    data = ObservedMatrix.from_any((odds > 0).astype(float))
    train, test = holdout(data, 0.2, 0)
    model = MatrixCompletion(1, 100.0, loss="logistic", random_state=0).fit(train)
    text = completion_report(model, train, test)
    assert "RMSE" not in text
    part = float(re.search(r"the model</td><td>([\d.]+) %", text)[1])
    assert part == pytest.approx(100 * model.score(test), abs=0.06)
    assert part > 95
