"""The linear system behind a record of inputs and outputs."""

from __future__ import annotations

import numpy as np

from rslm.estimators.series.given import root_mean_square
from rslm.estimators.series.orders import GROWTH
from rslm.estimators.series.systems.excitation import constant_inputs, excitation
from rslm.estimators.series.systems.record import Record
from rslm.estimators.series.systems.search import Candidate, search
from rslm.estimators.series.systems.system import System
from rslm.estimators.warn import warn_caller
from rslm.runtime.types import Floats

LARGEST = 20  # order
WIDEST = 30  # default window
SAMPLES_PER_PARAMETER = 2
ON_CIRCLE = 1.0 - 1e-3  # with a larger modulus, poles may want to be outside the unit circle
INSISTS = 10.0  # by this much the criterion must be better to allow poles outside


def identify(
    Y: Floats, U: Floats, order: int | None = None, largest: int = LARGEST, window: int | None = None
) -> System:
    """The system with inputs U, (inputs, n), and outputs Y, (outputs, n), with NaN for missing samples.

    It minimises the squared errors of the simulated outputs, whitened by an autoregression that is found too. If the
    order is None, it is the one up to the `largest` with the least Schwarz's criterion. Fits start from windows of the
    outputs and from an impulse response, of `window` samples. Poles are inside the unit circle, unless the criterion is
    much better without that limit.
    """
    if (order if order is not None else largest) < 1:
        raise ValueError(f"order and largest must be at least 1; got order={order} and largest={largest}")
    _refuse_constant(U)
    window, most = _sizes(Y, U, window)
    asked = largest if order is None else order
    seen_orders = (excitation(U, 2 * min(asked, most) + 1) - 1) // 2
    if min(most, seen_orders) < 1:
        raise ValueError(_too_little(Y, U, most))
    limit = min(asked, most, seen_orders)
    orders = range(limit + 1) if order is None else range(limit, limit + 1)
    sizes_Y, sizes_U = (np.array([root_mean_square(x) or 1.0 for x in X]) for X in (Y, U))
    record = Record(Y / sizes_Y[:, None], U / sizes_U[:, None])
    found = search(record, orders, window, 1.0)
    poles = np.abs(np.linalg.eigvals(found.fit.pair.A))
    if poles.max(initial=0.0) > ON_CIRCLE and not found.rounding:
        other = search(record, orders, window, GROWTH ** (1.0 / Y.shape[1]))
        found = other if other.criterion < found.criterion - INSISTS else found
    if limit < asked and found.fit.pair.order == limit:
        warn_caller(_limited(Y, asked, limit, seen_orders < most))
    return _system(found, sizes_Y, sizes_U)


def _system(found: Candidate, sizes_Y: Floats, sizes_U: Floats) -> System:
    """In the units of the record."""
    fit = found.fit
    left = found.record.Y - fit.signal(found.record)
    lags = max(len(w.ar) for w in found.noise)
    return System(
        A=fit.pair.A.copy(),
        B=fit.driven[:, 1:] / sizes_U,
        C=sizes_Y[:, None] * fit.pair.C,
        D=sizes_Y[:, None] * fit.D / sizes_U,
        x0=fit.driven[:, 0].copy(),
        offset=sizes_Y * fit.offset,
        noise=sizes_Y * np.sqrt(np.nanmean(left**2, axis=1)),
        noise_ar=np.array([np.pad(w.ar, (0, lags - len(w.ar))) for w in found.noise]),
    )


def _sizes(Y: Floats, U: Floats, window: int | None) -> tuple[int, int]:
    """The window, and the largest order that it and the number of samples allow."""
    (outputs, n), inputs = Y.shape, len(U)
    widest = (n - 1) // (3 * (inputs + outputs) + 2)  # so that there are more windows than numbers in them
    if widest < 2:
        raise ValueError(
            f"y has {n} samples; {outputs} outputs and {inputs} inputs need at least "
            f"{2 * (3 * (inputs + outputs) + 2) + 1}"
        )
    if window is not None and not 2 <= window <= widest:
        raise ValueError(
            f"window must be from 2 to {widest} for {n} samples with this number of channels; got {window}"
        )
    window = min(WIDEST, widest) if window is None else window
    observed = int((~np.isnan(Y)).sum()) // SAMPLES_PER_PARAMETER - outputs * (inputs + 1)
    return window, min(window - 1, observed // (inputs + outputs + 1))


def _refuse_constant(U: Floats) -> None:
    constant = constant_inputs(U)
    if len(constant) == len(U):
        raise ValueError(
            "u is constant, so it shows only the static gain, not how the outputs follow a change. If the record "
            "begins with a step from rest, put the samples before the step in front, zeros for u and the resting level "
            "for y; otherwise record an input that changes"
        )
    if constant:
        raise ValueError(f"input {constant[0]} of u is constant, like the offset; leave it out")


def _too_little(Y: Floats, U: Floats, most: int) -> str:
    if most < 1:
        observed = int((~np.isnan(Y)).sum())
        return f"y has {observed} samples that are not missing, too few for a system with {len(U)} inputs; record more"
    return (
        "u follows from few of its own samples, like a single sinusoid, or its channels follow from each other, so it "
        "cannot tell systems of order 1 apart; record an input with more frequencies, or leave out inputs that others "
        "determine. If it is an impulse in the first sample, put samples at rest in front"
    )


def _limited(Y: Floats, asked: int, limit: int, by_input: bool) -> str:
    if by_input:
        return (
            f"the order is {limit}, not up to {asked}: u has few frequencies, and can tell systems apart up to that "
            "order only; record an input with more frequencies to see more"
        )
    return (
        f"the order is {limit}, not up to {asked}: {Y.shape[1]} samples, or the window, are too few for more; record "
        "more, or widen the window"
    )
