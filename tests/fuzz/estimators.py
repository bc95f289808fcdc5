"""Estimators on random small problems: every fit keeps its promises, or ends in an error with a sentence."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from estimator_inputs import (
    BINARY,
    NONSENSE,
    REAL,
    bounds,
    chance,
    classes,
    dressed,
    holes,
    how_to_solve,
    loss,
    pick,
    rank,
    sides,
    values,
)
from estimator_promises import ALLOWED, certified, completion_primal, finite, losses, snapshot, told, within
from numpy.random import Generator
from scipy import sparse

import rslm
from rslm import (
    HankelModel,
    InductiveCompletion,
    MatrixCompletion,
    MultiTaskClassifier,
    MultiTaskRegressor,
    ObservedMatrix,
    Problem,
    ReducedRankRegressor,
    solve,
)
from rslm.estimators.choices import as_loss
from rslm.estimators.completion.bounds import as_box
from rslm.measurements import Bilinear, Entries, Samples, Side, Tasks
from rslm.structures import Box, Hankel, Symmetric, Toeplitz

Fit = Callable[[Any], Any]


def case(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = pick(rng, tuple(KINDS), np.array(list(KINDS.values())) / sum(KINDS.values()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)  # advice, such as not to have converged; all others are mistakes
        try:
            kind(rng)
        except ALLOWED as error:
            told(error)


# ---- what happens to all of them -----------------------------------------------------------------------------------


def fitted(rng: Generator, model: Any, fit: Fit, *given: Any) -> Any:
    """The model, fitted; sometimes with a nonsensical parameter, sometimes twice with another number of threads."""
    names = sorted(model.get_params())
    if chance(rng, 0.04):
        model.set_params(**{pick(rng, names): pick(rng, NONSENSE)})
    before, parameters = [snapshot(g) for g in given], {k: snapshot(v) for k, v in model.get_params(deep=False).items()}
    fit(model)
    assert before == [snapshot(g) for g in given], "fit has changed what it was given"
    assert parameters == {k: snapshot(v) for k, v in model.get_params(deep=False).items()}, "fit has changed parameters"
    if chance(rng, 0.06) and getattr(model, "max_time", None) is None and "n_threads" in names:
        other = type(model)(**model.get_params(deep=False)).set_params(n_threads=3 - min(model.n_threads or 1, 2))
        fit(other)
        for name in ("row_factors_", "col_factors_", "coef_", "intercept_"):
            if hasattr(model, name):
                assert np.array_equal(getattr(model, name), getattr(other, name)), f"{name} depends on the threads"
    if chance(rng, 0.06):
        return reloaded(model)
    return model


def reloaded(model: Any) -> Any:
    """The model from its file, with what files do not hold."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        model.save(path)
        again = rslm.load(path)
    if hasattr(model, "residuals_"):
        again.residuals_ = model.residuals_
    return again


def matrix(rng: Generator) -> tuple[np.ndarray, Any]:
    """Some data, and a loss for them."""
    if chance(rng, 0.25):
        found = loss(rng, BINARY)
        A = classes(rng, sides(rng)) if chance(rng, 0.97) else values(rng, sides(rng))
    else:
        found = loss(rng, REAL) if chance(rng, 0.6) else "square"
        A = values(rng, sides(rng))
    return holes(rng, A), found


def largest(*arrays: Any) -> float:
    """The scale of data and bounds."""
    every = np.concatenate([np.ravel(np.asarray(a, dtype=float)) for a in arrays])
    return float(np.abs(every[np.isfinite(every)]).max(initial=0.0))


# ---- matrices ------------------------------------------------------------------------------------------------------


def completion(rng: Generator, bounded: bool = False) -> None:
    A, found = matrix(rng)
    X = dressed(rng, A)
    model = MatrixCompletion(
        rank=rank(rng, min(A.shape)),
        loss=found,
        effects=None if chance(rng, 0.7) else ridges(rng),
        bounds=bounds(rng, A) if bounded else None,
        weighting=pick(rng, (0.0, 0.5, 1.0, -1.0, 300.0, 1e-300), (0.6, 0.25, 0.05, 0.04, 0.03, 0.03)),
        warm_start=chance(rng, 0.1),
        **how_to_solve(rng),
    )
    model = fitted(rng, model, lambda m: m.fit(X), X)
    check_completion(rng, model, X, float(model.C))
    if model.warm_start:
        check_completion(rng, model.fit(X), X, float(model.C))
    use(rng, model, A)


