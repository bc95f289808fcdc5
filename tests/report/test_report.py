"""Pictures and reports: what is shown is what the model says."""

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt

from plain import plain_completion
from rslm import HankelModel, MatrixCompletion, MultiTaskRegressor, ObservedMatrix
from rslm.certificate import Certificate
from rslm.certificate.relaxation import Relaxation, amounts_by_iteration
from rslm.cli import main
from rslm.data import holdout
from rslm.datasets import make_ratings
from rslm.estimators.completion.learned import (
    effects_entries,
    factors_with_effects,
    learned_entries,
    learned_rows,
)
from rslm.report import (
    completion_report,
    plot_convergence,
    plot_effects,
    plot_images,
    plot_path,
    plot_residuals,
    plot_series,
    plot_spectrum,
    series_report,
    write_report,
)

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
    return plain_completion(4, 100.0, random_state=0).fit(X)


def drawn(ax, name):
    """Where the line with this in its label has points."""
    [line] = [line for line in ax.lines if name in line.get_label()]
    x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    return x[np.isfinite(y)], y[np.isfinite(y)]


def test_convergence(model):
    ax = plot_convergence(model)
    np.testing.assert_array_equal(drawn(ax, "gradient")[1], model.history_["relative_gradient"])
    at, above = drawn(ax, "above its final value")
    objective = model.history_["objective"]
    np.testing.assert_allclose(above, (objective[at] - objective[-1]) / objective[-1])
    assert len(at) == len(objective) - 1  # all but the end itself
    assert drawn(ax, "tolerance")[1][0] == model.tol
    assert model.outcome_ in ax.get_title()
    assert not ax.patches  # there was no other objective on the way


@pytest.fixture(scope="module")
def staged():
    """Bounds and a loss with kinks: on the way are a square loss, rounded ones, no bounds and soft ones."""
    rng = np.random.default_rng(0)
    X = 3 + rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40)) + 0.1 * rng.standard_normal((60, 40))
    X[rng.random(X.shape) < 0.5] = np.nan
    return plain_completion(3, 10.0, loss="absolute", bounds=(1, 5), random_state=0).fit(np.clip(X, 1, 5))


def test_an_objective_on_the_way_is_not_compared_with_that_of_the_end(staged):
    history = staged.history_
    ends = np.stack([history["C"], *amounts_by_iteration(history["relaxations"]).values()])
    assert np.isinf(ends).any()
    other = np.flatnonzero((ends != ends[:, -1:]).any(axis=0))
    assert (ends[0, other] == ends[0, -1]).any()  # C alone does not tell
    ax = plot_convergence(staged)
    at, above = drawn(ax, "above its final value")
    assert len(at) > 1
    assert at.min() > other.max()
    assert (np.diff(above) <= 0).all()  # a step that was refused leaves it as it is
    ground = ax.patches[0].get_extents().transformed(ax.transData.inverted())
    assert (ground.x0, ground.x1) == pytest.approx((-0.5, other.max() + 0.5))
    assert len(drawn(ax, "gradient")[0]) == len(history["objective"])  # it is told of the whole way


def history(objective, *, C=1.0, rounding=0.0, gradient=1e-3):
    n = len(objective)
    columns = {"objective": objective, "C": C, "relative_gradient": gradient}
    arrays = {name: np.broadcast_to(np.asarray(value, dtype=float), n) for name, value in columns.items()}
    amounts = np.broadcast_to(np.asarray(rounding, dtype=float), n)
    return arrays | {"relaxations": [(Relaxation("loss", a),) if a > 0 else () for a in amounts]}


def ended(history):
    return SimpleNamespace(history_=history, tol=1e-6, outcome_="time")


def test_zero_is_not_drawn_as_a_small_number():
    ax = plot_convergence(ended(history([3.0, 2.0, 1.0, 1.0, 1.0], gradient=[1.0, 0.1, 0.0, 1e-8, 0.0])))
    assert drawn(ax, "above its final value")[0].tolist() == [0, 1]
    assert drawn(ax, "gradient")[0].tolist() == [0, 1, 3]


