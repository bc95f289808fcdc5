"""Implicit feedback: MovieLens-1M, ratings of 4 and 5 as ones, a fifth of the items of every user held out.

    python benchmarks/implicit_feedback.py [32 64 128]      ranks
    python benchmarks/implicit_feedback.py ml-100k 32       the smaller data set
    python benchmarks/implicit_feedback.py last 32          the same, with the last item of every user held out
    python benchmarks/implicit_feedback.py ranking          seconds to rank all items for all users, on 1 and 2 threads
    python benchmarks/implicit_feedback.py certificate      the gap where the limit on the rank does not bind

Settings of all methods are tuned by ndcg@100 on a fifth of the items of every user of the training part. `implicit`'s
Cholesky variant has the settings of its CG variant. All methods use two threads. Packages that are not installed are
left out. The time to the recall of `implicit`'s CG is that of a whole fit of ours with as few iterations as have it.

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
from rslm.evaluate import holdout_last, holdout_per_user, rank_factors

THREADS = 2
SPLIT, VALIDATION = 20260, 1  # seeds
ENOUGH = 10.0  # CPU seconds after which a measurement is not repeated
MOST_STEPS = 20  # iterations within which the recall of another method has to be reached
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
    assert model.users is not None
    assert model.items is not None
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


def best_of(f: Callable[[], Any]) -> Any:
    """`timed`, the best of three in CPU seconds, or of fewer where they take long."""
    runs = [timed(f)]
    while len(runs) < 3 and sum(run[2] for run in runs) < ENOUGH:
        runs.append(timed(f))
    return min(runs, key=lambda run: run[2])


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


def until(goal: float, fit: Callable[..., Any], train: ObservedMatrix, test: ObservedMatrix) -> float:
    """CPU seconds of the fit with the fewest iterations whose recall is the goal; all that `fit` does counts."""
    for steps in range(MOST_STEPS):
        model, _, cpu = best_of(partial(fit, max_iter=steps))
        if RECALL.score(model.row_factors_, model.col_factors_, train, test) >= goal:
            return float(cpu)
    return np.nan


def ours(rank: int, train: ObservedMatrix, test: ObservedMatrix, goal: float | None) -> dict[str, Any]:
    """A fit with settings that were found before; CPU seconds until the recall is that of `implicit`'s CG."""
    search, _, cpu = timed(lambda: ImplicitCompletion(rank, random_state=0, n_threads=THREADS).fit(train))
    settings = {"C": search.C_, "alpha0": search.alpha0_, "weighting": search.weighting_}

    def fit(**limits: Any) -> Any:
        return ImplicitCompletion(rank, **settings, random_state=0, n_threads=THREADS, **limits).fit(train)

    model, *times = best_of(fit)
    return row(
        "rslm",
        rank,
        ((model.row_factors_, model.col_factors_), *times),
        train,
        test,
        **{
            "CPU s to the recall of CG": np.nan if goal is None else until(goal, fit, train, test),
            "CPU s of the search": cpu,
        },
        settings=", ".join(f"{k} {v:.3g}" for k, v in settings.items()),
        gap=model.certificate_.relative_gap,
    )


def others(rank: int, train: Any, test: Any) -> list[dict[str, Any]]:
    """The other packages, each at the settings that are best on a part of train; Cholesky after CG."""
    part, validation = holdout_per_user(train, 0.2, np.random.default_rng(VALIDATION))
    rows = list[dict[str, Any]]()

    def add(name: str, fit: Callable[[], Factors], settings: str) -> None:
        rows.append(row(name, rank, best_of(fit), train, test, settings=settings))
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
            add("implicit ALS, Cholesky", partial(implicit_als, train, rank, *best, cg=False), settings)
    return rows


def full_ranking(train: ObservedMatrix, rank: int = 64, k: int = 100) -> list[dict[str, Any]]:
    """The k best items of every user among all that the user does not have, from factors of this rank."""
    rng = np.random.default_rng(0)
    users, items = (rng.standard_normal((n, rank)) for n in train.shape)
    rows = list[dict[str, Any]]()
    for threads in (1, 2):
        rank_all = partial(rank_factors, users, items, k, known=train, n_threads=threads)
        runs = [timed(rank_all) for _ in range(5)]
        rows.append(
            {"threads": threads, "s": min(run[1] for run in runs), "CPU s": min(run[2] for run in runs), "rank": rank}
        )
    return rows


def certificates(data: ObservedMatrix) -> list[dict[str, Any]]:
    """Fits with a C so small that the limit on the rank does not bind, and with "auto" for the rank."""
    rows = list[dict[str, Any]]()
    limits: tuple[int | str, ...] = (64, "auto")
    for rank, C in itertools.product(limits, (10.0, 20.0, 30.0)):
        fit = partial(ImplicitCompletion(rank, C, 0.2, 0.5, tol=1e-6, random_state=0, n_threads=THREADS).fit, data)
        model, wall, cpu = timed(fit)
        rows.append(
            {
                "limit": rank if model.path_ is None else f"auto, up to {model.path_['rank'].max():g}",
                "C": C,
                "rank": model.rank_,
                "relative gap": model.certificate_.relative_gap,
                "outcome": model.outcome_,
                "s": wall,
                "CPU s": cpu,
            }
        )
    return rows


def last_of_every_user() -> tuple[ObservedMatrix, ObservedMatrix]:
    """MovieLens-100K with the last item of every user held out; MovieLens-1M is stored without times here."""
    users, items, stars, times = np.loadtxt(needed(SHARED / "data" / "ml-100k" / "u.data")).T
    liked = stars >= 4
    i, j = (np.unique(side[liked], return_inverse=True)[1] for side in (users, items))
    data = ObservedMatrix.from_triplets(i, j, np.ones(len(i)))
    return holdout_last(data, ObservedMatrix.from_triplets(i, j, times[liked]))


def comparison(name: str, ranks: list[int]) -> list[dict[str, Any]]:
    """All methods at these ranks."""
    if name == "last":
        train, test = last_of_every_user()
    else:
        train, test = holdout_per_user(clicks(name), 0.2, np.random.default_rng(SPLIT))
    rows = [row("popularity", 1, timed(lambda: popularity(train)), train, test)]
    for rank in ranks:
        rows += others(rank, train, test)
        goal = next((r["capped_recall@20"] for r in rows if (r["method"], r["rank"]) == (CG, rank)), None)
        rows.append(ours(rank, train, test, goal))
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    words = sys.argv[1:]
    name = words.pop(0) if words and not words[0].isdecimal() else "ml-1m"
    if name == "ranking":
        rows = full_ranking(clicks("ml-1m"))
    elif name == "certificate":
        rows = certificates(clicks("ml-100k"))
    else:
        rows = comparison(name, [int(word) for word in words] or [32, 64, 128])
    report(f"implicit_feedback_{name}", rows)


if __name__ == "__main__":
    main()
