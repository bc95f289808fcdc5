"""Systems with inputs: simulation fit on held-out halves beside N4SID (nfoursid), the order found, and CPU seconds.

    python benchmarks/series/systems.py                              # generated systems of order 2 to 8
    python benchmarks/series/systems.py FILE --input u --output y    # a record of your own: a CSV file with a header

The model is identified from the first half, and simulated over the whole record; the fit, 1 − |y − ŷ| / |y − mean|, is
that of the second half. N4SID is given the true order, and in other columns ("chosen") the order from 1 to 10 that fits
the first half best. In both, its number of block rows is the one of 10, 20 and 30 that fits the first half best. For
generated systems y is the output without noise, in the second half, and the fits are medians and lower deciles over the
systems. Noise is relative to the output; it is white, or autoregressive of order 1 or 2. Several inputs or outputs in a
file are separated by commas.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import report
from rslm.estimators.series.systems import System, identify, simulate
from rslm.estimators.series.systems.given import checked_inputs

Array = NDArray[np.floating[Any]]

ORDERS = range(2, 9)
SYSTEMS = 3  # of every order, in every row of the table
SAMPLES = 1000  # half of them held out
BURN = 500  # before the record begins
NOISES = (0.05, 0.2, 0.5)
BLOCK_ROWS = (10, 20, 30)
CHOSEN = range(1, 11)
SEED = 70_000


# ---- generated systems -----------------------------------------------------------------------------------------------


def modal_system(rng: np.random.Generator, order: int) -> System:
    """Modes with random poles, each with an impulse response of size 0.5 … 1.5."""
    A, B, C = np.zeros((order, order)), rng.standard_normal((order, 1)), np.ones((1, order))
    k = 0
    while k < order:
        width = 2 if k + 1 < order and rng.random() < 0.75 else 1
        if width == 2:
            r, w = rng.uniform(0.6, 0.97), rng.uniform(0.05, 2.8)
            A[k : k + 2, k : k + 2] = r * np.array([[np.cos(w), np.sin(w)], [-np.sin(w), np.cos(w)]])
        else:
            A[k, k] = rng.uniform(-0.5, 0.95)
        mode = slice(k, k + width)
        own = System(A[mode, mode], B[mode], C[:, mode], *(np.zeros(s) for s in ((1, 1), width, 1, 1, (1, 0))))
        B[mode] *= rng.uniform(0.5, 1.5) / np.linalg.norm(own.impulse_response(500))
        k += width
    return System(A, B, C, *(np.zeros(s) for s in ((1, 1), order, 1, 1, (1, 0))))


def filtered_noise(rng: np.random.Generator, n: int) -> Array:
    return np.asarray(lfilter([1.0], [1.0, -0.8], rng.standard_normal(n)))


def multi_sine(rng: np.random.Generator, n: int) -> Array:
    frequencies, phases = rng.uniform(0.003, 0.48, 30), rng.uniform(0, 2 * np.pi, 30)
    return np.asarray(np.cos(2 * np.pi * np.outer(np.arange(n), frequencies) + phases).sum(axis=1))


INPUTS: dict[str, Callable[[np.random.Generator, int], Array]] = {"AR(1)": filtered_noise, "multi-sine": multi_sine}
COLOURS = {"white": ([1.0],), "coloured": ([1.0, -0.9], [1.0, -1.5, 0.8])}


# ---- methods ---------------------------------------------------------------------------------------------------------


def fit_of(Y: Array, simulated: Array) -> float:
    known = ~np.isnan(Y)
    about_mean = Y - np.nanmean(Y, axis=1, keepdims=True)
    return float(1 - np.linalg.norm((Y - simulated)[known]) / np.linalg.norm(about_mean[known]))


def ours(Y: Array, U: Array) -> tuple[Array, int]:
    """The simulated outputs, of the whole record, and the order; identified from the first half."""
    half = Y.shape[1] // 2
    system = identify(Y[:, :half], U[:, :half])
    return simulate(system, U, system.x0), system.order


def n4sid(Y: Array, U: Array, orders: range) -> tuple[Array, int]:
    """The same by N4SID, about the means of the first half; order and block rows fit the first half best."""
    import pandas as pd
    from nfoursid.nfoursid import NFourSID

    half = Y.shape[1] // 2
    y_mean, u_mean = Y[:, :half].mean(axis=1, keepdims=True), U[:, :half].mean(axis=1, keepdims=True)
    outputs, inputs = [f"y{k}" for k in range(len(Y))], [f"u{k}" for k in range(len(U))]
    frame = pd.DataFrame(np.concatenate([Y - y_mean, U - u_mean])[:, :half].T, columns=outputs + inputs)
    best, least, order_found = np.zeros_like(Y), -np.inf, 0
    for rows in BLOCK_ROWS:
        method = NFourSID(frame, outputs, inputs, num_block_rows=rows)
        method.subspace_identification()
        for order in orders:
            model, _ = method.system_identification(order)
            rest = np.zeros(order), y_mean[:, 0], np.zeros(len(Y)), np.zeros((len(Y), 0))
            try:
                simulated = simulate(System(model.a, model.b, model.c, model.d, *rest), U - u_mean)
            except ValueError:  # it overflows
                continue
            if (fit := fit_of(Y[:, :half], simulated[:, :half])) > least:
                best, least, order_found = simulated, fit, order
    return best, order_found


def timed(method: Callable[[], tuple[Array, int]]) -> tuple[Array, int, float]:
    begun = time.process_time()
    simulated, order = method()
    return simulated, order, time.process_time() - begun


# ---- studies ---------------------------------------------------------------------------------------------------------


def generated() -> None:
    rows = []
    for name, make in INPUTS.items():
        for colour, filters in COLOURS.items():
            for noise in NOISES:
                rows.append({"input": name, "noise": colour, "size": noise} | cell(make, filters, noise))
                print(rows[-1], flush=True)
    report("systems", rows)


def cell(make: Callable[[np.random.Generator, int], Array], filters: Any, noise: float) -> dict[str, Any]:
    """All systems with one kind of input and noise; the same systems in every cell."""
    half, found = SAMPLES // 2, []
    for k, order in enumerate(np.repeat(ORDERS, SYSTEMS)):
        rng = np.random.default_rng(SEED + k)
        system = modal_system(rng, int(order))
        U = make(rng, BURN + SAMPLES)[None]
        clean = simulate(system, U)[:, BURN:]
        v = lfilter([1.0], filters[k % len(filters)], rng.standard_normal((1, BURN + SAMPLES)))[:, BURN:]
        Y, U = clean + noise * clean.std() * v / v.std(), U[:, BURN:]
        truth = range(int(order), int(order) + 1)
        answers = [timed(lambda Y=Y, U=U: ours(Y, U))]  # type: ignore[misc]
        answers += [timed(lambda Y=Y, U=U, o=o: n4sid(Y, U, o)) for o in (truth, CHOSEN)]  # type: ignore[misc]
        fits = [fit_of(clean[:, half:], a[0][:, half:]) for a in answers]
        found.append([*fits, answers[0][1] - order, answers[2][1] - order, *(a[2] for a in answers)])
    F = np.array(found, dtype=float)
    row: dict[str, Any] = {}
    for k, name in enumerate(("ours", "N4SID, true order", "N4SID, chosen")):
        row |= {name: float(np.median(F[:, k])), f"{name}: decile": float(np.quantile(F[:, k], 0.1))}
    row |= {"at least N4SID's": float(np.mean(F[:, 0] >= F[:, 1:3].max(axis=1)))}
    row |= {"order found": float(np.mean(F[:, 3] == 0)), "too high": float(np.mean(F[:, 3] > 0))}
    row |= {"N4SID's found": float(np.mean(F[:, 4] == 0))}
    return row | dict(
        zip(("CPU s", "CPU s, true order", "CPU s, chosen"), map(float, F[:, 5:].mean(axis=0)), strict=True)
    )


def record(path: Path, inputs: list[str], outputs: list[str]) -> None:
    with path.open(newline="") as opened:
        lines = list(csv.DictReader(opened))
    absent = [name for name in inputs + outputs if not lines or name not in lines[0]]
    if absent:
        sys.exit(f"{path.name} has no column {absent[0]!r}; it has {', '.join(lines[0]) if lines else 'no rows'}")
    columns = {name: np.array([float(line[name] or "nan") for line in lines]) for name in inputs + outputs}
    Y = np.stack([columns[name] for name in outputs])
    U = checked_inputs(np.stack([columns[name] for name in inputs], axis=1), Y.shape[1])
    half, rows = Y.shape[1] // 2, []
    methods = {"ours": lambda: ours(Y, U)}
    if not np.isnan(Y).any():
        methods["N4SID, chosen"] = lambda: n4sid(Y, U, CHOSEN)
    for name, method in methods.items():
        simulated, order, seconds = timed(method)
        fits = [fit_of(Y[:, at], simulated[:, at]) for at in (slice(half), slice(half, None))]
        rows.append({"method": name, "order": order, "first half": fits[0], "held out": fits[1], "CPU s": seconds})
    report("systems-record", rows, samples=Y.shape[1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--input", default="u")
    parser.add_argument("--output", default="y")
    given = parser.parse_args()
    if given.file is None:
        generated()
    else:
        record(given.file, given.input.split(","), given.output.split(","))