def ridges(rng: Generator) -> tuple[Any, Any]:
    """Of rows and columns; mostly ones that there can be."""
    some = (None, 0.0, 1.0, 5.0, 1e4, 1e-300, 1e300, -1.0)
    return tuple(pick(rng, some, (0.2, 0.1, 0.2, 0.3, 0.1, 0.04, 0.03, 0.03)) for _ in range(2))


def bounded_completion(rng: Generator) -> None:
    completion(rng, bounded=True)


def check_completion(rng: Generator, model: Any, X: Any, C: float) -> None:
    left, right, c = model.row_factors_, model.col_factors_, model.certificate_
    finite(row_factors_=left, col_factors_=right)
    data = ObservedMatrix.from_any(X)
    n, m = data.shape
    i, j = (k.ravel() for k in np.indices((n, m)))
    every = model.predict(*((i, j) if data.row_ids is None and data.col_ids is None else named(data, i, j)))
    with np.errstate(over="ignore"):
        W = left @ right.T
    full = data.row_counts().all() and data.col_counts().all()
    if full and type(model) is MatrixCompletion and model.effects is None:
        primal, slack = completion_primal(data, model.loss, C, model.weighting_, left, right)
        certified(c, primal if model.outcome_ != "failed" else None, slack)
    else:
        certified(c)
    finite(predictions=every)
    box = as_box(getattr(model, "bounds", None), data.shape)
    scale = largest(data.values, np.zeros(1) if box is None else box.finite())
    if box is not None:
        lower, upper = box.planes(data.shape)
        assert ((every.reshape(n, m) >= lower) & (every.reshape(n, m) <= upper)).all(), "predictions beyond the bounds"
        if model.outcome_ != "failed" and model.rank_ > 0:
            parts = model.intercept_, model.row_effects_, model.col_effects_, W
            within(box, W + parts[0] + parts[1][:, None] + parts[2], max(scale, largest(*map(np.atleast_1d, parts))))
    finite(residuals=model.residuals_.values, scores=model.outlier_scores_.values)
    assert not np.isnan(model.history_["objective"]).any()
    assert 0 <= model.rank_ <= model.row_factors_.shape[1]


def named(data: ObservedMatrix, i: np.ndarray, j: np.ndarray) -> tuple[Any, Any]:
    return (i if data.row_ids is None else data.row_ids[i]), (j if data.col_ids is None else data.col_ids[j])


def use(rng: Generator, model: Any, A: np.ndarray) -> None:
    """Other samples of the same kind: filled, scored, given recommendations."""
    what = int(rng.integers(6))
    new = holes(rng, A)[: int(rng.integers(1, len(A) + 1))]
    new[np.isinf(new)] = np.nan
    cols = model.col_ids_
    given = new if cols is None else ObservedMatrix.from_any(new)
    if what == 0:
        filled = model.transform(given)
        if not getattr(model, "add_indicator", False) and getattr(model, "keep_empty_features", True):
            assert filled.shape == new.shape
        finite(filled=filled)
    elif what == 1 and not np.isnan(new).all():
        assert not np.isnan(model.score(given))
    elif what == 2:
        rows = np.arange(len(A)) if model.row_ids_ is None else model.row_ids_
        check_recommended(*model.recommend(rows, top=int(rng.integers(1, 4))))
    elif what == 3:
        check_recommended(*model.recommend_for(given, top=2))
    elif what == 4 and not np.isnan(new).all() and type(model) is MatrixCompletion and model.bounds is None:
        certified(model.certify(given))


def check_recommended(columns: Any, scores: Any) -> None:
    for found, of_row in zip(columns, scores, strict=True):
        assert len(found) == len(of_row)
        assert not np.isnan(of_row).any()


def searched(rng: Generator) -> None:
    A, found = matrix(rng)
    X = dressed(rng, A)
    options = how_to_solve(rng) | {"max_time": 1.0}
    if chance(rng, 0.8):
        options["C"] = "auto"
    model = MatrixCompletion(
        rank=pick(rng, ("auto", 1, 3)) if options["C"] == "auto" else "auto",
        loss=found,
        effects=pick(rng, ("auto", None, ridges(rng)), (0.7, 0.15, 0.15)),
        weighting=pick(rng, ("auto", 0.0, 0.5)),
        scale=pick(rng, ("auto", True, False), (0.8, 0.1, 0.1)),
        bounds=bounds(rng, A) if chance(rng, 0.2) else None,
        **options,
    )
    model = fitted(rng, model, lambda m: m.fit(X), X)
    check_completion(rng, model, X, model.C_)
    use(rng, model, A)


