"""Other losses than the square: recovery under outliers, MovieLens-1M, one-bit data, and what they cost.

    python benchmarks/robust.py [recovery] [movielens] [time] [onebit]

All four parts without an argument. In the first, second and fourth part every C, and for MovieLens ε, δ and the
weighting, is chosen on 5 % of the training entries, by the error that is reported (recovery: by the 65 % quantile of
the absolute error, which outliers do not reach). In the third they are fixed, near the best ones.
"""

from __future__ import annotations

import itertools
import sys
import time
from typing import Any

import numpy as np

from common import report
from movielens import RANK, Triplets, matrix, split
from rslm import MatrixCompletion, ObservedMatrix
from rslm.data import holdout
from rslm.losses import Absolute, EpsilonInsensitive, Huber, Logistic, Loss, Quantile, Square

# ---- recovery -------------------------------------------------------------------------------------------------------

ROWS, COLS, TRUE_RANK, OBSERVED, OUTLIER_SIZE = 800, 500, 5, 0.25, 10.0
BELOW = 0.65  # part of the held-out entries that are certainly no outliers


def with_outliers(fraction: float, noise: float, seed: int = 0) -> tuple[Any, ObservedMatrix, Any]:
    """A matrix of rank 5, what is observed of it, and where nothing is."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((ROWS, TRUE_RANK)) @ rng.standard_normal((COLS, TRUE_RANK)).T
    X = W + noise * rng.standard_normal(W.shape)
    hit = rng.random(W.shape) < fraction
    X += np.where(hit, OUTLIER_SIZE * W.std() * rng.standard_normal(W.shape), 0.0)
    known = rng.random(W.shape) < OBSERVED
    return W, ObservedMatrix.from_any(np.where(known, X, np.nan)), ~known


def predictions(model: MatrixCompletion, data: ObservedMatrix) -> Any:
    return np.asarray(model.predict(data.rows_of_entries(), data.index))


def recovery() -> None:
    rows: list[dict[str, Any]] = []
    losses: list[Loss] = [Square(), Huber(0.1), Absolute(), EpsilonInsensitive(0.05), Quantile(0.5)]
    for noise, fraction in itertools.product((0.0, 0.1), (0.0, 0.02, 0.08, 0.15, 0.3)):
        W, data, unknown = with_outliers(fraction, noise)
        inside, held = holdout(data, 0.05, 0)
        for loss in losses:
            fits = {
                C: MatrixCompletion(TRUE_RANK, C, effects=None, loss=loss, random_state=0, tol=1e-3)
                for C in (1e2, 1e3, 1e4)
            }
            C = min(
                fits, key=lambda C: np.quantile(np.abs(predictions(fits[C].fit(inside), held) - held.values), BELOW)
            )
            began = time.perf_counter()
            model = MatrixCompletion(TRUE_RANK, C, effects=None, loss=loss, random_state=0).fit(data)
            seconds = time.perf_counter() - began
            error = (model.row_factors_ @ model.col_factors_.T - W)[unknown]
            rows.append(
                {
                    "noise": noise,
                    "outliers": fraction,
                    "loss": repr(loss),
                    "C": C,
                    "relative error": float(np.linalg.norm(error) / np.linalg.norm(W[unknown])),
                    "seconds": seconds,
                    "outcome": model.outcome_,
                }
            )
    report("robust_recovery", rows, shape=f"{ROWS} × {COLS}, rank {TRUE_RANK}, {OBSERVED:.0%} observed")


# ---- MovieLens ------------------------------------------------------------------------------------------------------


def errors(model: MatrixCompletion, t: Triplets) -> tuple[float, float]:
    e = np.einsum("ij,ij->i", model.row_factors_[t[1]], model.col_factors_[t[0]]) - t[2]
    return float(np.sqrt(np.mean(e**2))), float(np.mean(np.abs(e)))


def tuned(train: Triplets, losses: list[Loss], grid: list[float], by_mae: bool) -> dict[str, Any]:
    """Loss, C and weighting with the least error on 5 % of the training part."""
    order = np.random.default_rng(7).permutation(len(train[0]))
    cut = len(order) // 20
    inside, held = (tuple(a[k] for a in train) for k in (order[cut:], order[:cut]))
    X = matrix(inside)
    settings: list[dict[str, Any]] = [
        {"loss": loss, "C": C, "weighting": weighting}
        for loss, C, weighting in itertools.product(losses, grid, (0.0, 0.5))
    ]
    scores = [
        errors(MatrixCompletion(RANK, effects=None, random_state=0, tol=1e-2, **s).fit(X), held)[by_mae]
        for s in settings
    ]
    return settings[int(np.argmin(scores))]


def movielens() -> None:
    train, test = split(0)
    X = matrix(train)
    choices = {
        "square": tuned(train, [Square()], [500.0, 700.0, 1000.0], by_mae=False),
        "Huber": tuned(train, [Huber(0.5), Huber(1.0)], [1500.0, 2000.0, 3000.0], by_mae=False),
        "ε-insensitive": tuned(
            train, [EpsilonInsensitive(e) for e in (0.1, 0.25, 0.5)], [1000.0, 1500.0, 2000.0], by_mae=False
        ),
        "absolute, tuned for RMSE": tuned(train, [Absolute()], [700.0, 1000.0, 1400.0, 2000.0], by_mae=False),
        "absolute, tuned for MAE": tuned(train, [Absolute()], [700.0, 1000.0, 1400.0, 2000.0], by_mae=True),
    }
    rows = []
    for name, setting in choices.items():
        began = time.perf_counter()
        model = MatrixCompletion(RANK, effects=None, random_state=0, tol=1e-3, **setting).fit(X)
        seconds = time.perf_counter() - began
        rms, mean = errors(model, test)
        rows.append(
            {
                "loss": name,
                "setting": f"{setting['loss']!r}, C = {setting['C']:g}, α = {setting['weighting']}",
                "test RMSE": rms,
                "test MAE": mean,
                "seconds": seconds,
                "outcome": model.outcome_,
                "relative gap": model.certificate_.relative_gap,
            }
        )
    report("robust_movielens", rows)


# ---- time -----------------------------------------------------------------------------------------------------------


class OwnHuber(Loss):
    """Huber's loss as a user would write it: NumPy functions and nothing else."""

    def __init__(self, delta: float) -> None:
        self.delta = delta

    def value(self, y: Any, w: Any) -> Any:
        e = np.abs(y - w)
        return np.where(e <= self.delta, 0.5 * e * e, self.delta * (e - 0.5 * self.delta))

    def gradient(self, y: Any, w: Any) -> Any:
        return np.clip(w - y, -self.delta, self.delta)

    def hessian(self, y: Any, w: Any) -> Any:
        return (np.abs(w - y) < self.delta).astype(float)

    def conjugate(self, y: Any, s: Any) -> Any:
        return np.where(np.abs(s) <= self.delta, s * (y + 0.5 * s), np.inf)

    def guess(self, y: Any, usual: float) -> Any:
        return y


