"""The sum of exponentials that fits a series best: Levenberg–Marquardt in the poles, with amplitudes eliminated.

For given poles the amplitudes solve a linear least squares problem, so only the poles are iterated (Golub and Pereyra),
with Kaufman's Jacobian: the derivative of the signal by a pole, without what other amplitudes could make up for. Noise
may have memory, and a size of its own in every channel: samples are whitened and divided by it first.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq

from rslm.estimators.series.modes import Modes, paired
from rslm.estimators.series.whitening import Whitening
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats

SEPARATE = 1e-12  # relative singular value below which basis columns count as dependent
TALL = 100  # rows per column from which the speed of a factorisation matters
INDEPENDENT = 1e-2  # least entry of the diagonal of R, relatively, for which squaring it loses no more than four digits
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-2, 1e-9, 1e9
EASIER, HARDER = (
    0.2,
    4.0,
)  # factors of the damping after a step that lowers the sum of squares, and after one that does not


@dataclass(frozen=True, eq=False)
class Channels:
    """Samples with their noise: what a fit is compared with."""

    samples: NDArray[Any]  #: (channels, n), 0 where missing
    whitenings: tuple[Whitening, ...]  #: of each channel; channels may share one
    sizes: Floats  #: of the noise of each channel
    weights: Floats | None = None  #: of the samples, (channels, n); only for white noise

    @property
    def n(self) -> int:
        return int(self.samples.shape[1])

    def groups(self) -> list[tuple[Whitening, list[int]]]:
        """Channels with the same whitening are solved together, unless samples have weights."""
        found: dict[int, tuple[Whitening, list[int]]] = {}
        for c, whitening in enumerate(self.whitenings):
            key = id(whitening) if self.weights is None else c
            found.setdefault(key, (whitening, []))[1].append(c)
        return list(found.values())

    def whitened(self, X: NDArray[Any], whitening: Whitening, channel: int) -> NDArray[Any]:
        """Columns of n rows as the noise of a channel sees them."""
        white = whitening(X)
        if self.weights is None:
            return white
        root = np.sqrt(self.weights[channel])
        return np.asarray(white * (root if X.ndim == 1 else root[:, None]))


@dataclass(frozen=True, eq=False)
class Fit:
    """Modes with the amplitudes that fit best."""

    modes: Modes
    amplitudes: NDArray[Any]  #: (order, channels), of the columns of `Modes.basis`
    signal: NDArray[Any]  #: (channels, n)
    squares: Floats  #: of the whitened residuals of each channel
    steps: int = 0
    converged: bool = True


@dataclass(frozen=True, eq=False)
class _Point:
    fit: Fit
    value: float
    gradient: Floats
    hessian: Floats


def refined(data: Channels, modes: Modes, *, tol: float, most_steps: int, slowest: float = 0.0) -> Fit:
    """The best fit near these modes: ends where a step would lower the sum of squares by less than tol, relatively.

    No modulus of a pole exceeds e^{−slowest}.
    """
    point = _evaluated(data, modes.moved(np.zeros(modes.parameters), slowest))
    damping, steps, converged = FIRST_DAMPING, 0, not point.fit.modes.parameters
    while steps < most_steps and not converged and damping < MOST_DAMPING:
        raise_if_stopped()
        steps += 1
        here = point.fit.modes
        step = _step(point, damping, slowest)
        gain = float(step @ (2.0 * point.gradient - point.hessian @ step))
        if not gain > tol * point.value:
            converged = True
            break
        trial = _evaluated(data, here.moved(step, slowest))
        if trial.value < point.value:
            damping = max(EASIER * damping, LEAST_DAMPING)
            point = trial
            charted = paired(trial.fit.modes, data.n)
            if len(charted.decay) != len(trial.fit.modes.decay):
                point = _evaluated(data, charted)
        else:
            damping *= HARDER
    return replace(point.fit, steps=steps, converged=converged)


def fitted(data: Channels, modes: Modes) -> Fit:
    """The amplitudes that fit best, at given modes."""
    return _evaluated(data, modes, derivatives=False).fit


def _step(point: _Point, damping: float, slowest: float) -> Floats:
    """A damped Gauss–Newton step; moduli at their bound that it would enlarge stay there."""
    modes, gradient, hessian = point.fit.modes, point.gradient, point.hessian
    size = np.maximum(np.diag(hessian), np.finfo(float).tiny)
    count = int(modes.free[0].sum())
    at_bound = np.zeros(len(gradient), dtype=bool)
    at_bound[:count] = (-modes.growth() <= slowest + 1e-12)[modes.free[0]]
    step = np.zeros_like(gradient)
    fixed = at_bound & (gradient < 0)
    for _ in range(2):
        free = ~fixed
        scale = np.sqrt(size[free])
        scaled = hessian[np.ix_(free, free)] / np.outer(scale, scale)
        step[:] = 0.0
        if free.any():
            step[free] = np.linalg.solve(scaled + damping * np.eye(len(scale)), gradient[free] / scale) / scale
        outward = at_bound & (step < 0)
        if not outward.any():
            break
        fixed = fixed | outward
    return step


def _orthonormal(A: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """A = Q R; by the Gram matrix, which is several times as fast, where the columns are far from dependent."""
    if len(A) >= TALL * A.shape[1] > 0:
        with suppress(np.linalg.LinAlgError):
            R = np.linalg.cholesky(A.T @ A.conj()).T
            if float(np.abs(np.diag(R)).min()) > INDEPENDENT * float(np.linalg.norm(R)):
                return np.asarray(A @ np.linalg.inv(R)), R
    return np.linalg.qr(A)


def _evaluated(data: Channels, modes: Modes, derivatives: bool = True) -> _Point:
    """The fit at some modes, with the gradient (−½ of the derivative) and Gauss–Newton's Hessian of the squares."""
    B, tB = modes.columns(data.n)
    norms = np.maximum(np.sqrt(np.einsum("tk,tk->k", B.conj(), B).real), np.finfo(float).tiny)
    channels, k = len(data.samples), modes.parameters if derivatives else 0
    amplitudes = np.zeros((modes.order, channels), dtype=B.dtype)
    squares, gradient, hessian = np.zeros(channels), np.zeros(k), np.zeros((k, k))
    for whitening, which in data.groups():
        Q, R = _orthonormal(data.whitened(B / norms, whitening, which[0]))
        y = data.whitened(data.samples[which].T, whitening, which[0])
        along = Q.conj().T @ y
        left = y - Q @ along
        squares[which] = np.einsum("tc,tc->c", left.conj(), left).real
        if modes.order:
            amplitudes[:, which] = lstsq(R, along, cond=SEPARATE, lapack_driver="gelsy")[0] / norms[:, None]
        for i, c in enumerate(which if k else []):
            J = data.whitened(modes.derivatives(B, tB, amplitudes[:, c]), whitening, c)
            J = J - Q @ (Q.conj().T @ J)
            weight = 1.0 / data.sizes[c] ** 2
            gradient += weight * (J.conj().T @ left[:, i]).real
            hessian += weight * (J.conj().T @ J).real
    fit = Fit(modes, amplitudes, (B @ amplitudes).T, squares)
    return _Point(fit, float(squares @ data.sizes**-2.0), gradient, hessian)