def inductive(rng: Generator) -> None:
    A, _ = matrix(rng)
    binary = chance(rng, 0.2)
    if binary:
        A = holes(rng, classes(rng, A.shape))
    X = dressed(rng, A)
    features = []
    for size in A.shape:
        F = values(rng, (size, int(rng.integers(1, 5)))) if chance(rng, 0.7) else None
        if F is not None and chance(rng, 0.3):
            F = sparse.csr_array(np.where(rng.random(F.shape) < 0.5, F, 0.0))
        features.append(dressed(rng, F) if isinstance(F, np.ndarray) and chance(rng, 0.3) else F)
    model = InductiveCompletion(
        rank=rank(rng, min(A.shape)),
        loss=loss(rng, ("logistic", "squared_hinge") if binary else ("square", "square", "huber", "absolute")),
        completion=chance(rng, 0.7),
        feature_weight=pick(rng, (0.2, 1.0, 1e-6, 1e6, 1e300, 1e-300), (0.5, 0.2, 0.1, 0.1, 0.05, 0.05)),
        effects="auto" if chance(rng, 0.7) else None,
        weighting=pick(rng, (0.0, 0.5, 100.0), (0.6, 0.35, 0.05)),
        **how_to_solve(rng),
    )
    if chance(rng, 0.2):
        model.set_params(rank="auto", C="auto", weighting="auto", feature_weight="auto", max_time=1.0)
    R, K = features
    model = fitted(rng, model, lambda m: m.fit(X, row_features=R, column_features=K), X, R, K)
    check_completion(rng, model, X, model.C_)
    if chance(rng, 0.5):
        use(rng, model, A)


def streamed(rng: Generator) -> None:
    A, found = matrix(rng)
    options = how_to_solve(rng) | {"max_time": None}
    model = MatrixCompletion(rank=rank(rng, min(A.shape)), loss=found, weighting=0.0, **options)
    if not hasattr(model, "partial_fit"):
        return
    for _ in range(int(rng.integers(1, 4))):
        new = holes(rng, A)
        model.partial_fit(new)
        if hasattr(model, "row_factors_"):
            finite(
                row_factors_=model.row_factors_, col_factors_=model.col_factors_, history=model.history_["objective"]
            )
            certified(model.certificate_)
    if hasattr(model, "row_factors_"):
        use(rng, reloaded(model) if chance(rng, 0.2) else model, A)


# ---- tasks ---------------------------------------------------------------------------------------------------------


def linear_options(rng: Generator, d: int, tasks: int) -> dict[str, Any]:
    return how_to_solve(rng) | {
        "rank": rank(rng, min(d, tasks)),
        "effects": None if chance(rng, 0.8) else "auto",
        "fit_intercept": chance(rng, 0.7),
        "warm_start": chance(rng, 0.1),
    }


def table(rng: Generator) -> tuple[np.ndarray, Any]:
    """Features of some rows, and as a user may have them."""
    X = values(rng, (int(rng.integers(1, 25)), int(rng.integers(1, 7))))
    if chance(rng, 0.02):
        X.flat[0] = pick(rng, (np.nan, np.inf))
    if chance(rng, 0.02):
        return X, X.ravel()
    if chance(rng, 0.15):
        return X, sparse.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0))
    return X, dressed(rng, X) if chance(rng, 0.3) else X


