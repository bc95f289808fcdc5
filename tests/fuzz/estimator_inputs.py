"""Random inputs of estimators: small, and often extreme."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator
from scipy import sparse

from rslm import ObservedMatrix
from rslm.losses import Absolute, EpsilonInsensitive, Hinge, Huber, Logistic, Quantile, Square, SquaredHinge
from rslm.structures import Box

REAL = ("square", "absolute", "epsilon_insensitive", "huber", "quantile")
BINARY = ("logistic", "hinge", "squared_hinge")
KINKED = ("absolute", "epsilon_insensitive", "quantile", "hinge")
NONSENSE = (None, "x", "", -1, 0, 1.5, True, float("nan"), float("inf"), -0.0, [], {}, object(), 10**400, 1j, b"1")


def pick(rng: Generator, things: Any, p: Any = None) -> Any:
    """One of the things, as it is; NumPy would make an array of them."""
    return things[int(rng.choice(len(things), p=p))]


def chance(rng: Generator, p: float) -> bool:
    return bool(rng.random() < p)


def sides(rng: Generator) -> tuple[int, int]:
    """Rows and columns: a few of each, or one, or of one many."""
    n, m = (int(k) for k in rng.integers(1, 13, 2))
    if chance(rng, 0.06):
        n = 1
    if chance(rng, 0.06):
        m = 1
    if chance(rng, 0.04):
        n = int(rng.integers(13, 80))
    if chance(rng, 0.04):
        m = int(rng.integers(13, 80))
    return n, m


def values(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of some kind and scale."""
    n = shape[0]
    kind = pick(rng, ("low rank", "noise", "whole", "constant", "zero", "alike", "outliers", "mixed"))
    A = rng.standard_normal(shape)
    if kind == "low rank":
        m = shape[1] if len(shape) > 1 else 1
        A = (rng.standard_normal((n, 2)) @ rng.standard_normal((2, m)) + 0.1 * rng.standard_normal((n, m))).reshape(
            shape
        )
    elif kind == "whole":
        A = rng.integers(1, 6, shape).astype(float)
    elif kind == "constant":
        A = np.full(shape, A.flat[0])
    elif kind == "zero":
        A = np.zeros(shape)
    elif kind == "alike":
        A = A[np.zeros(n, dtype=int)]
    elif kind == "outliers":
        A = np.where(rng.random(shape) < 0.1, A * 10.0 ** rng.uniform(1, 8), A)
    elif kind == "mixed":
        A = A * 10.0 ** rng.uniform(-300, 300, shape) if chance(rng, 0.3) else A * 10.0 ** rng.uniform(-6, 6, shape)
    if chance(rng, 0.25):
        A = A * 10.0 ** rng.uniform(-8, 8)
    elif chance(rng, 0.15):
        with np.errstate(over="ignore", under="ignore"):
            A = np.nan_to_num(A * 10.0 ** rng.uniform(-300, 300), posinf=1e300, neginf=-1e300)
    return A


