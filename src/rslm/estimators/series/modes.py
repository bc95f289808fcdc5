"""Sums of exponentials by parameters in which they change smoothly, and their derivatives.

A mode of a real series is one real pole ±e^{−δ}, or a pair of poles ±e^{−δ ± i√w}. The pair has the basis

    c_t = (±1)^t e^{−δt} cos(√w t),     s_t = (±1)^t e^{−δt} sin(√w t) / √w,

which is smooth where w passes 0: then two complex poles become two real ones, and at w = 0 one double pole, whose basis
is e^{−δt} and t e^{−δt}. A trend is a pair with δ = w = 0. A mode of a complex series is one pole e^{−δ + iω}.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rslm.runtime.types import Floats

Complexes = NDArray[np.complexfloating[Any, Any]]
Flags = NDArray[np.bool_]

NO_POLES: Complexes = np.zeros(0, dtype=np.complex128)
QUICKEST = 14.0  # largest δ: such an exponential is over after one sample
NEAR = 0.5  # two real poles are a pair if their decays differ by less than this, relative to the smaller one
FLAT = 1e-4  # a pair with an angle below this in n samples counts as a double pole


@dataclass(frozen=True, eq=False)
class Modes:
    """Modes as arrays of the same length."""

    decay: Floats  #: δ
    turn: Floats  #: w of a pair, ω of a complex pole, 0 of a real pole
    sign: Floats  #: −1 if the exponential alternates
    pair: Flags
    steady: Flags  #: the modulus is fixed at 1
    fixed: Flags  #: the whole mode is fixed
    is_complex: bool  #: of a complex series

    @property
    def order(self) -> int:
        """The number of poles."""
        return len(self.decay) + int(self.pair.sum())

    @property
    def turning(self) -> Flags:
        """Which modes have an angle."""
        return np.ones(len(self.decay), dtype=bool) if self.is_complex else self.pair

    @property
    def free(self) -> tuple[Flags, Flags]:
        """Which decays and which angles are free parameters."""
        return ~(self.steady | self.fixed), self.turning & ~self.fixed

    @property
    def parameters(self) -> int:
        """The number of free parameters, amplitudes not included."""
        return int(sum(part.sum() for part in self.free))

    def poles(self) -> Complexes:
        """All poles, each pair in one piece."""
        if self.is_complex:
            return np.exp(-self.decay + 1j * self.turn)
        angle = np.sqrt(self.turn.astype(np.complex128))
        first = self.sign * np.exp(-self.decay + 1j * angle)
        second = self.sign * np.exp(-self.decay - 1j * angle)
        return np.concatenate([[a, b] if p else [a] for a, b, p in zip(first, second, self.pair, strict=True)] or [[]])

    def exponentials(self, a: NDArray[Any], n: int) -> tuple[Complexes, Complexes]:
        """The poles, slowest decay first, and amplitudes (order, channels) from those of the basis.

        The signal is Σ_j amplitude_j t^m pole_j^t, where m counts earlier occurrences of the same pole: of a trend, the
        first amplitude is the level at t = 0 and the second one the slope.
        """
        poles, found = self.poles(), a.astype(np.complex128)
        if not self.is_complex:
            for k in np.flatnonzero(self.pair):
                at, angle = int(self.places[k]), np.sqrt(complex(self.turn[k]))
                if abs(angle) * n < FLAT:
                    poles[at : at + 2] = self.sign[k] * np.exp(-self.decay[k])
                else:
                    half, rest = 0.5 * a[at], 0.5 * a[at + 1] / (1j * angle)
                    found[at], found[at + 1] = half + rest, half - rest
        order = np.lexsort((-poles.imag, np.round(poles.real, 12), -np.round(np.abs(poles), 12)))
        return poles[order], found[order]

    def growth(self) -> Floats:
        """log of the largest modulus of the poles of each mode."""
        if self.is_complex:
            return -self.decay
        return np.asarray(np.sqrt(np.maximum(-self.turn, 0.0)) - self.decay)

    def joined(self, other: Modes) -> Modes:
        parts = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in _ARRAYS}
        return Modes(**parts, is_complex=self.is_complex)

    def taken(self, which: Any) -> Modes:
        return Modes(**{name: getattr(self, name)[which] for name in _ARRAYS}, is_complex=self.is_complex)

    def held(self, which: Flags, fixed: Flags) -> Modes:
        """With the modulus 1 for some modes; those that are also `fixed` have no free parameter left."""
        on = which | fixed
        double = fixed & ~np.array(self.is_complex)
        return replace(
            self,
            decay=np.where(on, 0.0, self.decay),
            turn=np.where(double, 0.0, np.where(on & self.pair, np.maximum(self.turn, 0.0), self.turn)),
            steady=self.steady | on,
            fixed=self.fixed | fixed,
        )

    def moved(self, step: Floats, slowest: float, quickest: float = QUICKEST) -> Modes:
        """After a step of the free parameters; no modulus exceeds e^{−slowest}, and no decay exceeds `quickest`."""
        decays, turns = self.free
        count = int(decays.sum())
        decay, turn = self.decay.copy(), self.turn.copy()
        decay[decays] += step[:count]
        turn[turns] += step[count:]
        if self.is_complex:
            turn = (turn + math.pi) % (2.0 * math.pi) - math.pi
        else:
            turn = np.minimum(turn, math.pi**2)
            turn = np.maximum(turn, np.where(self.steady | self.fixed, 0.0, -((0.5 * quickest) ** 2)))
        grown = np.sqrt(np.maximum(-turn, 0.0)) if not self.is_complex else np.zeros_like(turn)
        decay = np.where(self.steady | self.fixed, 0.0, np.maximum(np.minimum(decay, quickest), grown + slowest))
        return replace(self, decay=decay, turn=turn)

    # ---- columns ---------------------------------------------------------------------------------------------------

    def basis(self, n: int) -> NDArray[Any]:
        """The columns whose combinations are the signals, (n, order); each is contiguous."""
        if self.is_complex:
            return powers(self.poles(), n)
        B, at = np.empty((self.order, n)), self.places
        B[at[~self.pair]] = powers((self.sign * np.exp(-self.decay))[~self.pair], n).T
        angle = np.sqrt(np.abs(self.turn))
        flat = angle * n < FLAT
        real = self.pair & (self.turn < 0) & ~flat
        if real.any():
            slow, fast = (powers((self.sign * np.exp(s * angle - self.decay))[real], n).T for s in (1.0, -1.0))
            B[at[real]], B[at[real] + 1] = 0.5 * (slow + fast), 0.5 * (slow - fast) / angle[real, None]
        turned = self.pair & ~real & ~flat
        both = powers((self.sign * np.exp(-self.decay + 1j * angle))[turned], n).T
        B[at[turned]], B[at[turned] + 1] = both.real, both.imag / angle[turned, None]
        double = self.pair & flat
        if double.any():
            B[at[double]] = powers((self.sign * np.exp(-self.decay))[double], n).T
            B[at[double] + 1] = np.arange(n) * B[at[double]]
        return B.T

    @property
    def places(self) -> NDArray[np.intp]:
        """The first column of each mode."""
        return np.cumsum(np.where(self.pair, 2, 1)) - np.where(self.pair, 2, 1)

    def slopes(self, B: NDArray[Any]) -> NDArray[Any]:
        """Columns of whose combinations the derivatives of a signal consist; `mixing` has the coefficients."""
        n = len(B)
        t = np.arange(n, dtype=np.float64)
        if self.is_complex:
            return np.asarray((t * B.T).T)
        turns = self.free[1]
        first, w = self.places[turns], self.turn[turns, None]
        D = np.empty((self.order + len(first), n))
        tB = np.multiply(t, B.T, out=D[: self.order])
        flat = np.sqrt(np.abs(w[:, 0])) * n < FLAT
        # d s_t / dw = (t c_t − s_t) / 2w, and −t³/6 e^{−δt} where w vanishes.
        D[self.order :] = (tB[first] - B.T[first + 1]) / np.where(flat[:, None], 1.0, 2.0 * w)
        D[self.order :][flat] = -(t * t / 6.0) * tB[first[flat]]
        return D.T

    def mixing(self, a: NDArray[Any]) -> NDArray[Any]:
        """How much of each of the `slopes` the derivatives by the free parameters have, for the amplitudes a."""
        decays, turns = self.free
        if self.is_complex:
            along = np.diag(a)
            return np.concatenate([-along[:, decays], 1j * along[:, turns]], axis=1)
        at, count = self.places, int(decays.sum())
        M = np.zeros((self.order + int(turns.sum()), self.parameters))
        M[at[decays], np.arange(count)] = -a[at[decays]]
        second, by = at[decays & self.pair] + 1, np.flatnonzero(self.pair[decays])
        M[second, by] = -a[second]
        k, first = np.arange(int(turns.sum())), at[turns]
        M[first + 1, count + k] = -0.5 * a[first]
        M[self.order + k, count + k] = a[first + 1]
        return M


_ARRAYS = ("decay", "turn", "sign", "pair", "steady", "fixed")


def modes_of(poles: Complexes, n: int, is_complex: bool) -> Modes:
    """The modes with these poles, which come in conjugate pairs if the series is real."""
    z = np.asarray(poles, dtype=np.complex128)
    size = np.maximum(np.abs(z), math.exp(-QUICKEST))
    if is_complex:
        return _made(-np.log(size), np.angle(z), np.ones(len(z)), np.zeros(len(z), dtype=bool), is_complex=True)
    real = np.abs(z.imag) <= 1e-9 * size
    up = z[~real & (z.imag > 0)]
    sign = np.where(up.real < 0, -1.0, 1.0)
    angle = np.abs(np.angle(up * sign))
    pairs = _made(-np.log(np.maximum(np.abs(up), math.exp(-QUICKEST))), angle**2, sign, np.ones(len(up), dtype=bool))
    return paired(pairs.joined(_singles(z[real].real)), n)


def _singles(z: Floats) -> Modes:
    decay = -np.log(np.maximum(np.abs(z), math.exp(-QUICKEST)))
    return _made(decay, np.zeros(len(z)), np.where(z < 0, -1.0, 1.0), np.zeros(len(z), dtype=bool))


def _made(decay: Floats, turn: Floats, sign: Floats, pair: Flags, is_complex: bool = False) -> Modes:
    none = np.zeros(len(decay), dtype=bool)
    return Modes(decay.astype(float), turn.astype(float), sign.astype(float), pair, none, none, is_complex)


def level(is_complex: bool) -> Modes:
    """A constant."""
    made = _made(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1, dtype=bool), is_complex)
    return replace(made, steady=np.ones(1, dtype=bool), fixed=np.ones(1, dtype=bool))


def paired(modes: Modes, n: int) -> Modes:
    """Real poles as they are described best: near ones of one sign as a pair, others each on its own."""
    if modes.is_complex:
        return modes
    apart = np.sqrt(np.maximum(-modes.turn, 0.0))
    loose = modes.pair & ~modes.fixed & (modes.turn < 0) & (2.0 * apart > _near(modes.decay - apart, n))
    kept = modes.taken(modes.pair & ~loose | modes.fixed | modes.steady)
    alone = modes.taken(~modes.pair & ~modes.fixed & ~modes.steady)
    decays = [alone.decay, (modes.decay - apart)[loose], (modes.decay + apart)[loose]]
    signs = [alone.sign, modes.sign[loose], modes.sign[loose]]
    decay, sign = np.concatenate(decays), np.concatenate(signs)
    order = np.lexsort((decay, sign))
    decay, sign = decay[order], sign[order]
    made, k = [kept], 0
    while k < len(decay):
        near = k + 1 < len(decay) and sign[k] == sign[k + 1] and decay[k + 1] - decay[k] < _near(decay[k], n)
        if near:
            middle, half = 0.5 * (decay[k] + decay[k + 1]), 0.5 * (decay[k + 1] - decay[k])
            made.append(_made(np.array([middle]), np.array([-(half**2)]), sign[k : k + 1], np.ones(1, dtype=bool)))
        else:
            made.append(_made(decay[k : k + 1], np.zeros(1), sign[k : k + 1], np.zeros(1, dtype=bool)))
        k += 2 if near else 1
    total = made[0]
    for more in made[1:]:
        total = total.joined(more)
    return total


def _near(decay: Any, n: int) -> Any:
    return NEAR * np.maximum(decay, 4.0 / n)


def powers(z: NDArray[Any], n: int) -> NDArray[Any]:
    """z^0 … z^(n − 1) in contiguous columns, by doubling, which is many times as fast as computing each power."""
    B = np.empty((len(z), n), dtype=z.dtype)
    B[:, :1] = 1.0
    done, factor = 1, z[:, None].copy()
    with np.errstate(under="ignore"):
        while done < n:
            more = min(done, n - done)
            np.multiply(B[:, :more], factor, out=B[:, done : done + more])
            done, factor = done + more, factor * factor
    return B.T