def regression(rng: Generator) -> None:
    X, given = table(rng)
    n, d = X.shape
    y = values(rng, (n,))
    if chance(rng, 0.05):
        y[rng.random(n) < 0.3] = np.nan
    count = int(rng.integers(1, 5))
    tasks = None if chance(rng, 0.2) else rng.integers(0, count, n)
    model = MultiTaskRegressor(loss=loss(rng, REAL), **linear_options(rng, d, count))
    drop = chance(rng, 0.3)
    model = fitted(rng, model, lambda m: m.fit(given, y, tasks=tasks, drop_missing=drop), given, y)
    check_linear(model)
    Z = (
        given
        if isinstance(given, np.ndarray) and given.dtype.kind == "f" and given.ndim == 2
        else X[:, : model.n_features_in_]
    )
    if np.isfinite(Z).all():
        predicted = model.predict(Z, tasks if tasks is not None else None, unseen="mean")
        assert not np.isnan(predicted).any(), "predictions that are not a number"
    if model.warm_start:
        check_linear(model.fit(given, y, tasks=tasks, drop_missing=drop))
    if chance(rng, 0.1) and np.isfinite(X).all():
        coef, intercept = model.fit_task(X[:3], values(rng, (len(X[:3]),)))
        finite(coef=coef, intercept=intercept)


def classification(rng: Generator) -> None:
    X, given = table(rng)
    n, d = X.shape
    several = int(rng.integers(1, 5))
    y = rng.integers(0, several, n)
    y = pick(rng, (y, y.astype(float), y.astype(str), y > 0, y.astype(object)))
    tasks = None if chance(rng, 0.5) else rng.integers(0, 2, n)
    model = MultiTaskClassifier(loss=loss(rng, BINARY), **linear_options(rng, d, several))
    model = fitted(rng, model, lambda m: m.fit(given, y, tasks=tasks), given, y)
    check_linear(model)
    if np.isfinite(X).all() and X.shape[1] == model.n_features_in_:
        side = model.decision_function(X, tasks, **({} if tasks is None else {"unseen": "mean"}))
        assert not np.isnan(side).any(), "decision values that are not a number"
        assert len(model.predict(X, tasks)) == n
        if hasattr(model, "predict_proba"):
            p = model.predict_proba(X, tasks)
            finite(probabilities=p)
            assert np.allclose(p.sum(axis=1), 1.0)


def reduced_rank(rng: Generator) -> None:
    X, given = table(rng)
    n, d = X.shape
    count = int(rng.integers(1, 6))
    Y = values(rng, (n, count))
    if chance(rng, 0.5):
        Y[rng.random(Y.shape) < 0.3] = np.nan
    if chance(rng, 0.1):
        Y = Y[:, 0]
    model = ReducedRankRegressor(
        loss=loss(rng, REAL) if chance(rng, 0.6) else "square", **linear_options(rng, d, count)
    )
    model = fitted(rng, model, lambda m: m.fit(given, Y), given, Y)
    check_linear(model)
    if np.isfinite(X).all() and X.shape[1] == model.n_features_in_:
        assert not np.isnan(model.predict(X)).any(), "predictions that are not a number"
    plain = model.effects is None  # the objective with effects is that of standardised data
    if plain and type(given) is np.ndarray and given.dtype == float and given.ndim == 2 and model.outcome_ != "failed":
        check_linear_primal(model, given, Y.reshape(n, -1))


def check_linear(model: Any) -> None:
    finite(coef_=model.coef_, intercept_=model.intercept_, subspace_=model.subspace_)
    certified(model.certificate_)
    assert not np.isnan(model.history_["objective"]).any()


def check_linear_primal(model: Any, X: np.ndarray, Y: np.ndarray) -> None:
    """The primal value is C Σ ℓ + ½ ‖W‖_*² at the coefficients."""
    with np.errstate(all="ignore"):
        seen = ~np.isnan(Y)
        y = np.where(seen, Y, 0.0)
        W, size = model.coef_, np.abs(X) @ np.abs(model.coef_.T) + np.abs(model.intercept_) + np.abs(y)
        if not np.isfinite(size**2).all():
            return
        cost, slope = losses(model.loss, y, X @ W.T + model.intercept_)
        trace = np.linalg.svd(W, compute_uv=False).sum()
        C = float(model.C)
        slack = 1e-9 * C * float((slope * size)[seen].sum()) + 1e-9 * trace**2
        # What no coefficients explain is left out of the problem and added again, with a rounding error of its own.
        slack += 1e-12 * C * float((np.where(seen, size, 0.0) ** 2).sum())
        certified(model.certificate_, C * float(cost[seen].sum()) + 0.5 * trace**2, slack)


# ---- series, and the mathematical door -----------------------------------------------------------------------------


