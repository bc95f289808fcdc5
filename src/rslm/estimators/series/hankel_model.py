"""Denoise, fill, identify and forecast a series."""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.callback import with_callbacks
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from rslm.data import parts
from rslm.estimators.base import Estimator
from rslm.estimators.callbacks import Reporter
from rslm.estimators.choices import AUTO, OWN, is_auto
from rslm.estimators.persistence import loss_from_plain, loss_to_plain, storable
from rslm.estimators.series.exponentials import fit_modes, growth_of_errors, left_space, shift
from rslm.estimators.series.given import checked_series, relative_sizes, root_mean_square
from rslm.estimators.series.loss import Units, checked_loss, of_width, variance_of_estimates
from rslm.estimators.series.order_search import PATH, OrderSearch
from rslm.estimators.series.quick_start import quick_start
from rslm.estimators.series.rolling import RollingErrors, rolling_errors
from rslm.estimators.series.spikes import NORMAL
from rslm.estimators.warn import warn_caller
from rslm.kernels import Stopped
from rslm.losses import Loss, Square
from rslm.runtime.magnitudes import as_float
from rslm.runtime.threads import single_threaded_blas
from rslm.runtime.types import Floats
from rslm.solvers import Outcome
from rslm.storage.container import Arrays, Facts
from rslm.structures import Hankel

WIDEST = 100  # largest default window: the answer hardly depends on it, but the time does
MOST_ORDERS = 20  # largest order that rank="auto" tries
SAMPLES_PER_PARAMETER = 2  # that an order needs at least
LEAST_NOISE = 1e-5  # least noise that is assumed with a robust loss, for samples of size 1
TOO_ROUGH = 0.01  # a structure error above this is not due to smoothing


