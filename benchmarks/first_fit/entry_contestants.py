"""Who fills in ratings and tables: rslm without a setting, location alone, other packages, imputers."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import effects
import numpy as np
from cases import AbsentError, Array, Contestant, Entries
from other_tools import TOOLS
from scipy import sparse
from soft_impute import soft_impute

HERE = Path(__file__).resolve().parent
OTHER_PYTHON = os.environ.get("RSLM_OTHER_PYTHON", sys.executable)


def timed(f: Callable[[Entries], Array]) -> Contestant:
    def run(case: Entries) -> tuple[Array, float]:
        began = time.perf_counter()
        return f(case), time.perf_counter() - began

    return run


def rslm_fit(case: Entries, **params: Any) -> Array:
    from rslm import MatrixCompletion

    if unknown := set(params) - set(inspect.signature(MatrixCompletion).parameters):
        raise AbsentError(f"MatrixCompletion has no parameter {', '.join(unknown)}")
    return np.asarray(MatrixCompletion(**params).fit(case.X).predict(case.rows, case.cols))


def triplets(X: Any) -> effects.Triplets:
    if isinstance(X, sparse.csr_array):
        coo = X.tocoo()
        return coo.row, coo.col, coo.data
    rows, cols = np.nonzero(~np.isnan(X))
    return rows, cols, X[rows, cols]


def mean(case: Entries) -> Array:
    return np.full(len(case.values), triplets(case.X)[2].mean())


def effects_alone(case: Entries) -> Array:
    return effects.predict(effects.chosen(case.X.shape, triplets(case.X)), case.rows, case.cols)


def effects_of_scaled(case: Entries) -> Array:
    """Effects of columns divided by the standard deviations of their observed entries."""
    spread = np.nanstd(case.X, axis=0)
    spread[spread == 0.0] = 1.0
    centre = np.nanmean(case.X, axis=0)
    found = effects.chosen(case.X.shape, triplets((case.X - centre) / spread))
    return np.asarray(centre[case.cols] + spread[case.cols] * effects.predict(found, case.rows, case.cols))


def other_tool(name: str, case: Entries) -> tuple[Array, float]:
    rows, cols, values = triplets(case.X)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.npz", Path(folder) / "out.npz"
        shape = np.array(case.X.shape)
        np.savez(source, shape=shape, rows=rows, cols=cols, values=values, test_rows=case.rows, test_cols=case.cols)
        command = [OTHER_PYTHON, str(HERE / "other_tools.py"), name, str(source), str(target)]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if "ModuleNotFoundError" in done.stderr:
            last = done.stderr.strip().splitlines()[-1]
            raise AbsentError(f"{OTHER_PYTHON}: {last}; set RSLM_OTHER_PYTHON to one that has it")
        if done.returncode:
            raise RuntimeError(f"{name} has failed:\n{done.stderr}")
        out = np.load(target)
        return out["prediction"], float(out["seconds"])


def imputer(name: str, case: Entries) -> Array:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

    model = {
        "SimpleImputer": SimpleImputer(),
        "KNNImputer": KNNImputer(),
        "IterativeImputer": IterativeImputer(random_state=0),
    }[name]
    return np.asarray(model.fit_transform(case.X)[case.rows, case.cols])


COMMON: dict[str, Contestant] = {"mean": timed(mean), "effects": timed(effects_alone)}
RATINGS: dict[str, Contestant] = {"rslm": timed(rslm_fit)} | COMMON | {t: partial(other_tool, t) for t in TOOLS}
TABLES: dict[str, Contestant] = {"rslm": timed(rslm_fit), "rslm-scaled": timed(partial(rslm_fit, scale=True))} | COMMON
TABLES |= {"effects-scaled": timed(effects_of_scaled)}
TABLES |= {name: timed(partial(imputer, name)) for name in ("SimpleImputer", "KNNImputer", "IterativeImputer")}
TABLES |= {"SoftImpute": timed(lambda case: soft_impute(case.X)[case.rows, case.cols])}
