"""What others use to denoise a sum of exponentials, such as an impulse response, and systems to try it on.

Each method takes the series, the number of rows of its Hankel matrix and the rank, and returns the denoised series.
Nothing as large as that matrix is made.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.optimize import least_squares
from scipy.signal import lfilter
from scipy.sparse.linalg import LinearOperator, svds

Array = NDArray[np.float64]

PASSES, CHANGE = 100, 1e-6  # Cadzow's method ends at either
EVALUATIONS = 300  # of the likelihood at most; 10 to 150 are usual


def random_system(order: int, n: int, rng: np.random.Generator) -> Array:
    """C Aᵗ B for t = 1, …, n, of a stable system drawn much as `drss` of MATLAB and python-control draws it."""
    poles: list[complex] = []
    left = order
    while left:
        real = left == 1 or rng.random() < 0.6
        size = rng.random()
        poles.append(complex(size * rng.choice([-1, 1]) if real else size * np.exp(1j * np.pi * rng.random())))
        left -= 1 if real else 2
    B, C = rng.standard_normal(order), rng.standard_normal(order)
    t = np.arange(1, n + 1)
    series = np.zeros(n)
    for z in poles:
        # A block of A is a number or turns and shrinks the plane as one does: b and c are then complex numbers too.
        width = 2 if z.imag else 1
        b, c = complex(*B[:width]), complex(*C[:width])
        B, C = B[width:], C[width:]
        series += (c * b.conjugate() * z**t).real
    return series


def separated_system(order: int, n: int, rng: np.random.Generator) -> Array:
    """Slowly damped oscillations of like amplitudes, half of the usual distance apart or more; a decay if odd."""
    pairs, t = order // 2, np.arange(1, n + 1)
    angles = np.pi * (np.arange(pairs) + rng.uniform(0.75, 1.25, pairs)) / (pairs + 1)
    sizes = rng.uniform(0.95, 0.995, pairs + order % 2)
    phases = 2 * np.pi * rng.random(pairs)
    series = sum(s**t * np.cos(a * t + p) for s, a, p in zip(sizes, angles, phases, strict=False))
    return np.asarray(series + (sizes[-1] ** t if order % 2 else 0.0))


def cramer_rao(noise: float, order: int, n: int) -> float:
    """The least RMSE of an unbiased estimate: 2 `order` parameters, seen through n values."""
    return float(noise * np.sqrt(2 * order / n))


# ---- the singular value decomposition -------------------------------------------------------------------------------


def ssa(y: Array, window: int, rank: int) -> Array:
    """Singular spectrum analysis: the nearest matrix of that rank, averaged along the antidiagonals."""
    U, s, Vt = _svd(y, window, rank)
    n = len(y)
    size = fft.next_fast_len(n, real=True)
    sums = fft.irfft(np.sum(fft.rfft(U.T * s[:, None], size) * fft.rfft(Vt, size), axis=0), size)[:n]
    k = np.arange(n)
    return np.asarray(sums / np.minimum(np.minimum(k + 1, n - k), min(window, n - window + 1)))


def cadzow(y: Array, window: int, rank: int) -> Array:
    """Alternating projections onto the matrices of low rank and onto the Hankel matrices."""
    for _ in range(PASSES):
        before, y = y, ssa(y, window, rank)
        if np.linalg.norm(y - before) < CHANGE * np.linalg.norm(before):
            break
    return y


def _svd(y: Array, window: int, rank: int) -> tuple[Array, Array, Array]:
    """The largest singular values of the Hankel matrix of y, and their vectors: U, s, Vᵀ."""
    columns = len(y) - window + 1
    size = fft.next_fast_len(len(y), real=True)  # long enough: i + j < n, so nothing wraps around
    spectrum = fft.rfft(y, size)

    def correlate(x: Array, count: int) -> Array:
        return np.asarray(fft.irfft(spectrum * fft.rfft(x.ravel(), size).conj(), size)[:count])

    H = LinearOperator(
        (window, columns),
        matvec=lambda x: correlate(x, window),
        rmatvec=lambda x: correlate(x, columns),
        dtype=np.float64,
    )
    start = np.random.default_rng(0).standard_normal(min(window, columns))
    U, s, Vt = svds(H, rank, v0=start, tol=1e-10)
    return np.asarray(U), np.asarray(s, np.float64), np.asarray(Vt)


# ---- poles ----------------------------------------------------------------------------------------------------------


def htls(y: Array, window: int, rank: int) -> Array:
    """Kung's method: poles from the shift invariance of the left singular vectors, amplitudes by least squares."""
    Q = _basis(_factors(y, window, rank), len(y))
    return Q @ (Q.T @ y)


