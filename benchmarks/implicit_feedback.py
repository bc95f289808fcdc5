"""Implicit feedback: MovieLens-1M, ratings of 4 and 5 as ones, a fifth of the items of every user held out.

    python benchmarks/implicit_feedback.py [32 64 128]      ranks
    python benchmarks/implicit_feedback.py ml-100k 32       the smaller data set

Settings of all methods are tuned by ndcg@100 on a fifth of the items of every user of the training part. `implicit`'s
Cholesky variant has the settings of its CG variant. All methods use two threads. Packages that are not installed are
left out.

Where the search of rslm begins (C, alpha0 and weighting) was chosen on other splits of MovieLens-1M, with their test
parts in view. The split of this benchmark, and MovieLens-100K, were not looked at for that.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from common import SHARED, needed, report
from rslm import ImplicitCompletion, ObservedMatrix
from rslm.estimators.implicit.ranking import Metric
from rslm.evaluate import holdout_per_user

THREADS = 2
SPLIT, VALIDATION = 20260, 1  # seeds
TUNED_BY, RECALL = Metric.of("ndcg@100"), Metric.of("capped_recall@20")
Factors = tuple[Any, Any]  # of users and of items
Fit = tuple[Factors, float, float]  # with wall and CPU seconds


def clicks(name: str) -> ObservedMatrix:
    if name == "ml-100k":
        users, items, stars = np.loadtxt(needed(SHARED / "data" / "ml-100k" / "u.data"), usecols=(0, 1, 2)).T
    else:
        file = np.load(needed(SHARED / "data" / "ml-1m" / "ml-1m.npz"))
        users, items, stars = file["col"], file["row"], file["value"]
    i, j = (np.unique(side[stars >= 4], return_inverse=True)[1] for side in (users, items))
    return ObservedMatrix.from_triplets(i, j, np.ones(len(i)))


def popularity(train: ObservedMatrix) -> Factors:
    return np.ones((train.shape[0], 1)), train.col_counts().astype(np.float64)[:, None]


def implicit_als(train: ObservedMatrix, rank: int, alpha: float, ridge: float, cg: bool) -> Factors:
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        factors=rank,
        alpha=alpha,
        regularization=ridge,
        use_cg=cg,
        use_gpu=False,
        num_threads=THREADS,
        random_state=0,
    )
    with threadpool_limits(1, "blas"):  # as the package recommends
        model.fit(sparse.csr_matrix(train.to_csr().astype(np.float32)), show_progress=False)
    return np.asarray(model.user_factors, dtype=np.float64), np.asarray(model.item_factors, dtype=np.float64)


def cmfrec_implicit(train: ObservedMatrix, rank: int, alpha: float, ridge: float) -> Factors:
    from cmfrec import CMF_implicit

    model = CMF_implicit(k=rank, lambda_=ridge, alpha=alpha, nthreads=THREADS, verbose=False, random_state=0)
    model.fit(sparse.coo_matrix(train.to_csr()))
    return np.asarray(model.A_, dtype=np.float64), np.asarray(model.B_, dtype=np.float64)


def lenskit_implicit(train: ObservedMatrix, rank: int, alpha: float, ridge: float) -> Factors:
    import pandas as pd
    from lenskit.als import ImplicitMFScorer
    from lenskit.data import from_interactions_df

    users, items = train.rows_of_entries(), train.index
    data = from_interactions_df(pd.DataFrame({"user_id": users, "item_id": items}))
    model = ImplicitMFScorer(embedding_size=rank, weight=alpha, regularization=ridge)
    model.train(data)
    P, Q = np.zeros((train.shape[0], rank)), np.zeros((train.shape[1], rank))
    P[model.users.ids()], Q[model.items.ids()] = np.asarray(model.user_embeddings), np.asarray(model.item_embeddings)
    return P, Q


CG = "implicit ALS, CG"
GRID = list(itertools.product((5.0, 10.0, 20.0), (10.0, 30.0, 100.0, 300.0)))
GRIDS: dict[str, tuple[Callable[..., Factors], list[tuple[float, float]]]] = {
    CG: (partial(implicit_als, cg=True), GRID),
    "cmfrec implicit": (cmfrec_implicit, GRID),
    "LensKit implicit": (lenskit_implicit, list(itertools.product((5.0, 10.0, 20.0), (0.1, 3.0, 30.0, 100.0)))),
}


def timed(f: Callable[[], Any]) -> Any:
    """What f returns, and its wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = f()
    return found, time.perf_counter() - wall, time.process_time() - cpu


