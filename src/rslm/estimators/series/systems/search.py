"""The order of a system, by Schwarz's criterion, and the best fit of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from rslm.estimators.series.pilot import interpolated
from rslm.estimators.series.systems.least_squares import Fit, Noise, fit_for, refined
from rslm.estimators.series.systems.noise import Whitening, autoregression
from rslm.estimators.series.systems.pairs import Pair
from rslm.estimators.series.systems.record import Record
from rslm.estimators.series.systems.starts import Starts, common_autoregression, first_starts, starts_with_noise
from rslm.runtime.log import logger
from rslm.runtime.types import Floats

PATIENCE = 3  # orders without a better one after which the search ends
PILOT_ORDERS = (2, 4, 6, 8)  # of fits that show the noise, and fill missing samples
FIRST_STEPS, MORE_STEPS, LAST_STEPS = 4, 8, 200  # from every start, with the noise of the best one, in the end
ROUNDS = 2  # of noise and fit


@dataclass(frozen=True)
class Candidate:
    """A fit, the noise that it leaves, and what it costs."""

    record: Record
    fit: Fit
    noise: Noise
    rounding: bool  #: whether all that it leaves are rounding errors

    @property
    def criterion(self) -> float:
        """−2 log likelihood + p log n, with n/(n − p − 2) for small samples.

        An order has as many parameters as A and C without their coordinates, and B. D is the same in all orders.
        """
        outputs, n = len(self.record.Y), self.record.samples
        p = self.fit.pair.order * (outputs + len(self.record.U)) + sum(len(w.ar) for w in self.noise)
        p += outputs * self.record.levels
        if p >= n - 2:
            return math.inf
        return sum(w.log_determinant for w in self.noise) + self.fit.cost + p * math.log(n) * n / (n - p - 2)


def search(record: Record, orders: range, window: int, radius: float) -> Candidate:
    """The best of the orders. Poles are within the radius."""
    outputs = len(record.Y)
    nothing = _settled(Pair(np.zeros((outputs, 0)), radius), record, _white(record))
    if nothing.rounding and 0 in orders:
        return nothing
    found = [nothing]
    starts, noise = _prepared(record, orders, window, radius)
    for order in range(1, orders.stop):
        pairs = starts.of_order(order)
        for smaller in found[-2:]:
            pairs += starts.extending(smaller.fit, record, order)
        found.append(_settled(_best(pairs, record, noise).pair, record, noise))
        logger.info(f"order {order} tried  criterion {found[-1].criterion:.6g}")
        allowed = [k for k in range(len(found)) if k in orders]
        best = min(allowed, key=lambda k: found[k].criterion, default=0)
        if allowed and (found[best].rounding or order - best > PATIENCE):
            break
    chosen = min((found[k] for k in range(len(found)) if k in orders), key=lambda c: c.criterion)
    return _without_offset_if_better(_finished(chosen))


def _prepared(record: Record, orders: range, window: int, radius: float) -> tuple[Starts, Noise]:
    """Starts of all orders, and the noise as a few quick fits leave it."""
    filled = interpolated(record.Y)
    first = first_starts(filled, record.U, window, radius)
    pilots = [pair for order in PILOT_ORDERS if order < max(orders.stop, 3) for pair in first.of_order(order)]
    pilots += [Pair(np.zeros((len(record.Y), 0)), radius)]
    pilot = _best(pilots, record, _white(record))
    signal = pilot.signal(record)
    filled = np.where(np.isnan(record.Y), signal, record.Y)
    ar = common_autoregression(record.Y - signal)
    return starts_with_noise(filled, record.U, window, radius, ar), noise_of(pilot, record)


def _best(pairs: list[Pair], record: Record, noise: Noise) -> Fit:
    fits = [refined(fit_for(pair, record, noise), record, noise, FIRST_STEPS) for pair in pairs]
    return min(fits, key=lambda fit: fit.cost)


def _settled(pair: Pair, record: Record, noise: Noise) -> Candidate:
    """Alternates between the noise that a fit leaves and a better fit with that noise."""
    fit = fit_for(pair, record, noise)
    for _ in range(ROUNDS):
        noise = noise_of(fit, record)
        fit = refined(fit_for(fit.pair, record, noise), record, noise, MORE_STEPS)
    return _candidate(fit, record)


def _finished(candidate: Candidate) -> Candidate:
    """The same order, with steps until convergence."""
    record, noise = candidate.record, candidate.noise
    return _candidate(refined(candidate.fit, record, noise, LAST_STEPS), record)


def _candidate(fit: Fit, record: Record) -> Candidate:
    noise = noise_of(fit, record)
    squares = np.nansum((record.Y - fit.signal(record)) ** 2, axis=1)
    return Candidate(record, fit_for(fit.pair, record, noise), noise, bool((squares <= record.rounding).all()))


def _without_offset_if_better(candidate: Candidate) -> Candidate:
    """With noise of low frequencies an offset is uncertain, and none is often nearer to the truth."""
    other = _finished(_settled(candidate.fit.pair, replace(candidate.record, levels=False), candidate.noise))
    return min(candidate, other, key=lambda c: c.criterion)


def noise_of(fit: Fit, record: Record) -> Noise:
    """The noise of every output, from the residuals of a fit."""
    found = []
    for r, rounding in zip(record.Y - fit.signal(record), record.rounding, strict=True):
        seen = ~np.isnan(r)
        ar = autoregression(r) if np.nansum(r**2) > rounding else np.zeros(0)
        white: Floats = Whitening(seen, ar, 1.0).apply(np.nan_to_num(r)[:, None])
        found.append(Whitening(seen, ar, math.sqrt(max(float(np.sum(white**2)), float(rounding)) / int(seen.sum()))))
    return tuple(found)


def _white(record: Record) -> Noise:
    return tuple(Whitening(~np.isnan(y), np.zeros(0), 1.0) for y in record.Y)
