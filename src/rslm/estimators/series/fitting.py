"""The fit of a series: spikes, order, modes and noise; or, with a given C, the solution of the trace norm problem."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.estimators.series.first_samples import reconsidered
from rslm.estimators.series.learned import Learned
from rslm.estimators.series.likelihood import EXACT, MEMORY, Scored, channels_of, scored
from rslm.estimators.series.loss import Units, with_width
from rslm.estimators.series.modes import NO_POLES, modes_of
from rslm.estimators.series.order_search import OrderSearch
from rslm.estimators.series.pilot import interpolated
from rslm.estimators.series.robust import reweighted
from rslm.estimators.series.spikes import find_spikes, typical_size
from rslm.estimators.series.subspace import poles_of, singular_space
from rslm.estimators.series.trace_norm import rank_of, solved
from rslm.estimators.series.variable_projection import fitted
from rslm.kernels import Stopped
from rslm.losses import Loss
from rslm.runtime.interrupts import current_interrupt
from rslm.runtime.types import Floats
from rslm.solvers import Result

LEAST_NOISE = 1e-5  # least noise that is assumed with a given C, for samples of size 1


@dataclass(frozen=True, eq=False)
class Given:
    """A series without spikes, in units of its root mean square."""

    samples: NDArray[Any]  #: (channels, n), NaN if missing or a spike
    size: float
    first: NDArray[Any]  #: a first signal, complete


@dataclass(frozen=True, eq=False)
class Found:
    """A fit in units of `Given.size`."""

    scored: Scored
    loss: Loss  #: in the units of the series
    path: dict[int, float]  #: the criterion of every order that was tried
    steps: int = 0
    stopped: bool = False
    converged: bool = True


def prepared(Y: NDArray[Any], size: float, largest: int, robust: bool) -> Given:
    """Y, of shape (channels, n), without its spikes if the loss is robust; `size` is its root mean square."""
    samples = Y / size
    if not robust:
        return Given(samples, size, interpolated(samples))
    own = np.array([[typical_size(y[y != 0]) or 1.0] for y in samples])  # channels may have different units
    spikes = find_spikes(samples / own, largest)
    flags = spikes.spikes
    with suppress(Stopped):  # the search that follows ends at once too
        flags = reconsidered(samples / own, flags, largest)
    kept = np.where(flags, np.nan, samples)
    more = math.sqrt(float(np.nanmean(kept**2))) or 1.0
    return Given(kept / more, size * more, spikes.signal * own / more)


def found_by_likelihood(
    given: Given, largest: int, loss: Loss | str, robust: bool, report: Callable[[Scored], bool]
) -> Found:
    """The order, the modes and the noise; with a robust loss the modes that minimise it."""
    Y = given.samples
    search = OrderSearch(Y, largest, MEMORY, report)
    best = search.run()
    loss = with_width(loss, given.size * max(_noise(Y, best), EXACT))
    if robust and best.order and not search.stopped:
        try:
            best = reweighted(Y, best, loss, given.size, search.slowest)
        except Stopped:
            search.stopped = True
    path = {order: one.criterion for order, one in sorted(search.path.items())}
    return Found(best, loss, path, search.spent, search.stopped, best.fit.converged)


def found_by_trace_norm(
    given: Given, window: int, rank: int, loss: Loss | str, robust: bool, C: float, start: Floats, **options: Any
) -> tuple[Scored, Result, Loss, float]:
    """The solution at a given C as a sum of exponentials, the solver's result, the loss, and the error of smoothing."""
    Y = given.samples
    noise = max(float(np.nanstd(Y - start)), LEAST_NOISE)
    loss = with_width(loss, given.size * noise)
    units = Units.for_noise(loss, given.size, noise)
    result = solved(Y, start, window, rank, units.of(loss), C / units.weight, **options)
    if result.parameters is None or result.empty:
        return scored(Y, fitted(channels_of(Y), modes_of(NO_POLES, Y.shape[1], False))), result, loss, 0.0
    h = result.parameters.reshape(Y.shape)
    with current_interrupt().ending(math.inf):  # short work that turns the solution into an answer
        P = singular_space(h, window, rank_of(h, window, rank))[0]
    fit = fitted(channels_of(h), modes_of(poles_of(P), Y.shape[1], False))
    rough = float(np.linalg.norm(fit.signal - h)) / max(float(np.linalg.norm(h)), np.finfo(float).tiny)
    return scored(Y, fit), result, loss, rough


def learned(given: Given, found: Scored) -> Learned:
    """What was found, in the units of the series."""
    Y = given.samples
    return Learned(found.fit.modes, given.size * found.fit.amplitudes, ~np.isnan(Y), given.size * noises(Y, found))


def noises(Y: NDArray[Any], found: Scored) -> Floats:
    """The standard deviation of the residuals of each channel; NaN if there are no more samples than parameters."""
    real = 2 if np.iscomplexobj(Y) else 1
    squares = np.nansum(np.abs(Y - found.fit.signal) ** 2, axis=1)
    freedom = real * ((~np.isnan(Y)).sum(axis=1) - found.order) - found.fit.modes.parameters / len(Y)
    return np.asarray(np.sqrt(squares / np.where(freedom > 0, freedom, np.nan)))


def _noise(Y: NDArray[Any], found: Scored) -> float:
    return float(np.sqrt(np.nanmean(np.abs(Y - found.fit.signal) ** 2)))
