"""Denoise, fill, identify and forecast a series."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rslm.data import parts
from rslm.estimators.base import Estimator
from rslm.estimators.callbacks import Reporter
from rslm.estimators.choices import OWN, is_auto
from rslm.estimators.persistence import loss_from_plain, loss_to_plain, storable
from rslm.estimators.scikit_learn import with_callbacks
from rslm.estimators.series.bound import excess_bound
from rslm.estimators.series.components import Component, components_of
from rslm.estimators.series.dates import check_dates
from rslm.estimators.series.driven import Driven
from rslm.estimators.series.fitting import Found, found_by_likelihood, found_by_trace_norm, learned, prepared
from rslm.estimators.series.forecasting import Forecaster, forecasters, from_arrays, to_arrays
from rslm.estimators.series.given import checked_series, root_mean_square
from rslm.estimators.series.learned import Learned
from rslm.estimators.series.likelihood import Scored
from rslm.estimators.series.loss import checked_loss
from rslm.estimators.series.multiplicative import is_multiplicative
from rslm.estimators.series.settings import check_kind, check_limits, checked_sizes
from rslm.estimators.series.shown import periods_in_words, series_picture
from rslm.estimators.series.spikes import NORMAL
from rslm.estimators.series.subspace import singular_space
from rslm.estimators.warn import warn_caller
from rslm.kernels import Stopped
from rslm.losses import Loss
from rslm.runtime.threads import single_threaded_blas
from rslm.runtime.types import Floats
from rslm.solvers import Outcome
from rslm.storage.container import Arrays, Facts

TOO_ROUGH = 0.01  # with a given C, the signal may differ by this part from one of low rank because of smoothing
MEANS_NOTHING = 1.0  # a bound on the excess above this is not worth a sentence
LEAST_TIME = 1e-3  # seconds for the solver when no time is left, because max_time must be positive
ROUNDED = 1e-14  # differences this small, relative to the samples, are rounding errors
PATH = ("rank", "criterion")


@storable
class HankelModel(Driven, Estimator):
    """A series as a sum of few damped oscillations: its Hankel matrix has low rank.

    Finds the signal ``h_t = Σ_j a_j z_j^t`` that fits the observed samples best: a sum of exponentials, which are
    damped or undamped oscillations, levels, trends and decay. The Hankel matrix H(h) of its windows has the rank of its
    order. With a given C the signal minimises ``C Σ loss(y_t, h_t) + ½ ‖H(h)‖_*²`` instead, which shrinks it.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Largest order, which is the number of exponentials; an oscillation counts as two, and so does a trend. The order
        itself, ``rank_``, is chosen by Schwarz's criterion (BIC) in noise that may have memory, unless C is given too.
        "auto" tries orders up to 20. There must be two samples for every parameter; each exponential has a pole, and an
        amplitude in every channel.
    C : float or "auto", default="auto"
        Weight of the loss relative to the trace norm; "auto" is the limit of large C, in which nothing is shrunk.
    window : int, optional
        Rows of the Hankel matrix, more than the order; if None, (n + 1) // 2, but at most 100. Without a given C it
        only limits the order.
    loss : str or Loss, default="square"
        "square"; "huber" or "absolute" for series with spikes; or an instance, such as ``rslm.losses.Huber(0.5)``, of a
        loss of the difference y − h. With "huber", δ is 1.345 standard deviations of the noise, see ``loss_``;
        "huber:0.5" sets it, in the units of y. Likewise ε of "epsilon_insensitive" is 0.3 standard deviations. With
        several channels, δ is proportional to the noise of each channel, and its root mean square is the given δ. With
        any loss except "square", spikes are found first and left out.
        With normal noise between the spikes, "huber" has a smaller error than "absolute".
    tol : float, default=1e-3
        With a given C: the fit has converged when the relative gradient is at most `tol`.
    max_iter : int, default=1000
        With a given C: maximum number of iterations.
    max_time : float, optional
        Seconds after which the fit stops and keeps the best answer so far; it returns within two more seconds.
    verbose : int, default=0
        1 logs every order and iteration to the logger "rslm"; see the guide for notebooks.

    Attributes
    ----------
    signal_ : array, the shape of y
        The series without noise, with missing samples filled: exactly the sum of its exponentials.
    rank_ : int
        The order of the system; 0 if no order explains the series better than noise alone.
    poles_ : array of complex numbers, (rank_,)
        z_j, the slowest decay first. A trend is a pole that occurs twice, at 1.
    frequencies_, dampings_ : arrays
        Cycles per sample, negative for conjugates, and −log |z_j|, which is about the relative decay per sample if it
        is small.
    amplitudes_ : array of complex numbers, (rank_,) or (rank_, channels)
        a_j: the signal is ``(amplitudes_ * poles_ ** t).sum()``. Where a pole occurs twice, the second exponential is
        multiplied by t.
    components_ : list of Component
        The parts of the signal: trend, decay, and each oscillation with its `frequency`; their signals add up to
        `signal_`.
    singular_values_ : array
        Of the Hankel matrix of the signal, as many as its order.
    excess_ : float
        Upper bound on how far the sum of squares is above the minimum over all signals of this order, relative to the
        minimum. If the noise is autocorrelated, it is the sum of squared innovations. Infinite if there is no bound, as
        with missing samples and several channels.
    noise_ : float
        Standard deviation of the residuals; without spikes, unless the loss is "square". Of a complex series, that of
        the real and of the imaginary part.
    channel_noise_ : array of shape (channels,)
        The same for every channel. Channels are weighted accordingly.
    autoregression_ : list of arrays
        The autoregressive coefficients of the noise, for every channel; empty if the noise is white.
    residuals_ : array, the shape of y
        y − signal_, NaN where samples are missing. A model that was loaded from a file has no residuals.
    outlier_scores_ : array, the shape of y
        |residuals_| relative to a robust scale, 1.4826 times their median; large if a robust loss ignored the sample.
    C_, window_, loss_ : float, int and Loss
        The values that were used, in the units of y; C_ is infinite if C is "auto". The δ of Huber's loss is
        ``loss_.delta``, the ε of the ε-insensitive one ``loss_.epsilon``.
    path_ : dict of arrays, or None
        rank and Schwarz's criterion, `criterion`, of the orders that were fitted; None if both rank and C are given.
    certificate_, history_, outcome_, converged_, n_iter_
        As in `MatrixCompletion`. Certificate and history are those of the trace norm, for the series divided by its
        root mean square: None and empty without a given C, because a bound for matrices of any rank says nothing of
        those of one rank; `excess_` does. `n_iter_` counts all orders.

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

    loss_: Any

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

    @with_callbacks
    def fit(
        self, y: ArrayLike, *, u: ArrayLike | None = None, checkpoint: str | os.PathLike[str] | None = None
    ) -> Self:
        """Learn the signal in a series.

        Parameters
        ----------
        y : array of shape (n,) or (n, channels)
            Samples at equal distances in time, real or complex; NaN is missing. Channels share their poles, and each
            has its own amplitudes and noise. Dates in the index of a pandas Series or DataFrame must be in order and
            evenly spaced, by the clock or by the calendar.
        u : array of shape (n,) or (n, inputs), optional
            Inputs that y follows, all known. Then a linear system with these inputs is found instead of a sum of
            exponentials: `state_space_`, `impulse_response_` and `simulate` describe it, and `signal_` is what it
            makes of u. There are no amplitudes, components and forecasts.
        checkpoint : path, optional
            As in `MatrixCompletion.fit`. Only if both `rank` and `C` are given.
        """
        check_limits(self.C, self.max_time)
        if checkpoint is not None and not self._all_given:
            raise ValueError(
                f"checkpoint={os.fspath(checkpoint)!r} needs both rank and C, because only then a fit is a single "
                f"problem; got rank={self.rank!r} and C={self.C!r}"
            )
        check_dates(y, "y")
        check_dates(u, "u")
        Y, flat = checked_series(y)
        window, largest = checked_sizes(Y, self.rank, self.window, self._given_C is not None)
        loss = checked_loss(self.loss, Y)
        robust = isinstance(loss, str) or not loss.quadratic
        only_for_real = {"C": (self.C, self._given_C is not None), "loss": (self.loss, robust)}
        check_kind(Y, u is not None, {name: value for name, (value, given) in only_for_real.items() if given})
        size = root_mean_square(Y)
        reporter = Reporter(self, y, several=True)
        self.window_, self._flat, self._system = window, flat, None
        if u is not None:
            with self._solving() as interrupt, interrupt.within(self.max_time, time.perf_counter()):
                try:
                    self.loss_ = loss
                    self._fit_driven(Y, u)
                except Stopped:
                    if interrupt.pending:
                        raise KeyboardInterrupt from None
                    raise TimeoutError(f"no system was found within max_time={self.max_time:g}; raise it") from None
            reporter.done()
            return self
        self.certificate_, self.history_, self.C_ = None, {}, self._given_C or math.inf
        began = time.perf_counter()
        with self._solving() as interrupt, interrupt.within(self.max_time, began):
            given = prepared(Y, size or 1.0, largest, robust)
            found = None
            if size == 0.0 or not self._all_given:
                found = found_by_likelihood(given, largest, loss, robust, self._reported(reporter))
                answer = found.scored
                self._set_search(found, interrupt.pending)
            else:
                self.path_ = None
            if self._given_C is not None and size > 0.0 and (found is None or found.scored.order):
                start, rank = (given.first, largest) if found is None else (answer.fit.signal, answer.order)
                left = None if self.max_time is None else max(began + self.max_time - time.perf_counter(), LEAST_TIME)
                options = self._solver_options() | {"max_time": left, "checkpoint": checkpoint}
                options["callback"] = reporter.callback(lambda _: {}, given.size * given.size)
                answer, result, self.loss_, rough = found_by_trace_norm(
                    given, window, rank, loss, robust, self._given_C, start, **options
                )
                self._keep(result)
                self._warn_if_rough(rough)
            with interrupt.ending(math.inf):  # the remaining work is short
                self._describe(learned(given, answer))
                self.excess_ = excess_bound(given.samples, answer.fit.signal, answer.whitenings, answer.order)
                self.autoregression_ = [whitening.coefficients for whitening in answer.whitenings]
                self._set_residuals(Y)
        self._warn_if_not_converged()
        if not self.rank_ and self.converged_ and self.noise_ > 0:
            warn_caller(
                f"no order up to {largest} explains the series better than noise alone, so the signal is zero; give "
                "both rank and C to fit that order anyway"
            )
        reporter.done()
        return self

    def _reported(self, reporter: Reporter) -> Callable[[Scored], bool]:
        def tried(one: Scored) -> bool:
            return reporter.stage(f"order {one.order} tried, criterion {one.criterion:.6g}")

        return tried

    @property
    def _all_given(self) -> bool:
        """Whether both rank and C are given, so that there is nothing to choose."""
        return self._given_C is not None and self.rank != "auto"

    @property
    def _given_C(self) -> float | None:
        return None if is_auto(self.C) else float(self.C)

    # ---- learned attributes ----------------------------------------------------------------------------------------

    def _set_search(self, found: Found, interrupted: bool) -> None:
        self.loss_, self.n_iter_ = found.loss, max(found.steps, 1)
        self.path_ = dict(zip(PATH, np.array([*found.path.items()], dtype=np.float64).T.copy(), strict=True))
        outcome = Outcome.STATIONARY if found.converged else Outcome.STALLED
        if found.stopped:
            outcome = Outcome.INTERRUPTED if interrupted else Outcome.TIME
        self.outcome_, self.converged_ = outcome.value, outcome is Outcome.STATIONARY

    def _advice(self) -> dict[Outcome, str]:
        return {
            Outcome.ITERATIONS: super()._advice()[Outcome.ITERATIONS],
            Outcome.TIME: "not converged within max_time; raise it" + ("" if self._given_C is None else ", or tol"),
            Outcome.FAILED: "the objective is not a finite number; lower C",
        }

    def _warn_if_rough(self, rough: float) -> None:
        ended = self.converged_ or self.outcome_ == Outcome.STALLED.value  # by itself, not because it was stopped
        if ended and rough > TOO_ROUGH:
            warn_caller(
                f"the solution differs by {rough:.1%} from a sum of exponentials: C={self.C_:g} is so large that the "
                "signal follows the noise; lower C"
            )

    def _describe(self, learned: Learned) -> None:
        """Set all that follows from the modes."""
        self._learned, self.rank_ = learned, learned.modes.order
        self._found_forecasters: list[Forecaster] | None = None
        signal = learned.signal
        largest = float(np.abs(signal).max()) or 1.0  # squares of the signal may overflow
        s = singular_space(signal / largest, self.window_, self.rank_)[1] if self.rank_ else np.zeros(0)
        self.singular_values_ = largest * s
        self.poles_, amplitudes = learned.exponentials()
        self.frequencies_ = np.angle(self.poles_) / (2.0 * np.pi)
        with np.errstate(divide="ignore"):
            self.dampings_ = -np.log(np.abs(self.poles_))
        self.amplitudes_ = amplitudes[:, 0] if self._flat else amplitudes
        self.signal_ = self._shaped(signal)
        self.channel_noise_ = learned.sizes
        self.noise_ = math.nan if np.isnan(learned.sizes).any() else root_mean_square(learned.sizes[None])

    def _shaped(self, Y: NDArray[Any]) -> NDArray[Any]:
        """An array (channels, n) in the shape of the series."""
        return Y[0].copy() if self._flat else Y.T.copy()

    def _set_residuals(self, Y: NDArray[Any]) -> None:
        left = Y - self._learned.signal
        if not np.iscomplexobj(left):
            left = np.clip(left, -np.finfo(float).max, np.finfo(float).max)
        self.residuals_ = self._shaped(left)

    @property
    def verdict_(self) -> str:
        """How good the answer is, in a sentence or two."""
        check_is_fitted(self)
        if self.certificate_ is not None:
            return self.certificate_.verdict
        if self._system is not None and not self.rank_:
            return "No order explains the outputs better than a gain that acts at once, and noise."
        if self._system is not None:
            return f"The system of order {self.rank_} whose outputs fit best: no small change improves the fit."
        if not self.rank_:
            return "No order explains the series better than noise does, so the signal is zero."
        what = "The exponential" if self.rank_ == 1 else f"The sum of {self.rank_} exponentials"
        fit = f"{what} that fits best: no small change of its poles improves the fit."
        if not self.converged_:
            fit = f"{what} that fitted best when the fit was stopped."
        if self.excess_ > MEANS_NOTHING:
            return fit
        smaller = 100.0 * self.excess_ / (1.0 + self.excess_)
        return f"{fit} No other one has a sum of squares that is smaller by more than {smaller:.2g} %."

    @property
    def components_(self) -> list[Component]:
        """The parts of the signal: trend, decay, and each oscillation; none if it follows inputs."""
        check_is_fitted(self)
        if self._system is not None:
            return []
        return components_of(self._learned, self._flat)

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

    # ---- forecasts -------------------------------------------------------------------------------------------------

    def forecast(self, steps: int) -> NDArray[Any]:
        """The next values of the series: its signal, and what is known of the noise.

        Parameters
        ----------
        steps : int
            Number of values.

        Returns
        -------
        array of shape (steps,) or (steps, channels)
        """
        found = self._checked_forecasters(steps)
        ahead = np.stack([one.forecast(int(steps)) for one in found]) if found else self._learned.ahead(int(steps))
        if not np.isfinite(ahead).all():
            raise ValueError(
                f"the forecast overflows within {steps} steps, because the largest pole has the modulus "
                f"{np.abs(self.poles_).max():.4g}; use fewer steps, or fit a smaller rank"
            )
        return self._shaped(ahead)

    def predict_interval(self, steps: int, coverage: float = 0.9) -> tuple[Floats, Floats]:
        """Intervals around the forecasts of the next samples.

        They account for the noise and its memory, for levels and seasons that evolve, and for what is not known of
        amplitudes, poles and structure. They hold as far as the series goes on as it was: no interval covers a break
        that the series has not shown before. `coverage` is an average over horizons, and the samples of one forecast
        are often all inside or all outside.

        Parameters
        ----------
        steps : int
            Number of samples to forecast.
        coverage : float, default=0.9
            The fraction of the next samples that should be inside.

        Returns
        -------
        lower, upper : arrays of shape (steps,) or (steps, channels)
            Of the samples, noise included; with a robust loss, of samples that are no spikes.

        Notes
        -----
        The first forecast takes about as long as the fit, as does `save`, which writes what it has found to the file.
        """
        found = self._checked_forecasters(steps)
        if not found:
            raise ValueError("intervals are for real series, but y is complex; forecast works for both")
        if math.isnan(self.noise_):
            raise ValueError(
                f"no interval: order {self.rank_} has as many parameters as there are observed samples, "
                f"{int(self._learned.seen.sum())}, or more, so the noise cannot be estimated; fit a smaller rank"
            )
        ends = [one.interval(int(steps), coverage) for one in found]
        lower, upper = (self._shaped(np.stack([end[k] for end in ends])) for k in (0, 1))
        return lower, upper

    def _checked_forecasters(self, steps: int) -> list[Forecaster]:
        """Of the channels; none for a complex series. They are found when they are first needed."""
        check_is_fitted(self)
        if self._system is not None:
            raise ValueError(
                "the next outputs depend on the next inputs: use simulate(u, x0=model.state_) with these inputs"
            )
        if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 0:
            raise ValueError(f"steps must be a whole number ≥ 0; got {steps!r}")
        found = self._forecasters()
        at_one_size = [not one.grows for one in found]
        if (
            any(at_one_size)
            and hasattr(self, "residuals_")
            and any(map(is_multiplicative, (self._left() + self._learned.signal)[at_one_size]))
        ):
            warn_caller(
                "the swings of the series grow with its level, and the forecast continues them at one size: fit "
                "np.log(y), and take np.exp of the forecast and of its interval"
            )
        return found

    def _left(self) -> Floats:
        """The residuals, (channels, n), NaN where samples are missing or spikes."""
        return np.where(self._learned.seen, np.atleast_2d(self.residuals_.T), np.nan)

    def _forecasters(self) -> list[Forecaster]:
        if self._found_forecasters is None:
            with single_threaded_blas():
                real = not self._learned.modes.is_complex
                self._found_forecasters = forecasters(self._learned, self._left(), self.autoregression_) if real else []
        return self._found_forecasters

    def score(self, y: ArrayLike) -> float:
        """R² of the signal for another series at the same times, such as the clean one; NaN is ignored.

        Of a constant series it is 1 if the signal equals it, else 0.
        """
        check_is_fitted(self)
        Y, _flat = checked_series(y)
        if not hasattr(self, "signal_"):
            raise ValueError(
                "a model with inputs has no signal when it is loaded from a file; score simulate(u) instead"
            )
        signal = np.atleast_2d(self.signal_.T)
        if Y.shape != signal.shape:
            raise ValueError(f"y must have the shape of the fitted series, {np.shape(self.signal_)}; got {np.shape(y)}")
        known = ~np.isnan(Y)
        size = root_mean_square(Y) or 1.0
        left, spread = ((Y - signal)[known] / size, Y[known] / size)
        squares, total = (float(np.sum(np.abs(x) ** 2)) for x in (left, spread - spread.mean()))
        rounding = ROUNDED**2 * int(known.sum())
        return 1.0 - squares / total if total > rounding else float(squares <= rounding)

    # ---- files -----------------------------------------------------------------------------------------------------

    _found: ClassVar[dict[str, str]] = {"rank_": "order", "noise_": "noise"}
    _overview: ClassVar[tuple[str, ...]] = ("series",)
    _more_pictures: ClassVar[tuple[str, ...]] = ("components", "w_correlations", "spectrum", "convergence")

    def _settings(self) -> dict[str, str]:
        return super()._settings() | periods_in_words(getattr(self, "frequencies_", np.zeros(0)))

    def _verdict(self) -> str:
        return self.verdict_ if hasattr(self, "rank_") else ""  # a callback sees the model before

    def _small_picture(self) -> tuple[str, str]:
        return series_picture(self)

    _facts: ClassVar[tuple[str, ...]] = ("C_", "window_", "_flat", "excess_")

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        facts["loss"] = loss_to_plain(self.loss_) if isinstance(self.loss_, Loss) else self.loss_
        arrays |= {} if self.path_ is None else {f"path_{name}": values for name, values in self.path_.items()}
        if self._system is not None:
            return arrays | self._system_to_arrays(), facts
        arrays |= {f"autoregression_{c}": phi for c, phi in enumerate(self.autoregression_)}
        return arrays | self._learned.to_arrays() | to_arrays(self._forecasters()), facts

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = super()._from_file(params, arrays, facts)
        loss = loss_from_plain(facts["loss"])
        if not (isinstance(loss, Loss) and not loss.binary) and not (isinstance(loss, str) and loss.startswith(OWN)):
            raise ValueError("loss")
        model.loss_, model._flat, model._system = loss, parts.flag(facts, "_flat"), None
        if "system_D" in arrays:
            model._system_from_arrays(arrays)
            return model
        found = Learned.from_arrays(arrays)
        channels, n = found.seen.shape
        model.window_ = window = parts.whole(facts, "window_", 2, n - 1)
        model.C_, model.excess_ = parts.any_number(facts, "C_"), parts.any_number(facts, "excess_")
        if found.modes.order >= min(window, channels * (n - window + 1)) or (model._flat and channels > 1):
            raise ValueError("mode_numbers")
        model.path_ = None
        if "path_rank" in arrays:
            count = len(arrays["path_rank"])
            model.path_ = {name: parts.floats(arrays, f"path_{name}", count, finite=False) for name in PATH}
        model.autoregression_ = [parts.floats(arrays, f"autoregression_{c}", None) for c in range(channels)]
        if not np.isfinite(found.signal).all():
            raise ValueError("mode_numbers")
        model._describe(found)
        model._found_forecasters = [] if found.modes.is_complex else from_arrays(arrays, found)
        return model
