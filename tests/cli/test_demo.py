"""What `rslm demo` shows, on small data: each part is better than what stands beside it, and all are in one report."""

import contextlib
import io
import re
import signal
import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.linear_model import Ridge

from rslm.cli import main
from rslm.cli.tour import parts as command
from rslm.cli.tour.image import LOST, WRONG, damaged, photograph, truncated
from rslm.cli.tour.ratings import NOISE, beyond, expected
from rslm.cli.tour.series import growth, last_year
from rslm.cli.tour.sizes import Sizes
from rslm.cli.tour.tasks import pooled, ridge
from rslm.report import plot_images

mpl.use("Agg")
SMALL = Sizes(shrink=5, users=200, items=150, ratings=10_000, months=120, ahead=24, tasks=40, rows=(8, 16), shown=16)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The parts by name, what was said, and the folder that was written; no terminal, no colours."""
    out, said, parts = tmp_path_factory.mktemp("demo") / "new", io.StringIO(), []
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        whole = command.tour
        patch.setattr(command, "tour", lambda *given: parts.extend(whole(*given)) or parts)
        patch.setattr(command, "SIZES", SMALL)
        patch.setattr(sys, "argv", ["rslm", "demo", "--out", str(out)])
        patch.setenv("NO_COLOR", "1")
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    return {part.name: part for part in parts}, said.getvalue(), out


def numbers(part, column=1):
    return {row[0]: float(row[column].split()[0]) for row in part.rows if row[column] != "–"}


def test_huber_repairs_better_than_the_square_loss(ran):
    mean, effects, square, huber, best = numbers(ran[0]["image"]).values()
    assert mean < effects < square
    assert square + 2 < huber < best  # 2 dB: a fifth of the error
    errors = list(numbers(ran[0]["image"], 2).values())
    assert errors[3] / errors[2] == pytest.approx(10 ** ((square - huber) / 20), abs=0.01)


def test_ratings_keep_to_their_bounds(ran):
    part = ran[0]["ratings"]
    mean, biases, free, bounded, floor = numbers(part).values()
    assert floor < bounded < biases < mean
    assert bounded < free + 0.01  # bounds cost next to nothing
    outside = numbers(part, 2)
    assert outside["low rank, without bounds"] > 0 == outside["low rank, 1 to 5"]


def test_the_forecast_is_better_than_naive_ones(ran):
    *naive, model, floor = numbers(ran[0]["series"]).values()
    assert len(naive) == 3
    assert model < min(naive)
    assert floor < model
    assert "Order 6" in ran[0]["series"].verdict  # a trend and two oscillations


def test_related_regressions_are_better_than_separate_ones(ran):
    one, each, related, unlimited, floor = numbers(ran[0]["tasks"]).values()
    assert floor < related < 0.9 * each
    assert unlimited < each < one
    assert "Global optimum" in ran[0]["tasks"].verdict


def test_the_screen_tells_what_the_report_tells(ran):
    parts, said, out = ran
    assert "\x1b" not in said
    flat = " ".join(said.split())
    for number, part in enumerate(parts.values(), 1):
        assert f"{number} of 4: {part.title}" in flat
        assert part.text in flat
        assert part.verdict in flat
        assert all(cell in said for row in part.rows for cell in row)
    assert said.rstrip().endswith(str(out / "demo.html"))


def test_one_report_with_four_pictures(ran):
    parts, _, out = ran
    assert {p.name for p in out.iterdir()} == {"demo.html", "image.png", "ratings.png", "series.png", "tasks.png"}
    text = (out / "demo.html").read_text(encoding="utf-8")
    pictures = re.findall(r"<img alt='([^']+)' src='data:image/png;base64,", text)
    assert len(pictures) == 4
    assert text.count("class='verdict'") == 4
    assert all(f"<h2>{part.title}</h2>" in text for part in parts.values())
    assert "http" not in text
    assert all((out / f"{name}.png").read_bytes().startswith(b"\x89PNG") for name in parts)


def test_its_own_files_are_written_again(ran, tmp_path):
    parts = list(ran[0].values())
    for name in ("demo.html", "image.png"):
        (tmp_path / name).write_text("old")
    command.write(parts, tmp_path)
    for name in ("demo.html", "image.png"):
        assert (tmp_path / name).read_bytes() == (ran[2] / name).read_bytes()


def test_ctrl_c_ends_it_at_once(monkeypatch, capsys, tmp_path):
    pressed = []

    def press_once(self, estimator, context, *, fitted_estimator=None):
        if not pressed:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("rslm.cli.progress.FitProgress.on_fit_task_end", press_once)
    monkeypatch.setattr(command, "SIZES", SMALL)
    monkeypatch.setattr(sys, "argv", ["rslm", "demo", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    said = capsys.readouterr()
    assert "Stopped: no report was written." in said.out
    assert "2 of 4" not in said.out
    assert "Traceback" not in said.err
    assert not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGINT) is before


def test_without_matplotlib_it_says_so_before_any_work(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(sys, "argv", ["rslm", "demo", "--out", str(tmp_path / "new")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert 'pip install "rslm[plot]"' in ended.value.code
    assert not (tmp_path / "new").exists()


def test_several_images_have_the_greys_of_the_first():
    axes = plot_images(np.eye(2), 3 * np.eye(2), np.full((2, 2), np.nan), titles="abc")
    assert [ax.get_title() for ax in axes] == list("abc")
    assert {ax.images[0].get_clim() for ax in axes} == {(0.0, 1.0)}
    plt.close("all")
    with pytest.raises(ValueError, match="3 images need as many titles; got 2"):
        plot_images(np.eye(2), np.eye(2), np.eye(2))


# ---- what stands beside the models -----------------------------------------------------------------------------------


def test_the_damage_is_as_told():
    clean = photograph(4)
    assert clean.shape == (106, 160)
    given, lost, wrong = damaged(clean, np.random.default_rng(0))
    np.testing.assert_array_equal(np.isnan(given), lost)
    np.testing.assert_array_equal(given[~lost & ~wrong], clean[~lost & ~wrong])
    assert set(given[~lost & wrong]) == {0.0, 10.0}
    assert [lost.mean(), wrong.mean()] == pytest.approx([LOST, WRONG], abs=0.02)  # five standard deviations


def test_nothing_of_a_rank_is_nearer():
    A = np.random.default_rng(0).standard_normal((8, 5))
    assert np.linalg.matrix_rank(truncated(A, 2)) == 2
    s = np.linalg.svd(A, compute_uv=False)
    assert np.linalg.norm(A - truncated(A, 2)) == pytest.approx(np.linalg.norm(s[2:]))


def test_expected_stars():
    truth = np.array([-3.0, 1.2, 3.0, 4.4, 9.0])
    drawn = truth + NOISE * np.random.default_rng(0).standard_normal((200_000, 5))
    # The mean of so many has a standard deviation of 0.002.
    np.testing.assert_allclose(expected(truth), np.clip(np.rint(drawn), 1, 5).mean(axis=0), atol=0.01)
    assert beyond(np.array([0.5, 1.0, 5.0, 5.0 + 1e-12])) == 0.25


def test_naive_forecasts():
    known = np.arange(30.0)
    known[25] = np.nan
    np.testing.assert_array_equal(last_year(known, 14), [18, 19, 20, 21, 22, 23, 24, 13, *range(26, 30), 18, 19])
    np.testing.assert_array_equal(growth(known, 25), [12.0] * 12 + [24.0] * 12 + [36.0])


def test_ridge_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3, 7, 4)) + 1, rng.standard_normal((3, 7))
    found, all_in_one = ridge(X, y, 0.7), pooled(X, y, 0.7)
    for k in range(3):
        np.testing.assert_allclose(found.predict(X)[k], Ridge(0.7).fit(X[k], y[k]).predict(X[k]))
        exact = Ridge(0.7).fit(X.reshape(-1, 4), y.ravel()).predict(X[k])
        np.testing.assert_allclose(all_in_one.predict(X)[k], exact)
