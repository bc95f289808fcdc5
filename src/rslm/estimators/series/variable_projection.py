"""The sum of exponentials that fits a series best: Levenberg–Marquardt in the poles, with amplitudes eliminated.

For given poles the amplitudes solve a linear least squares problem, so only the poles are iterated (Golub and Pereyra),
with Kaufman's Jacobian: the derivative of the signal by a pole, without what other amplitudes could make up for. Noise
may have memory, and a size of its own in every channel: samples are whitened and divided by it first.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.estimators.series.modes import QUICKEST, Modes, paired
from rslm.estimators.series.whitening import Whitening
from rslm.runtime.interrupts import raise_if_stopped
from rslm.runtime.types import Floats

SEPARATE = 1e-12  # relative singular value below which basis columns count as dependent
TALL = 10  # rows per column from which the speed of a factorisation matters
INDEPENDENT = 1e-2  # least entry of the diagonal of R, relatively, for which squaring it loses no more than four digits
UNSEEN = math.log(10.0)  # most that a mode may decay before the first sample that is seen
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

    @cached_property
    def quickest(self) -> float:
        """Largest decay of a mode: nothing is known of one that is over before the first sample that is seen."""
        before = int(np.argmax(np.any([w.seen for w in self.whitenings], axis=0)))
        return UNSEEN / before if before else QUICKEST

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
class _Group:
    """Channels that are solved together."""

    whitening: Whitening
    which: list[int]
    Q: NDArray[Any]  #: orthonormal columns that span the whitened basis
    left: NDArray[Any]  #: whitened residuals in columns


@dataclass(frozen=True, eq=False)
class _Point:
    fit: Fit
    value: float
    basis: NDArray[Any]
    groups: list[_Group]


def refined(data: Channels, modes: Modes, *, tol: float, most_steps: int, slowest: float = 0.0) -> Fit:
    """The best fit near these modes: ends where a step would lower the sum of squares by less than tol, relatively.

    No modulus of a pole exceeds e^{−slowest}.
    """
    point = _evaluated(data, modes.moved(np.zeros(modes.parameters), slowest, data.quickest))
    gradient, hessian = _sloped(data, point)
    damping, steps, converged = FIRST_DAMPING, 0, not len(gradient)
    while steps < most_steps and not converged and damping < MOST_DAMPING:
        raise_if_stopped()
        steps += 1
        here = point.fit.modes
        step = _step(here, gradient, hessian, damping, slowest)
        gain = float(step @ (2.0 * gradient - hessian @ step))
        if not gain > tol * point.value:
            converged = True
            break
        trial = _evaluated(data, here.moved(step, slowest, data.quickest))
        if trial.value < point.value:
            damping = max(EASIER * damping, LEAST_DAMPING)
            point = trial
            charted = paired(trial.fit.modes, data.n)
            if len(charted.decay) != len(trial.fit.modes.decay):
                point = _evaluated(data, charted)
            gradient, hessian = _sloped(data, point)
        else:
            damping *= HARDER
    return replace(point.fit, steps=steps, converged=converged)


def fitted(data: Channels, modes: Modes) -> Fit:
    """The amplitudes that fit best, at given modes."""
    return _evaluated(data, modes).fit


def _step(modes: Modes, gradient: Floats, hessian: Floats, damping: float, slowest: float) -> Floats:
    """A damped Gauss–Newton step; moduli at their bound that it would enlarge stay there."""
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
    """Q and the pseudo-inverse of R, where A = Q R.

    By the Gram matrix, which is several times as fast, where the columns are far from dependent.
    """
    if len(A) >= TALL * A.shape[1] > 0:
        with suppress(np.linalg.LinAlgError):
            R = np.linalg.cholesky(A.T @ A.conj()).T
            if float(np.abs(np.diag(R)).min()) > INDEPENDENT * float(np.linalg.norm(R)):
                inverse = np.linalg.inv(R)
                return A @ inverse, inverse
    Q, R = np.linalg.qr(A)
    return Q, np.linalg.pinv(R, rcond=SEPARATE)


def _evaluated(data: Channels, modes: Modes) -> _Point:
    """The fit at some modes."""
    B = modes.basis(data.n)
    norms = np.maximum(np.sqrt(np.einsum("tk,tk->k", B.conj(), B).real), np.finfo(float).tiny)
    channels = len(data.samples)
    amplitudes = np.zeros((modes.order, channels), dtype=B.dtype)
    squares, groups = np.zeros(channels), []
    for whitening, which in data.groups():
        Q, inverse = _orthonormal(data.whitened(B / norms, whitening, which[0]))
        y = data.whitened(data.samples[which].T, whitening, which[0])
        along = Q.conj().T @ y
        left = y - Q @ along
        squares[which] = np.einsum("tc,tc->c", left.conj(), left).real
        amplitudes[:, which] = (inverse @ along) / norms[:, None]
        groups.append(_Group(whitening, which, Q, left))
    fit = Fit(modes, amplitudes, (B @ amplitudes).T, squares)
    return _Point(fit, float(squares @ data.sizes**-2.0), B, groups)


def _sloped(data: Channels, point: _Point) -> tuple[Floats, Floats]:
    """The gradient (−½ of the derivative) and Gauss–Newton's Hessian of the squares."""
    modes = point.fit.modes
    k = modes.parameters
    gradient, hessian = np.zeros(k), np.zeros((k, k))
    if not k:
        return gradient, hessian
    slopes = modes.slopes(point.basis)
    for group in point.groups:
        D, mixings = slopes, [modes.mixing(point.fit.amplitudes[:, c]) for c in group.which]
        if len(mixings) == 1 and k < D.shape[1]:
            D, mixings = D @ mixings[0], [np.eye(k)]
        D = data.whitened(D, group.whitening, group.which[0])
        D = D - group.Q @ (group.Q.conj().T @ D)
        along, gram = D.conj().T @ group.left, D.conj().T @ D
        for i, (c, M) in enumerate(zip(group.which, mixings, strict=True)):
            weight = 1.0 / data.sizes[c] ** 2
            gradient += weight * (M.conj().T @ along[:, i]).real
            hessian += weight * (M.conj().T @ gram @ M).real
    return gradient, hessian