def classes(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    A = rng.integers(0, 2, shape).astype(float)
    if chance(rng, 0.1):
        A[:] = 1.0
    return 2.0 * A - 1.0 if chance(rng, 0.5) else A


def holes(rng: Generator, A: np.ndarray) -> np.ndarray:
    """Some entries missing, all of a row, or all; now and then an infinite one."""
    A = A.copy()
    A[rng.random(A.shape) < pick(rng, (0.0, 0.2, 0.5, 0.8))] = np.nan
    if chance(rng, 0.05):
        A[int(rng.integers(len(A)))] = np.nan
    if chance(rng, 0.01):
        A[:] = np.nan
    if chance(rng, 0.02):
        A.flat[int(rng.integers(A.size))] = pick(rng, (np.inf, -np.inf))
    return A


def dressed(rng: Generator, A: np.ndarray) -> Any:
    """A matrix as a user may have it: of some type, dense or sparse, or a table."""
    if chance(rng, 0.25):
        kind = pick(rng, ("f4", "f2", "longdouble", "i8", "u1", "?", "O", "complex", "U8", "M8[s]"), _LIKELY)
        with np.errstate(all="ignore"), Quiet():
            A = A.astype(kind) if kind not in ("M8[s]", "?") else np.nan_to_num(A).astype("i8").astype(kind)
    how = pick(rng, ("array", "sparse", "list", "table", "masked", "observed", "fortran", "view", "frozen"), _HOW)
    if how == "sparse" and A.dtype.kind in "fiub" and A.dtype.itemsize in (1, 4, 8):
        seen = ~np.isnan(A) if A.dtype.kind == "f" else np.ones(A.shape, dtype=bool)
        made = sparse.coo_array if chance(rng, 0.7) else sparse.coo_matrix
        coo = made((A[seen], np.nonzero(seen)), shape=A.shape)
        with Quiet():  # SciPy finds some of them inefficient
            return coo.asformat(pick(rng, ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")))
    if how == "list":
        return A.tolist()
    if how == "table" and A.dtype.kind in "fiubO" and A.dtype != np.float16:
        named = [f"f{j}" for j in range(A.shape[1])] if chance(rng, 0.7) else None
        return pd.DataFrame(A, columns=named, index=[f"r{i}" for i in range(len(A))] if chance(rng, 0.3) else None)
    if how == "masked" and A.dtype.kind == "f":
        return np.ma.masked_invalid(A)
    if how == "observed" and A.dtype.kind in "fiub":
        return ObservedMatrix.from_any(A)
    if how == "fortran":
        return np.asfortranarray(A)
    if how == "view":
        return np.repeat(np.repeat(A, 2, axis=0), 2, axis=1)[::2, ::2]
    if how == "frozen":
        A = A.copy()
        A.setflags(write=False)
    return A


_LIKELY = np.array([4, 2, 2, 4, 1, 2, 2, 0.5, 0.5, 0.5]) / 18.5
_ITERATIONS = (0.06, 0.1, 0.15, 0.2, 0.2, 0.12, 0.08, 0.05, 0.02, 0.02)
_HOW = np.array([8, 5, 1, 2, 1, 2, 1, 1, 1]) / 22


class Quiet:
    """Conversions of NumPy warn of what is cut off; that is our doing, not the library's."""

    def __enter__(self) -> None:
        import warnings

        self._context = warnings.catch_warnings()
        self._context.__enter__()
        warnings.simplefilter("ignore")

    def __exit__(self, *what: Any) -> None:
        self._context.__exit__(*what)


def bounds(rng: Generator, A: np.ndarray) -> Any:
    """Bounds of a matrix: of one side or two, of features or entries, sometimes impossible ones."""
    n, m = A.shape
    seen = A[np.isfinite(A)]
    low, high = (float(seen.min()), float(seen.max())) if seen.size else (0.0, 1.0)
    size = max(abs(low), abs(high)) or 1.0
    shape = pick(rng, ((), (m,), (n, 1), (n, m)), (0.6, 0.2, 0.1, 0.1))
    kind = int(rng.integers(8))
    if kind < 4:  # about where the data are
        lower, upper = rng.uniform(low, 0.5 * low + 0.5 * high, shape), rng.uniform(0.5 * low + 0.5 * high, high, shape)
    elif kind == 4:
        lower, upper = np.zeros(shape), np.full(shape, size)
    elif kind == 5:  # around zero, or beside it, far inside or far outside of the data
        with np.errstate(over="ignore"):
            lower = np.nan_to_num(np.full(shape, size * rng.uniform(-2, 2)), posinf=1e300, neginf=-1e300)
            upper = lower + size * abs(rng.standard_normal()) * pick(rng, (0.0, 1e-9, 1.0, 1e3))
            upper = np.nan_to_num(upper, posinf=1.5e308)
    elif kind == 6:
        with np.errstate(over="ignore"):
            lower, upper = rng.standard_normal(shape) * size, rng.standard_normal(shape) * size
    else:
        lower, upper = np.full(shape, pick(rng, (-np.inf, -1e300, -1.0, 0.0, 1e-300))), np.full(shape, np.inf)
    if kind != 6 and shape == ():
        lower, upper = float(lower), float(upper)
    one = int(rng.integers(4))
    if chance(rng, 0.1):
        return Box(lower, upper, strict=chance(rng, 0.3))
    return (None if one == 1 else lower, None if one == 2 else upper)


def loss(rng: Generator, kinds: tuple[str, ...]) -> Any:
    """A loss by its name, or one with a parameter."""
    name = pick(rng, kinds)
    if chance(rng, 0.7):
        return name
    size = 10.0 ** rng.uniform(-3, 3) if chance(rng, 0.8) else 10.0 ** rng.uniform(-300, 300)
    made = {
        "square": Square,
        "absolute": Absolute,
        "epsilon_insensitive": lambda: EpsilonInsensitive(size),
        "huber": lambda: Huber(size),
        "quantile": lambda: Quantile(float(rng.uniform(0.01, 0.99))),
        "logistic": Logistic,
        "hinge": Hinge,
        "squared_hinge": SquaredHinge,
    }
    return made[name]()


def how_to_solve(rng: Generator) -> dict[str, Any]:
    """What all estimators are told of C, of time and of tolerance; mostly little time."""
    if chance(rng, 0.8):
        C = 10.0 ** rng.uniform(-3, 6)
    else:
        C = pick(rng, (10.0 ** rng.uniform(-300, 300), 1e-300, 1e12, 1e15, 1e300, 1, np.float32(3.0)))
    iterations = pick(rng, (0, 1, 2, 3, 5, 8, 15, 30, 300, 1000), _ITERATIONS)
    most = (None, 1e-9, 0.003, 1.0)
    return {
        "C": C,
        "solver": pick(rng, ("trust-region", "conjugate-gradient")),
        "max_iter": iterations,
        "tol": pick(rng, (1e-6, 1e-3, 1e-2, 0.1, 0.0, 1e-12, np.inf), (0.3, 0.3, 0.15, 0.1, 0.07, 0.05, 0.03)),
        # A thousand iterations with kinks and bounds take 10 s in some cases: they must end when asked to.
        "max_time": 2.0 if iterations >= 300 else pick(rng, most, (0.8, 0.05, 0.1, 0.05)),
        "n_threads": pick(rng, (1, 2, None, 7), (0.6, 0.3, 0.05, 0.05)),
        "random_state": int(rng.integers(1000)),
        "verbose": int(chance(rng, 0.02)),
    }


def rank(rng: Generator, most: int) -> int:
    """Mostly one that there can be."""
    if chance(rng, 0.04):
        return most + int(rng.integers(1, 4))
    return pick(rng, (1, most, int(rng.integers(1, most + 1)), min(most, 2)))
