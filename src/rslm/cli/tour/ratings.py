"""Ratings of one to five stars, predicted within these bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.stats import norm

from rslm import MatrixCompletion, ObservedMatrix
from rslm.cli.output import remarks_on
from rslm.cli.progress import FitProgress
from rslm.cli.tour.sizes import Sizes
from rslm.cli.tour.steps import percent, rmse
from rslm.data import holdout
from rslm.datasets import make_ratings
from rslm.estimators.completion.learned import effects_entries, learned_entries, learned_rows
from rslm.report.page import Part, png
from rslm.report.plots import BLUE, GREY, ORANGE, figure

LEAST, MOST = 1, 5
TASTES, NOISE = 3, 0.8  # rank and noise of the generated ratings
ROUNDING = 1e-9  # tolerance at the bounds


def predict_ratings(sizes: Sizes, seed: int, console: Console) -> Part:
    """Predict ratings with and without bounds. Rank, C and weighting are found with bounds, by held-out ratings."""
    made = make_ratings(sizes.users, sizes.items, sizes.ratings, TASTES, NOISE, random_state=seed)
    data = made.data
    stars = ObservedMatrix(data.indptr, data.index, np.clip(np.rint(data.values), LEAST, MOST), data.shape)
    train, test = holdout(stars, 0.1, seed)
    where = test.rows_of_entries(), test.index
    text = (
        f"{len(train):,} generated ratings, whole stars from {LEAST} to {MOST}, of {sizes.items:,} items by "
        f"{sizes.users:,} users, to learn from; {len(test):,} others are held out. The bounds hold for every entry of "
        "the learned matrix. Rank, C, weighting and effects are found from the ratings to learn from."
    )
    console.print(text)
    options: dict[str, Any] = {"tol": 1e-3, "random_state": seed}
    bounded = MatrixCompletion(bounds=(LEAST, MOST), **options)
    progress = FitProgress(console, lambda now: rmse(learned_entries(now, test), test.values))
    with remarks_on(console):
        bounded.set_callbacks(progress).fit(train)
        settings = max(bounded.rank_, 1), bounded.C_
        free = MatrixCompletion(*settings, weighting=bounded.weighting_, **options).fit(train)
    with_bounds, without = (np.asarray(learned_rows(model), dtype=np.float64) for model in (bounded, free))
    outside = percent(beyond(without), 2)
    guesses = {
        "the mean": (np.full(len(test), train.values.mean()), "–"),
        "effects of users and items alone": (effects_entries(bounded, train, test), "–"),
        "low rank, without bounds": (without[where], outside),
        f"low rank, {LEAST} to {MOST}": (with_bounds[where], percent(beyond(with_bounds), 2)),
        "the truth without noise": (expected(made.truth(*where)), "–"),
    }
    return Part(
        "ratings",
        "Ratings within bounds",
        text,
        ["predicted by", "held-out RMSE", "entries beyond the bounds"],
        [[name, f"{rmse(guess, test.values):.4f}", part] for name, (guess, part) in guesses.items()],
        f"Rank {bounded.rank_}, C = {bounded.C_:.3g} and weighting {bounded.weighting_:g} were found. "
        + bounded.certificate_.verdict,
        drawn(with_bounds, without),
        f"Histogram of all entries that were learned: with bounds none is beyond {LEAST} to {MOST}, without them "
        f"{outside} are.",
    )


def expected(truth: Any) -> NDArray[np.float64]:
    """The expected stars of a true rating after noise and rounding: no prediction has a smaller error."""
    steps = np.arange(LEAST, MOST)[:, None] + 0.5
    return np.asarray(LEAST + np.sum(norm.sf(steps, truth, NOISE), axis=0))


def beyond(entries: NDArray[np.float64]) -> float:
    return float(np.mean((entries < LEAST - ROUNDING) | (entries > MOST + ROUNDING)))


def drawn(with_bounds: NDArray[np.float64], without: NDArray[np.float64]) -> bytes:
    made, ax = figure(7, 4)
    least, most = min(without.min(), LEAST), max(without.max(), MOST)
    bins = np.arange(np.floor(10 * least), np.ceil(10 * most) + 1) / 10
    inside = np.clip(with_bounds.ravel(), LEAST + ROUNDING, MOST - ROUNDING)  # entries on a bound are not beyond it
    ax.hist(inside, bins, color=BLUE, alpha=0.45, label="with bounds")
    ax.hist(without.ravel(), bins, color=ORANGE, histtype="step", lw=1.8, label="without bounds")
    for bound in (LEAST, MOST):
        ax.axvline(bound, color=GREY, lw=1, ls=":")
    title = f"Without bounds {percent(beyond(without), 2)} of all entries are beyond {LEAST} to {MOST}"
    ax.set(yscale="log", xlabel="learned rating", ylabel="entries", title=title)
    ax.legend(frameon=False, loc="upper left")
    return png(made)