def series(rng: Generator) -> None:
    n, channels = int(rng.integers(1, 40)), int(rng.integers(1, 3))
    t = np.arange(n)[:, None]
    if chance(rng, 0.5):
        y = np.cos(rng.uniform(0, 3, channels) * t) * rng.uniform(0.8, 1.1) ** t + 0.1 * rng.standard_normal(
            (n, channels)
        )
    else:
        y = values(rng, (n, channels))
    if chance(rng, 0.3):
        y[rng.random(y.shape) < 0.2] = np.nan
    y = y[:, 0] if channels == 1 else y
    if chance(rng, 0.1):
        y = pick(rng, (y.tolist(), np.ma.masked_invalid(y), np.asfortranarray(y)))
    options = how_to_solve(rng)
    model = HankelModel(
        rank=pick(rng, ("auto", 1, 2, 3, 30)),
        C=None if chance(rng, 0.5) else options["C"],
        window=pick(rng, (None, 2, 5, n // 2, n)),
        tol=pick(rng, (1e-3, 1e-2, 0.1, 0.0)),
        max_iter=options["max_iter"],
        max_time=pick(rng, (None, 0.02, 0.1)),
    )
    model = fitted(rng, model, lambda m: m.fit(y), y)
    finite(
        signal_=model.signal_,
        poles=np.abs(model.poles_),
        amplitudes=np.abs(model.amplitudes_),
        s=model.singular_values_,
    )
    if model.certificate_ is not None:
        certified(model.certificate_)
    finite(forecast=model.forecast(2))
    if chance(rng, 0.2):
        try:
            assert all(ends.shape[0] == 3 for ends in model.predict_interval(3, coverage=0.9))
        except ValueError as e:
            assert "observed samples" in str(e)  # noqa: PT017 - too few of them is the only excuse


def direct(rng: Generator) -> None:
    """`Problem` and `solve`, as those use them who bring parts of their own."""
    d, T = sides(rng)
    options = how_to_solve(rng)
    C = options.pop("C")
    options.pop("verbose")
    found = as_loss(loss(rng, REAL + BINARY)) if chance(rng, 0.6) else as_loss("square")
    structure: Any = None
    what = int(rng.integers(6))
    A = classes(rng, (d, T)) if found.binary else values(rng, (d, T))
    p, q = (10.0 ** rng.uniform(-3, 3, k) if chance(rng, 0.3) else None for k in (d, T))
    data: Any
    if what == 0:
        structure = pick(rng, (Hankel(d, T), Toeplitz(d, T), Symmetric(d)))
        shape = structure.shape
        A = holes(rng, classes(rng, shape) if found.binary else values(rng, shape))
        data, p, q = Entries(A), None, None
    elif what == 1:
        structure = Hankel(d, T)
        data, p, q = Samples(holes(rng, values(rng, (d + T - 1,)))), None, None
    elif what == 2:
        n = int(rng.integers(1, 20))
        y = classes(rng, (n,)) if found.binary else values(rng, (n,))
        data = Tasks(values(rng, (n, d)), y, rng.integers(0, T, n), intercept=chance(rng, 0.5))
        p, q = None, None
    elif what == 3:
        own = np.ones(d) if chance(rng, 0.5) else None
        rows = Side(values(rng, (d, 2)) if own is None or chance(rng, 0.5) else None, own)
        data, p, q = Bilinear(ObservedMatrix.from_any(holes(rng, A)), rows, Side.plain(T)), None, None
    else:
        data = Entries(holes(rng, A))
        if what == 4:
            given = bounds(rng, A)
            structure = given if isinstance(given, Box) else Box(*given)
    problem = Problem(found, data, structure, C=C, row_weights=p, column_weights=q)
    result = solve(problem, rank(rng, min(problem.shape)), certificate=chance(rng, 0.9), **options)
    finite(U=result.U, V=result.V)
    if result.parameters is not None:
        finite(parameters=result.parameters)
    certified(result.certificate)
    if isinstance(structure, Box) and result.outcome.value != "failed":
        within(structure, result.left @ result.V.T, largest(A, structure.finite()))


#: What is tried, and how often.
KINDS: dict[Callable[[Generator], None], float] = {
    completion: 5,
    bounded_completion: 4,
    searched: 1,
    inductive: 2.5,
    streamed: 1,
    regression: 2,
    classification: 2,
    reduced_rank: 2,
    series: 1.5,
    direct: 3,
}
