"""Series that follow inputs: HankelModel.fit(y, u=…) finds a linear system, and simulates it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rslm.certificate import Certificate
from rslm.data import parts
from rslm.estimators.series.given import root_mean_square
from rslm.estimators.series.settings import MOST_ORDERS
from rslm.estimators.series.subspace import singular_space
from rslm.estimators.series.systems import System, identify, simulate
from rslm.estimators.series.systems.given import checked_inputs
from rslm.estimators.series.systems.recursion import states
from rslm.estimators.warn import warn_caller
from rslm.runtime.types import Floats
from rslm.solvers import Outcome
from rslm.storage.container import Arrays

UNEXPLAINED = 0.9  # of the variance of the outputs, from which on there is a warning
RESPONSE = 100  # samples of the impulse response, or as many as the record has


class Driven:
    """What a model of a series with inputs has."""

    window: int | None
    rank: int | str
    window_: int
    poles_: NDArray[Any]
    frequencies_: Floats
    dampings_: Floats
    path_: dict[str, Floats] | None
    certificate_: Certificate | None
    history_: dict[str, Any]
    _flat: bool
    _system: System | None
    _state: Floats

    def simulate(self, u: ArrayLike, x0: ArrayLike | None = None) -> Floats:
        """The outputs that follow inputs, without noise; for a model that was fitted with inputs.

        Parameters
        ----------
        u : array of shape (n,) or (n, inputs)
            Inputs at the same distances in time as in the record.
        x0 : array of shape (rank_,), optional
            The state at the first sample: rest if None; `initial_state_` repeats the record, `state_` continues it.

        Returns
        -------
        array of shape (n,) or (n, outputs)
        """
        check_is_fitted(self)
        system = self._needed_system()
        Y = simulate(system, checked_inputs(u, None), None if x0 is None else np.asarray(x0, dtype=np.float64))
        return Y[0].copy() if self._flat else Y.T.copy()

    @property
    def state_space_(self) -> tuple[Floats, Floats, Floats, Floats]:
        """(A, B, C, D) of x(t+1) = A x + B u, y = C x + D u, for ``scipy.signal.dlti`` and ``control.ss``."""
        system = self._needed_system()
        return system.A, system.B, system.C, system.D

    @property
    def impulse_response_(self) -> NDArray[Any]:
        """The outputs after a unit impulse of an input: (samples,), or (samples, outputs, inputs) if several."""
        found = self._needed_system().impulse_response(RESPONSE)
        return found[:, 0, 0] if self._flat and found.shape[2] == 1 else found

    @property
    def state_(self) -> Floats:
        """The state after the last sample of the record, from which `simulate` continues it."""
        self._needed_system()
        return self._state

    @property
    def initial_state_(self) -> Floats:
        """The state at the first sample of the record."""
        return self._needed_system().x0

    @property
    def offset_(self) -> Floats:
        """The level of each output without inputs."""
        return self._needed_system().offset

    def _needed_system(self) -> System:
        found: System | None = getattr(self, "_system", None)
        if found is None:
            raise AttributeError("the series was fitted without inputs, so there is no system; use fit(y, u=…)")
        return found

    def _fit_driven(self, Y: Floats, u: ArrayLike) -> None:
        """Set what follows from inputs and outputs, (outputs, n)."""
        U = checked_inputs(u, Y.shape[1])
        largest = MOST_ORDERS if self.rank == "auto" else int(self.rank)
        system = identify(Y, U, largest=largest, window=self.window)
        W = np.concatenate([system.x0[:, None], system.B @ U], axis=1)  # x0 is an input just before the first sample
        self._set_system(system, system.A @ states(system.A, W)[:, -1] + W[:, -1])
        signal = simulate(system, U, system.x0)
        self.signal_ = signal[0].copy() if self._flat else signal.T.copy()
        left = Y - signal
        self.residuals_ = left[0].copy() if self._flat else left.T.copy()
        self.outcome_, self.converged_, self.n_iter_ = Outcome.STATIONARY.value, True, 1
        if not self.rank_ and float(np.nanvar(left)) > UNEXPLAINED * float(np.nanvar(Y)):
            warn_caller(f"no system up to order {largest} explains y by u; if y follows u with a delay, shift u by it")

    def _set_system(self, system: System, state: Floats) -> None:
        self._system, self._state = system, state
        vars(self).pop("amplitudes_", None)  # of an earlier fit without inputs
        self.rank_, self.poles_ = system.order, system.poles
        self.frequencies_ = np.angle(self.poles_) / (2.0 * np.pi)
        with np.errstate(divide="ignore"):
            self.dampings_ = -np.log(np.abs(self.poles_))
        self.channel_noise_ = system.noise
        self.noise_ = root_mean_square(system.noise[None])
        self.autoregression_ = [np.trim_zeros(row, "b") for row in system.noise_ar]
        self.C_, self.excess_, self.path_, self.certificate_, self.history_ = math.inf, math.inf, None, None, {}
        window = RESPONSE // 2
        rows = system.impulse_response(RESPONSE)[1:].reshape(RESPONSE - 1, -1).T
        self.window_ = window
        self.singular_values_ = singular_space(rows, window, self.rank_)[1] if self.rank_ else np.zeros(0)

    def _system_to_arrays(self) -> Arrays:
        return {} if self._system is None else self._system.to_arrays() | {"system_state": self._state}

    def _system_from_arrays(self, arrays: Arrays) -> None:
        system = System.from_arrays(arrays)
        self._set_system(system, parts.floats(arrays, "system_state", system.order))
