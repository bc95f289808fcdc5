"""Many small regressions that share a subspace: learned together, one by one, and as a single one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from rslm import MultiTaskRegressor
from rslm.cli.output import remarks_on
from rslm.cli.tour.sizes import Sizes
from rslm.cli.tour.steps import rmse
from rslm.report.page import Part, png
from rslm.report.plots import BLUE, GREY, ORANGE, figure

FEATURES, SHARED = 30, 3
NOISE = 0.5
TESTED = 50  # test rows of every task
RANKS, CS = (2, 3, 5), (0.3, 1.0, 3.0, 10.0)
ALPHAS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear model for every task, or one for all."""

    coef: Array  #: (tasks, features)
    intercept: Array
    verdict: str = ""

    def predict(self, X: Array) -> Array:
        return np.asarray((X @ self.coef[:, :, None])[..., 0] + self.intercept[:, None])


Fit = Callable[..., Linear]  # called with X (tasks, rows, features), y (tasks, rows) and settings


def relate(sizes: Sizes, seed: int, console: Console) -> Part:
    """Compare methods. All choose their settings in the same way, on a quarter of the training rows of every task."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((sizes.tasks, SHARED)) @ rng.standard_normal((SHARED, FEATURES))
    W /= np.sqrt(SHARED * FEATURES)  # so that targets without noise have variance 1
    test = draw(W, TESTED, rng)
    methods: dict[str, tuple[Fit, Sequence[tuple[Any, ...]]]] = {
        "ridge, one for all": (pooled, [(alpha,) for alpha in ALPHAS]),
        "ridge, task by task": (ridge, [(alpha,) for alpha in ALPHAS]),
        "related": (related, list(product(RANKS, CS))),
    }
    text = (
        f"{sizes.tasks} generated regressions with {FEATURES} features, whose coefficients are combinations of the "
        f"same {SHARED} unknown directions. Every method chooses its settings on a quarter of the training rows."
    )
    console.print(text)
    errors: dict[str, list[float]] = {name: [] for name in methods}
    table: list[list[str]] = []
    verdict = ""
    for rows in sizes.rows:
        X, y = draw(W, rows, rng)
        with remarks_on(console), console.status(f"{rows} rows a task …"):
            for name, (fit, settings) in methods.items():
                best, model = choose(fit, settings, X, y)
                errors[name].append(rmse(model.predict(test[0]), test[1]))
                if rows == sizes.shown:
                    table.append([f"{name}, rank {best[0]}" if fit is related else name, f"{errors[name][-1]:.3f}"])
            if rows == sizes.shown:
                _, model = choose(related, [(FEATURES, C) for C in CS], X, y)
                table.append(["related, no limit on the rank", f"{rmse(model.predict(test[0]), test[1]):.3f}"])
                verdict = f"Without a limit on the rank: {model.verdict}"
        console.print(f"{rows:3d} rows: " + ", ".join(f"{name} {error[-1]:.3f}" for name, error in errors.items()))
    table.append(["the truth without noise", f"{NOISE:.3f}"])
    return Part(
        "tasks",
        "Related regressions",
        text,
        ["learned by", f"test RMSE with {sizes.shown} rows a task"],
        table,
        verdict,
        drawn(sizes, errors),
        "Test error over the number of rows a task: the related regressions are below ridge task by task and below one "
        "ridge regression for all.",
    )


def draw(W: Array, rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    X = rng.standard_normal((len(W), rows, W.shape[1]))
    return X, (X @ W[:, :, None])[..., 0] + NOISE * rng.standard_normal((len(W), rows))


def choose(fit: Fit, settings: Sequence[tuple[Any, ...]], X: Array, y: Array) -> tuple[tuple[Any, ...], Linear]:
    """The settings with the smallest error on the last quarter of the rows, and the model fitted to all rows."""
    kept = X.shape[1] * 3 // 4
    errors = [rmse(fit(X[:, :kept], y[:, :kept], *one).predict(X[:, kept:]), y[:, kept:]) for one in settings]
    best = settings[int(np.argmin(errors))]
    return best, fit(X, y, *best)


def related(X: Array, y: Array, rank: int, C: float) -> Linear:
    # Coefficients are generated without a mean that tasks share, so none has to be found.
    model = MultiTaskRegressor(rank, C, effects=None, tol=1e-4, random_state=0).fit(list(X), list(y))
    return Linear(model.coef_, model.intercept_, model.certificate_.verdict)


def ridge(X: Array, y: Array, alpha: float) -> Linear:
    """Ridge regression of every task; the intercept is not penalised, as in scikit-learn's Ridge."""
    mean, middle = X.mean(axis=1, keepdims=True), y.mean(axis=1, keepdims=True)
    Z, products = X - mean, np.swapaxes(X - mean, 1, 2)
    coef = np.linalg.solve(products @ Z + alpha * np.eye(X.shape[2]), products @ (y - middle)[:, :, None])[..., 0]
    return Linear(coef, middle[:, 0] - (mean[:, 0] * coef).sum(axis=1))


def pooled(X: Array, y: Array, alpha: float) -> Linear:
    return ridge(X.reshape(1, -1, X.shape[2]), y.reshape(1, -1), alpha)


def drawn(sizes: Sizes, errors: dict[str, list[float]]) -> bytes:
    made, ax = figure(7, 4)
    for (name, error), look in zip(errors.items(), ("^:", "s--", "o-"), strict=True):
        ax.plot(sizes.rows, error, look, color=dict(zip("^so", (GREY, ORANGE, BLUE), strict=True))[look[0]], label=name)
    ax.axhline(NOISE, color="black", lw=1, label="noise")
    ax.set(xscale="log", xlabel="training rows of every task", ylabel="test RMSE")
    ax.set_title(f"{sizes.tasks} regressions with {FEATURES} features that share {SHARED} directions")
    ax.set_xticks(sizes.rows, [str(rows) for rows in sizes.rows])
    ax.minorticks_off()
    ax.set_ylim(NOISE - 0.1, 1.25 * max(map(max, errors.values())))  # room for the legend
    ax.legend(frameon=False, ncols=2, loc="upper right")
    return png(made)