def row(
    name: str, rank: int, found: tuple[Factors, float, float], train: Any, test: Any, **more: Any
) -> dict[str, Any]:
    factors, wall, cpu = found
    return {
        "method": name,
        "rank": rank,
        "capped_recall@20": RECALL.score(*factors, train, test),
        "ndcg@100": TUNED_BY.score(*factors, train, test),
        "s": wall,
        "CPU s": cpu,
        **more,
    }


class Trace:
    """CPU seconds and recall after every iteration; the time of the metric is not counted."""

    def __init__(self, train: ObservedMatrix, test: ObservedMatrix) -> None:
        self.parts, self.points, self.spent, self.began = (train, test), list[tuple[float, float]](), 0.0, 0.0

    def setup(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any = None) -> None:
        if fitted_estimator is not None:
            now = time.process_time()
            recall = RECALL.score(fitted_estimator.row_factors_, fitted_estimator.col_factors_, *self.parts)
            self.points.append((now - self.began - self.spent, recall))
            self.spent += time.process_time() - now

    def teardown(self, estimator: Any, context: Any) -> None: ...


def ours(rank: int, train: ObservedMatrix, test: ObservedMatrix, goal: float | None) -> dict[str, Any]:
    """A fit with settings that were found before; CPU seconds until the recall is that of `implicit`'s CG."""
    search, _, cpu = timed(lambda: ImplicitCompletion(rank, random_state=0, n_threads=THREADS).fit(train))
    settings = {"C": search.C_, "alpha0": search.alpha0_, "weighting": search.weighting_}
    model = ImplicitCompletion(rank, **settings, random_state=0, n_threads=THREADS)
    fits = [timed(lambda: model.fit(train)) for _ in range(3)]
    best = min(fits, key=lambda fit: fit[2])
    trace = Trace(train, test)
    traced = ImplicitCompletion(rank, **settings, random_state=0, n_threads=THREADS)
    traced.set_callbacks(trace)
    trace.began = time.process_time()
    traced.fit(train)
    reached = next((seconds for seconds, recall in trace.points if goal is not None and recall >= goal), np.nan)
    return row(
        "rslm",
        rank,
        ((model.row_factors_, model.col_factors_), *best[1:]),
        train,
        test,
        **{"CPU s to the recall of CG": reached, "CPU s of the search": cpu},
        settings=", ".join(f"{k} {v:.3g}" for k, v in settings.items()),
        gap=model.certificate_.relative_gap,
    )


def others(rank: int, train: Any, test: Any) -> list[dict[str, Any]]:
    """The other packages, each at the settings that are best on a part of train; Cholesky after CG."""
    part, validation = holdout_per_user(train, 0.2, np.random.default_rng(VALIDATION))
    rows = list[dict[str, Any]]()

    def add(name: str, fit: Callable[[], Factors], settings: str, repeats: int = 3) -> None:
        best = min((timed(fit) for _ in range(repeats)), key=lambda found: found[2])
        rows.append(row(name, rank, best, train, test, settings=settings))
        print(rows[-1], flush=True)

    for name, (fit, grid) in GRIDS.items():
        try:
            scores = {given: TUNED_BY.score(*fit(part, rank, *given), part, validation) for given in grid}
        except ModuleNotFoundError as missing:
            print(f"{name} is left out: {missing}")
            continue
        best = max(scores, key=lambda given: scores[given])
        settings = f"alpha {best[0]:g}, ridge {best[1]:g}"
        add(name, partial(fit, train, rank, *best), settings)
        if name == CG:
            add("implicit ALS, Cholesky", partial(implicit_als, train, rank, *best, cg=False), settings, repeats=1)
    return rows


def main() -> None:
    words = sys.argv[1:]
    name = words.pop(0) if words and not words[0].isdecimal() else "ml-1m"
    ranks = [int(word) for word in words] or [32, 64, 128]
    train, test = holdout_per_user(clicks(name), 0.2, np.random.default_rng(SPLIT))
    rows = [row("popularity", 1, timed(lambda: popularity(train)), train, test)]
    for rank in ranks:
        rows += others(rank, train, test)
        goal = next(
            (found["capped_recall@20"] for found in rows if (found["method"], found["rank"]) == (CG, rank)), None
        )
        rows.append(ours(rank, train, test, goal))
        print(rows[-1], flush=True)
    report(f"implicit_feedback_{name}", rows)


if __name__ == "__main__":
    main()
