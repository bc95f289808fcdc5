"""Panels: bias, RMSE and coverage of the average effect on the treated, and the time of refits.

    python benchmarks/panels.py compare      # beside difference-in-differences, synthetic control and plain MC-NNM
    python benchmarks/panels.py coverage     # of 95 % intervals over 200 panels, by kind of panel and of inference;
                                             # `coverage 40 factors bootstrap` for 40 panels of one kind and inference
    python benchmarks/panels.py gaps         # of the certificate, over values of C
    python benchmarks/panels.py refits       # 1,000 warm refits of a 50 × 50 panel
    python benchmarks/panels.py table FILE UNIT TIME OUTCOME TREATED    # a panel of your own, such as Proposition 99

The generated panels have staggered adoption. Units with larger loadings adopt, so the factors, which are random walks,
are correlated with treatment. No method sees the truth. Plain MC-NNM is soft-impute with a fixed number of steps, as
other packages have it, with the C that PanelCompletion has found.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import report
from panels_baselines import difference_in_differences, soft_impute, synthetic_control
from rslm import PanelCompletion
from rslm.data.files import read_table
from rslm.estimators.panel.resampling import METHODS
from rslm.estimators.panel.spectral import Shrunk
from rslm.estimators.panel.stack import fit_stack
from rslm.runtime.threads import single_threaded_blas

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Kind:
    """A kind of generated panel."""

    units: int = 40
    periods: int = 30
    earliest: int = 15  # first period in which a unit may adopt
    share: float = 0.4  # of the units adopt
    factors: int = 2
    strength: float = 1.0  # of the factors
    selection: float = 1.0  # of adoption by loadings
    memory: float = 0.0  # of the noise, AR(1)
    drift: float = 0.0  # of the factors: with one, those who adopt fall or rise in all panels


KINDS = {
    "factors": Kind(),
    "50 × 50": Kind(units=50, periods=50, earliest=25),
    "weak factors": Kind(strength=0.5),
    "random adoption": Kind(selection=0.0),
    "correlated noise": Kind(memory=0.5),
    "factors with a trend": Kind(drift=0.1),
    "no factors": Kind(factors=0),
}
FRESH = 20_000  # first seed; the method was developed with the seeds from 0 on, and chosen having seen 10,000 on


def generated(kind: Kind, seed: int) -> tuple[Array, NDArray[np.bool_], float]:
    """Outcomes, where units are treated, and the true average effect on the treated."""
    rng = np.random.default_rng(seed)
    n, T, r = kind.units, kind.periods, kind.factors
    factors = 0.3 * np.cumsum(rng.standard_normal((T, r)), axis=0) + 0.3 * rng.standard_normal((T, r))
    factors -= kind.drift * np.arange(T)[:, None]
    loadings = rng.standard_normal((n, r))
    adopters = np.argsort(-kind.selection * loadings.sum(axis=1) - rng.standard_normal(n))[: int(kind.share * n)]
    first = np.full(n, T)
    first[adopters] = rng.integers(kind.earliest, T - 5, len(adopters))
    since = np.arange(T) - first[:, None]
    treated = since >= 0
    effect = np.where(treated, 1.0 + 0.05 * (since + 1), 0.0)
    noise = rng.standard_normal((n, T))
    for t in range(1, T):
        noise[:, t] = kind.memory * noise[:, t - 1] + np.sqrt(1.0 - kind.memory**2) * noise[:, t]
    base = 5.0 + rng.standard_normal((n, 1)) + 0.3 * np.cumsum(rng.standard_normal(T))
    return base + kind.strength * loadings @ factors.T + effect + noise, treated, float(effect[treated].mean())


def compare(panels: int = 50, *only: str) -> None:
    rows = []
    for name, kind in KINDS.items():
        if only and name not in only:
            continue
        errors: dict[str, list[float]] = {}
        for seed in range(FRESH, FRESH + panels):
            Y, treated, true = generated(kind, seed)
            found = {"difference-in-differences": difference_in_differences(Y, treated)}
            found["synthetic control"] = synthetic_control(Y, treated)
            plain = PanelCompletion(debias=False, inference=None, pre_periods=0, random_state=seed).fit(Y, treated)
            found["soft-impute, 100 steps"] = soft_impute(Y, treated, plain.lambda_)
            found["PanelCompletion, debias=False"] = plain.att_
            kept = {"C": plain.C_, "inference": None, "pre_periods": 0}
            found["PanelCompletion"] = PanelCompletion(**kept).fit(Y, treated).att_
            for method, att in found.items():
                errors.setdefault(method, []).append(att - true)
        for method, missed in errors.items():
            bias, rmse = float(np.mean(missed)), float(np.sqrt(np.mean(np.square(missed))))
            rows.append({"kind": name, "method": method, "panels": panels, "bias": bias, "RMSE": rmse})
    report("panels_compare", rows)


def coverage(panels: int = 200, *only: str) -> None:
    rows: list[dict[str, Any]] = []
    methods = [name for name in only if name in METHODS] or list(METHODS)
    for name in [name for name in only if name in KINDS] or KINDS:
        for method in methods:
            found = np.array([_interval(KINDS[name], method, seed) for seed in range(FRESH, FRESH + panels)])
            inside = float(np.mean(np.abs(found[:, 0]) <= found[:, 1]))
            rmse, width = float(np.sqrt(np.mean(found[:, 0] ** 2))), 2.0 * float(np.mean(found[:, 1]))
            rows.append({"kind": name, "inference": method, "panels": panels, "coverage": inside})
            rows[-1] |= {"RMSE": rmse, "mean width": width}
    report("panels_coverage", rows)


def _interval(kind: Kind, method: str, seed: int) -> tuple[float, float]:
    """Error of the average effect, and half the width of its interval."""
    Y, treated, true = generated(kind, seed)
    model = PanelCompletion(inference=method, n_refits=100, pre_periods=0, random_state=seed).fit(Y, treated)
    low, high = model.att_interval_
    return model.att_ - true, 0.5 * (high - low)


def gaps() -> None:
    Y, treated, _ = generated(KINDS["50 × 50"], 0)
    rows = []
    for C in (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0):
        model = PanelCompletion(C=C, debias=False, inference=None, pre_periods=0).fit(Y, treated)
        gap = f"{model.certificate_.relative_gap:.1e}"
        rows.append({"C": C, "lambda": model.lambda_, "rank": model.rank_, "relative gap": gap, "ATT": model.att_})
    report("panels_gaps", rows)


def refits(count: int = 1000) -> None:
    Y, treated, _ = generated(KINDS["50 × 50"], 0)
    observed = np.repeat(~treated[None], count, axis=0)
    observed[np.arange(count), np.arange(count) % len(Y)] = False  # a unit is left out
    with single_threaded_blas():
        start = fit_stack(Y[None], ~treated[None], Shrunk(np.array([5.0])), tol=1e-9).W
        wall, cpu = time.perf_counter(), time.process_time()
        found = fit_stack(
            np.repeat(Y[None], count, axis=0), observed, Shrunk(np.full(count, 5.0)), start, tol=1e-8, n_threads=2
        )
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    gap = f"{found.miss.max():.1e}"
    report("panels_refits", [{"refits": count, "seconds": wall, "CPU seconds": cpu, "largest relative gap": gap}])


def table(path: str, unit: str, period: str, outcome: str, treated: str) -> None:
    read = read_table(path)
    frame: Any = read.frame.select(
        read.frame[read.column(unit)].alias("unit"),
        read.frame[read.column(period)].cast(int).alias("time"),
        read.frame[read.column(outcome)].cast(float).alias("outcome"),
        read.frame[read.column(treated)].cast(int).alias("treated"),
    )
    for inference in ("bootstrap", "placebo"):
        model = PanelCompletion(inference=inference, random_state=0)
        model.fit(frame, "treated", unit="unit", time="time", outcome="outcome")
        low, high = model.att_interval_
        print(f"{inference}: att {model.att_:.4g}, 95 % {low:.4g} to {high:.4g}, {model.rank_} factors")
        print(model.certificate_.verdict, model.pretrend_)


COMMANDS: dict[str, Any] = {
    "compare": compare,
    "coverage": coverage,
    "gaps": gaps,
    "refits": refits,
    "table": table,
}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*(int(a) if a.isdigit() else a for a in sys.argv[2:]))
