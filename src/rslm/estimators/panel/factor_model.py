"""Fits of many small panels by factors whose loadings are random effects: a ridge that the data choose.

    y_it = b_i + c_t + x_itᵀβ + f_tᵀλ_i + noise of variance σ²,    λ_i normal with variance I and mean μ or 0

The mean is μ for the units that adopt the treatment, which need not be like the others, and 0 for the rest; effects b,
c and β are not penalised. Factors, μ and σ² maximise the likelihood of the observed entries by expectation
maximisation, and W has the expected loadings: those of a unit with few outcomes before its treatment are known badly,
and stay near their mean instead of following noise.

A panel leaves the stack as soon as it is solved, and no number depends on the other panels of the stack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rslm.estimators.panel.spectral import TINY
from rslm.estimators.panel.stack import Fitted, in_batches
from rslm.estimators.panel.two_way import Flags, Located, TwoWay
from rslm.kernels import Stopped
from rslm.runtime.interrupts import Interrupt, current_interrupt
from rslm.runtime.types import Floats

ALIKE = 4.0  # μ has 1/4 of the variance of loadings: a priori, adopters differ by half a standard deviation
FLOOR = 1e-14  # of the mean square of outcomes: the least σ², for outcomes without noise


@dataclass(frozen=True, eq=False)
class Factored:
    """The answers of a stack of panels, with what is known of their loadings."""

    fitted: Fitted
    factors: Floats  #: (panels, periods, rank)
    adopters: Floats  #: μ, (panels, rank)
    spread: Floats  #: the variance of each unit's loadings given its outcomes, (panels, units, rank, rank)
    noise: Floats  #: σ, (panels,)

    @classmethod
    def joined(cls, parts: list[Factored]) -> Factored:
        arrays = (
            np.concatenate([getattr(p, name) for p in parts]) for name in ("factors", "adopters", "spread", "noise")
        )
        return cls(Fitted.joined([p.fitted for p in parts]), *arrays)


def fit_factors(
    Y: Floats,
    observed: Flags,
    adopters: Flags,
    rank: int,
    start: Floats,
    *,
    covariates: Floats | None = None,
    tol: float,
    most_steps: int,
    n_threads: int = 1,
    done: Callable[[int], None] | None = None,
) -> Factored:
    """Fit every panel of a stack.

    Parameters
    ----------
    Y : array of shape (panels, units, periods)
        Outcomes; what is not observed is ignored.
    observed : flags of the same shape, or (1, units, periods) if all panels share them
    adopters : flags of shape (panels, units), or (1, units)
        The units whose loadings have a mean of their own.
    rank : int
    start : array of the shape of Y or (1, units, periods)
        W of a similar panel; its leading singular vectors are the first factors and loadings.
    covariates : array of shape (k, units, periods), optional
    tol : float
        Size of a step of W, relative to what effects leave of the outcomes, at which a panel is solved.
    most_steps : int
    n_threads : int
        Batches of panels are fitted in parallel; the numbers do not depend on it.
    done : callable, optional
        Called with the number of panels that are solved after each batch.
    """
    stop = current_interrupt()

    def part(cut: slice) -> Factored:
        seen = observed if len(observed) == 1 else observed[cut]
        two_way = TwoWay(seen, covariates)
        begin = np.broadcast_to(start, Y.shape)[cut]
        adopting = np.broadcast_to(adopters, Y.shape[:2])[cut].astype(np.float64)
        return _fit(Y[cut], two_way, adopting, rank, begin, tol, most_steps, stop)

    return Factored.joined(in_batches(Y, part, n_threads, done))


@dataclass(eq=False)
class _Model:
    """The parameters of each panel of a stack."""

    factors: Floats
    adopters: Floats
    variance: Floats  # σ²
    located: Located

    def taken(self, which: Any) -> _Model:
        return _Model(self.factors[which], self.adopters[which], self.variance[which], self.located.taken(which))

    def put(self, which: Any, other: _Model) -> None:
        """Replace the parameters of some panels."""
        mine, theirs = ((m.factors, m.adopters, m.variance, *m.located) for m in (self, other))
        for old, new in zip(mine, theirs, strict=True):
            old[which] = new


class _Data:
    """The outcomes of a stack, with sums over the observed entries of units and periods."""

    def __init__(self, Y: Floats, two_way: TwoWay, adopting: Floats) -> None:
        self.Y, self.two_way, self.seen = Y, two_way, two_way.seen
        self.of_unit, self.of_period = two_way.seen.sum(axis=2), two_way.seen.sum(axis=1)
        self.entries = self.of_unit.sum(axis=1)
        self.known = (self.of_unit > 0).astype(np.float64)  # units that have entries
        self.many = self.known.sum(axis=1)
        self.adopting: Floats = adopting * self.known
        self.floor = FLOOR * (Y**2).sum(axis=(1, 2)) / self.entries + TINY

    def taken(self, which: Any) -> _Data:
        return _Data(self.Y[which], self.two_way.taken(which), self.adopting[which])

    def centred(self, factors: Floats) -> tuple[Floats, Floats]:
        """For each unit the mean of the factors in its periods, and their sums of squares and products around it."""
        count = np.maximum(self.of_unit, 1.0)[:, :, None]
        mean = np.matmul(self.seen, factors) / count
        return mean, _sums(self.seen, _squares(factors)) - count[..., None] * _squares(mean)


def _fit(
    Y: Floats,
    two_way: TwoWay,
    adopting: Floats,
    rank: int,
    start: Floats,
    tol: float,
    most_steps: int,
    interrupt: Interrupt,
) -> Factored:
    whole = data = _Data(np.where(two_way.seen > 0, Y, 0.0), two_way, adopting)
    size = np.maximum(np.sqrt((two_way.residual(whole.Y) ** 2).sum(axis=(1, 2))), TINY)
    W, model = _begun(whole, rank, start)
    answer, of_all = model.taken(np.arange(len(Y))), np.arange(len(Y))
    miss, steps = np.full(len(Y), np.inf if rank else 0.0), np.zeros(len(Y))
    for k in range(1, most_steps + 1 if rank else 0):
        if interrupt.over():
            raise Stopped
        new, model = _improved(data, model)
        now, W = np.sqrt(((new - W) ** 2).sum(axis=(1, 2))) / size, new
        ended = (now <= tol) | (k == most_steps)
        if ended.any():
            at, left = of_all[ended], ~ended
            answer.put(at, model.taken(ended))
            miss[at], steps[at] = now[ended], k
            if not left.any():
                break
            data, model, W, size, of_all = data.taken(left), model.taken(left), W[left], size[left], of_all[left]
    loadings, spread, _ = _expected(whole, answer)
    W = np.matmul(loadings, answer.factors.transpose(0, 2, 1))
    located = two_way.located((whole.Y - W) * two_way.seen)
    fitted = Fitted(W, located, W + two_way.predicted(located), miss, steps)
    return Factored(fitted, answer.factors, answer.adopters, spread, np.sqrt(answer.variance))


def _begun(data: _Data, rank: int, start: Floats) -> tuple[Floats, _Model]:
    """The leading singular vectors of the start."""
    n = start.shape[1]
    u, s, vt = np.linalg.svd(start, full_matrices=False)
    factors = (s[:, :rank, None] * vt[:, :rank]).transpose(0, 2, 1) / np.sqrt(n)
    W = np.matmul(np.sqrt(n) * u[:, :, :rank], factors.transpose(0, 2, 1))
    located = data.two_way.located((data.Y - W) * data.seen)
    variance = np.maximum(_squared_residuals(data, W, located) / _free(data, rank, located), data.floor)
    return W, _Model(factors, np.zeros((len(W), rank)), variance, located)


def _expected(data: _Data, model: _Model) -> tuple[Floats, Floats, Floats]:
    """Mean and variance of the loadings given the outcomes, and the mean of the factors in each unit's periods.

    The effect of a unit has no prior, so outcomes and factors enter as differences from their means over its periods.
    """
    mean, squares = data.centred(model.factors)
    variance = model.variance[:, None, None]
    spread = inverses(squares / variance[..., None] + np.eye(model.factors.shape[2]))
    rest = (data.Y - data.two_way.predicted(model.located)) * data.seen
    along = np.matmul(rest, model.factors) - rest.sum(axis=2)[:, :, None] * mean
    prior = data.adopting[:, :, None] * model.adopters[:, None]
    return np.matmul(spread, (along / variance + prior)[..., None])[..., 0], spread, mean


def _improved(data: _Data, model: _Model) -> tuple[Floats, _Model]:
    """W and the parameters after a step of expectation maximisation."""
    loadings, spread, mean = _expected(data, model)
    # μ, and how far the loadings are from variance I: a change of basis that makes it I saves many steps.
    adopters = np.matmul(data.adopting[:, None], loadings)[:, 0] / (data.adopting.sum(axis=1) + ALIKE)[:, None]
    away = loadings - data.adopting[:, :, None] * adopters[:, None]
    total = (data.known[:, :, None, None] * (_squares(away) + spread)).sum(axis=1) + ALIKE * _squares(adopters)
    basis = np.linalg.cholesky(total / data.many[:, None, None])
    # Factors and effects of a period: least squares with expected squares and products of the loadings.
    by_period = data.seen.transpose(0, 2, 1)
    rest = (data.Y - data.two_way.predicted(model.located)) * data.seen
    units = rest.sum(axis=2) / np.maximum(data.of_unit, 1.0) - (mean * loadings).sum(axis=2)
    rest = rest - units[:, :, None] * data.seen
    of_period = np.maximum(data.of_period, 1.0)[:, :, None]
    centre = np.matmul(by_period, loadings) / of_period
    squares = _sums(by_period, _squares(loadings) + spread) - of_period[..., None] * _squares(centre)
    squares = squares + (data.of_period == 0.0)[..., None, None] * np.eye(loadings.shape[2])
    along = np.matmul(rest.transpose(0, 2, 1), loadings) - rest.sum(axis=1)[:, :, None] * centre
    along = along + np.matmul(by_period, np.matmul(spread, mean[..., None])[..., 0])
    factors = np.matmul(inverses(squares), along[..., None])[..., 0]
    W = np.matmul(loadings, factors.transpose(0, 2, 1))
    located = data.two_way.located((data.Y - W) * data.seen)
    uncertain = (spread * data.centred(factors)[1]).sum(axis=(1, 2, 3))
    squared = _squared_residuals(data, W, located) + uncertain
    variance = np.maximum(squared / _free(data, factors.shape[2], located), data.floor)
    adopters = np.linalg.solve(basis, adopters[..., None])[..., 0]
    return W, _Model(np.matmul(factors, basis), adopters, variance, located)


def loadings_around(spread: Floats, adopters: Flags, count: int, rng: np.random.Generator) -> Floats:
    """Draws of how far the loadings of a panel are from their expectations, (count, units, rank).

    The mean of the adopters' loadings is uncertain, too, and moves them all: the information that a unit's outcomes
    have of it is I less the variance of its loadings.
    """
    units, rank = spread.shape[:2]
    moved = np.einsum("iab,kib->kia", np.linalg.cholesky(spread), rng.standard_normal((count, units, rank)))
    known = ALIKE * np.eye(rank) + (np.eye(rank) - spread[adopters]).sum(axis=0)
    mean = rng.standard_normal((count, rank)) @ np.linalg.cholesky(np.linalg.inv(known)).T
    moved[:, adopters] += np.einsum("iab,kb->kia", spread[adopters], mean)
    return np.asarray(moved)


def _free(data: _Data, rank: int, located: Located) -> Floats:
    """The number of entries less that of effects and factors; loadings are no parameters."""
    lost = data.many + (rank + 1) * data.Y.shape[2] - 1 + located.coefficients.shape[1]
    return np.asarray(np.maximum(data.entries - lost, 1.0))


def _squared_residuals(data: _Data, W: Floats, located: Located) -> Floats:
    return np.asarray((((data.Y - W - data.two_way.predicted(located)) * data.seen) ** 2).sum(axis=(1, 2)))


def _squares(X: Floats) -> Floats:
    """The products of all pairs in the last axis."""
    return np.asarray(X[..., :, None] * X[..., None, :])


def _sums(flags: Floats, X: Floats) -> Floats:
    """Sums of matrices of shape (panels, m, r, r) over the flagged ones, for each row of flags, (panels, n, m)."""
    flat = np.matmul(flags, X.reshape(*X.shape[:2], -1))
    return np.asarray(flat.reshape(*flat.shape[:2], *X.shape[2:]))


def inverses(A: Floats) -> Floats:
    """The inverses of many small symmetric positive definite matrices, by the sweep operator: all at once."""
    A = A.copy()
    for k in range(A.shape[-1]):
        pivot = 1.0 / A[..., k, k]
        row, column = A[..., k, :] * pivot[..., None], A[..., :, k].copy()
        A -= column[..., :, None] * row[..., None, :]
        A[..., k, :], A[..., :, k] = row, -column * pivot[..., None]
        A[..., k, k] = pivot
    return A
