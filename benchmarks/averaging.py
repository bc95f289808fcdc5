"""Posterior averaging: RMSE against CPU seconds on MovieLens-1M (80/20, seeds 0 to 2) and MovieLens-100K (u1 to u5).

    python benchmarks/averaging.py [1m] [100k]

All at rank 10, and MovieLens-1M at rank 32 too. `fit` is MatrixCompletion(rank), with everything else automatic or with
the settings GIVEN. `average` is the same followed by 200 draws, with the errors of the means of fewer of them; every
draw costs the same, so CPU seconds are a share of those of all. myFM has one-hot users and items in two groups and 200
iterations, and leaves out the first 10 where there are more; its curve is of one run, without the CPU seconds of the
predictions. It runs where it is installed. CPU seconds are those of all threads. "within 90 %" is the part of the test
ratings within 1.645 √(spread² + noise²), "intervals" the part that 90 % intervals cover. Nothing was tuned on the test
parts: burn-in and the kind of the priors were chosen by a tenth of the training part of seed 0 of MovieLens-1M.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from scipy import sparse

from common import SHARED, needed, report
from rslm import MatrixCompletion

DRAWS, BURNT = 200, 10
SHOWN = (10, 20, 50, 100, 200)
GIVEN = {"C": 100.0, "weighting": 0.5, "tol": 1e-3}  # a round number near those that are found on MovieLens-1M
Triplets = tuple[Any, Any, Any]  # rows, columns, values


def movielens_1m(seed: int) -> tuple[tuple[int, int], Triplets, Triplets]:
    file = np.load(needed(SHARED / "data" / "ml-1m" / "ml-1m.npz"))
    order = np.random.default_rng(seed).permutation(1_000_209)
    table = [file[name].astype(np.int64) for name in ("col", "row", "value")]
    cut = int(0.8 * len(order))
    train, test = (tuple(a[part] for a in table) for part in (order[:cut], order[cut:]))
    return (6040, 3706), train, test


def movielens_100k(fold: int) -> tuple[tuple[int, int], Triplets, Triplets]:
    folder = SHARED / "data" / "ml-100k"
    table = np.loadtxt(needed(folder / "u.data"), dtype=np.int64)
    test = np.loadtxt(needed(folder / f"u{fold + 1}.test"), dtype=np.int64)
    pairs, held = (t[:, 0] * 10_000 + t[:, 1] for t in (table, test))
    kept = table[~np.isin(pairs, held)]
    train, held_out = ((t[:, 0] - 1, t[:, 1] - 1, t[:, 2]) for t in (kept, test))
    return (943, 1682), train, held_out


def rmse(prediction: Any, test: Triplets) -> float:
    return float(np.sqrt(np.mean((prediction - test[2]) ** 2)))


def ours(
    shape: tuple[int, int], train: Triplets, test: Triplets, rank: int, given: dict[str, Any]
) -> list[dict[str, Any]]:
    X = sparse.csr_array(sparse.coo_array((train[2].astype(float), train[:2]), shape=shape))
    mark = ", given C" if given else ""
    began = time.process_time()
    fitted = MatrixCompletion(rank, random_state=0, **given).fit(X)
    alone = time.process_time() - began
    rows = [{"method": "fit" + mark, "RMSE": rmse(fitted.predict(*test[:2]), test), "CPU s": alone}]
    began = time.process_time()
    model = MatrixCompletion(rank, average=DRAWS, random_state=0, **given).fit(X)
    drawing = time.process_time() - began - alone
    total, width = np.zeros(len(test[2])), model.row_factors_.shape[1] // DRAWS
    draws = model._draws
    for s in range(DRAWS):
        at = slice(s * width, (s + 1) * width)
        left, right = model.row_factors_[:, at], model.col_factors_[:, at]
        total += DRAWS * np.einsum("ij,ij->i", left[test[0]], right[test[1]])
        total += draws.row_effects[s, test[0]] + draws.col_effects[s, test[1]]
        if s + 1 in SHOWN:
            seconds = alone + (s + 1) / DRAWS * drawing
            rows.append({"method": f"average {s + 1}{mark}", "RMSE": rmse(total / (s + 1), test), "CPU s": seconds})
    spread = np.sqrt(model.predict_spread(*test[:2]) ** 2 + model.noise_**2)
    inside = float(np.mean(np.abs(model.predict(*test[:2]) - test[2]) < 1.645 * spread))
    lower, upper = model.predict_interval(*test[:2], 0.9)
    covered = float(np.mean((lower <= test[2]) & (test[2] <= upper)))
    rows[-1] |= {"within 90 %": inside, "intervals": covered}
    return rows


def of_myfm(shape: tuple[int, int], train: Triplets, test: Triplets, rank: int) -> list[dict[str, Any]]:
    try:
        import myfm
    except ImportError:
        return []

    def one_hot(t: Triplets) -> Any:
        index = np.column_stack([t[0], shape[0] + t[1]]).ravel()
        n = len(t[0])
        return sparse.csr_matrix((np.ones(2 * n), index, np.arange(0, 2 * n + 1, 2)), shape=(n, sum(shape)))

    rows: list[dict[str, Any]] = []
    X, held = one_hot(train), one_hot(test)
    total, early, spent = np.zeros(len(test[2])), np.zeros(len(test[2])), 0.0
    began = time.process_time()

    def scored(i: int, fm: Any, hyper: Any, history: Any) -> tuple[bool, None]:
        nonlocal spent
        entered = time.process_time()
        prediction = fm.predict_score(held, [])
        (early if i < BURNT else total).__iadd__(prediction)
        if i + 1 in SHOWN:
            mean = early / (i + 1) if i < BURNT else total / (i + 1 - BURNT)
            rows.append({"method": f"myFM {i + 1}", "RMSE": rmse(mean, test), "CPU s": entered - began - spent})
        spent += time.process_time() - entered
        return False, None

    model = myfm.MyFMRegressor(rank=rank, random_seed=0)
    model.fit(X, train[2].astype(float), n_iter=DRAWS, n_kept_samples=1, group_shapes=list(shape), callback=scored)
    return rows


def compared(name: str, data: Any, parts: range, ranks: tuple[int, ...]) -> list[dict[str, Any]]:
    rows = []
    for part in parts:
        shape, train, test = data(part)
        for rank in ranks:
            of_part = ours(shape, train, test, rank, {}) + ours(shape, train, test, rank, GIVEN)
            of_part += of_myfm(shape, train, test, rank) if rank == ranks[0] else []
            rows += [{"data": f"{name} {part}", "rank": rank} | row for row in of_part]
            for row in rows[-len(of_part) :]:
                print(row, flush=True)
    return rows


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["1m", "100k"]
    rows = compared("ML-100K u", movielens_100k, range(5), (10,)) if "100k" in wanted else []
    rows += compared("ML-1M seed", movielens_1m, range(3), (10, 32)) if "1m" in wanted else []
    report("averaging", rows)
