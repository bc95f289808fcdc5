"""Calls the functions of a loss and validates what they return, because the loss may be a user's own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rslm.losses.base import Loss
from rslm.runtime.types import Floats


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
        if not np.isfinite(answer).all():
            k = int(np.argmin(np.isfinite(answer)))
            raise ValueError(f"{name} of {self.loss!r} is {answer[k]} for the target {y[k]:g}; it must be finite")
        return answer

    def try_out(self, y: Floats) -> None:
        """Call every function at targets y and predictions 0, where none of them may overflow."""
        with np.errstate(all="ignore"):
            for name in ("value", "gradient", "hessian"):
                answer = self(name, y, np.zeros_like(y))
                if name != "value":  # it may overflow for very large data; the solver reports that
                    self._refuse(name, ~np.isfinite(answer), answer, y, np.zeros_like(y))
            # Fenchel–Young at w = 0: ℓ*(ℓ'(0)) = −ℓ(0).
            value, slope = (self(name, y, np.zeros_like(y)) for name in ("value", "gradient"))
            conjugate = self("conjugate", y, slope)
            apart = ~(np.abs(conjugate + value) <= 1e-6 * (1.0 + np.abs(value))) & np.isfinite(value)
            if apart.any():
                k = int(np.argmax(apart))
                raise ValueError(
                    f"conjugate of {self.loss!r} is {conjugate[k]:g} at y = {y[k]:g}, s = {slope[k]:g}, but value and "
                    f"gradient imply {-value[k]:g}. A wrong conjugate makes the certificate wrong; "
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
