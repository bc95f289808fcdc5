"""Wide windows: CPU seconds of one solve at a given order, from Kung's poles and with C from the noise.

    python benchmarks/series/windows.py paper    # D1, D2, D3 at ranks 5, 10, 20, each in a fresh process
    python benchmarks/series/windows.py long     # 100,000 samples, window 300
    python benchmarks/series/windows.py widths   # one series, windows from 100 to 1,600
    python benchmarks/series/windows.py steps    # of conjugate gradients with two preconditioners, at the last δ

`MB` is the peak of the process, imports included (about 110 MB).
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import peak_memory, report
from hankel_baselines import Array, htls, random_system, separated_system
from rslm import Problem, solve
from rslm.continuation.smoothing import first_and_last
from rslm.inner.linear.deflated import Deflated
from rslm.inner.linear.systems import Theta, penalty_product
from rslm.linalg.conjugate_gradients import conjugate_gradients
from rslm.losses import Square
from rslm.measurements import Samples
from rslm.runtime.types import Floats
from rslm.structures import Hankel

NOISE = 0.05
PULL = 0.05  # error due to the trace norm, relative to that due to noise, as in HankelModel
SETS = {"D1": (5, 100, 100), "D2": (10, 100, 1000), "D3": (20, 1000, 10000)}  # order, d, T
RANKS = (5, 10, 20)
SEED = 7
TOL = 1e-3  # as in HankelModel


def series(order: int, n: int, make: Any = random_system) -> Array:
    rng = np.random.default_rng(SEED)
    y = make(order, n, rng) + NOISE * rng.standard_normal(n)
    return np.asarray(y)


def setting(y: Array, window: int, rank: int) -> tuple[Problem, Array]:
    """The problem with C as HankelModel chooses it, and the start: windows of the exponentials of Kung's method."""
    structure, scale = Hankel(window, len(y) - window + 1), float(np.sqrt(np.mean(y**2)))
    y = y / scale
    signal = htls(y, window, rank)
    X = np.random.default_rng(0).standard_normal((window, rank))
    for _ in range(3):  # the Hankel matrix of the signal has rank `rank`: subspace iteration ends at once
        Q = np.linalg.qr(structure.transposed_times(signal, np.linalg.qr(X)[0]))[0]
        X = np.asarray(structure.times(signal, Q), dtype=np.float64)
    left, s, _ = np.linalg.svd(X, full_matrices=False)
    right = structure.transposed_times(signal, left) / np.maximum(s, 1e-12 * s[0])
    pull = float(s.sum()) * float(np.linalg.norm(structure.adjoint(left, right)))
    C = pull / (2.0 * PULL * NOISE / scale * np.sqrt(2.0 * rank))
    start = left * np.sqrt(np.maximum(s, 1e-6 * s[0]))
    return Problem(Square(), Samples(y), structure, C=C), start


def one(name: str, y: Array, window: int, rank: int) -> dict[str, Any]:
    problem, start = setting(y, window, rank)
    began, wall = time.process_time(), time.perf_counter()
    result = solve(problem, rank, start=start, tol=TOL, random_state=0)
    row: dict[str, Any] = {"series": name, "n": len(y), "window": window, "rank": rank}
    row |= {"CPU s": time.process_time() - began, "wall s": time.perf_counter() - wall, "MB": peak_memory() / 1e6}
    row |= {"iterations": result.n_iter, "Hessian products": int(result.history["hessian_products"][-1])}
    row |= {"objective": f"{result.history['objective'][-1]:.12g}", "outcome": result.outcome.value}
    print(row, flush=True)
    return row


def fresh(*arguments: Any) -> dict[str, Any]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(one, *arguments).result()


def paper() -> None:
    rows = []
    for name, (order, d, T) in SETS.items():
        rows += [fresh(name, series(order, d + T - 1), d, rank) for rank in RANKS]
    report("series-windows-paper", rows)


def long() -> None:
    report("series-windows-long", [fresh("separated", series(10, 100_000, separated_system), 300, 10)])


def widths() -> None:
    y = series(6, 4000, separated_system)
    report("series-windows-widths", [fresh("separated", y, w, 6) for w in (100, 200, 201, 400, 800, 1600)])


def steps() -> None:
    rows = []
    for name, (order, d, T) in SETS.items():
        for rank in RANKS:
            problem, start = setting(series(order, d + T - 1), d, rank)
            structure, of_loss = Hankel(d, T), np.full(d + T - 1, 2.0 * problem.C)
            theta = Theta(start / np.linalg.norm(start), first_and_last(problem)[1])
            penalty, deflated = penalty_product(structure, theta), Deflated(structure, of_loss, theta)
            diagonal = of_loss + structure.counts * theta.average
            row: dict[str, Any] = {"set": name, "rank": rank}
            for label, precondition in (("deflated", deflated), ("diagonal", lambda x, by=diagonal: x / by)):
                count = 0

                def product(x: Floats, of_loss: Floats = of_loss, penalty: Any = penalty) -> Floats:
                    nonlocal count
                    count += 1
                    return np.asarray(of_loss * x + penalty(x))

                b = 2.0 * problem.C * np.asarray(problem.data.values)
                conjugate_gradients(product, b, precondition, tol=1e-8, most=2000)
                row[label] = count
            rows.append(row)
    report("series-windows-steps", rows)


if __name__ == "__main__":
    studies = {"paper": paper, "long": long, "widths": widths, "steps": steps}
    for study in sys.argv[1:] or list(studies):
        studies[study]()