@pytest.mark.parametrize(
    ("columns", "first"),
    [
        ({"C": [1, 1, 2, 2, 2]}, 2),
        ({"rounding": [np.inf, np.inf, np.inf, 0, 0]}, 3),
        ({"rounding": [np.inf] * 5}, 0),  # it has ended where the problem still was an easier one
        ({"rounding": [0.1, 0.1, 0.1 * (1 + 1e-15), 0.1, 0.1]}, 0),  # rounding errors make no other objective
        ({"rounding": [0.1, 0.01, 0.1, 0.1, 0.1]}, 2),
    ],
)
def test_where_the_last_objective_begins(columns, first):
    ax = plot_convergence(ended(history([9.0, 8.0, 7.0, 6.0, 5.0], **columns)))
    assert drawn(ax, "above its final value")[0].tolist() == list(range(first, 4))
    assert len(ax.patches) == (first > 0)


@pytest.mark.parametrize("objective", [[1.0], [2.0, np.inf], [0.0, 0.0]])
def test_nothing_to_compare_is_not_in_the_legend(objective):
    ax = plot_convergence(ended(history(objective)))
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["relative gradient", "tolerance 1e-06"]


def test_no_iterations_cannot_be_drawn():
    with pytest.raises(ValueError, match="no iterations"):
        plot_convergence(ended({}))


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
    assert not plot_series(series, y, steps=10, coverage=None).collections
    with pytest.raises(ValueError, match="must be the series"):
        plot_series(series, y[:-1])


@pytest.fixture(scope="module")
def growing():
    """A series that grows, and a model of its logarithm."""
    t = np.arange(60)
    y = np.exp(0.05 * t + 0.2 * np.cos(0.5 * t) + 0.02 * np.random.default_rng(0).standard_normal(60))
    return y, HankelModel().fit(np.log(y))


