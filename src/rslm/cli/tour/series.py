"""A series with growth, seasons, noise and gaps: its signal, and a forecast."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from rslm import HankelModel
from rslm.cli.output import remarks_on
from rslm.cli.tour.sizes import Sizes
from rslm.cli.tour.steps import percent, rmse
from rslm.report.page import Part, png
from rslm.report.plots import GREEN, GREY, figure, plot_series

YEAR, NOISE = 12, 4.0
GAP, MISSING = slice(60, 70), 0.08  # months without samples, and the fraction of the others that is missing
COVERAGE = 0.9  # of the interval

Array = NDArray[np.float64]


def forecast(sizes: Sizes, seed: int, console: Console) -> Part:
    """Denoise and forecast a series. Order and C are chosen without the months that are held back."""
    rng = np.random.default_rng(seed)
    clean, samples = counts(sizes.months, rng)
    known, later = samples[: -sizes.ahead].copy(), samples[-sizes.ahead :]
    known[GAP] = np.nan
    known[rng.random(len(known)) < MISSING] = np.nan
    lost = np.isnan(known)
    text = (
        f"{len(known)} months of generated counts: growth, a season of a year, one of four months, and noise of "
        f"{NOISE:g}. {int(lost.sum())} months are missing, {GAP.stop - GAP.start} of them in a row; the next "
        f"{sizes.ahead} are held back. The order follows from the samples."
    )
    console.print(text)
    with remarks_on(console), console.status("Finding the order …"):
        model = HankelModel().fit(known)
    ahead = model.forecast(sizes.ahead)
    lower, upper = model.predict_interval(sizes.ahead, COVERAGE)
    inside = f"{int(((lower < later) & (later < upper)).sum())} of {sizes.ahead}"
    filled = rmse(model.signal_[lost], clean[: -sizes.ahead][lost])
    season = last_year(known, sizes.ahead)
    guesses = {
        "the last month": np.full(sizes.ahead, known[~lost][-1]),
        "the same month of the last year": season,
        "the same, with the growth so far": season + growth(known, sizes.ahead),
        "HankelModel": ahead,
        "the truth without noise": clean[-sizes.ahead :],
    }
    return Part(
        "series",
        "A series and its forecast",
        text,
        ["forecast by", "RMSE of the months held back"],
        [[name, f"{rmse(guess, later):.2f}"] for name, guess in guesses.items()],
        f"Order {model.rank_} was found (an oscillation counts as two), and noise of {model.noise_:.2f}. In "
        f"the missing months the signal is {filled:.2f} from the truth. {inside} samples that were held back are in "
        f"the interval of {percent(COVERAGE)}.",
        drawn(model, known, later),
        f"Samples with a gap, the signal through them, and the forecast with its interval: {inside} samples that were "
        "held back are inside.",
    )


def counts(months: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """The truth, and noisy samples of it."""
    t = np.arange(months)
    clean = 100 * 1.003**t + 12 * np.cos(2 * np.pi * t / YEAR + 1) + 6 * np.cos(2 * np.pi * t / 4)
    return clean, clean + NOISE * rng.standard_normal(months)


def last_year(known: Array, steps: int) -> Array:
    """For each step, the last known sample of the same month of the year."""
    n = len(known)
    months = [known[k % YEAR :: YEAR] for k in range(n, n + YEAR)]
    last = np.array([month[~np.isnan(month)][-1] for month in months])
    return last[np.arange(steps) % YEAR]


def growth(known: Array, steps: int) -> Array:
    """The expected growth since the last year, at the mean growth per year so far."""
    return np.asarray(np.nanmean(known[YEAR:] - known[:-YEAR]) * (1 + np.arange(steps) // YEAR))


def drawn(model: HankelModel, known: Array, later: Array) -> bytes:
    made, ax = figure(7, 4)
    plot_series(model, known, len(later), COVERAGE, ax=ax)
    after = np.arange(len(known), len(known) + len(later))
    ax.plot(after, later, "x", ms=4, color=GREEN, label="held back")
    ax.axvline(len(known) - 0.5, color=GREY, lw=1, ls=":")
    ax.set(xlabel="month", ylabel="count", title=f"Order {model.rank_} found; {len(later)} months of forecast")
    ax.legend(frameon=False, loc="upper left", ncols=2)
    return png(made)
