"""The system near a given one whose white residuals have the least squares: separable least squares.

With the pair (A, C) given, the outputs are linear in B, x0, D and the offset, which are eliminated: they are always the
best for the pair. Steps in the pair are those of Levenberg and Marquardt. Their Jacobian leaves out the derivative of
the projection (Kaufman's variant); its gradient is exact.

A free initial state would let slow poles fit the drift of noise. So the initial state is assumed to be about as large
as the states that the inputs cause in the record: x0ᵀ S⁻¹ x0 is added to the squares, where S is the mean of x xᵀ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rslm.estimators.series.systems.noise import Whitening
from rslm.estimators.series.systems.pairs import Pair
from rslm.estimators.series.systems.record import Record
from rslm.estimators.series.systems.recursion import states
from rslm.runtime.types import Floats

DEPENDENT = 1e-11  # relative singular value of regressors below which they count as dependent
SINGULAR = 1e-8  # part of the trace added to the diagonal of S
FIRST_DAMPING, MOST_DAMPING = 1e-3, 1e8
CONVERGED = 1e-8  # relative decrease of the squares by a step

Noise = tuple[Whitening, ...]  # of every output


@dataclass(frozen=True)
class Fit:
    """A pair, and the rest of the system that is best for it."""

    pair: Pair
    driven: Floats  #: (order, 1 + inputs): x0, then B
    D: Floats  #: (outputs, inputs)
    offset: Floats  #: (outputs,)
    residuals: Floats  #: white, of one output after the other; then those of x0
    basis: Floats  #: orthonormal columns: what the linear parameters can explain
    responses: Floats  #: (outputs, 1 + inputs, order, 1 + n): of every output to an input that drives one state
    start_weight: Floats  #: (rows, order): R with RᵀR = S⁻¹; no rows if x0 is free

    @property
    def cost(self) -> float:
        return float(self.residuals @ self.residuals)

    def signal(self, record: Record) -> Floats:
        """The outputs without noise, (outputs, n)."""
        of_states = np.einsum("cikt,ki->ct", self.responses[..., 1:], self.driven)
        return np.asarray(of_states + self.D @ record.U + self.offset[:, None])


def fit_for(pair: Pair, record: Record, noise: Noise) -> Fit:
    """The best B, x0, D and offset for a pair; x0 is about as large as the states of a first fit."""
    free = eliminated(pair, record, noise, np.zeros((0, pair.order)))
    if pair.order == 0:
        return free
    X = states(pair.A, free.driven[:, 1:] @ record.driving[1:])[:, 1:]
    S = X @ X.T / X.shape[1]
    S += (SINGULAR * np.trace(S) + np.finfo(float).tiny) * np.eye(len(S))
    return eliminated(pair, record, noise, np.linalg.inv(np.linalg.cholesky(S)))


def eliminated(pair: Pair, record: Record, noise: Noise, start_weight: Floats) -> Fit:
    """The best B, x0, D and offset for a pair; the squares of start_weight @ x0 are added."""
    outputs, n = record.Y.shape
    order, inputs = pair.order, len(record.U)
    # The responses of output c to driving each state are the states of the transposed system, (Aᵀ, row c of C).
    responses = states(pair.A.T, pair.C[:, None, :, None] * record.driving[None, :, None, :])
    shared = order * (1 + inputs)
    columns = shared + outputs * (inputs + 1)
    direct = np.concatenate([record.U, np.full((1, n), float(record.levels))]).T
    rows = []
    for c, whitening in enumerate(noise):
        own = shared + c * (inputs + 1)
        of_c = np.zeros((n, columns + 1))
        of_c[:, :shared] = responses[c, :, :, 1:].reshape(shared, n).T
        of_c[:, own : own + inputs + 1] = direct
        of_c[:, -1] = record.Y[c]
        rows.append(whitening.apply(of_c))
    of_start = np.zeros((len(start_weight), columns + 1))
    of_start[:, :order] = start_weight
    stacked = np.concatenate([*rows, of_start])
    Q, R = np.linalg.qr(stacked[:, :-1])
    y = stacked[:, -1]
    z = Q.T @ y
    sizes = np.linalg.norm(R, axis=0)
    sizes[sizes == 0] = 1.0
    found = np.linalg.lstsq(R / sizes, z, rcond=DEPENDENT)[0] / sizes
    rest = found[shared:].reshape(outputs, inputs + 1)
    return Fit(
        pair=pair,
        driven=found[:shared].reshape(1 + inputs, order).T,
        D=rest[:, :-1],
        offset=rest[:, -1],
        residuals=y - Q @ z,
        basis=Q,
        responses=responses,
        start_weight=start_weight,
    )


def derivatives(fit: Fit, record: Record, noise: Noise, N: Floats) -> Floats:
    """Of the white outputs by K, (rows, outputs × order), where the pair is M + N K and the rest is fixed.

    The derivative of output c by K[a, b] is a filter, which depends on c and a, applied to the state b. Filters
    commute, so the inputs are filtered instead, and one recursion gives the derivatives by all K[a, :].
    """
    pair, outputs = fit.pair, len(record.Y)
    driving = record.driving
    rows = []
    for c, whitening in enumerate(noise):
        of_c = []
        for a in range(outputs):
            filtered = pair.radius * np.einsum("k,ikt->it", N[outputs:, a], fit.responses[c]) + N[c, a] * driving
            of_c.append(states(pair.A, fit.driven @ filtered)[:, 1:])
        rows.append(whitening.apply(np.concatenate(of_c).T))
    rows.append(np.zeros((len(fit.start_weight), outputs * pair.order)))
    return np.concatenate(rows)


def refined(fit: Fit, record: Record, noise: Noise, steps: int) -> Fit:
    """The fit after at most this number of steps that decrease its cost."""
    if fit.pair.order == 0:
        return fit
    rounding = sum(squares / w.size**2 for squares, w in zip(record.rounding, noise, strict=True))
    damping, growth = FIRST_DAMPING, 2.0
    for _ in range(steps):
        if fit.cost <= rounding:
            break
        N = fit.pair.complement()
        J = derivatives(fit, record, noise, N)
        J -= fit.basis @ (fit.basis.T @ J)
        R = np.asarray(np.linalg.qr(np.column_stack([J, fit.residuals]), mode="r"))
        left, s, right = np.linalg.svd(R[:, :-1], full_matrices=False)
        target = left.T @ R[:, -1]
        while True:
            weight = damping * s[0] ** 2 + np.finfo(float).tiny
            K = (right.T @ (s * target / (s**2 + weight))).reshape(len(record.Y), -1)
            trial = eliminated(fit.pair.moved(N, K), record, noise, fit.start_weight)
            gain = fit.cost - trial.cost
            expected = float(np.sum(target**2 * (1.0 - (weight / (s**2 + weight)) ** 2)))
            if gain > 0:
                break
            if expected <= CONVERGED * fit.cost or damping > MOST_DAMPING:
                return fit
            damping, growth = damping * growth, 2.0 * growth
        converged = gain <= CONVERGED * fit.cost
        fit = trial
        if converged:
            break
        damping *= max(1.0 / 3.0, 1.0 - (2.0 * gain / expected - 1.0) ** 3)  # Nielsen's rule
        growth = 2.0
    return fit