def slra(y: Array, window: int, rank: int) -> Array:
    """Maximum likelihood, which is structured low-rank approximation, by variable projection from Kung's poles.

    The unknowns are the coefficients of the quadratic factors of the recurrence, so that two real poles may become a
    pair of complex ones; the amplitudes are eliminated. Levenberg–Marquardt, with the whole Jacobian.
    """
    n = len(y)
    kung = _factors(y, window, rank)
    ends = np.cumsum([len(f) - 1 for f in kung])[:-1]

    def unpack(p: Array) -> list[Array]:
        return [np.concatenate([[1.0], part]) for part in np.split(p, ends)]

    def residual(p: Array) -> Array:
        Q = _basis(unpack(p), n)
        return y - Q @ (Q.T @ y)

    def jacobian(p: Array) -> Array:
        factors = unpack(p)
        Q = _basis(factors, n)
        fitted = Q @ (Q.T @ y)
        across, along = np.empty((n, len(p))), np.empty((n, len(p)))
        k = 0
        for f in factors:
            # With c the recurrence: c fit = 0, so dc moves the residual by (dc / c) fit, up to what Q spans, for which
            # the zeros in front are as good as the values before time 0. Within that span, the residual is c turned
            # round, applied to multipliers, so it moves by (dc / c), turned round, of itself.
            order = len(f) - 1
            a = _unfilter(f, np.concatenate([np.zeros(order), fitted]))
            b = np.concatenate([_unfilter(f, (y - fitted)[::-1])[::-1], np.zeros(order)])
            for i in range(1, order + 1):
                across[:, k], along[:, k] = a[order - i : order - i + n], b[i : i + n]
                k += 1
        return across + Q @ (Q.T @ (along - across))

    start = np.concatenate([f[1:] for f in kung])
    first = best = residual(start)
    with suppress(ValueError, np.linalg.LinAlgError):  # a step to where numbers overflow: Kung's poles have to do
        best = least_squares(residual, start, jacobian, method="lm", x_scale="jac", max_nfev=EVALUATIONS).fun
    return y - min(first, best, key=np.linalg.norm)


def _factors(y: Array, window: int, rank: int) -> list[Array]:
    """Kung's estimate of the recurrence, as quadratic factors 1 + a q + b q² and, if the rank is odd, one 1 + a q."""
    U = _svd(y, window, rank)[0]
    z = np.linalg.eigvals(np.linalg.lstsq(U[:-1], U[1:], rcond=None)[0])
    real = np.sort(z[z.imag == 0].real)
    pairs = [np.array([1.0, -2 * w.real, abs(w) ** 2]) for w in z[z.imag > 0]]
    return pairs + [np.poly(real[k : k + 2]) for k in range(0, len(real), 2)]


def _split(f: Array) -> tuple[Array, Array]:
    """A factor as a product of one with the poles in the unit disc and one with those outside."""
    z = np.roots(f)
    inside = np.abs(z) <= 1
    return np.atleast_1d(np.poly(z[inside]).real), np.atleast_1d(np.poly(z[~inside]).real)


def _unfilter(f: Array, x: Array) -> Array:
    """A series w with w_t + f₁ w_{t−1} + f₂ w_{t−2} = x_t, each pole run in the direction in which it decays."""
    decaying, growing = _split(f)
    order = len(growing) - 1
    if order:  # backwards, x_t gives w_{t−order}
        x = np.concatenate([x[order:], np.zeros(order)])
        x = lfilter([1.0], growing[::-1], x[::-1])[::-1]
    return np.asarray(lfilter([1.0], decaying, x))


def _basis(factors: list[Array], n: int) -> Array:
    """Orthonormal columns that span the solutions of the recurrence.

    Powers of near poles are almost dependent. Chains of all-pass filters span the same and are orthogonal when n is
    large; the poles that grow get a chain of their own, which runs backwards.
    """
    columns = []
    halves = [_split(f) for f in factors]
    for chain, step in (([h[0] for h in halves], 1), ([h[1][::-1] / h[1][-1] for h in halves], -1)):
        x = np.zeros(n)
        x[0] = 1.0
        for f in chain:
            for k in range(len(f) - 1):
                columns.append(lfilter(np.eye(len(f) - 1)[k], f, x)[::step])
            x = lfilter(f[::-1], f, x)
    return np.asarray(np.linalg.qr(np.column_stack(columns))[0])