def test_a_logarithm_is_drawn_in_the_units_of_the_series(growing):
    y, series = growing
    ax = plot_series(series, y, steps=10, log=True)
    samples, signal, forecast = (line.get_ydata() for line in ax.lines)
    np.testing.assert_array_equal(samples, y)
    np.testing.assert_allclose(signal, np.exp(series.signal_))
    np.testing.assert_allclose(forecast, np.exp(series.forecast(10)))
    lower, upper = series.predict_interval(10)
    edge = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (edge.min(), edge.max()) == pytest.approx((np.exp(lower.min()), np.exp(upper.max())))
    assert f"{100 * np.expm1(series.noise_):.2g} %" in ax.get_title()
    with pytest.raises(ValueError, match="sample 1 is -"):
        plot_series(series, np.log(y) - 1, log=True)


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
        self.open, self.pictures, self.shown, self.said = [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.pictures.append(dict(attrs)["src"])
            self.shown.append(dict(attrs)["alt"])
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
    fitted = plain_completion(4, 40.0, weighting=0.5, random_state=0).fit(named)
    return fitted, completion_report(fitted, named, test, title="Ratings & more", how="made here")


def test_a_report_tells_what_there_is_to_know(page):
    fitted, text = page
    read = Reader(text)
    said = " ".join(read.said)
    for fact in ("Ratings & more", "200 × 100", "made here", "rows and columns alone", fitted.certificate_.verdict):
        assert fact in said
    assert fitted.certificate_.meaning in said
    assert "predicts worse" not in said
    assert "<b>user" in said  # ids are text, not tags
    assert len(read.pictures) == 3
    errors = [
        float(said.split(name)[1].split()[0]) for name in ("mean of all entries", "rows and columns alone", "the model")
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
    assert read.shown == ["Order 2, noise 0.045", "Components", "Spectrum"]
    assert f"{series.forecast(5)[4]:.6g}" in read.said
    assert series.verdict_ in read.said
    assert "the logarithm" not in " ".join(read.said)
    assert [p.name for p in tmp_path.iterdir()] == ["series.html"]
    solved = HankelModel(2, C=100.0).fit(y)
    read = Reader(series_report(solved, y))
    assert f"Ended: {solved.outcome_}" in read.shown  # the iterations of the solver
    assert solved.certificate_.verdict in read.said
    assert solved.certificate_.meaning in read.said


def test_a_report_of_a_logarithm_is_in_the_units_of_the_series(growing):
    y, series = growing
    said = Reader(series_report(series, y, 5, log=True)).said
    last = [f"{np.exp(part[4]):.6g}" for part in (series.forecast(5), *series.predict_interval(5))]
    assert said[said.index("65") + 1 :][:3] == last
    assert said[said.index("fitted on") + 1].startswith("the logarithm")
    assert said[said.index("noise") + 1].endswith("%")


def test_denoise_reports_in_the_units_of_the_file(growing, tmp_path, monkeypatch):
    y, _ = growing
    np.savetxt(tmp_path / "y.csv", np.c_[np.arange(60), y], delimiter=",", header="t,y", comments="")
    command = [
        "denoise",
        str(tmp_path / "y.csv"),
        "--log",
        "--forecast",
        "3",
        "--interval",
        "0.9",
        "--out",
        str(tmp_path / "out.csv"),
    ]
    monkeypatch.setattr(sys, "argv", ["rslm", *command, "--report", str(tmp_path / "r.html")])
    with pytest.raises(SystemExit) as told:
        main()
    assert not told.value.code
    written = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()[-1].split(",")
    said = Reader((tmp_path / "r.html").read_text(encoding="utf-8")).said
    assert said[said.index("63") + 1 :][:3] == [f"{float(value):.6g}" for value in written[2:]]


def test_a_report_of_noise_says_that_there_is_no_signal():
    y = np.random.default_rng(0).standard_normal(60)
    with pytest.warns(UserWarning, match="better than noise"):
        series = HankelModel().fit(y)
    assert series.certificate_ is None
    read = Reader(series_report(series, y, 5))
    assert len(read.pictures) == 1  # the series; there is neither a spectrum nor a way
    assert "the signal is zero" in " ".join(read.said)


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


def test_effects_alone_know_rows_and_columns():
    truth = 3.0 + np.linspace(-1, 1, 40)[:, None] + np.linspace(-2, 2, 30)[None, :]
    train, test = holdout(ObservedMatrix.from_any(truth), 0.2, 0)
    plain = MatrixCompletion(1, 1.0, effects=None, random_state=0).fit(train)
    np.testing.assert_allclose(effects_entries(plain, train, test), test.values, atol=0.05)  # shrunk a little
    bounded = MatrixCompletion(1, 1.0, bounds=(2, 4), random_state=0)
    with pytest.warns(UserWarning, match="beyond"):
        bounded.fit(train)
    assert (abs(effects_entries(bounded, train, test) - 3) <= 1).all()


def test_predictions_include_effects(model):
    rows, cols = np.indices((len(model.row_factors_), len(model.col_factors_))).reshape(2, -1)
    found = learned_rows(model)
    np.testing.assert_allclose(found.ravel(), model.predict(rows, cols), rtol=1e-12)
    np.testing.assert_array_equal(learned_rows(model, slice(3, 5)), found[3:5])
    left, right = factors_with_effects(model)
    np.testing.assert_allclose(left @ right.T, found, rtol=1e-12)
    given = model.residuals_
    np.testing.assert_allclose(learned_entries(model, given), found[given.rows_of_entries(), given.index], rtol=1e-12)


@pytest.fixture(scope="module")
def searched():
    """A model that has found its settings, with its data: effects, rank 2 and noise."""
    rng = np.random.default_rng(0)
    W = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40)) + rng.standard_normal((60, 1)) + 3
    X = np.where(rng.random(W.shape) < 0.6, W + 0.3 * rng.standard_normal(W.shape), np.nan)
    train, test = holdout(ObservedMatrix.from_any(X), 0.1, 0)
    return MatrixCompletion(random_state=0).fit(train), train, test


