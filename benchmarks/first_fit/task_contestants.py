"""Who learns tasks: rslm without a setting, ridge in three ways, MultiTaskElasticNet, convex MTFL.

A classification is solved by the others as tasks of one class against the rest, with targets 0 and 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from cases import AbsentError, Array, Case, Classes, Contestant, Regressions
from convex_mtfl import convex_mtfl
from sklearn.linear_model import MultiTaskElasticNetCV, Ridge, RidgeCV

ALPHAS = np.logspace(-3.0, 6.0, 19)


def one_against_rest(case: Classes) -> Regressions:
    T = int(case.y.max()) + 1
    stacked = []
    for X, y in ((case.X, case.y), (case.X_test, case.y_test)):
        targets = (y == np.arange(T)[:, None]).ravel().astype(float)
        stacked += [np.tile(X, (T, 1)), targets, np.repeat(np.arange(T), len(y))]
    return replace(Regressions(*stacked), same_rows=True)


def run(f: Callable[[Regressions], Array], case: Case) -> tuple[Array, float]:
    began = time.perf_counter()
    if isinstance(case, Classes):
        scores = f(one_against_rest(case)).reshape(-1, len(case.y_test))
        return np.argmax(scores, axis=0), time.perf_counter() - began
    assert isinstance(case, Regressions)
    return f(case), time.perf_counter() - began


def rslm_fit(case: Case) -> tuple[Array, float]:
    from rslm import MultiTaskClassifier, MultiTaskRegressor

    began = time.perf_counter()
    if isinstance(case, Classes):
        found = MultiTaskClassifier().fit(case.X, case.y).predict(case.X_test)
    else:
        assert isinstance(case, Regressions)
        model = MultiTaskRegressor().fit(case.X, case.y, tasks=case.tasks)
        found = model.predict(case.X_test, tasks=case.tasks_test)
    return np.asarray(found), time.perf_counter() - began


def pooled(case: Regressions) -> Array:
    return np.asarray(RidgeCV(ALPHAS).fit(case.X, case.y).predict(case.X_test))


def task_by_task(case: Regressions) -> Array:
    """Each task has its own intercept and its own weight of the ridge."""
    found = np.empty(len(case.y_test))
    for t in np.unique(case.tasks_test):
        of, test = case.tasks == t, case.tasks_test == t
        found[test] = RidgeCV(ALPHAS).fit(case.X[of], case.y[of]).predict(case.X_test[test])
    return found


def task_by_task_alike(case: Regressions) -> Array:
    """Each task has its own intercept, but the weight of the ridge is one, of the least leave-one-out error of all."""
    parts = {t: case.tasks == t for t in np.unique(case.tasks)}
    models = [RidgeCV(ALPHAS, store_cv_results=True).fit(case.X[of], case.y[of]) for of in parts.values()]
    alpha = ALPHAS[int(np.argmin(sum(m.cv_results_.sum(axis=0) for m in models)))]
    found = np.empty(len(case.y_test))
    for t, of in parts.items():
        test = case.tasks_test == t
        found[test] = Ridge(alpha).fit(case.X[of], case.y[of]).predict(case.X_test[test])
    return found


def with_dummies(case: Regressions) -> Array:
    """The same coefficients for all tasks; the larger the dummies, the less they shrink: chosen with the weight."""
    T = int(case.tasks.max()) + 1
    eye = np.eye(T)

    def fit(size: float) -> RidgeCV:
        return RidgeCV(ALPHAS).fit(np.hstack([case.X, size * eye[case.tasks]]), case.y)

    sizes = {size: fit(size) for size in (0.3, 1.0, 3.0, 10.0, 30.0)}
    best = max(sizes, key=lambda size: float(sizes[size].best_score_))
    return np.asarray(sizes[best].predict(np.hstack([case.X_test, best * eye[case.tasks_test]])))


def elastic_net(case: Regressions) -> Array:
    if not case.same_rows:
        raise AbsentError("MultiTaskElasticNet needs the same rows in all tasks")
    T = int(case.tasks.max()) + 1
    n, held = len(case.y) // T, len(case.y_test) // T
    model = MultiTaskElasticNetCV(max_iter=2000).fit(case.X[:n], case.y.reshape(T, n).T)
    return np.asarray(model.predict(case.X_test[:held]).T.ravel())


OTHERS: dict[str, Callable[[Regressions], Array]] = {
    "ridge-pooled": pooled,
    "ridge-by-task": task_by_task,
    "ridge-by-task-alike": task_by_task_alike,
    "ridge-dummies": with_dummies,
    "MultiTaskElasticNet": elastic_net,
    "convex-MTFL": convex_mtfl,
}
TASKS: dict[str, Contestant] = {"rslm": rslm_fit}
TASKS |= {name: partial(run, f) for name, f in OTHERS.items()}
