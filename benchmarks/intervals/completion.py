"""Do 90 % intervals of completed matrices cover 90 % of what was held out, and what do they cost?

    python benchmarks/intervals/completion.py [--splits 20] [ml-100k] [ml-1m] [heavy-tails]

Of every data set a fifth of the entries is held out, anew for every split. On the first split all settings are found;
the others are given the same rank, C and weighting, so that the first call of `predict_interval` has to hold out a part
of the entries again: the dearer case. Unscaled intervals have one width, from the same held-out errors.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import SHARED, report
from rslm import MatrixCompletion, ObservedMatrix
from rslm.data import holdout
from rslm.datasets import make_ratings
from rslm.estimators.automatic import calibrated
from rslm.estimators.completion.error_size import CONSTANT
from rslm.evaluate import coverage_and_width

COVERAGE, FEW = 0.9, 0.1


def ml_100k() -> ObservedMatrix | None:
    path = SHARED / "data" / "ml-100k" / "u.data"
    return ObservedMatrix.from_ratings(*np.loadtxt(path, usecols=(0, 1, 2)).T) if path.exists() else None


def ml_1m() -> ObservedMatrix | None:
    path = SHARED / "data" / "ml-1m" / "ml-1m.npz"
    if not path.exists():
        return None
    file = np.load(path)
    return ObservedMatrix.from_ratings(*(file[name] for name in file.files[:3]))


def heavy_tails() -> ObservedMatrix:
    """Generated ratings with noise of Student's distribution with 3 degrees of freedom, larger for some rows."""
    made, rng = make_ratings(3000, 800, 150_000, rank=5, noise=0.01, random_state=0).data, np.random.default_rng(0)
    size = 0.3 + 0.5 * rng.random(made.shape[0])
    return made.with_values(made.values + size[made.rows_of_entries()] * rng.standard_t(3, len(made)))


DATA = {"ml-100k": ml_100k, "ml-1m": ml_1m, "heavy-tails": heavy_tails}


def one_split(data: ObservedMatrix, seed: int, settings: dict[str, Any]) -> tuple[list[float], MatrixCompletion]:
    """Coverage, that of the rows with fewest entries, widths relative to unscaled ones, and the cost in fits."""
    train, test = holdout(data, 0.2, seed)
    began = time.process_time()
    model = MatrixCompletion(random_state=seed, **settings).fit(train)
    fitted = time.process_time()
    covered, width = coverage_and_width(model, test, COVERAGE)
    cost = (time.process_time() - began) / (fitted - began)
    counts = train.row_counts()
    rows = np.argsort(counts, kind="stable")[: int(FEW * len(counts))]
    few, _ = coverage_and_width(model, test.subset(np.isin(test.rows_of_entries(), rows)), COVERAGE)
    model._intervals = None
    with patch.object(calibrated, "coefficients_of", lambda features, errors: CONSTANT):  # one expected size
        _, plain = coverage_and_width(model, test, COVERAGE)
    return [covered, few, width, plain, cost], model


def study(name: str, splits: int) -> dict[str, Any] | None:
    data = DATA[name]()
    if data is None:
        print(f"{name}: not there; set RSLM_SHARED to the folder that holds data/{name}")
        return None
    first, model = one_split(data, 0, {})
    settings = {"rank": model.row_factors_.shape[1], "C": model.C_, "weighting": model.weighting_}
    others = np.array([one_split(data, seed, settings)[0] for seed in range(1, splits)])
    every = np.vstack([first, others])
    covered, few, width, plain, _ = every.mean(axis=0)
    row = {"data": name, "rank": model.rank_, "covered": covered, "least": every[:, 0].min(), "most": every[:, 0].max()}
    row |= {"rows with fewest entries": few, "mean width": width, "unscaled": plain}
    return row | {"cost, settings found": first[4], "cost, settings given": float(np.median(others[:, 4]))}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    words = sys.argv[1:]
    splits = int(words[words.index("--splits") + 1]) if "--splits" in words else 20
    rows = [study(name, splits) for name in [word for word in words if word in DATA] or list(DATA)]
    report("intervals-completion", [row for row in rows if row is not None], splits=splits, coverage=COVERAGE)
