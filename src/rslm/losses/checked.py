"""Calls the functions of a loss and validates what they return, because the loss may be a user's own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rslm.losses.base import Loss
from rslm.runtime.types import Floats

BLOCK = 1 << 20  # numbers checked at a time, so that no temporary array is as large as the data
PREDICTIONS = 4  # per target, at which the functions of a user's own loss are tried


def usual_size(y: Floats) -> float:
    """The median of |y| over the nonzero targets; 0 if all are 0."""
    sizes = np.abs(y[y != 0])
    return float(np.median(sizes)) if sizes.size else 0.0


class CheckedLoss:
    """Calls functions of a loss by name and checks the shape, dtype and range of what they return."""

    def __init__(self, loss: Loss) -> None:
        self.loss = loss

    def targets(self, y: Floats) -> Floats:
        return self._numbers("targets", self.loss.targets(y), y)

    def guess(self, y: Floats, usual: float) -> Floats:
        return self._numbers("guess", self.loss.guess(y, usual), y)

    def _numbers(self, name: str, answer: Floats, y: Floats) -> Floats:
        if not (isinstance(answer, np.ndarray) and answer.shape == y.shape and answer.dtype.kind == "f"):
            got = f"{answer.dtype} of shape {answer.shape}" if isinstance(answer, np.ndarray) else repr(answer)
            raise ValueError(f"{name} of {self.loss!r} must be floats of shape {y.shape}, like the targets; got {got}")
        blocks = range(0, len(answer), BLOCK)
        k = next((k for k in blocks if not np.isfinite(answer[k : k + BLOCK]).all()), None)
        if k is not None:
            k += int(np.argmin(np.isfinite(answer[k : k + BLOCK])))
            raise ValueError(f"{name} of {self.loss!r} is {answer[k]} for the target {y[k]:g}; it must be finite")
        return answer

    def try_out(self, y: Floats) -> None:
        """Call every function at targets y and some predictions: 0, where none may overflow, and random ones."""
        with np.errstate(all="ignore"):
            for name in ("gradient", "hessian"):  # the value may overflow for very large data; the solver reports that
                answer = self(name, y, np.zeros_like(y))
                self._refuse(name, ~np.isfinite(answer), answer, y, np.zeros_like(y))
            self._try_conjugate(y, np.zeros_like(y))
            if not type(self.loss).__module__.startswith("rslm."):
                self._try_derivatives(y)

    def _try_conjugate(self, y: Floats, w: Floats) -> None:
        """Fenchel–Young: ℓ*(ℓ'(w)) = ℓ'(w) w − ℓ(w)."""
        value, slope = (self(name, y, w) for name in ("value", "gradient"))
        conjugate, wanted = self("conjugate", y, slope), slope * w - value
        size = 1.0 + np.abs(value) + np.abs(slope * w)
        apart = ~(np.abs(conjugate - wanted) <= 1e-6 * size) & np.isfinite(value) & np.isfinite(slope)
        if apart.any():
            k = int(np.argmax(apart))
            raise ValueError(
                f"conjugate of {self.loss!r} is {conjugate[k]:g} at y = {y[k]:g}, s = {slope[k]:g}, but value and "
                f"gradient imply {wanted[k]:g}. A wrong conjugate makes the certificate wrong; "
                "rslm.testing.check_loss helps to find the mistake"
            )

    def _try_derivatives(self, y: Floats) -> None:
        """A user's own loss at random predictions; kinks may be near some of them, but not near most."""
        y = np.repeat(y, PREDICTIONS)
        w, h = np.random.default_rng(0).standard_normal(len(y)), 1e-5
        self._try_conjugate(y, w)
        value, slope, bend = (self(name, y, w) for name in ("value", "gradient", "hessian"))
        flat = self.loss.smooth and self.loss.interval is None and slope.any() and not bend.any()
        if flat and not self("hessian", y, y + 1e-3 * w).any():  # a loss such as Huber's bends only near its target
            raise ValueError(
                f"hessian of {self.loss!r} is 0 everywhere, so Newton's method cannot solve it. Derive a loss with "
                "kinks from rslm.losses.BoxDual, which rounds them"
            )
        if self.loss.quadratic and not np.allclose(value, (y - w) ** 2, rtol=1e-6):
            raise ValueError(
                f"{self.loss!r} has quadratic = True, which means that its value is (y − w)². Remove it, or scale C"
            )
        up, down = (self("value", y, w + step) for step in (h, -h))
        self._near("gradient", slope, (up - down) / (2.0 * h))
        up, down = (self("gradient", y, w + step) for step in (h, -h))
        self._near("hessian", bend, (up - down) / (2.0 * h))

    def _near(self, name: str, given: Floats, difference: Floats) -> None:
        size = max(float(np.abs(given).max()), float(np.abs(difference).max()))
        apart = np.abs(given - difference)
        if float(np.median(apart)) > 1e-3 * size:
            k = int(np.argmax(apart))
            raise ValueError(
                f"{name} of {self.loss!r} is wrong: it is {given[k]:.6g} where differences give {difference[k]:.6g}. "
                "rslm.testing.check_loss helps to find the mistake"
            )

    def __call__(self, name: str, y: Floats, w: Floats) -> Floats:
        answer = np.asarray(getattr(self.loss, name)(y, w))
        if answer.shape != y.shape:
            raise ValueError(
                f"{name} of {self.loss!r} has shape {answer.shape} for targets and predictions of shape {y.shape}; it "
                "must return one number for every entry"
            )
        if answer.dtype.kind not in "fiub":
            raise TypeError(f"{name} of {self.loss!r} has dtype {answer.dtype}, but real numbers are needed")
        self._refuse(name, ~(answer >= 0) if name == "hessian" else np.isnan(answer), answer, y, w)
        return answer

    def _refuse(self, name: str, wrong: NDArray[np.bool_], answer: Floats, y: Floats, w: Floats) -> None:
        if wrong.any():
            k = int(np.argmax(wrong))
            raise ValueError(
                f"{name} of {self.loss!r} is {answer[k]} at y = {y[k]:g}, w = {w[k]:g}; a loss must be convex and its "
                "functions finite for all targets that it accepts. rslm.testing.check_loss helps to find the mistake"
            )