def test_the_path_is_drawn(searched):
    model = searched[0]
    ax = plot_path(model)
    path, lines = model.path_, {line.get_label(): line for line in ax.lines}
    found = lines["found"]
    assert found.get_xdata()[0] == pytest.approx(model.C_)
    assert found.get_ydata()[0] == pytest.approx(model.held_out_["model"])
    of_rank = lines[f"rank {model.rank_}"]
    assert set(of_rank.get_xdata()) <= set(path["C"][path["rank"] == model.rank_])
    assert (np.diff(of_rank.get_xdata()) > 0).all()
    assert lines["effects alone"].get_ydata()[0] == model.held_out_["effects"]
    assert ax.get_title() == f"{len(path['C'])} settings tried"
    with pytest.raises(ValueError, match="no path to show"):
        plot_path(MatrixCompletion(2, 1.0, random_state=0).fit(searched[1]))


def test_effects_are_drawn(searched):
    ax = plot_effects(MatrixCompletion(2, 1.0, effects=(2.0, 2.0), random_state=0).fit(searched[1]))
    assert [text.get_text().split(",")[0] for text in ax.get_legend().get_texts()] == ["60 rows", "40 columns"]
    with pytest.raises(ValueError, match="no effects to show"):
        plot_effects(MatrixCompletion(2, 1.0, effects=None, random_state=0).fit(searched[1]))


def test_a_report_tells_what_was_found_and_why(searched):
    model, train, test = searched
    read = Reader(completion_report(model, train, test))
    said = " ".join(read.said)
    for words in ("Settings that were found", "settings tried", "Mean and effects", "The low-rank part helps"):
        assert words in said
    for error in model.held_out_.values():
        assert f"{error:.5g}" in said
    assert len(read.pictures) == 6
    plain = MatrixCompletion(2, 1.0, effects=None, random_state=0).fit(train)
    said = " ".join(Reader(completion_report(plain, train, test)).said)
    assert "Without effects" in said
    assert "effects of rows and columns alone" in said  # the comparison is always there


def test_a_low_rank_part_that_does_not_help_is_called_so():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 1)) + rng.standard_normal(80) + rng.standard_normal((100, 80))
    data = ObservedMatrix.from_any(X)
    model = MatrixCompletion(random_state=0).fit(data)
    assert model.rank_ == 0
    [warned] = re.findall(r"<p class='warning'>(.*?)</p>", completion_report(model, data))
    assert "The low-rank part does not help" in warned


def test_classes_are_judged_by_the_part_that_is_right():
    rng = np.random.default_rng(0)
    odds = 3 * rng.standard_normal((60, 1)) @ rng.standard_normal((1, 50))
    data = ObservedMatrix.from_any((odds > 0).astype(float))
    train, test = holdout(data, 0.2, 0)
    model = plain_completion(1, 100.0, loss="logistic", random_state=0).fit(train)
    text = completion_report(model, train, test)
    assert "RMSE" not in text
    part = float(re.search(r"the model</td><td>([\d.]+) %", text)[1])
    assert part == pytest.approx(100 * model.score(test), abs=0.06)
    assert part > 95


# ---- what the numbers mean -----------------------------------------------------------------------------------------


CERTIFIED = Certificate(
    primal=100.0,
    dual=100.0,
    sigma_max=1.0,
    scaling=1.0,
    method="here",
    rank=3,
    stationary=True,
    tol=1e-6,
    gap=0.0,
    relative_gap=0.0,
)


