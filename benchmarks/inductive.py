"""MovieLens-100K with genres of the films and age, sex and occupation of the users, folds u1 to u5.

    python benchmarks/inductive.py folds     # held-out ratings: with features, without, and plain completion
    python benchmarks/inductive.py cold      # users without a single rating in training, beside the mean of each film
    python benchmarks/inductive.py generated # features, effects and a part of rows and columns of their own

The first two rows of a table are without any setting. For all other methods, all settings (C, weighting, weight of the
features) are tuned in every fold on 5 % of its training part; predictions are clipped to 1 … 5. The folds have no users
without training ratings, so `cold` takes all ratings of a tenth of the users out of training, other ones in every fold,
and predicts these.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder

from common import SHARED, needed, report
from rslm import InductiveCompletion, MatrixCompletion, ObservedMatrix

Array = NDArray[Any]
FOLDS = (1, 2, 3, 4, 5)
USERS, FILMS = 943, 1682
RANK, TOL = 10, 1e-4
Settings = dict[str, float]
Predict = Callable[[Array, Array], Array]


def lines(name: str) -> list[list[str]]:
    path = needed(SHARED / "data" / "ml-100k" / name)
    return [line.split("|") for line in path.read_text(encoding="latin-1").splitlines()]


def features() -> tuple[Array, Array]:
    """Of the users: age in groups, sex and occupation, one of each; of the films: genres."""
    users = lines("u.user")
    age = KBinsDiscretizer(7, encode="onehot-dense", quantile_method="averaged_inverted_cdf")
    groups = age.fit_transform([[float(u[1])] for u in users])
    kinds = OneHotEncoder(sparse_output=False).fit_transform([u[2:4] for u in users])
    return np.hstack([groups, kinds]), np.array([[float(g) for g in film[5:]] for film in lines("u.item")])


def fold(number: int) -> tuple[Array, Array]:
    """Users, films and ratings for training and for testing; users and films count from 0."""
    folder = SHARED / "data" / "ml-100k"
    every, test = (
        np.loadtxt(needed(folder / name), dtype=int)[:, :3] - [1, 1, 0] for name in ("u.data", f"u{number}.test")
    )
    held = np.isin(every[:, 0] * FILMS + every[:, 1], test[:, 0] * FILMS + test[:, 1])
    return every[~held], test


def matrix(rows: Array) -> ObservedMatrix:
    return ObservedMatrix.from_triplets(rows[:, 0], rows[:, 1], rows[:, 2].astype(float), shape=(USERS, FILMS))


def plain(train: Array, C: float, weighting: float) -> Predict:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*no observed entry")
        model = MatrixCompletion(RANK, C, weighting=weighting, effects=None, tol=TOL, random_state=0).fit(matrix(train))
    predict: Predict = model.predict
    return predict


def inductive(train: Array, C: float, weighting: float, feature_weight: float | None = None) -> Predict:
    """With features if they have a weight, else with the constant alone: means of users and films."""
    model = InductiveCompletion(
        RANK, C, weighting=weighting, feature_weight=feature_weight or 1.0, tol=TOL, random_state=0
    )
    of_users, of_films = features() if feature_weight else (None, None)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*neither an observed entry nor features")
        model.fit(matrix(train), row_features=of_users, column_features=of_films)
    predict: Predict = model.predict
    return predict


def without_settings(train: Array) -> Predict:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*no observed entry")
        predict: Predict = MatrixCompletion(random_state=0).fit(matrix(train)).predict
    return predict


def features_without_settings(train: Array) -> Predict:
    of_users, of_films = features()
    model = InductiveCompletion(random_state=0)
    predict: Predict = model.fit(matrix(train), row_features=of_users, column_features=of_films).predict
    return predict


def film_mean(train: Array, few: float) -> Predict:
    """The mean of every film, drawn to that of all ratings where a film has few."""
    counts, sums = (np.bincount(train[:, 1], w, FILMS) for w in (None, train[:, 2]))
    means = (sums + few * train[:, 2].mean()) / (counts + few)
    return lambda _, films: means[films]


def grid(**values: Iterable[float]) -> list[Settings]:
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def methods(Cs: tuple[float, ...]) -> dict[str, tuple[Callable[..., Predict], list[Settings]]]:
    """What is compared; these C are for the models with a constant, which need smaller ones."""
    weights = (0.05, 0.1, 0.2, 0.4)
    return {
        "MatrixCompletion()": (without_settings, grid()),
        "InductiveCompletion()": (features_without_settings, grid()),
        "mean of the film": (film_mean, grid(few=(1e-9,))),
        "mean of the film, drawn to that of all": (film_mean, grid(few=(1.0, 2.0, 5.0, 10.0, 20.0))),
        "plain completion": (plain, grid(C=(100.0, 200.0, 400.0, 800.0, 1600.0), weighting=(0.0, 0.5))),
        "constant, no features": (inductive, grid(C=Cs, weighting=(0.0, 0.5))),
        "features and completion": (inductive, grid(C=Cs, weighting=(0.0, 0.5), feature_weight=weights)),
    }


def rmse(predict: Predict, rows: Array) -> float:
    return float(np.sqrt(np.mean((np.clip(predict(rows[:, 0], rows[:, 1]), 1, 5) - rows[:, 2]) ** 2)))


def tuned(method: Callable[..., Predict], settings: list[Settings], train: Array, held: Array) -> Settings:
    if len(settings) == 1:
        return settings[0]
    return min(settings, key=lambda s: rmse(method(train[~held], **s), train[held]))


def study(name: str, split: Callable[[int], tuple[Array, Array, Array]], Cs: tuple[float, ...]) -> None:
    """Every method on all folds; `split` gives training and testing ratings, and which of the former to tune on."""
    errors: dict[str, list[float]] = {}
    rows = []
    for method, (fit, settings) in methods(Cs).items():
        chosen, seconds = [], []
        for number in FOLDS:
            train, test, held = split(number)
            best = tuned(fit, settings, train, held)
            began = time.perf_counter()
            predict = fit(train, **best)
            seconds.append(time.perf_counter() - began)
            errors.setdefault(method, []).append(rmse(predict, test))
            chosen.append(" ".join(f"{v:g}" for v in best.values()))
        row: dict[str, Any] = {"method": method} | {f"u{k}": e for k, e in zip(FOLDS, errors[method], strict=True)}
        row |= {"mean": float(np.mean(errors[method])), "s a fit": float(np.mean(seconds))}
        rows.append(row | {"tuned": ", ".join(chosen)})
        print(rows[-1], flush=True)
    report(f"inductive-{name}", rows, rank=RANK, settings="few; or C, weighting, feature_weight; in every fold")


def folds() -> None:
    def split(number: int) -> tuple[Array, Array, Array]:
        train, test = fold(number)
        return train, test, np.random.default_rng(number).random(len(train)) < 0.05

    study("folds", split, (10.0, 20.0, 40.0, 80.0))


def cold() -> None:
    def split(number: int) -> tuple[Array, Array, Array]:
        every = np.concatenate(fold(number))
        group = np.random.default_rng(0).permutation(USERS) % 10  # a tenth of the users each
        new = group[every[:, 0]] == number
        train = every[~new]
        return train, every[new], group[train[:, 0]] == (number + 5) % 10  # tuned on users that are as new

    study("cold", split, (1.0, 3.0, 10.0, 30.0))


def made(seed: int, users: int = 400, items: int = 300, cold: int = 40) -> tuple[Array, Array, Array, Array]:
    """8 % of noisy entries, features of users and items, and the truth; the first users have no entry."""
    rng = np.random.default_rng(seed)
    of_users, of_items = rng.standard_normal((users, 5)), rng.standard_normal((items, 4))
    effects = [
        0.4 * rng.standard_normal(n) + 0.15 * F @ rng.standard_normal(F.shape[1])
        for n, F in ((users, of_users), (items, of_items))
    ]
    shared = 0.15 * of_users @ rng.standard_normal((5, 2)) @ rng.standard_normal((2, 4)) @ of_items.T
    own = 0.4 * rng.standard_normal((users, 2)) @ rng.standard_normal((2, items))
    truth = 3.5 + np.add.outer(*effects) + shared + own
    X = truth + 0.7 * rng.standard_normal(truth.shape)
    X[rng.random(truth.shape) < 0.92], X[:cold] = np.nan, np.nan
    return X, of_users, of_items, truth


def generated() -> None:
    rows = []
    every = tuple(k.ravel() for k in np.indices((400, 300)))
    for name in ("MatrixCompletion()", "InductiveCompletion()"):
        for seed in range(5):
            X, of_users, of_items, truth = made(seed)
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*no observed entry")
                if name == "MatrixCompletion()":
                    model: Any = MatrixCompletion(random_state=0).fit(X)
                else:
                    model = InductiveCompletion(random_state=0)
                    model.fit(X, row_features=of_users, column_features=of_items)
            seconds = time.perf_counter() - began
            squares = (model.predict(*every).reshape(truth.shape) - truth) ** 2
            known, new = np.sqrt(squares[40:][np.isnan(X[40:])].mean()), np.sqrt(squares[:40].mean())
            row = {"method": name, "seed": seed, "known users": float(known), "new users": float(new), "s": seconds}
            rows.append(row | {"rank": model.rank_, "C": model.C_})
            print(rows[-1], flush=True)
    report("inductive-generated", rows)


if __name__ == "__main__":
    studies = {"folds": folds, "cold": cold, "generated": generated}
    for wanted in sys.argv[1:] or list(studies):
        studies[wanted]()
