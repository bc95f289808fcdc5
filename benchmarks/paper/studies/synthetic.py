"""The synthetic set: 5,000 × 500,000 of rank 5, 15,149,850 entries without noise, and as many others for the test.

Nothing has to be chosen: without noise, the least regularisation is best. All methods go on until they are as accurate
as RSLM is asked to be, and know the rank. The test error along a run is that of a part of the test entries, at the end
that of all.
"""

from __future__ import annotations

import importlib
from functools import cache

import numpy as np

from paper import trust_region
from paper.cells import Cell, Plan, Result
from paper.gap import relative_gap
from paper.methods.completion import OTHERS, sources
from paper.methods.completion.spectrahedron import solve_on_spectrahedron
from paper.observed import Entries
from paper.record import Record
from paper.studies.synthetic_page import section
from rslm.datasets import make_low_rank
from rslm.kernels import predict_pairs
from rslm.runtime.types import Floats

RANK = 5
FULL, QUICK = (5_000, 500_000, 15_149_850), (400, 4_000, 120_000)  # rows, columns, observed entries
C = 1e10  # the trace norm pulls W towards zero by about 1500 / C, seen as test error
TOL = 1e-8
SOLVERS = {"rslm_tr": "trust-region", "rslm_cg": "conjugate-gradient"}
WEIGHTS = {"mmbs": 1e-6, "apgl": 1e-6, "active_alt": 1e-6, "r3mc": 0.0, "rtrmc": 1e-8, "lmafit": 0.0, "prp": 1e-6}
ACCURATE = {  # settings of the methods, where they have them
    "START": RANK,
    "TOL": 1e-10,
    "TIGHT": 1e-10,
    "SMALL_CHANGE": 1e-12,
    "SMALL_GRADIENT": TOL,
    "MOST_STEPS": 10_000,
}
LIMIT, QUICK_LIMIT = 120.0, 5.0  # seconds of a run
SCORED = 1_000_000  # test entries by which a run is followed
GAPS = 16  # iterates whose gap is computed


def study(quick: bool) -> Plan:
    common = (__name__, "paper.observed", "paper.record")
    methods = [*SOLVERS, *OTHERS]
    fits = yield [
        Cell(
            f"synthetic, {method}",
            f"{__name__}:fit",
            {"method": method, "quick": quick},
            (*common, *sources(method)),
        )
        for method in methods
    ]
    gaps = yield [
        Cell(
            f"synthetic, gaps of {m}",
            f"{__name__}:gaps",
            {"method": m, "quick": quick},
            (*common, *sources(m), "paper.gap"),
        )
        for m in SOLVERS
    ]
    return section(dict(zip(methods, fits, strict=True)), dict(zip(SOLVERS, gaps, strict=True)), quick)


@cache
def made(quick: bool) -> tuple[Entries, Floats, Floats]:
    rows, columns, observed = QUICK if quick else FULL
    data, left, right = make_low_rank(rows, columns, RANK, observed, random_state=0)
    places = data.rows_of_entries().astype(np.int64), data.index.astype(np.int64)
    return Entries.of(*places, data.values, data.shape), left, right


def fit(method: str, quick: bool) -> Result:
    data, left, right = made(quick)
    count = (QUICK if quick else FULL)[2]
    rng = np.random.default_rng(1)
    i, t = rng.integers(data.shape[0], size=count), rng.integers(data.shape[1], size=count)
    truth = np.einsum("ij,ij->i", left[i], right[t])

    def error(U: Floats, V: Floats, upto: int) -> float:
        wrong = predict_pairs(i[:upto], t[:upto], U, V, 1) - truth[:upto]
        return float(np.sqrt(np.mean(wrong**2)))

    record = Record(lambda U, V: {"error": error(U, V, SCORED)}, QUICK_LIMIT if quick else LIMIT)
    record.run(lambda r: start(method, data, r))
    curve = [[p[key] for p in record.points][:: max(1, len(record.points) // 60)] for key in ("seconds", "error")]
    end = {"final": error(*record.last, count), "seconds": record.seconds, "ended": record.ended}
    return end | {"iterations": len(record.points) - 1, "curve": curve}


def start(method: str, data: Entries, record: Record) -> None:
    if method in SOLVERS:
        solve_on_spectrahedron(data, RANK, C, record, SOLVERS[method], TOL, 100)
        return
    module = importlib.import_module(f"paper.methods.completion.{method}")
    for part in (module, trust_region):  # each cell has a process of its own
        for name in ACCURATE.keys() & vars(part).keys():
            setattr(part, name, ACCURATE[name])
    module.fit(data, RANK, WEIGHTS[method], record)


def gaps(method: str, quick: bool) -> Result:
    """The relative duality gap along a run, at the C of the problem: on the path the solver has smaller ones."""
    data, _, _ = made(quick)
    subspaces: list[Floats] = []

    def keep(U: Floats, _: Floats) -> dict[str, float]:
        subspaces.append(U.copy())
        return {}

    Record(keep, QUICK_LIMIT if quick else LIMIT).run(lambda r: start(method, data, r))
    chosen = np.unique(np.linspace(0, len(subspaces) - 1, GAPS).astype(int))
    found = [relative_gap(data, subspaces[k], data.regress(subspaces[k], 0.5 / C), C) for k in chosen]
    return {"iterations": chosen.tolist(), "gaps": found}