def test_what_a_certificate_means():
    open_gap = replace(CERTIFIED, dual=60.0, gap=40.0, relative_gap=2 / 3)
    assert "Nothing better exists for this C" in CERTIFIED.meaning
    assert "No small change of a matrix of rank 3" in open_gap.meaning
    assert "matrices of any rank" in open_gap.meaning
    assert "by at most 40 %" in open_gap.meaning  # of the objective: the gap itself is in units that nobody knows
    assert "need not predict better" in open_gap.meaning
    early = replace(open_gap, stationary=False)
    assert "ended before" in early.meaning
    assert "by at most 40 %" in early.meaning
    useless = replace(CERTIFIED, dual=40.0, gap=60.0, relative_gap=1.5)
    assert "cannot say by how much" in useless.meaning
    assert "at most" not in useless.meaning
    unknown = replace(early, dual=0.0, gap=np.inf, relative_gap=np.inf)
    assert "not known" in unknown.meaning


@pytest.mark.parametrize(("share", "shown"), [(0.49, "49 %"), (0.0123, "1.2 %"), (4e-5, "0.004 %")])
def test_no_share_is_written_as_a_power_or_as_all(share, shown):
    certificate = replace(CERTIFIED, dual=100 * (1 - share), gap=100 * share, relative_gap=share / (1 - share))
    assert f"by at most {shown}." in certificate.meaning


def test_a_model_that_is_worse_than_the_mean_is_called_so():
    rng = np.random.default_rng(0)
    train, test = holdout(ObservedMatrix.from_any(rng.standard_normal((40, 30))), 0.2, 0)
    noise = plain_completion(10, 1000.0, random_state=0).fit(train)
    text = completion_report(noise, train, test)
    [warned] = re.findall(r"<p class='warning'>(.*?)</p>", text)
    own, mean = (re.search(rf"{name}</td><td>([\d.]+)", text)[1] for name in ("the model", "mean of all entries"))
    assert float(own) > float(mean)
    assert f"The model (RMSE: {own}) predicts worse than the mean of all entries ({mean})" in warned
    assert "<p class='warning'>" not in completion_report(noise, train)


def test_a_model_that_is_right_less_often_than_the_commoner_class_is_called_so():
    rng = np.random.default_rng(0)
    train, test = holdout(ObservedMatrix.from_any((rng.random((40, 30)) < 0.8).astype(float)), 0.2, 0)
    noise = plain_completion(10, 1000.0, loss="logistic", random_state=0).fit(train)
    [warned] = re.findall(r"<p class='warning'>(.*?)</p>", completion_report(noise, train, test))
    own, mean = (float(k) for k in re.search(r"right: ([\d.]+) %.*mean of all entries \(([\d.]+) %", warned).groups())
    assert own < mean


def test_a_small_unit_does_not_hide_the_error():
    rng = np.random.default_rng(0)
    X = 1e-6 * (rng.standard_normal((40, 2)) @ rng.standard_normal((2, 30)) + 0.1 * rng.standard_normal((40, 30)))
    train, test = holdout(ObservedMatrix.from_any(X), 0.2, 0)
    fitted = plain_completion(2, 100.0, random_state=0).fit(train)
    own = float(re.search(r"the model</td><td>([\d.e+-]+)", completion_report(fitted, train, test))[1])
    assert 0 < own < 1e-6


def test_spikes_do_not_make_the_signal_small():
    rng = np.random.default_rng(0)
    clean = np.cos(0.3 * np.arange(120))
    y = clean + 0.05 * rng.standard_normal(120)
    wrong = rng.choice(120, 5, replace=False)
    y[wrong] += 20.0
    ax = plot_series(HankelModel(loss="huber").fit(y), y, steps=5)
    assert ax.get_ylim()[1] < 2.0
    at, height = drawn(ax, "spikes, 5")
    assert sorted(at) == sorted(wrong)
    assert (height == ax.get_ylim()[1]).all()
    ax = plot_series(HankelModel(2, C=100.0).fit(y), y)  # the square loss takes them for samples
    assert ax.get_ylim()[1] > 20.0
