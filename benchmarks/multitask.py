"""Many related regressions: School and Parkinsons as in the paper's figure, others, and a large generated case.

    python benchmarks/multitask.py rank      # test error and duality gap against the rank, ten splits, and a plot
    python benchmarks/multitask.py shared    # targets of the same rows, beside MultiTaskElasticNet
    python benchmarks/multitask.py large     # 10,000 tasks, 500 sparse features, 5 million rows

rank: the error is the mean square over the variance of the held-out targets (NMSE), 75/25 splits within every task.
Convex multi-task feature learning (MTFL) is the method of Argyriou, Evgeniou and Pontil, alternating between W and a
matrix of the features. It is MultiTaskRegressor's problem without the limit on the rank, C being 1 / (2 weight), so
the certificate of a fit of full rank tells how far the alternation is from the optimum; the report says so. C and rank,
and the weights of the others, are chosen by test error in all methods alike, as the paper's figure shows whole curves;
the others have at least as many weights as there are pairs of C and low rank. The intercepts of the tasks are free in
all methods but one, which is ridge of all rows as one task.

shared: MultiTaskElasticNet needs the same rows for all targets, which neither School nor Parkinsons has. So there is a
study of its own, on data that suit neither method by design (the lower half of images of digits from the upper half),
and on two generated sets, each of which suits one of them: coefficients of low rank, and many features that no target
needs. The variance is that of every target about its own mean.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.io
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.linear_model import MultiTaskElasticNet, Ridge

from common import OUT, SHARED, forget_peak, needed, peak_memory, report
from paper.methods.tasks import mtfl
from rslm import MultiTaskRegressor, ReducedRankRegressor
from rslm.certificate import Certificate

Array = NDArray[Any]
Rows = tuple[Array, Array, Array]  # features, targets, tasks
Splits = list[tuple[Rows, Rows]]
SPLITS = 10
LOW = (1, 2, 3, 4, 5, 6)  # ranks at which all C are tried
RANKS = (*LOW, 8, 10, 12, 14, 16, 20, 28)  # at which the two of the paper's figure are
FIGURE = (0.1, 10.0)
TRADES = (0.1, 0.2, 0.5, 1.0, 3.0, 10.0)
WEIGHTS = tuple(float(w) for w in 2.0 ** np.arange(-8.0, 12.5, 0.5))
OURS, MTFL, APART, SAME = "MultiTaskRegressor", "convex MTFL", "ridge, task by task", "ridge, same coefficients"
ONE = "ridge, all as one task"
GAP = 1e-5
TRAIN = 100  # rows, in the study of shared ones
COLOURS = ("#1f3b73", "#3f8fd0", "#2a9d8f", "#8ab92d", "#e8960c", "#c1272d")


@dataclass(frozen=True)
class Point:
    """One method with one setting, on all splits."""

    data: str
    method: str
    setting: dict[str, float]
    errors: list[float]
    seconds: float
    gap: float | None = None  # the largest of all splits

    def row(self) -> dict[str, Any]:
        found = {"data": self.data, "method": self.method, **self.setting}
        found |= {"NMSE": float(np.mean(self.errors)), "±": float(np.std(self.errors))}
        return found | ({} if self.gap is None else {"largest gap": self.gap}) | {"s": self.seconds}


def school() -> Rows:
    file = scipy.io.loadmat(needed(SHARED / "data" / "school" / "school.mat"))
    X = [np.asarray(x, dtype=float) for x in file["X"].ravel()]
    y = [np.asarray(v, dtype=float).ravel() for v in file["Y"].ravel()]
    return np.vstack(X), np.concatenate(y), np.repeat(np.arange(len(y)), [len(v) for v in y])


def parkinsons(first: int) -> Rows:
    """Total UPDRS of 42 patients, all features of one size.

    The paper's 19 are age, sex, the day of the recording and 16 of the voice. The scores were interpolated between
    visits to the clinic, so the day tells most of what a patient's mean leaves open; the voice, `first` = 3, little.
    """
    with needed(SHARED / "data" / "parkinsons" / "parkinsons_updrs.data").open() as file:
        table = np.array([[float(v) for v in row] for row in list(csv.reader(file))[1:]])
    X = np.delete(table, (0, 4, 5), axis=1)[:, first:]
    return (X - X.mean(axis=0)) / X.std(axis=0), table[:, 5], table[:, 0].astype(int) - 1


def split(rows: Rows, seed: int) -> tuple[Rows, Rows]:
    X, y, tasks = rows
    rng, held = np.random.default_rng(seed), np.zeros(len(y), dtype=bool)
    for t in np.unique(tasks):
        of = rng.permutation(np.flatnonzero(tasks == t))
        held[of[3 * len(of) // 4 :]] = True
    return (X[~held], y[~held], tasks[~held]), (X[held], y[held], tasks[held])


def nmse(prediction: Array, y: Array) -> float:
    """Of one column, or of several each of which has its own mean."""
    return float(np.mean((prediction - y) ** 2) / np.mean(np.var(y, axis=0)))


def predict(W: Array, b: Array, rows: Rows) -> Array:
    return np.asarray(np.einsum("nd,nd->n", rows[0], W[rows[2]]) + b[rows[2]])


def centred(train: Rows) -> mtfl.Moments:
    return mtfl.Moments.of(*train, int(train[2].max()) + 1)


def convex_mtfl(train: Rows, weight: float) -> tuple[Array, Array]:
    data = centred(train)
    W = mtfl.fit(data, weight, mtfl.start(train[0].shape[1]), mtfl.COLD, tol=1e-4).W
    return W, data.intercepts(W)


def apart(train: Rows, weight: float) -> tuple[Array, Array]:
    data = centred(train)
    W = np.linalg.solve(data.grams + weight * np.eye(data.grams.shape[1]), data.rights[:, :, None])[:, :, 0]
    return W, data.intercepts(W)


def together(train: Rows, weight: float) -> tuple[Array, Array]:
    """The same coefficients for all tasks, each with its intercept."""
    data = centred(train)
    w = np.linalg.solve(data.grams.sum(axis=0) + weight * np.eye(train[0].shape[1]), data.rights.sum(axis=0))
    W = np.tile(w, (len(data.grams), 1))
    return W, data.intercepts(W)


def one_task(train: Rows, weight: float) -> tuple[Array, Array]:
    model, T = Ridge(weight).fit(train[0], train[1]), int(train[2].max()) + 1
    return np.tile(model.coef_, (T, 1)), np.full(T, model.intercept_)


OTHERS: dict[str, Callable[[Rows, float], tuple[Array, Array]]] = {
    MTFL: convex_mtfl,
    APART: apart,
    SAME: together,
    ONE: one_task,
}


def fit(train: Rows, rank: int, C: float) -> MultiTaskRegressor:
    model = MultiTaskRegressor(rank, C, effects=None, random_state=0)
    model.fit(train[0], train[1], tasks=train[2])
    return model


def certificate_of(model: MultiTaskRegressor) -> Certificate:
    """Of a fit with given settings, which has one."""
    assert model.certificate_ is not None
    return model.certificate_


def ours(data: str, splits: Splits, rank: int, C: float) -> Point:
    began = time.perf_counter()
    models = [fit(train, rank, C) for train, _ in splits]
    seconds = (time.perf_counter() - began) / len(splits)
    errors = [nmse(m.predict(test[0], tasks=test[2]), test[1]) for m, (_, test) in zip(models, splits, strict=True)]
    gap = max(float(certificate_of(m).relative_gap) for m in models)
    return Point(data, OURS, {"C": C, "rank": rank}, errors, seconds, gap)


def other(data: str, splits: Splits, method: str, weight: float) -> Point:
    began = time.perf_counter()
    found = [OTHERS[method](train, weight) for train, _ in splits]
    seconds = (time.perf_counter() - began) / len(splits)
    errors = [nmse(predict(W, b, test), test[1]) for (W, b), (_, test) in zip(found, splits, strict=True)]
    ranks = [np.linalg.matrix_rank(W, 1e-3 * np.linalg.norm(W, 2)) for W, _ in found]  # the alternation leaves no zeros
    return Point(data, method, {"weight": weight, "rank": float(np.mean(ranks))}, errors, seconds)


def excess(train: Rows, C: float) -> float:
    """How far the objective of convex MTFL is above what the certificate says that no W is below, relative to it."""
    W, b = convex_mtfl(train, 0.5 / C)
    squares = float(np.sum((train[1] - predict(W, b, train)) ** 2))
    objective = C * squares + 0.5 * float(np.linalg.norm(W, "nuc")) ** 2
    return objective / float(certificate_of(fit(train, train[0].shape[1], C)).dual) - 1.0


def best(points: Sequence[Point]) -> Point:
    return min(points, key=lambda p: float(np.mean(p.errors)))


def summary(points: Sequence[Point], reference: str) -> list[dict[str, Any]]:
    """The best setting of every method, and its difference to that of the reference, split by split."""
    rows = []
    for data in dict.fromkeys(p.data for p in points):
        of = [p for p in points if p.data == data]
        against = best([p for p in of if p.method == reference])
        for method in dict.fromkeys(p.method for p in of):
            found = best(tried := [p for p in of if p.method == method])
            more = np.subtract(found.errors, against.errors)
            versus = {"difference": float(more.mean()), "± of it": float(more.std()), "lower in": int(sum(more < 0))}
            rows.append(found.row() | {"settings": len(tried)} | versus)
    return rows


def rank() -> None:
    sets = {"School": school(), "Parkinsons": parkinsons(0), "Parkinsons, voice only": parkinsons(3)}
    points: list[Point] = []
    above: dict[str, float] = {}
    for name, data in sets.items():
        splits, d = [split(data, seed) for seed in range(SPLITS)], data[0].shape[1]
        for C in TRADES:
            points += [ours(name, splits, r, C) for r in sorted({min(r, d) for r in (RANKS if C in FIGURE else LOW)})]
            print(points[-1].row(), flush=True)
        for method in OTHERS:
            points += [other(name, splits, method, weight) for weight in WEIGHTS]
            print(best(points[-len(WEIGHTS) :]).row(), flush=True)
        above |= {f"{name}, C {C:g}": excess(splits[0][0], C) for C in FIGURE}
    publish(points, list(sets), above)


def publish(points: Sequence[Point], names: Sequence[str], above: dict[str, float]) -> None:
    """The curves over rank and weight, the best of every method, and the plot."""
    report("multitask-rank", [p.row() for p in points if p.method in (OURS, MTFL)], splits=SPLITS)
    low = [p for p in points if p.method != OURS or p.setting["rank"] <= max(LOW)]
    reached = {
        f"{name}, C {C:g}": first_below([p for p in points if p.data == name and p.setting.get("C") == C])
        for name in names
        for C in FIGURE
    }
    facts = {f"rank from which all gaps are below {GAP:g}": reached, "convex MTFL above its optimum by": above}
    report("multitask-best", summary(low, MTFL), splits=SPLITS, **facts)
    plot(points, names)


def first_below(curve: Sequence[Point]) -> float | None:
    """The rank from which on the gaps of all splits are small."""
    wide = [k for k, p in enumerate(curve) if p.gap is None or p.gap > GAP]
    after = wide[-1] + 1 if wide else 0
    return curve[after].setting["rank"] if after < len(curve) else None


def window(points: Sequence[Point]) -> tuple[float, float]:
    """From just below the least error up to what leaves the low ones told apart."""
    means = [float(np.mean(p.errors)) for p in points if p.method == OURS]
    least, spread = min(means), max(means) - min(means)
    return least - 0.15 * spread, max(means) + 0.15 * spread


def draw_errors(axis: Any, points: Sequence[Point]) -> None:
    """Curves over the rank; of convex MTFL over its weight, at the rank that it had; lines for the others' best."""
    low, high = window(points)
    title = []
    for C, colour in zip(TRADES, COLOURS, strict=True):
        curve = [p for p in points if p.method == OURS and p.setting["C"] == C]
        axis.plot(*against_rank(curve), "o-", ms=3.5, lw=1.4, color=colour, label=f"{OURS}, C = {C:g}")
    path = [p for p in points if p.method == MTFL]
    axis.plot(*against_rank(path), "x--", ms=4, lw=1.0, color="black", label=f"{MTFL}, all weights, at the rank found")
    for method, limit in ((OURS, max(LOW)), (MTFL, np.inf)):
        found = best([p for p in points if p.method == method and p.setting["rank"] <= limit])
        (x,), (y,) = against_rank([found])
        axis.plot(x, y, "o", ms=11, mfc="none", color="black", label="best of each" if method == MTFL else None)
        title.append(f"{method} {y:.4g} ± {np.std(found.errors):.2g} (rank {x:g})")
    beyond = []
    for method, style in ((APART, "--"), (SAME, ":"), (ONE, "-.")):
        least = float(np.mean(best([p for p in points if p.method == method]).errors))
        axis.axhline(least, color="dimgrey", ls=style, lw=1.2, label=f"{method}, best weight")
        beyond += [f"{method} {least:.2g}"] if least > high else []
    axis.set_ylim(low, high)
    axis.set_title(", ".join(title) + ("\nbeyond the top: " + ", ".join(beyond) if beyond else ""), fontsize=8)


