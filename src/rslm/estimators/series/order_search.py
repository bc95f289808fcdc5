"""The order of a series, with its modes: variable projection at growing orders, compared by Schwarz's criterion.

Fits of an order start from the column spaces of Hankel matrices with short and long windows, and from smaller orders
with a mode added where the residuals have most power. Noise may have memory: an order is scored with the memory that
makes the criterion least, and if the best fit has some, the search is repeated with whitened samples, in which noise
with memory no longer looks like exponentials.

No exponential grows, unless the series insists: if the best fit that may grow is better by `INSIST`. Modes that hardly
decay are taken as undamped, real ones as a level and slow pairs as a trend, if that lowers the criterion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import fft, next_fast_len

from rslm.estimators.series.likelihood import EXACT, Scored, best, channels_of, scored
from rslm.estimators.series.modes import NO_POLES, Modes, level, modes_of
from rslm.estimators.series.pilot import interpolated
from rslm.estimators.series.subspace import leading_space, poles_of
from rslm.estimators.series.variable_projection import Channels, Fit, fitted, refined
from rslm.kernels import Stopped
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats

SHORTEST, LONGEST, LONGER = 8, 4096, 5  # windows of the starts, and the factor from one to the next
BEGINNING, LONGEST_OF_BEGINNING = 40, 100  # first samples from which quick modes are found, and their longest window
REFINED = 2  # starts of an order that are refined
PATIENCE = 5  # orders without a better one after which the search ends
ROUGH, FINE = 1e-2, 1e-10  # a fit ends where the criterion would fall by less than this; relative for the last fit
LONG, FEWER_STEPS = 20_000, 8  # of longer series one start of an order is refined, with fewer steps: starts are good
STEPS, MORE_STEPS, MOST_STEPS = 15, 40, 300  # of a fit of any order, one of the chosen order, and the last one
FEW_STEPS = 4  # of a fit that shows which mode is undamped
GROWTH = math.log(100.0)  # largest growth of an exponential over the series: a larger one fits the last samples only
STEEPEST = math.log(1e150)  # the same where there is no noise
LAST = 20  # the last twentieth of the samples must not be the only reason for growth
FEW = 2  # exponentials by which growth is noticed
INSIST = 10.0  # by this much the criterion must fall before exponentials may grow
ROUNDS = 3  # of alternating between the modes and the memory of the noise
STEADY, SLOW = (
    10.0,
    4.0,
)  # a mode may be undamped if δn is below the first, a trend if its angle times n is below the second
SLOW_MODE = 8.0  # a mode whose decay and angle are below this over n may mimic growth
NEARLY = 1e-4  # relative error of a start from which a fit without noise is found
ALMOST = 1e-2  # relative error of the largest order above which there is noise
UNEQUAL = 2.0  # noise of channels is weighed again if the ratio of their sizes was wrong by more than this


@dataclass(eq=False)
class OrderSearch:
    """Fits Y, of shape (channels, n) with NaN for missing samples, with orders up to the largest."""

    Y: NDArray[Any]
    largest: int
    memory: int  #: most samples that the noise may remember
    report: Callable[[Scored], bool] = lambda _: False  #: called after every order; True stops the search
    path: dict[int, Scored] = field(default_factory=dict)  #: the best fit of every order that was tried
    stopped: bool = False
    spent: int = 0  #: steps
    slowest: float = 0.0  #: least decay of the modes that were found; negative if they may grow
    _made: _Starts | None = None

    def run(self) -> Scored:
        """The best fit of the best order; the best one so far if the search is stopped."""
        try:
            found = self._searched(0.0)
            found = self._grown(found)
            last = self._fit(channels_of(self.Y, found), found.fit.modes, FINE, MOST_STEPS, self.slowest)
            return self._scored(replace(last, converged=last.converged or self._exact(last)))
        except Stopped:
            self.stopped = True
            return best(list(self.path.values())) if self.path else self._nothing()

    def _nothing(self) -> Scored:
        empty = modes_of(NO_POLES, self.Y.shape[1], bool(np.iscomplexobj(self.Y)))
        return self._scored(fitted(channels_of(self.Y), empty))

    def _grown(self, found: Scored) -> Scored:
        """A fit with an exponential that grows, if it is better by far; otherwise the one that was found.

        Slow modes may mimic growth, so one that grows is tried in their place. An exponential that grows more than
        `GROWTH` describes only the last samples, and several that grow describe noise, unless there is none.
        """
        n, modes = self.Y.shape[1], found.fit.modes
        data = channels_of(self.Y, found)
        bound = -GROWTH / n
        others = modes.taken(np.abs(modes.growth() + 1j * _angles(modes)) * n >= SLOW_MODE)
        one = modes_of(np.exp(np.array([3.0 / n], dtype=complex)), n, modes.is_complex)
        starts = self._starts(data)
        tries = [released(modes), others.joined(one), others.joined(level(modes.is_complex)).joined(one)]
        tries = [m for m in tries if m.order <= self.largest]
        for order in range(1, min(FEW, self.largest) + 1):
            tries += [fit.modes for fit in self._first(data, starts.of(order, {}), bound)[:REFINED]]
        options = [scored(self.Y, self._fit(data, m, self._tol, MORE_STEPS, bound), self.memory) for m in tries]
        options = [option for option in options if int((option.fit.modes.growth() > 0.0).sum()) == 1]
        if options and (top := best(options)).criterion < found.criterion - INSIST and self._lasts(top, found):
            self.slowest = bound
            found = self._held(self._scored(top.fit), bound)
        return found if self._exact(found.fit) else self._without_noise(starts) or found

    def _lasts(self, growing: Scored, found: Scored) -> bool:
        """Whether growth is seen without the last samples, too: one that is far off is no reason."""
        Y = self.Y.copy()
        Y[:, -max(Y.shape[1] // LAST, 2) :] = np.nan
        if np.isnan(Y).all(axis=1).any():
            return False  # there is a channel with no other samples
        bound = -GROWTH / Y.shape[1]
        one, other = (
            scored(Y, self._fit(channels_of(Y), m, self._tol, MORE_STEPS, slowest), self.memory).criterion
            for m, slowest in ((growing.fit.modes, bound), (found.fit.modes, 0.0))
        )
        return one < other - INSIST

    def _without_noise(self, starts: _Starts) -> Scored | None:
        """A fit of a series without noise, of which any number of modes may grow; None if there is noise."""
        data, bound = starts.data, -STEEPEST / self.Y.shape[1]
        most = self._first(data, starts.of(self.largest, {}), bound)  # its poles include those of the true order
        if not (most and self._exact(most[0], ALMOST)):
            return None
        for order in range(1, self.largest + 1):
            raise_if_stopped()
            for modes in starts.of(order, {}):
                fit = fitted(data, _bounded(modes, bound, data))
                if self._exact(fit, NEARLY):
                    fit = self._fit(data, fit.modes, FINE, STEPS, bound)
                if self._exact(fit):
                    self.slowest = bound
                    return self._scored(fit)
        return None

    def _exact(self, fit: Fit, error: float = EXACT) -> bool:
        """Whether the residuals, not whitened, are so small relative to the samples that they are rounding errors."""
        squares = np.nansum(np.abs(self.Y - fit.signal) ** 2, axis=1)
        return bool((squares <= error**2 * np.nansum(np.abs(self.Y) ** 2, axis=1)).all())

    # ---- orders ----------------------------------------------------------------------------------------------------

    def _searched(self, slowest: float) -> Scored:
        found = self._climbed(channels_of(self.Y, sizes=_sizes(self.Y)), slowest)
        for _ in range(2):
            if not (found.memory or self._unequal(found)):
                break
            before, found = found, self._climbed(channels_of(self.Y, found), slowest)
            if found.order == before.order and found.memory == before.memory:
                break
        return self._held(self._settled(found, slowest), slowest)

    def _unequal(self, found: Scored) -> bool:
        ratio = found.sizes / _sizes(self.Y)
        return len(self.Y) > 1 and float(ratio.max()) > UNEQUAL * float(ratio.min())

    def _climbed(self, data: Channels, slowest: float) -> Scored:
        """The best of the orders 0, 1, …, of which none is tried after several without a better one."""
        starts = self._starts(data)
        empty = modes_of(NO_POLES, data.n, starts.is_complex)
        fits = {0: self._scored(fitted(data, empty))}
        top = fits[0]
        for order in range(1, self.largest + 1):
            raise_if_stopped()
            options = self._first(data, starts.of(order, fits), slowest)
            if not options:
                break
            many, steps = (1, FEWER_STEPS) if data.n > LONG else (REFINED, STEPS)
            rough = [self._fit(data, fit.modes, self._tol, steps, slowest) for fit in options[:many]]
            fits[order] = best([self._scored(fit) for fit in rough])
            top = best([top, fits[order]])
            if self.report(fits[order]):
                raise Stopped
            if order - top.order >= PATIENCE:
                break
        return top

    def _starts(self, data: Channels) -> _Starts:
        """Starts for the noise of `data`; the last ones are used again if they were made for the same noise."""
        if self._made is None or not self._made.serves(data):
            self._made = _Starts(self.Y, data, self.largest)
        return self._made

    def _first(self, data: Channels, starts: Iterable[Modes], slowest: float) -> list[Fit]:
        """Fits with the modes of some starts as they are, the best first."""
        fits = [fitted(data, _bounded(modes, slowest, data)) for modes in starts]
        return sorted(fits, key=lambda fit: float(fit.squares @ data.sizes**-2.0))

    def _fit(self, data: Channels, modes: Modes, tol: float, steps: int, slowest: float) -> Fit:
        fit = refined(data, modes, tol=tol, most_steps=steps, slowest=slowest)
        self.spent += fit.steps
        return fit

    def _scored(self, fit: Fit) -> Scored:
        found = scored(self.Y, fit, self.memory)
        if found.order not in self.path or found.criterion < self.path[found.order].criterion:
            self.path[found.order] = found
        return found

    # ---- the chosen order ------------------------------------------------------------------------------------------

    def _refined(self, modes: Modes, noise: Scored, slowest: float, steps: int = MORE_STEPS) -> Scored:
        """The modes refined with the noise as it was found, and the noise that they leave."""
        return self._scored(self._fit(channels_of(self.Y, noise), modes, self._tol, steps, slowest))

    @property
    def _tol(self) -> float:
        """A step that lowers the squares by less than this hardly changes the criterion."""
        return ROUGH / max(int((~np.isnan(self.Y)).sum()), 1)

    def _settled(self, found: Scored, slowest: float) -> Scored:
        """Modes and noise in turn."""
        for _ in range(ROUNDS):
            raise_if_stopped()
            before, found = found, self._refined(found.fit.modes, found, slowest)
            if (not found.memory and len(self.Y) == 1) or found.criterion > before.criterion - ROUGH:
                return best([before, found])
        return found

    def _held(self, found: Scored, slowest: float) -> Scored:
        """With modes that do not decay, where this lowers the criterion."""
        while tries := _holds(found.fit.modes, self.Y.shape[1]):
            raise_if_stopped()
            top = self._refined(tries[0], found, slowest)  # all at once
            if top.criterion >= found.criterion - ROUGH and tries[1:]:
                quick = best([self._refined(modes, found, slowest, FEW_STEPS) for modes in tries[1:]])
                top = self._refined(quick.fit.modes, found, slowest)
            if top.criterion >= found.criterion - ROUGH:
                break
            found = top
        return found


def _holds(modes: Modes, n: int) -> list[Modes]:
    """The modes with those that hardly decay undamped: all of these, and each alone."""
    slow = modes.pair & (modes.sign > 0) & (np.sqrt(np.abs(modes.turn)) * n < SLOW)
    whole = ~modes.turning | slow  # these are fixed altogether: a level, a trend
    near = (np.abs(modes.growth()) * n < STEADY) & ~modes.fixed & (~modes.steady | slow)
    if not near.any():
        return []
    found = [modes.held(near & ~whole, near & whole)]
    for k in np.flatnonzero(near):
        one = np.arange(len(near)) == k
        found += [modes.held(one & ~one, one)] if whole[k] else []
        found += [modes.held(one, one & ~one)] if modes.turning[k] and not modes.steady[k] else []
    return found


def _angles(modes: Modes) -> Floats:
    """How far each mode turns with every sample; π if it alternates."""
    if modes.is_complex:
        return modes.turn
    angle = np.sqrt(np.maximum(modes.turn, 0.0))
    return np.where(modes.sign < 0, math.pi - angle, angle)


def released(modes: Modes) -> Modes:
    """The modes, all of their parameters free again."""
    none = np.zeros(len(modes.decay), dtype=bool)
    return replace(modes, steady=none, fixed=none)


def _bounded(modes: Modes, slowest: float, data: Channels) -> Modes:
    return modes.moved(np.zeros(modes.parameters), slowest, data.quickest)


def _sizes(Y: NDArray[Any]) -> Floats:
    """The root mean square of each channel; 1 if it is 0."""
    found = np.sqrt(np.nanmean(np.abs(Y) ** 2, axis=1))
    return np.where(found > 0, found, 1.0)


class _Starts:
    """Modes from which fits of an order begin."""

    def __init__(self, Y: NDArray[Any], data: Channels, largest: int) -> None:
        self.Y, self.data, self.largest = Y, data, largest
        self.is_complex = bool(np.iscomplexobj(Y))
        self._spaces: list[NDArray[Any]] = []
        filled = self._whitened(interpolated(Y))
        n = filled.shape[1]
        for length, window in [*((n, window) for window in _windows(n)), *_beginnings(n)]:
            rank = min(largest, window - 1, len(Y) * (length - window + 1) - 1)
            if rank > 0:
                self._spaces.append(leading_space(filled[:, :length], window, rank))

    def serves(self, data: Channels) -> bool:
        """Whether starts for other noise are the same; the size of the noise has no effect on those of one channel."""
        mine, other = self.data, data
        same = all(
            np.array_equal(a.reflections, b.reflections) for a, b in zip(mine.whitenings, other.whitenings, strict=True)
        )
        return same and np.allclose(mine.sizes * other.sizes[0], other.sizes * mine.sizes[0], rtol=1e-9)

    def _whitened(self, X: NDArray[Any]) -> NDArray[Any]:
        """The channels with white noise of size 1; exponentials keep their poles."""
        lost = max(len(w.reflections) for w in self.data.whitenings)
        rows = []
        for x, whitening, size in zip(X, self.data.whitenings, self.data.sizes, strict=True):
            complete = replace(whitening, seen=np.ones(len(x), dtype=bool))
            rows.append(complete(x)[lost:] / size)
        return np.stack(rows)

    def of(self, order: int, fits: dict[int, Scored]) -> Iterator[Modes]:
        n = self.data.n
        for space in self._spaces:
            if space.shape[1] >= order:
                yield modes_of(poles_of(space[:, :order]), n, self.is_complex)
        for fewer in (1,) if self.is_complex else (1, 2):
            if order - fewer in fits:
                before = fits[order - fewer].fit
                for poles in self._additions(before, fewer):
                    yield before.modes.joined(modes_of(poles, n, self.is_complex))

    def _additions(self, fit: Fit, count: int) -> Iterator[NDArray[Any]]:
        """Poles that the residuals suggest: where they have most power, and from their own column spaces."""
        left = np.where(np.isnan(self.Y), 0.0, np.nan_to_num(self.Y) - fit.signal)
        white = self._whitened(left)
        n = white.shape[1]
        length = next_fast_len(2 * n)
        power = np.sum(np.abs(fft(white, length)) ** 2, axis=0)
        slow = math.exp(-1.0 / n)
        if self.is_complex:
            yield np.array([slow * np.exp(2j * math.pi * int(np.argmax(power)) / length)])
        elif count == 2:
            half = power[: length // 2 + 1].copy()
            half[:2] = 0.0
            angle = 2.0 * math.pi * int(np.argmax(half)) / length
            yield slow * np.exp(np.array([1j, -1j]) * angle)
        else:
            yield np.array([slow])
        for length, window in [*((n, window) for window in _windows(n)[:2]), *_beginnings(n)]:
            if window > count:
                poles = poles_of(leading_space(white[:, :length], window, count))
                if np.isfinite(poles).all():
                    yield poles


def _beginnings(n: int) -> Iterator[tuple[int, int]]:
    """Lengths and windows of the first samples of a series: the rest is only noise to a mode that decays quickly."""
    length = BEGINNING
    while 2 * length < n:
        yield length, min(length // 2, LONGEST_OF_BEGINNING)
        length *= 10


def _windows(n: int) -> list[int]:
    longest = min((n + 1) // 2, LONGEST)
    if n > LONG:
        return [SHORTEST * LONGER, LONGEST // LONGER, longest]
    windows = [min(SHORTEST, longest)]
    while windows[-1] * LONGER < longest:
        windows.append(windows[-1] * LONGER)
    return [*windows, longest] if windows[-1] < longest else windows
