"""What a fit has learned of a series: its modes with their amplitudes, and its noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rslm.data import parts
from rslm.estimators.series.modes import Complexes, Flags, Modes
from rslm.runtime.types import Floats
from rslm.storage.container import Arrays


@dataclass(frozen=True, eq=False)
class Learned:
    """A sum of exponentials, and which samples were observed."""

    modes: Modes
    amplitudes: NDArray[Any]  #: (order, channels), of the columns of `Modes.basis`
    seen: Flags  #: (channels, n), False for missing samples and for spikes
    sizes: Floats  #: standard deviation of the noise of each channel

    @property
    def samples(self) -> int:
        return int(self.seen.shape[1])

    @cached_property
    def signal(self) -> NDArray[Any]:
        """(channels, n)"""
        return np.ascontiguousarray((self.modes.basis(self.samples) @ self.amplitudes).T)

    def ahead(self, steps: int) -> NDArray[Any]:
        """The signal after the last sample, (channels, steps)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray((self.modes.basis(self.samples + steps)[self.samples :] @ self.amplitudes).T)

    def exponentials(self) -> tuple[Complexes, Complexes]:
        return self.modes.exponentials(self.amplitudes, self.samples)

    def to_arrays(self) -> Arrays:
        kinds = np.stack([self.modes.pair, self.modes.steady, self.modes.fixed])
        numbers = np.stack([self.modes.decay, self.modes.turn, self.modes.sign])
        arrays: Arrays = {"mode_numbers": numbers, "mode_kinds": kinds, "seen": self.seen, "noise_sizes": self.sizes}
        a = self.amplitudes
        return arrays | {"amplitudes": np.stack([a.real, a.imag]), "is_complex": np.array([self.modes.is_complex])}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        numbers = parts.floats(arrays, "mode_numbers", 3, None)
        count = numbers.shape[1]
        pair, steady, fixed = parts.flags(arrays, "mode_kinds", 3, count)
        is_complex = bool(parts.flags(arrays, "is_complex", 1)[0])
        decay, turn, sign = numbers
        modes = Modes(decay, turn, sign, pair, steady, fixed, is_complex)
        if not np.isin(modes.sign, (-1.0, 1.0)).all() or (is_complex and pair.any()):
            raise ValueError("mode_numbers")
        both = parts.floats(arrays, "amplitudes", 2, modes.order, None)
        amplitudes = both[0] + 1j * both[1] if is_complex else both[0]
        seen = parts.flags(arrays, "seen", amplitudes.shape[1], None)
        sizes = parts.floats(arrays, "noise_sizes", amplitudes.shape[1], finite=False)  # NaN if nothing is known of it
        if (not is_complex and both[1].any()) or (sizes < 0).any() or np.isinf(sizes).any() or not amplitudes.shape[1]:
            raise ValueError("amplitudes")
        return cls(modes, amplitudes, seen, sizes)