def draw_gaps(axis: Any, points: Sequence[Point]) -> None:
    for C, colour in zip(TRADES, COLOURS, strict=True):
        curve = [p for p in points if p.method == OURS and p.setting["C"] == C]
        axis.plot(against_rank(curve)[0], [p.gap for p in curve], "o-", ms=3.5, lw=1.4, color=colour)
    axis.axhline(GAP, color="black", ls="--", lw=1)
    axis.text(1.0, 1.4 * GAP, f"{GAP:g}", fontsize=8)
    axis.set_yscale("log")


def against_rank(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [p.setting["rank"] for p in points], [float(np.mean(p.errors)) for p in points]


def plot(points: Sequence[Point], names: Sequence[str]) -> None:
    """For every data set, test error and relative gap against the rank."""
    try:
        import matplotlib as mpl  # type: ignore[import-not-found, unused-ignore]
        from matplotlib import pyplot as plt  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    mpl.use("Agg")
    figure, axes = plt.subplots(len(names), 2, figsize=(11, 3.4 * len(names)), layout="constrained", squeeze=False)
    for (left, right), name in zip(axes, names, strict=True):
        of = [p for p in points if p.data == name]
        draw_errors(left, of)
        draw_gaps(right, of)
        widest = int(max(p.setting["rank"] for p in of))
        for axis in (left, right):
            axis.set_xscale("log")
            axis.set_xticks([r for r in (1, 2, 3, 5, 10, 20) if r < 0.9 * widest] + [widest])
            axis.minorticks_off()
            axis.xaxis.set_major_formatter(mpl.ticker.ScalarFormatter())
            axis.set_xlabel("rank")
        left.set_ylabel(f"{name}\ntest NMSE")
        right.set_ylabel("largest relative gap of the splits")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    OUT.mkdir(parents=True, exist_ok=True)
    figure.savefig(OUT / "multitask-rank.png", dpi=130)
    plt.close(figure)
    print(f"written to {OUT / 'multitask-rank.png'}")


def digits() -> tuple[Array, Array]:
    """The lower half of images of 8 x 8 pixels, and the upper half to tell it from."""
    pixels = load_digits().data / 6.0  # about their standard deviation
    return pixels[:, :32], pixels[:, 32:]


def generated(W: Array, seed: int) -> tuple[Array, Array]:
    """As much noise as signal."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((2000, W.shape[0]))
    Y = X @ W
    return X, Y / Y.std() + rng.standard_normal(Y.shape)


def shared() -> None:
    rng = np.random.default_rng(0)
    low_rank = rng.standard_normal((50, 3)) @ rng.standard_normal((3, 30))
    few_features = np.vstack([rng.standard_normal((15, 30)), np.zeros((35, 30))])
    sets = {"digits": digits(), "low rank": generated(low_rank, 1), "few features": generated(few_features, 2)}
    methods: dict[str, list[tuple[dict[str, float], Any]]] = {
        "ReducedRankRegressor": [
            ({"C": C, "rank": r}, ReducedRankRegressor(r, C, random_state=0))
            for C in (float(c) for c in 2.0 ** np.arange(-7, 4))
            for r in (1, 2, 3, 4, 6, 8, 12, 16, 32)
        ],
        "MultiTaskElasticNet": [
            ({"weight": a, "share of l1": share}, MultiTaskElasticNet(a, l1_ratio=share, max_iter=10_000))
            for a in (float(a) for a in 2.0 ** np.arange(-8.0, 4.5, 0.5))
            for share in (0.05, 0.5, 0.9, 1.0)
        ],
        "Ridge": [({"weight": a}, Ridge(a)) for a in (float(a) for a in 2.0 ** np.arange(-8.0, 12.5, 0.5))],
    }
    points = []
    for name, (X, Y) in sets.items():
        orders = [np.random.default_rng(seed).permutation(len(X)) for seed in range(SPLITS)]
        for method, settings in methods.items():
            for setting, model in settings:
                began = time.perf_counter()
                errors = [
                    nmse(model.fit(X[p[:TRAIN]], Y[p[:TRAIN]]).predict(X[p[TRAIN:]]), Y[p[TRAIN:]]) for p in orders
                ]
                points.append(Point(name, method, setting, errors, (time.perf_counter() - began) / SPLITS))
            print(best(points[-len(settings) :]).row(), flush=True)
    report("multitask-shared", summary(points, "MultiTaskElasticNet"), splits=SPLITS, rows_to_learn_from=TRAIN)


def large() -> None:
    """The time of a whole fit beside that of one product X U and one Xᵀ G for every evaluation and Hessian product."""
    rng = np.random.default_rng(0)
    tasks_, rows_, d, r, stored = 10_000, 5_000_000, 500, 10, 10
    index = rng.integers(0, d, (rows_, stored), dtype=np.int32)
    values = rng.standard_normal((rows_, stored))
    X = sparse.csr_array((values.ravel(), index.ravel(), np.arange(0, rows_ * stored + 1, stored)), shape=(rows_, d))
    tasks = np.sort(rng.integers(0, tasks_, rows_))
    U, V = rng.standard_normal((d, r)) / np.sqrt(d), rng.standard_normal((tasks_, r))
    y = np.einsum("nk,nk->n", X @ U, V[tasks]) + 0.3 * rng.standard_normal(rows_)
    product = min(_pair_of_products(X, U) for _ in range(3))
    table = []
    for threads in (1, None):
        forget_peak()
        before, began = peak_memory(), time.perf_counter()
        model = MultiTaskRegressor(
            r, 1e3, effects=None, fit_intercept=False, random_state=0, tol=1e-3, n_threads=threads
        )
        model.fit(X, y, tasks=tasks)
        seconds, memory = time.perf_counter() - began, (peak_memory() - before) / 1e6
        pairs = float(model.history_["evaluations"][-1] + model.history_["hessian_products"][-1])
        row = {"threads": threads or "all", "s": seconds, "MB": memory, "outcome": model.outcome_}
        row |= {"pairs of products": pairs, "s of these": pairs * product, "× these": seconds / (pairs * product)}
        error = np.linalg.norm(model.coef_ - V @ U.T) / np.linalg.norm(V @ U.T)
        table.append(row | {"relative error of W": float(error)})
    report("multitask-large", table, **{"MB of X": (X.data.nbytes + X.indices.nbytes) / 1e6})


def _pair_of_products(X: Any, U: Array) -> float:
    """Seconds of X U and Xᵀ G by SciPy, on one thread: the least that an evaluation or a Hessian product takes so."""
    began = time.perf_counter()
    X.T @ (X @ U)
    return time.perf_counter() - began


if __name__ == "__main__":
    studies = {"rank": rank, "shared": shared, "large": large}
    for study in sys.argv[1:] or list(studies):
        studies[study]()
