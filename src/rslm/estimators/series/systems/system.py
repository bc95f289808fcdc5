"""A linear system: its matrices, its responses, its simulation, its part of a file."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rslm.data import parts
from rslm.estimators.series.systems.recursion import states
from rslm.runtime.types import Floats
from rslm.storage.container import Arrays


@dataclass(frozen=True)
class System:
    """x(t+1) = A x(t) + B u(t), y(t) = C x(t) + D u(t) + offset + noise, with x(0) = x0 in the record.

    A, B, C and D are what ``scipy.signal.dlti(A, B, C, D, dt=1)`` and ``control.ss(A, B, C, D, True)`` take. The noise
    of an output is autoregressive: v(t) = Σ_k noise_ar[c, k − 1] v(t − k) + white noise.
    """

    A: Floats  #: (order, order)
    B: Floats  #: (order, inputs)
    C: Floats  #: (outputs, order)
    D: Floats  #: (outputs, inputs)
    x0: Floats  #: (order,): the state at the first sample of the record
    offset: Floats  #: (outputs,): what the outputs are without inputs
    noise: Floats  #: (outputs,): standard deviations of what the system leaves unexplained
    noise_ar: Floats  #: (outputs, lags): its autoregression; no lags if it is white

    @property
    def order(self) -> int:
        return len(self.A)

    @property
    def poles(self) -> NDArray[np.complex128]:
        """Eigenvalues of A, the slowest decay first."""
        found = np.linalg.eigvals(self.A).astype(np.complex128)
        return found[np.lexsort((found.imag, -np.round(np.abs(found), 12)))]

    def impulse_response(self, steps: int) -> Floats:
        """D, CB, CAB, …, the responses to unit impulses: (steps, outputs, inputs)."""
        impulses = np.zeros((self.D.shape[1], self.D.shape[1], steps))
        impulses[:, :, :1] = np.eye(len(impulses))[:, :, None]
        return np.stack([_response(self, U, np.zeros(self.order)).T for U in impulses], axis=-1)

    def to_arrays(self) -> Arrays:
        return {f"system_{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """What a file holds; a ValueError names the part that is not what it must be."""
        outputs, inputs = parts.floats(arrays, "system_D", None, None).shape
        order = len(parts.floats(arrays, "system_x0", None))
        shapes: dict[str, tuple[int | None, ...]] = {
            "A": (order, order),
            "B": (order, inputs),
            "C": (outputs, order),
            "D": (outputs, inputs),
            "x0": (order,),
            "offset": (outputs,),
            "noise": (outputs,),
            "noise_ar": (outputs, None),
        }
        found = cls(**{name: parts.floats(arrays, f"system_{name}", *shape) for name, shape in shapes.items()})
        if (found.noise < 0).any():
            raise ValueError("system_noise")
        return found


def simulate(system: System, U: Floats, x0: Floats | None = None) -> Floats:
    """The outputs, (outputs, n), to inputs of shape (inputs, n); from rest, unless a state x0 is given."""
    inputs = system.D.shape[1]
    if U.ndim != 2 or len(U) != inputs:
        raise ValueError(f"the system has {inputs} inputs, so the array of inputs must have as many; got {U.shape}")
    start = np.zeros(system.order) if x0 is None else np.asarray(x0, dtype=np.float64)
    if start.shape != (system.order,):
        raise ValueError(f"x0 must have one number per state, shape ({system.order},); got {start.shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        Y = _response(system, U, start) + system.offset[:, None]
    if not np.isfinite(Y).all():
        raise ValueError(
            f"the simulation overflows within {U.shape[1]} samples, because the largest pole has the modulus "
            f"{np.abs(system.poles).max(initial=0.0):.4g}; simulate fewer samples"
        )
    return Y


def _response(system: System, U: Floats, x0: Floats) -> Floats:
    """Without the offset."""
    W = np.concatenate([x0[:, None], system.B @ U], axis=1)  # x0 is an input just before the first sample
    return np.asarray(system.C @ states(system.A, W)[:, 1:] + system.D @ U)