def times() -> None:
    """Seconds to the same relative gradient on MovieLens-1M, the best of three that take turns."""
    X = matrix(split(0)[0])
    cases: dict[str, dict[str, Any]] = {
        "square": {"loss": Square(), "C": 1000.0},
        "absolute": {"loss": Absolute(), "C": 2000.0},
        "ε-insensitive, ε = 0.5": {"loss": EpsilonInsensitive(0.5), "C": 2000.0},
        "Huber": {"loss": Huber(1.0), "C": 2000.0},
        "Huber, written by a user": {"loss": OwnHuber(1.0), "C": 2000.0},
    }
    rows = []
    for tol in (1e-3, 1e-6):
        best = dict.fromkeys(cases, np.inf)
        models = {}
        for _ in range(3):
            for name, params in cases.items():
                began = time.perf_counter()
                models[name] = MatrixCompletion(RANK, effects=None, random_state=0, tol=tol, **params).fit(X)
                best[name] = min(best[name], time.perf_counter() - began)
        for name, model in models.items():
            rows.append(
                {
                    "relative gradient": tol,
                    "loss": name,
                    "seconds": best[name],
                    "of the square loss": best[name] / best["square"],
                    "of the built-in Huber": best[name] / best["Huber"],
                    "evaluations": int(model.history_["evaluations"][-1]),
                    "Hessian products": int(model.history_["hessian_products"][-1]),
                    "outcome": model.outcome_,
                }
            )
    report("robust_time", rows)


# ---- one bit --------------------------------------------------------------------------------------------------------


def onebit() -> None:
    rng = np.random.default_rng(0)
    W = rng.standard_normal((1000, 3)) @ rng.standard_normal((800, 3)).T
    known = rng.random(W.shape) < 0.3
    rows = []
    for link, noise in (("logistic", rng.logistic(size=W.shape)), ("probit", rng.standard_normal(W.shape))):
        Y = W + noise > 0
        data = ObservedMatrix.from_any(np.where(known, Y, np.nan))
        inside, held = holdout(data, 0.05, 0)
        grid = (30.0, 100.0, 300.0)
        C = max(
            grid,
            key=lambda C: MatrixCompletion(3, C, effects=None, loss=Logistic(), random_state=0).fit(inside).score(held),
        )
        began = time.perf_counter()
        model = MatrixCompletion(3, C, effects=None, loss=Logistic(), random_state=0).fit(data)
        seconds = time.perf_counter() - began
        guess = model.row_factors_ @ model.col_factors_.T > 0
        rows.append(
            {
                "data": link,
                "C": C,
                "accuracy on the rest": float(np.mean(guess[~known] == Y[~known])),
                "of the true parameters": float(np.mean((W > 0)[~known] == Y[~known])),
                "seconds": seconds,
                "outcome": model.outcome_,
            }
        )
    report("robust_onebit", rows)


PARTS = {"recovery": recovery, "movielens": movielens, "time": times, "onebit": onebit}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
