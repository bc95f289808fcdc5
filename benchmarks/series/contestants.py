"""Forecasts with 90 % intervals by HankelModel and by the methods of statsmodels.

Each takes the samples before an origin, the number of steps and the period of the season, and returns the forecast and
the ends of its interval. HankelModel ignores the period. Methods that need complete series have missing samples
interpolated.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.stats import norm as normal

from rslm import HankelModel
from rslm.estimators.series.dynamics import fit_dynamics
from rslm.runtime.types import Floats

COVERAGE = 0.9
QUANTILE = float(normal.ppf(0.5 + 0.5 * COVERAGE))
LONGEST_SEASON = 24  # longer ones are harmonics, or removed by STL: states for every season would take minutes
HARMONICS = 4

Forecast = tuple[Floats, Floats, Floats]
Contestant = Callable[[Floats, int, int], Forecast]


def hankel_model(y: Floats, steps: int, period: int) -> Forecast:
    del period
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="no order up to|not converged|the signal differs")
        model = HankelModel().fit(y)
    return (model.forecast(steps), *model.predict_interval(steps, COVERAGE))


def dynamics(y: Floats, steps: int, period: int) -> Forecast:
    """The dynamics that HankelModel forecasts with, without the poles that it finds."""
    del period
    found = fit_dynamics(y)
    return (found.forecast(steps), *found.interval(steps, COVERAGE))


def complete(y: Floats) -> Floats:
    t, known = np.arange(len(y)), ~np.isnan(y)
    return np.interp(t, t[known], y[known])


def naive(y: Floats, steps: int, period: int) -> Forecast:
    return seasonal_naive(y, steps, 1)


def seasonal_naive(y: Floats, steps: int, period: int) -> Forecast:
    y = complete(y)
    ahead = np.resize(y[-period:], steps)
    lags = period * (1 + np.arange(steps) // period)
    sizes = np.sqrt(np.mean((y[period:] - y[:-period]) ** 2) * lags / period)
    return ahead, ahead - QUANTILE * sizes, ahead + QUANTILE * sizes


def harmonics(t: Floats, period: int) -> Floats:
    angle = 2 * np.pi * np.outer(t, np.arange(1, HARMONICS + 1)) / period
    return np.hstack([np.cos(angle), np.sin(angle)])


def _least(fits: Iterable[Callable[[], Any]], criterion: str) -> Any:
    """The fit with the least criterion of those that succeed."""
    done = []
    for fit in fits:
        try:
            found = fit()
        except (ValueError, np.linalg.LinAlgError, IndexError):
            continue
        if np.isfinite(getattr(found, criterion)):
            done.append(found)
    if not done:
        raise ValueError("no fit succeeded")
    return min(done, key=lambda found: getattr(found, criterion))


def _frame(prediction: Any) -> Forecast:
    table = prediction.summary_frame(alpha=1 - COVERAGE)
    ends = [c for c in table.columns if c.endswith("lower")] + [c for c in table.columns if c.endswith("upper")]
    ahead, lower, upper = (np.asarray(table[c], dtype=float) for c in ("mean", *ends))
    return ahead, lower, upper


def ets(y: Floats, steps: int, period: int) -> Forecast:
    import pandas as pd
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel
    from statsmodels.tsa.seasonal import STL

    y = complete(y)
    later = np.zeros(steps)
    if period > LONGEST_SEASON and len(y) > 2 * period:
        season = STL(y, period=period).fit().seasonal
        y, later = y - season, np.resize(season[-period:], steps)
    seasons: list[str | None] = [None]
    if 1 < period <= LONGEST_SEASON and len(y) > 2 * period:
        seasons += ["add"] + (["mul"] if (y > 0).all() else [])
    trends = [(None, False), ("add", False), ("add", True)]

    def fit(trend: tuple[str | None, bool], season: str | None) -> Any:
        options = {"seasonal": season, "seasonal_periods": period} if season else {}
        error = "mul" if season == "mul" else "add"
        return ETSModel(pd.Series(y), error=error, trend=trend[0], damped_trend=trend[1], **options).fit(disp=False)

    best = _least([partial(fit, t, s) for t, s in product(trends, seasons)], "aicc")
    options = {"simulate_repetitions": 500, "rng": np.random.default_rng(0)} if best.model.error == "mul" else {}
    table = best.get_prediction(start=len(y), end=len(y) + steps - 1, **options).summary_frame(alpha=1 - COVERAGE)
    ahead, lower, upper = (np.asarray(table[c], dtype=float) + later for c in ("mean", "pi_lower", "pi_upper"))
    return ahead, lower, upper


def arima(y: Floats, steps: int, period: int) -> Forecast:
    """Differences by the KPSS test and the strength of the season, as in auto.arima; orders by AICc."""
    from statsmodels.tsa.seasonal import STL
    from statsmodels.tsa.statespace.sarimax import SARIMAX
    from statsmodels.tsa.stattools import kpss

    filled, n = complete(y), len(y)
    seasonal = 1 < period <= LONGEST_SEASON and n > 3 * period
    strong = 0
    if seasonal:
        parts = STL(filled, period=period, robust=True).fit()
        strong = int(1 - np.var(parts.resid) / np.var(parts.seasonal + parts.resid) > 0.64)
    x = filled[period:] - filled[:-period] if strong else filled
    d = 0
    while d < 2 and np.ptp(x) > 0 and kpss(x, nlags="auto")[1] < 0.05:
        x, d = np.diff(x), d + 1
    outer = harmonics(np.arange(float(n + steps)), period) if period > LONGEST_SEASON else None
    orders = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 2)]
    seasons = [(0, 0), (0, 1), (1, 0)] if seasonal else [(0, 0)]

    def fit(order: tuple[int, int], season: tuple[int, int]) -> Any:
        options: dict[str, Any] = {"trend": "c" if d + strong < 2 else "n"}
        if season != (0, 0) or strong:
            options["seasonal_order"] = (season[0], strong, season[1], period)
        if outer is not None:
            options["exog"] = outer[:n]
        model = SARIMAX(y, order=(order[0], d, order[1]), **options)
        return model.fit(disp=False, maxiter=50)

    best = _least([partial(fit, o, s) for o, s in product(orders, seasons)], "aicc")
    return _frame(best.get_forecast(steps, **({} if outer is None else {"exog": outer[n:]})))


def unobserved_components(y: Floats, steps: int, period: int) -> Forecast:
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    options: dict[str, Any] = {}
    if period > 1:
        season = {"period": period, "harmonics": min(period // 2, HARMONICS + 2)}
        options = {"freq_seasonal": [season]}

    def fit(level: str) -> Any:
        return UnobservedComponents(y, level, **options).fit(disp=False, maxiter=60)

    best = _least([partial(fit, level) for level in ("llevel", "lltrend", "rwdrift")], "aicc")
    return _frame(best.get_forecast(steps))


def theta(y: Floats, steps: int, period: int) -> Forecast:
    from statsmodels.tsa.forecasting.theta import ThetaModel

    y = complete(y)
    positive = bool((y > 0).all())
    seasonal = period > 1 and len(y) > 2 * period
    options = {"deseasonalize": seasonal, "method": "multiplicative" if positive else "additive"}
    found = ThetaModel(y, period=max(period, 2), **options).fit()
    ends = np.asarray(found.prediction_intervals(steps, alpha=1 - COVERAGE), dtype=float)
    return np.asarray(found.forecast(steps), dtype=float), ends[:, 0], ends[:, 1]


OURS: dict[str, Contestant] = {"HankelModel": hankel_model, "dynamics": dynamics}
OTHERS: dict[str, Contestant] = {
    "naive": naive,
    "seasonal naive": seasonal_naive,
    "Theta": theta,
    "ETS": ets,
    "ARIMA": arima,
    "UnobservedComponents": unobserved_components,
}