@storable
class HankelModel(Estimator):
    """A series as a sum of few damped oscillations: its Hankel matrix has low rank.

    Learns the signal h that minimises ``C Σ loss(y_t, h_t) + ½ ‖H(h)‖_*²`` over the observed samples y_t, where H(h) is
    the Hankel matrix of the windows of h and has rank at most `rank`. Then h is a sum of exponentials
    ``Σ_j a_j z_j^t``: damped or undamped oscillations, trends, decay.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Largest order, which is the number of exponentials; an oscillation counts as two. The order itself,
        ``rank_``, is chosen by Schwarz's criterion (BIC), unless C is given too. "auto" tries orders up to
        20. There must be two samples for every parameter; each exponential has a pole, and an amplitude in every
        channel.
    C : float or "auto", default="auto"
        Weight of the loss relative to the trace norm. "auto" follows from the noise, so that the trace norm changes the
        signal by a twentieth of what noise does.
    window : int, optional
        Rows of the Hankel matrix, more than ``rank``; if None, (n + 1) // 2, but at most 100.
    loss : str or Loss, default="square"
        "square"; "huber" or "absolute" for series with spikes; or an instance, such as ``rslm.losses.Huber(0.5)``, of a
        loss of the difference y − h. With "huber", δ is 1.345 standard deviations of the noise, see ``loss_``;
        "huber:0.5" sets it, in the units of y. With any loss except "square", spikes are ignored in the estimates of
        noise, order and C too. With normal noise between the spikes, "huber" has a smaller error than "absolute".
    tol : float, default=1e-3
        Converged when the relative gradient is at most this.
    max_iter : int, default=1000
        Maximum number of iterations at one order.
    max_time : float, optional
        Seconds after which the fit ends with the best answer so far, within two more seconds; this may be a quick fit
        by poles and least squares, without a certificate.
    verbose : int, default=0
        1 logs every order and iteration to the logger "rslm".

    Attributes
    ----------
    signal_ : array, the shape of y
        The series without noise, with missing samples filled.
    rank_ : int
        The order of the system; 0 if no order explains the series better than noise alone.
    poles_ : array of complex numbers, (rank_,)
        z_j, the slowest decay first.
    frequencies_, dampings_ : arrays
        Cycles per sample, negative for conjugates, and −log |z_j|, which is about the relative decay per sample if it
        is small.
    amplitudes_ : array of complex numbers, (rank_,) or (rank_, channels)
        a_j: the signal is ``(amplitudes_ * poles_ ** t).sum()``.
    singular_values_ : array
        Of the Hankel matrix of the signal, as many as its order.
    structure_error_ : float
        Relative distance of that matrix, which is exactly Hankel, from the nearest matrix of rank `rank_`.
    noise_ : float
        Standard deviation of the residuals; without spikes, unless the loss is "square".
    residuals_ : array, the shape of y
        y − signal_, NaN where samples are missing. A model that was loaded from a file has no residuals.
    outlier_scores_ : array, the shape of y
        |residuals_| in units of their usual size, 1.4826 times the median; large if a robust loss ignored the sample.
    C_, window_, loss_ : float, int and Loss
        The values that were used, in the units of y. The δ of Huber's loss is ``loss_.delta``.
    path_ : dict of arrays, or None
        rank, C and Schwarz's criterion, `criterion`, of the orders that were fitted; None if both rank and C are given.
    certificate_, history_, outcome_, converged_, n_iter_
        As in `MatrixCompletion`, for the series divided by its root mean square (without spikes, as for `noise_`);
        `n_iter_` counts all orders. The certificate is None if the order is 0, or if there was time only for a quick
        fit.

    Examples
    --------
    >>> import numpy as np
    >>> from rslm import HankelModel
    >>> t = np.arange(100)
    >>> noise = 0.1 * np.random.default_rng(0).standard_normal(100)
    >>> model = HankelModel().fit(0.98**t * np.cos(0.3 * t) + noise)
    >>> model.rank_
    2
    >>> model.forecast(3).shape
    (3,)
    """

    _channel_noise: Floats
    _rolling_errors: RollingErrors | None

    def __init__(
        self,
        rank: int | str = "auto",
        C: float | str = "auto",
        window: int | None = None,
        *,
        loss: str | Loss = "square",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.C = C
        self.window = window
        self.loss = loss
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.verbose = verbose

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, y: ArrayLike, *, checkpoint: str | os.PathLike[str] | None = None) -> Self:
        """Learn the signal in a series.

        Parameters
        ----------
        y : array of shape (n,) or (n, channels)
            Samples at equal distances in time; NaN is missing. Channels share their poles and have equal weight: divide
            them by the size of their noise first, if that differs.
        checkpoint : path, optional
            As in `MatrixCompletion.fit`. Only if both `rank` and `C` are given, because finding one of them takes many
            fits.
        """
        self._check_limits()
        if checkpoint is not None and not self._all_given:
            raise ValueError(
                f"checkpoint={os.fspath(checkpoint)!r} needs both rank and C, because finding one of them takes many "
                f"fits and a checkpoint holds one; got rank={self.rank!r} and C={self.C!r}"
            )
        Y, flat = checked_series(y)
        channels, n = Y.shape
        window, largest = self._checked_sizes(Y)
        loss = checked_loss(self.loss, Y)
        robust = loss is None or not loss.quadratic
        scale = root_mean_square(Y)
        reporter = Reporter(self, y, several=True)
        self.window_, self._flat, self._scale = window, flat, scale
        if scale == 0.0:
            self.loss_ = loss or of_width(1.0)
            self._set_nothing(Y, largest)
            self._set_residuals(Y)
            reporter.done()
            return self
        samples = Y
        Y = Y / scale
        began = time.perf_counter()
        deadline = math.inf if self.max_time is None else began + self.max_time
        with self._solving() as interrupt, interrupt.within(self.max_time, began):
            first = quick_start(Y, largest, min(MOST_ORDERS, _most_orders(Y, window)), robust)
            Y, seen, guess = Y / first.size, first.seen, first.order
            scale = self._scale = scale * first.size
            noise = max(first.noise, LEAST_NOISE) if robust else first.noise
            self.loss_ = loss or of_width(scale * noise)
            units = Units.for_noise(self.loss_, scale, noise)
            options = self._solver_options() | {
                "callback": reporter.callback(lambda _: {}, scale * scale),
                "checkpoint": checkpoint,
            }
            structure = Hankel(window, n - window + 1, channels)
            C, loss = None if self._given_C is None else self._given_C / units.weight, units.of(self.loss_)
            search = OrderSearch(Y, structure, first, C, noise, loss, deadline, **options)
            stopped = None
            try:
                interrupt.raise_if_stopped()
                found = search.only if self._all_given else partial(search.climb, guess)
                order = 0 if first.empty else found(largest)
            except Stopped:
                order = search.best_so_far(guess)
            if order not in search.results or search.results[order].empty:
                stopped = (Outcome.INTERRUPTED if interrupt.pending else Outcome.TIME) if interrupt.over() else None
            with interrupt.ending(math.inf):  # the remaining work is short
                if order == 0:
                    self._set_nothing(seen * scale, largest, stopped)
                elif stopped is not None:
                    self._set_quick(seen, search, order, stopped)
                else:
                    self._set_found(seen, search, order)
                    self.C_ *= units.weight
                self.path_ = None if self._all_given else search.path(units.weight)
            self.n_iter_ = max(search.spent, 1)
            self._set_residuals(samples)
        reporter.done()
        return self

    @property
    def _all_given(self) -> bool:
        """Whether both rank and C are given, so that there is nothing to choose."""
        return self._given_C is not None and self.rank != "auto"

    @property
    def _given_C(self) -> float | None:
        return None if is_auto(self.C) else float(self.C)

    # ---- learned attributes ----------------------------------------------------------------------------------------

    def _set_residuals(self, Y: Floats) -> None:
        with np.errstate(over="ignore"):
            left = np.clip(Y - self._signal, -np.finfo(float).max, np.finfo(float).max)
        self.residuals_ = left[0].copy() if self._flat else left.T.copy()
        self._channel_noise = self.noise_ * relative_sizes(np.where(self._seen, left, np.nan))
        self._rolling_errors = None

    @property
    def outlier_scores_(self) -> Floats:
        """|residuals_| in units of their usual size: above 3 a sample is unusual, above 10 almost certainly a spike."""
        check_is_fitted(self)
        if not hasattr(self, "residuals_"):
            raise AttributeError("a model that was loaded from a file has no residuals; call fit to get them")
        size = np.abs(self.residuals_)
        half = 0.5 * size[~np.isnan(size)]  # the median may add two numbers, and the sum must be finite
        usual = 2.0 * np.median(half) or (2.0 * np.median(half[half > 0]) if half.any() else 1.0)
        with np.errstate(over="ignore"):
            return np.minimum(size / (NORMAL * usual), np.finfo(float).max)

    def _set_found(self, Y: Floats, search: OrderSearch, order: int) -> None:
        result = search.results[order]
        assert result.parameters is not None
        h = result.parameters
        # The signal itself may follow the noise a little, because it has low rank only approximately.
        left = float(np.nansum((Y - h.reshape(Y.shape)) ** 2)) if self._all_given else search.squares(order)
        degrees = search.samples - order * (1 + len(Y))
        self.noise_ = self._scale * math.sqrt(left / degrees) if degrees > 0 else math.nan
        result = replace(result, outcome=search.stopped or result.outcome)
        self._keep(result)
        self.C_ = result.problem.C
        self._describe(self._scale * h.reshape(Y.shape), ~np.isnan(Y), self._rank_of(h, order, len(Y)))
        self._warn_if_not_converged()
        ended = self.converged_ or self.outcome_ == Outcome.STALLED.value  # by itself, not because it was stopped
        if ended and self.structure_error_ > TOO_ROUGH:
            warn_caller(
                f"the signal differs by {self.structure_error_:.1%} from one of order {self.rank_}: C="
                f"{self.C_:g} is so large that the signal follows the noise; lower C"
            )

    def _set_quick(self, Y: Floats, search: OrderSearch, order: int, stopped: Outcome) -> None:
        """Use the quick fit of an order, because there was no time for more."""
        self.noise_ = self._scale * math.sqrt(float(search.pilot.squares[order]) / search.samples)
        self.certificate_, self.history_, self.C_ = None, {}, self._given_C or math.nan
        self.outcome_, self.converged_ = stopped.value, False
        self._describe(self._scale * search.pilot.signals[order], ~np.isnan(Y), order)
        self._warn_if_not_converged()

    def _advice(self) -> dict[Outcome, str]:
        return {
            Outcome.ITERATIONS: super()._advice()[Outcome.ITERATIONS],
            Outcome.TIME: "not converged within max_time; raise it, or tol",
            Outcome.FAILED: "the objective is not a finite number; lower C",
        }

    def _rank_of(self, h: Floats, order: int, channels: int) -> int:
        """How many singular values are larger than the effect of smoothing; fewer than the order if C is small."""
        structure = Hankel(self.window_, len(h) // channels - self.window_ + 1, channels)
        s = left_space(structure, h, order)[1]
        rest = max(float(h @ structure.gram(h)) - float(s @ s), 0.0)
        return max(int((s**2 > rest).sum()), 1)

    def _set_nothing(self, Y: Floats, largest: int, stopped: Outcome | None = None) -> None:
        """The signal is zero, because the series is zero or looks like noise."""
        self.noise_ = root_mean_square(Y)
        self.certificate_, self.history_, self.path_ = None, {}, None
        self.outcome_, self.converged_, self.n_iter_ = Outcome.STATIONARY.value, True, 1
        self.C_ = self._given_C or math.nan
        self._describe(np.zeros_like(Y), ~np.isnan(Y), 0)
        if stopped is not None:
            self.outcome_, self.converged_ = stopped.value, False
            self._warn_if_not_converged()
        elif self.noise_ > 0:
            warn_caller(
                f"no order up to {largest} explains the series better than noise alone, so the signal is zero; give "
                "both rank and C to fit that order anyway"
            )

    def _describe(self, signal: Floats, seen: Any, order: int) -> None:
        """Set all that follows from the signal, of shape (channels, n)."""
        channels, n = signal.shape
        self._signal, self._seen, self.rank_ = signal, seen, order
        size = float(np.abs(signal).max()) or 1.0  # squares of the signal may overflow
        structure, h = Hankel(self.window_, n - self.window_ + 1, channels), signal.ravel() / size
        self._space: Floats = np.zeros((self.window_, 0))
        s: Floats = np.zeros(0)
        if order:
            self._space, s = left_space(structure, h, order)
        self._shift = shift(self._space)
        poles = np.linalg.eigvals(self._shift).astype(np.complex128)
        poles = poles[np.lexsort((poles.imag, -np.round(np.abs(poles), 12)))]
        amplitudes = size * fit_modes(poles, signal / size)[0].amplitudes
        total = float(h @ structure.gram(h))
        self.structure_error_ = math.sqrt(max(total - float(s @ s), 0.0) / total) if total > 0 else 0.0
        self.singular_values_ = size * s
        self.poles_, self.frequencies_ = poles, np.angle(poles) / (2.0 * np.pi)
        with np.errstate(divide="ignore"):
            self.dampings_ = -np.log(np.abs(poles))
        self.amplitudes_ = amplitudes[:, 0] if self._flat else amplitudes
        self.signal_ = signal[0].copy() if self._flat else signal.T.copy()

    def forecast(self, steps: int) -> Floats:
        """The next values of the series, by its linear recurrence.

        Parameters
        ----------
        steps : int
            Number of values.

        Returns
        -------
        array of shape (steps,) or (steps, channels)
        """
        check_is_fitted(self)
        if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 0:
            raise ValueError(f"steps must be a whole number ≥ 0; got {steps!r}")
        channels, n = self._signal.shape
        ahead = np.zeros((int(steps), channels))
        if self.rank_:
            state = self._space.T @ self._signal[:, n - len(self._space) :].T
            with np.errstate(over="ignore", invalid="ignore"):
                for k in range(int(steps)):
                    state = self._shift @ state
                    ahead[k] = self._space[-1] @ state
        if not np.isfinite(ahead).all():
            raise ValueError(
                f"the forecast overflows within {steps} steps, because the largest pole has the modulus "
                f"{np.abs(self.poles_).max():.4g}; use fewer steps, or fit a smaller rank"
            )
        return ahead[:, 0] if self._flat else ahead

    def predict_interval(self, steps: int, coverage: float = 0.9) -> tuple[Floats, Floats]:
        """Intervals around the forecasts of the next samples, from the errors of forecasts within the series.

        The second half of the series is forecast from several earlier origins, by quick fits of the same order to the
        samples before each. The interval at horizon h is as wide as the errors at horizons near h were, in units of the
        size that is expected from noise, amplitudes and poles; it is wider if these errors are correlated, because then
        little is known of them.

        So the intervals hold as far as the future is like the second half of the series. This is not the guarantee of
        exchangeable observations: no interval covers a break in the structure that the series has not shown before.
        `coverage` is an average over horizons and origins, and the samples of one forecast are often all inside or
        all outside. Horizons longer than half of the series are an extrapolation.

        Parameters
        ----------
        steps : int
            Number of samples to forecast.
        coverage : float, default=0.9
            The fraction of the next samples that should be inside. At least coverage / (1 − coverage) observed samples
            are needed in the second half of the series.

        Returns
        -------
        lower, upper : arrays of shape (steps,) or (steps, channels)
            Of the samples, noise included; with a robust loss, of samples that are no spikes.

        Notes
        -----
        The first call takes a fraction of the time of the fit, as does `save`, which writes the errors to the file.
        """
        ahead = self.forecast(steps)
        if math.isnan(self.noise_):
            raise ValueError(
                f"no interval: order {self.rank_} has as many parameters as there are observed samples, "
                f"{int(self._seen.sum())}, or more, so nothing is known of the noise; fit a smaller rank"
            )
        factors = self._rolling().factors(int(steps), coverage)
        width = factors[:, None] * self._deviations(int(steps))
        width = width[:, 0] if self._flat else width
        return ahead - width, ahead + width

    def _rolling(self) -> RollingErrors:
        """The errors of earlier forecasts, computed when they are first needed."""
        if self._rolling_errors is None:
            if not hasattr(self, "residuals_"):
                raise ValueError(
                    "the model was loaded from a file without errors of earlier forecasts, which older versions wrote; "
                    "fit it again to get intervals"
                )
            Y = np.where(self._seen, self._signal + np.atleast_2d(self.residuals_.T), np.nan) / (self._scale or 1.0)
            with single_threaded_blas():
                self._rolling_errors = rolling_errors(Y, self.rank_, self.window_)
        return self._rolling_errors

    def _deviations(self, steps: int) -> Floats:
        """Standard deviations of the forecasts if the noise is white, (steps, channels)."""
        factor = variance_of_estimates(self.loss_, self.noise_)
        return self._channel_noise * growth_of_errors(self.poles_, self._seen, steps, factor)

    def score(self, y: ArrayLike) -> float:
        """R² of the signal for another series at the same times, such as the clean one; NaN is ignored."""
        check_is_fitted(self)
        Y, _flat = checked_series(y)
        if Y.shape != self._signal.shape:
            raise ValueError(f"y must have the shape of the fitted series, {np.shape(self.signal_)}; got {np.shape(y)}")
        known = ~np.isnan(Y)
        return float(r2_score(Y[known], self._signal[known]))

    # ---- files -----------------------------------------------------------------------------------------------------

    _facts: ClassVar[tuple[str, ...]] = ("rank_", "noise_", "C_", "window_", "_flat", "_scale")

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        facts["loss"] = loss_to_plain(self.loss_) if isinstance(self.loss_, Loss) else self.loss_
        arrays |= {} if self.path_ is None else {f"path_{name}": values for name, values in self.path_.items()}
        arrays |= {"signal": self._signal, "seen": self._seen, "channel_noise": self._channel_noise}
        if self._rolling_errors is not None or hasattr(self, "residuals_"):
            arrays |= self._rolling().to_arrays()
        return arrays, facts

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = super()._from_file(params, arrays, facts)
        model.path_ = None
        model.loss_ = _loss_of(facts)
        signal = parts.floats(arrays, "signal", None, None)
        channels, n = signal.shape
        window = parts.whole(facts, "window_", 2, n - 1)
        order = parts.whole(facts, "rank_", 0, min(window, channels * (n - window + 1)) - 1)
        known: Facts = {"window_": window, "C_": parts.any_number(facts, "C_")}
        known |= {name: parts.number(facts, name, least=0.0) for name in ("noise_", "_scale")}
        known["_flat"] = parts.flag(facts, "_flat")
        if channels < 1 or (known["_flat"] and channels > 1):
            raise ValueError("signal")
        for name, value in known.items():
            setattr(model, name, value)
        if "path_rank" in arrays:
            count = len(arrays["path_rank"])
            model.path_ = {name: parts.floats(arrays, f"path_{name}", count, finite=False) for name in PATH}
        model._describe(signal, parts.flags(arrays, "seen", channels, n), order)
        model._rolling_errors = RollingErrors.from_arrays(arrays)
        model._channel_noise = np.full(channels, model.noise_)
        if model._rolling_errors is not None:
            model._channel_noise = parts.floats(arrays, "channel_noise", channels)
        if not np.isfinite(model.poles_).all() or not np.isfinite(model.amplitudes_).all():
            raise ValueError("signal")
        return model

    # ---- checking --------------------------------------------------------------------------------------------------

    def _checked_sizes(self, Y: Floats) -> tuple[int, int]:
        """The window and the largest order."""
        channels, n = Y.shape
        window = self.window
        if window is None:
            window = min((n + 1) // 2, WIDEST)
        elif isinstance(window, bool) or not isinstance(window, int | np.integer) or not 2 <= window < n:
            raise ValueError(
                f"window must be a whole number from 2 to {n - 1}, less than the {n} samples; got {window!r}"
            )
        sides = min(int(window), channels * (n - int(window) + 1)) - 1
        if isinstance(self.rank, str):
            if self.rank != "auto":
                raise ValueError(f'rank must be a whole number or "auto"; got {self.rank!r}')
            return int(window), min(MOST_ORDERS, _most_orders(Y, int(window)))
        if isinstance(self.rank, bool) or not isinstance(self.rank, int | np.integer) or not 1 <= self.rank <= sides:
            raise ValueError(
                f"rank must be a whole number from 1 to {sides}, less than both sides of the Hankel matrix, which are "
                f"{int(window)} and {channels * (n - int(window) + 1)}; got {self.rank!r}"
            )
        most = sides if self._given_C is not None else _most_orders(Y, int(window))
        return int(window), min(int(self.rank), most)

    def _check_limits(self) -> None:
        for name, value, other in (("C", self.C, AUTO), ("max_time", self.max_time, None)):
            if not (is_auto(value) if other else value is None) and not 0 < as_float(value) < math.inf:
                raise ValueError(f"{name} must be {other!r} or a positive finite number; got {value!r}")


def _most_orders(Y: Floats, window: int) -> int:
    """The largest order that the number of samples allows."""
    channels, n = Y.shape
    known = int((~np.isnan(Y)).sum()) // (SAMPLES_PER_PARAMETER * (1 + channels))
    return int(max(1, min(window - 1, channels * (n - window + 1) - 1, known)))


def _loss_of(facts: Facts) -> Any:
    """The loss in a file; older files have none, because only the square loss existed."""
    if "loss" not in facts:
        return Square()
    loss = loss_from_plain(facts["loss"])
    if not (isinstance(loss, Loss) and not loss.binary) and not (isinstance(loss, str) and loss.startswith(OWN)):
        raise ValueError("loss")
    return loss
